"""Chains against epsilon: parameters do not depend on it, so a shorter run is the beginning of a longer one.

One cell runs the chains as long as the largest epsilon allows; what a smaller one pays for is the first steps of the
same chains, of which, as in the papers, the first half is discarded.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

import dpmcmc as dp
from experiments.machinery.chains import (
    Bench,
    Chains,
    gradient_clip_fraction,
    of_cell,
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


def budget_cells(configuration: Configuration, problems: dict[str, str], samplers: tuple[str, ...]) -> list[Cell]:
    """Return one cell a repeat, problem and sampler, whose chains share a budget and are pooled."""
    return [
        budget_cell(configuration, model, problem, sampler, repeat)
        for repeat in range(configuration["num_repeats"])
        for model, problem in problems.items()
        for sampler in samplers
    ]


def budget_cell(configuration: Configuration, model: str, problem: str, sampler: str, repeat: int) -> Cell:
    """Return one cell."""
    c = configuration
    return {
        "model": model,
        "problem": problem,
        "sampler": sampler,
        "repeat": repeat,
        "num_records": c["num_records"],
        "num_reference": c["num_reference"],
        "num_chains": c["num_chains"],
        "epsilons": c["epsilons"],
        "delta": c["delta_over_records"] / c["num_records"],
        "most_draws": c["most_draws"],
        "most_shown": c["most_shown"],
        "most_steps": c["most_steps"].get(sampler, UNLIMITED),
        "segment": c["segments"][sampler],
        "data_seed": c["seed"],
        "mean": c.get("means", {}).get(model),
    }


def run_budget_cell(cell: Cell) -> Rows:
    """Run the chains of one cell; one row a reading and epsilon, and a chain where chains are judged alone."""
    return run_budget_cells([cell])[0]


def run_budget_cells(cells: list[Cell]) -> list[Rows]:
    """Run the chains of cells that differ in their repeat alone side by side, and return the rows of each."""
    cell, repeats = cells[0], [one["repeat"] for one in cells]
    place = of_cell(cell)
    chosen = sampler(cell["sampler"], place)
    alone = cell.get("alone", False)
    payers, delta = 1 if alone else cell["num_chains"], cell["delta"]
    ends = [
        (name, reading, epsilon, reading.steps(epsilon, delta, payers))
        for name, reading in chosen.readings.items()
        for epsilon in cell["epsilons"]
    ]
    most = min(cell["most_steps"], max(end[-1] for end in ends))
    seed = int(np.random.SeedSequence([cell["data_seed"], *repeats, 3]).generate_state(1)[0])
    starts = np.concatenate([place.starts(repeat, cell["num_chains"]) for repeat in repeats])
    segment = -(-most // -(-most // cell["segment"]))  # equal parts, so that hardly a step is run for nothing
    run = run_chains(chosen.kernel, place, starts, num_steps=most, seed=seed, segment=segment, model=chosen.model)
    apart = zip(cells, run.groups(cell["num_chains"]), strict=True)
    return [_judged(chains, one, place, chosen.kernel.settings, ends) for one, chains in apart]


def _judged(run: Chains, cell: Cell, place: Bench, settings: Mapping[str, Any], ends: list[Any]) -> Rows:
    """Return the rows of one cell from its chains, cut where each reading and epsilon says."""
    alone = cell.get("alone", False)
    payers, delta, most = 1 if alone else cell["num_chains"], cell["delta"], run.positions.shape[1]
    rng = np.random.default_rng([cell["data_seed"], cell["repeat"], 4])
    rows = []
    for chain, part in enumerate(run.groups(1) if alone else [run]):
        clipped = _clipped(part, place, settings) | ({"chain": chain} if alone else {})
        for name, reading, epsilon, allowed in ends:
            steps = min(allowed, most)
            if steps < LEAST_STEPS:
                continue
            found = {"reading": name, "epsilon": epsilon, "steps_allowed": allowed, "steps": steps}
            found["epsilon_that_holds"] = reading.epsilon(steps, delta, payers)
            begun = part.first(steps)
            found |= scores(begun, place, rng, most=cell["most_draws"]) | clipped
            if epsilon == max(cell["epsilons"]) and place.problem.dimension == PLANE:
                found["draws"] = begun.kept(cell["most_shown"]).reshape(-1, PLANE).round(5).tolist()
            rows.append(found)
    return rows


def _clipped(run: Chains, place: Bench, settings: Mapping[str, Any]) -> dict[str, float]:
    """Return shares of clipped ratios and gradients, where the sampler has any."""
    found = {}
    ratio, gradient = settings.get("log_ratio", settings.get("test")), settings.get("gradient")
    if isinstance(ratio, dp.mechanisms.BarkerTest):  # its bound does not grow with the distance
        bound = math.sqrt(ratio.clip_fraction * ratio.batch_size) / place.vault.facts.size
        found["ratios_clipped"] = ratio_clip_fraction(run, place, bound, absolute=True)
    elif ratio is not None:
        found["ratios_clipped"] = ratio_clip_fraction(run, place, ratio.clip)
    if gradient is not None:
        found["gradients_clipped"] = gradient_clip_fraction(run, place, gradient.clip)
    return found
