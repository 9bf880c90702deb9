"""How many steps of a chain each epsilon allows, in every reading, and the epsilon that so many steps really cost."""

from experiments.machinery.chains import of_cell
from experiments.machinery.samplers import sampler
from experiments.machinery.study import Cell, Configuration, Product, Rows, Study, Tables, Target

NAMES = ("dp_hmc", "dp_hmc_reuse", "dp_penalty", "dp_sgld_published", "dp_sgld", "dp_sgnht")


def cells(configuration: Configuration) -> list[Cell]:
    """Return one cell a problem and sampler."""
    c = configuration
    return [
        {
            "model": model,
            "problem": problem,
            "sampler": name,
            "num_records": c["num_records"],
            "num_reference": 2,
            "num_chains": c["num_chains"],
            "epsilons": c["epsilons"],
            "delta": c["delta_over_records"] / c["num_records"],
            "data_seed": c["seed"],
        }
        for model, problem in c["problems"].items()
        for name in NAMES
    ]


def run(cell: Cell) -> Rows:
    """Return one row a reading and epsilon."""
    readings = sampler(cell["sampler"], of_cell(cell)).readings
    rows = []
    for name, reading in readings.items():
        for epsilon in cell["epsilons"]:
            steps = reading.steps(epsilon, cell["delta"], cell["num_chains"])
            holds = reading.epsilon(steps, cell["delta"], cell["num_chains"]) if steps else 0.0
            rows.append({"reading": name, "epsilon": epsilon, "steps": steps, "epsilon_that_holds": holds})
    return rows


def make(tables: Tables, configuration: Configuration) -> Product:
    """Write the table."""
    c, table = configuration, tables["steps"]
    head = "| model | sampler | reading | " + " | ".join(f"{epsilon:g}" for epsilon in c["epsilons"]) + " |"
    lines = [head, "|---" * (3 + len(c["epsilons"])) + "|"]
    for names, part in table.groupby(["model", "sampler", "reading"], sort=False):
        entries = [f"{row.steps:,} ({row.epsilon_that_holds:.2f})" for row in part.itertuples()]
        lines.append(f"| {' | '.join(names)} | {' | '.join(entries)} |")
    caption = (
        f"Steps of each of {c['num_chains']} chains that an epsilon allows together, and in brackets the epsilon that "
        f"they really cost; n = {c['num_records']:,}, delta = {c['delta_over_records'] / c['num_records']:.0e}, "
        "replace-one. Where the bracket is below the epsilon, the paper's count overstates what was spent; batches "
        "are Poisson here, which that count assumes."
    )
    return Product(caption, "\n".join(lines), None, table)


STEPS = Study("steps", cells, run)
TARGET = Target("steps", "steps that a budget allows", (STEPS,), make)
