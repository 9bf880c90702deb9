"""The planner's page: answers of the library, laid out so that a script only has to look them up."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dpmcmc.errors import InvalidArgument
from dpmcmc.fitting.budget_split import LEFT, USUAL_CLIP_SCALE
from dpmcmc.fitting.score_histogram import CLIP_SCALES
from dpmcmc.planner.grid import GRID, Grid
from dpmcmc.report.page import environment

ACCOUNTANTS = {
    "tight": "tightest valid bound",
    "exact": "exact Gaussian curve",
    "zcdp": "zero-concentrated DP",
    "rdp": "Rényi DP",
    "pld": "privacy loss distributions",
    "moments": "moments accountant, as published",
    "barker_2019": "DP-Barker, as published",
}
SIMULATED = (
    "the mean's error was 0.99 to 1.06 times the prediction for clipped_laplace, 1.01 to 1.12 times for dp_langevin, "
    "0.96 to 1.26 times for dp_penalty; for dp_hmc up to 1.8 times its bound, for guided_walk 2.1 to 2.4 times"
)
"""What benchmarks/planner.py found, in benchmarks/results/planner.csv."""

START = {
    "sampler": "private_laplace",
    "epsilon": 2.0,
    "delta": 1e-6,
    "num_records": 100_000,
    "num_parameters": 10,
    "num_chains": 2,
}


def write_planner(
    path: str | os.PathLike[str], grid: Grid = GRID, *, tick: Callable[[float], None] = lambda _: None
) -> Path:
    """Write the page; the arguments are those of `render_planner`."""
    place = Path(path)
    page = render_planner(grid, tick=tick)
    try:
        place.write_text(page, encoding="utf-8")
    except OSError as error:
        raise InvalidArgument(f"path={str(place)!r} cannot be written: {error.strerror}") from error
    return place


def render_planner(grid: Grid = GRID, *, tick: Callable[[float], None] = lambda _: None) -> str:
    """Return the page as HTML that needs no network: every number on it was computed here.

    Args:
        grid: the settings that it can move between.
        tick: called with the share that is done.
    """
    answers = grid.answers(tick)
    axes = {name: list(values) for name, values in grid.axes.items()}
    start = {name: values.index(START[name]) if START.get(name) in values else 0 for name, values in axes.items()}
    # the order is stated: a document in JSON may come with its names sorted
    document = {"order": list(axes), "axes": axes, "start": start, "answers": [_whitened(answer) for answer in answers]}
    return (
        environment("dpmcmc.planner")
        .get_template("planner.html")
        .render(
            axes=axes,
            start=start,
            accountants=ACCOUNTANTS,
            document=document,
            simulated=SIMULATED,
            pilot=1 - LEFT,
            usual=USUAL_CLIP_SCALE,
            longest=float(CLIP_SCALES[-1]),
            overview=_overview(axes, start, answers),
        )
    )


def _whitened(answer: dict[str, Any] | None) -> dict[str, Any] | None:
    """Leave six digits of every number: more would not be shown."""
    if answer is None:
        return None
    plain = {name: float(f"{value:.6g}") if isinstance(value, float) else value for name, value in answer.items()}
    return {**plain, "epsilon": {name: float(f"{value:.6g}") for name, value in answer["epsilon"].items()}}


def _overview(
    axes: dict[str, list[Any]], start: dict[str, int], answers: list[dict[str, Any] | None]
) -> list[tuple[int, list[float | None]]]:
    """Return the error at the start's sampler by the number of records and epsilon: what shows without scripts."""

    def at(**moved: int) -> float | None:
        place = 0
        for name, values in axes.items():
            place = place * len(values) + moved.get(name, start[name])
        answer = answers[place]
        return None if answer is None else answer["error"]

    return [
        (size, [at(num_records=row, epsilon=column) for column in range(len(axes["epsilon"]))])
        for row, size in enumerate(axes["num_records"])
    ]
