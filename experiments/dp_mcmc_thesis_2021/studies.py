"""The runs of the thesis: samplers against epsilon on eight models, each chain with a budget of its own."""

from experiments.machinery.budgets import budget_cell, run_budget_cell, run_budget_cells
from experiments.machinery.chains import bench
from experiments.machinery.clipping import clipping_cells, run_clipping_cell
from experiments.machinery.study import Cell, Configuration, Study

LABELS = {
    "dp_hmc": "DP-HMC",
    "dp_penalty": "DP-penalty",
    "guided_walk": "DP-penalty, OCU + GWMH",
    "minibatch": "minibatch penalty",
    "minibatch_guided": "minibatch, OCU + GWMH",
    "dp_barker": "DP-Barker",
}
FULL_DATA = ("dp_hmc", "dp_penalty", "guided_walk")
BANANAS = ("flat-2d", "tempered-2d", "flat-10d", "tempered-10d")
HARDER = ("gaussian-30d", "narrow", "correlated")


def _study(name: str, models: tuple[str, ...], samplers: tuple[str, ...], epsilons: tuple[float, ...]) -> Study:
    def cells(configuration: Configuration) -> list[Cell]:
        c = configuration
        return [
            _cell({**c, **c["models"][model], "epsilons": list(epsilons)}, model, sampler, block)
            for block in range(c["num_blocks"])
            for sampler in samplers
            for model in models
        ]

    return Study(name, cells, run_budget_cell, run_budget_cells)


def _cell(settings: Configuration, model: str, sampler: str, block: int) -> Cell:
    """Return one block of chains, each judged by itself."""
    cell = budget_cell(settings, model, settings["problem"], sampler, block) | {"alone": True}
    return cell | ({"start_scale": settings["start_scale"]} if "start_scale" in settings else {})


SIX = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
EASY = _study("bananas", BANANAS, tuple(LABELS), SIX)
HARD = _study("harder", HARDER, FULL_DATA, SIX)
CIRCLE = _study("circle", ("circle",), FULL_DATA, (0.5, 0.75, 1.0))


def _clipping(configuration: Configuration) -> list[Cell]:
    c = configuration
    return [
        cell
        for model in ("flat-2d", "flat-10d")
        for cell in clipping_cells(
            c, {model: c["models"][model]["problem"]}, pooled=False, num_records=c["models"][model]["num_records"]
        )
    ]


CLIPPING = Study("clipping", _clipping, run_clipping_cell)


def _exact_cells(configuration: Configuration) -> list[Cell]:
    c = configuration
    return [
        {
            "model": model,
            "problem": c["models"][model]["problem"],
            "num_records": c["models"][model]["num_records"],
            "num_reference": 2000,
            "data_seed": c["seed"],
        }
        for model in ("flat-2d", "tempered-2d", "narrow", "correlated", "circle")
    ]


def _exact_draws(cell: Cell) -> list[dict[str, object]]:
    place = bench(cell["problem"], cell["num_records"], cell["data_seed"], cell["num_reference"])
    deviations = {f"sd_{i + 1}": float(sd) for i, sd in enumerate(place.reference.std(axis=0))}
    return [deviations | {"draws": place.reference.round(6).tolist()}]


EXACT = Study("exact", _exact_cells, _exact_draws)
