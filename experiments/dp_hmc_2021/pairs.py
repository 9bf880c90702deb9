"""Two samplers from the same start points, repeat by repeat: t-tests of pairs, so that a difference can be believed."""

import numpy as np
import pandas as pd
from scipy import stats

PAIRS = {
    ("dp_hmc", "published"): (
        ("dp_penalty", "published"),
        ("dp_hmc_reuse", "published"),
        ("dp_hmc", "accept bit"),
        ("dp_sgld_published", "published"),
        ("dp_sgnht", "published"),
    ),
    ("dp_penalty", "published"): (
        ("dp_penalty", "accept bit"),
        ("dp_sgld_published", "published"),
        ("dp_sgnht", "published"),
    ),
}
"""Which are compared: sampler and reading, with others."""

FEWEST = 3
"""Repeats without which nothing is tested."""


def paired(table: pd.DataFrame) -> str:
    """Return the tests as a table: the mean MMD over all epsilons of each, and how unlikely such a difference is."""
    lines = []
    for model, own in table.groupby("model", sort=False):
        means = own.groupby(["sampler", "reading", "repeat"])["mmd"].mean()
        for one, others in PAIRS.items():
            for other in others:
                lines += _line(str(model), means, one, other)
    if not lines:
        return ""
    head = ["| model | one | mean MMD | other | mean MMD | pairs | p |", "|---" * 7 + "|"]
    return "Repeat by repeat, over all epsilons (t-test of pairs):\n\n" + "\n".join([*head, *lines])


def _line(model: str, means: "pd.Series[float]", one: tuple[str, str], other: tuple[str, str]) -> list[str]:
    if not {one, other} <= {(sampler, reading) for sampler, reading, _ in means.index}:
        return []
    both = pd.concat([means[one], means[other]], axis=1, join="inner").to_numpy()
    if len(both) < FEWEST or np.ptp(both[:, 0] - both[:, 1]) == 0:
        return []
    chance = float(stats.ttest_rel(both[:, 0], both[:, 1]).pvalue)
    first, second = both.mean(axis=0)
    names = [f"{sampler}, {reading}" for sampler, reading in (one, other)]
    return [f"| {model} | {names[0]} | {first:.3f} | {names[1]} | {second:.3f} | {len(both)} | {chance:.2g} |"]
