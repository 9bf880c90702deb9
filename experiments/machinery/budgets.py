"""Chains against epsilon: parameters do not depend on it, so a shorter run is the beginning of a longer one.

One cell runs the chains as long as the largest epsilon allows; what a smaller one pays for is the first steps of the
same chains, of which, as in the papers, the first half is discarded.
"""

from typing import Any

import numpy as np

from experiments.machinery.chains import (
    bench,
    gradient_clip_fraction,
    ratio_clip_fraction,
    run_chains,
    scores,
)
from experiments.machinery.samplers import sampler
from experiments.machinery.study import Cell, Configuration, Rows

UNLIMITED = 10**12
PLANE = 2
"""Draws of posteriors in the plane are kept, a few, to be shown."""

LEAST_STEPS = 4
"""Fewer steps of a chain leave nothing to measure."""


def budget_cells(
    configuration: Configuration, problems: dict[str, str], samplers: tuple[str, ...], num_records: int | None = None
) -> list[Cell]:
    """Return one cell a problem, sampler and repeat; repeats come last, so that what is finished is balanced."""
    c = configuration
    size = num_records or c["num_records"]
    return [
        {
            "model": short,
            "problem": name,
            "sampler": each,
            "repeat": repeat,
            "num_records": size,
            "num_reference": c["num_reference"],
            "num_chains": c["num_chains"],
            "epsilons": c["epsilons"],
            "delta": c["delta_over_records"] / size,
            "most_draws": c["most_draws"],
            "most_shown": c["most_shown"],
            "most_steps": c["most_steps"].get(each, UNLIMITED),
            "segment": c["segments"][each],
            "data_seed": c["seed"],
        }
        for repeat in range(c["num_repeats"])
        for short, name in problems.items()
        for each in samplers
    ]


def run_budget_cell(cell: Cell) -> Rows:
    """Run the chains of one cell; one row a reading and epsilon."""
    place = bench(cell["problem"], cell["num_records"], cell["data_seed"], cell["num_reference"])
    chosen = sampler(cell["sampler"], place)
    chains, delta = cell["num_chains"], cell["delta"]
    ends = [
        (name, reading, epsilon, reading.steps(epsilon, delta, chains))
        for name, reading in chosen.readings.items()
        for epsilon in cell["epsilons"]
    ]
    most = min(cell["most_steps"], max(end[-1] for end in ends))
    seed = int(np.random.SeedSequence([cell["data_seed"], cell["repeat"], 3]).generate_state(1)[0])
    starts = place.starts(cell["repeat"], chains)
    segment = min(cell["segment"], most)
    run = run_chains(chosen.kernel, place, starts, num_steps=most, seed=seed, segment=segment, model=chosen.model)
    rng = np.random.default_rng([cell["data_seed"], cell["repeat"], 4])
    clipped = _clipped(run, place, chosen.kernel.settings)
    rows = []
    for name, reading, epsilon, allowed in ends:
        steps = min(allowed, most)
        if steps < LEAST_STEPS:
            continue
        found = {"reading": name, "epsilon": epsilon, "steps_allowed": allowed, "steps": steps}
        found["epsilon_that_holds"] = reading.epsilon(steps, delta, chains)
        part = run.first(steps)
        found |= scores(part, place, rng, most=cell["most_draws"]) | clipped
        if epsilon == max(cell["epsilons"]) and place.problem.dimension == PLANE:
            found["draws"] = part.kept(cell["most_shown"]).reshape(-1, PLANE).round(5).tolist()
        rows.append(found)
    return rows


def _clipped(run: Any, place: Any, settings: Any) -> dict[str, float]:
    """Return shares of clipped ratios and gradients, where the sampler has any."""
    found = {}
    ratio, gradient = settings.get("log_ratio"), settings.get("gradient")
    if hasattr(ratio, "clip"):
        found["ratios_clipped"] = ratio_clip_fraction(run, place, ratio.clip)
    if hasattr(gradient, "clip"):
        found["gradients_clipped"] = gradient_clip_fraction(run, place, gradient.clip)
    return found
