"""Fits of a few dozen groups by dense matrices and by arrows, on the same tables and noise: where arrows should begin.

    python -m experiments.stress.ways --families bernoulli --groups 20 --epsilons 1,4 --tables 3

Sizes of groups are uneven, and one in twenty is empty from the tenth on. Sums and noise are emulated; results are held
against the effects and coefficients that made the rows. `results/ways.csv` keeps rows of other runs.
"""

import argparse
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd

from dpmcmc.diagnostics.quality import Grade
from dpmcmc.diagnostics.summary import coordinates
from dpmcmc.fitting.strategies.grouped_scores import choice
from experiments.stress import store
from experiments.stress.emulated import Emulated, private_data
from experiments.stress.judge import OF_PRIOR
from experiments.stress.problems import Problem

SPREAD, UNEVEN, SIZE, NEVER = 0.5, 1.2, 20_000, 10**9
KEYS = ["family", "groups", "epsilon", "way"]


def truth(problem: Problem, seed: int) -> dict[str, float]:
    """Return the effects and coefficients that made the rows."""
    count, spread = problem.groups or (0, 0.0)
    effects = spread * np.random.default_rng(seed + 10**6).standard_normal((2, count))[0]
    names = {f"1|site[s{group}]": float(effect) for group, effect in enumerate(effects)}
    return {**{name: value for name, value in problem.truth.items() if "sigma" not in name}, **names}


def row(problem: Problem, epsilon: float, way: str, tables: int) -> dict[str, Any]:
    """Return how one way does."""
    data, least = private_data(problem, 0), NEVER if way == "dense" else 0
    with patch.object(choice, "MANY", least), patch.object(choice, "MANY_IN_MEMORY", least):
        emulated = Emulated(problem, epsilon, data)
        errors: dict[bool, list[float]] = {True: [], False: []}
        far, claimed, bad = 0.0, 0, 0
        for seed in range(tables):
            drawn = emulated.fit(emulated.records(seed), seed)
            bad += drawn.quality.verdict == "bad"
            own, known = coordinates(drawn.draws), truth(problem, seed)
            for name in known.keys() & own.keys():
                moved, is_group = float(own[name].mean()) - known[name], "site" in name
                errors[is_group].append(moved)
                grade = drawn.quality.parameters.get(name, Grade())
                marked = grade.verdict == "bad" or any(not reason.startswith(OF_PRIOR) for reason in grade.reasons)
                if is_group and not marked:
                    claimed, far = claimed + 1, max(far, abs(moved) / float(own[name].std()))
    group, common = (float(np.sqrt(np.mean(np.square(errors[kind])))) for kind in (True, False))
    return {
        **dict(zip(KEYS, (problem.family, (problem.groups or (0, 0.0))[0], epsilon, way), strict=True)),
        "tables": tables,
        "bad": bad,
        "error_of_effects": group,
        "error_of_coefficients": common,
        "unmarked_effects": claimed,
        "worst_own_sds": far,
    }


def rows(families: list[str], groups: list[int], epsilons: list[float], tables: int) -> Iterator[dict[str, Any]]:
    """Yield what is asked for."""
    for family in families:
        for count in groups:
            problem = Problem(family, SIZE, groups=(count, SPREAD), uneven=UNEVEN)
            for epsilon in epsilons:
                yield from (row(problem, epsilon, way, tables) for way in ("dense", "arrow"))


def main() -> None:
    """Run, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--families", default="bernoulli,gaussian,poisson")
    parser.add_argument("--groups", default="12,16,20,25,50")
    parser.add_argument("--epsilons", default="1,2,4")
    parser.add_argument("--tables", type=int, default=3)
    given = parser.parse_args()
    groups, epsilons = ([float(one) for one in text.split(",")] for text in (given.groups, given.epsilons))
    table = pd.DataFrame(rows(given.families.split(","), [int(one) for one in groups], epsilons, given.tables))
    print(table.to_string())  # noqa: T201
    place = store.FOLDER / "ways.csv"
    if place.exists():
        table = pd.concat([table, pd.read_csv(place)]).drop_duplicates(KEYS)
    table.sort_values(KEYS).to_csv(place, index=False, float_format="%.4g")


if __name__ == "__main__":
    main()
