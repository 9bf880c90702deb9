"""The thesis's own results, read off its box plots (20 chains: median and quartiles), and ours against them."""

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import norm

PUBLISHED = Path(__file__).parent / "published.csv"
NUM_CHAINS = 20
READ_TO = 0.005
"""How finely the box plots were read."""

FALSE_ALARM = 0.01
"""Of all tests of one figure together."""

SHOWN = (0.5, 1.0, 4.0, 6.0)
"""Epsilons of which the medians are listed."""


def compare(table: pd.DataFrame, measure: str) -> str:
    """Test, model by model and sampler by sampler, whether the medians differ, and list some of them."""
    published = pd.read_csv(PUBLISHED)
    published = published[published.measure == measure]
    ours = table[table.reading == "published"].dropna(subset=[measure])
    groups = ours.groupby(["model", "sampler", "epsilon"], sort=False)[measure]
    found = groups.agg(
        median="median",
        lower=lambda values: values.quantile(0.25),
        upper=lambda values: values.quantile(0.75),
        chains="count",
    )
    both = found.reset_index().merge(published, on=["model", "sampler", "epsilon"], suffixes=("", "_published"))
    if both.empty:
        return _shares(ours, measure)
    error = np.hypot(
        _error(both.lower, both.upper, both.chains),
        np.hypot(_error(both.lower_quartile, both.upper_quartile, NUM_CHAINS), READ_TO),
    )
    both["score"] = (both["median"] - both["median_published"]) / error
    both["differs"] = both.score.abs() > norm.isf(FALSE_ALARM / 2 / len(both))
    lines = [
        f"Medians against the published ones, {FALSE_ALARM:.0%} false alarms in all (the standard error of a median "
        f"from the quartiles, and {READ_TO} for reading the plots): {both.differs.sum()} of {len(both)} differ"
        + (f": {_listed(both[both.differs])}." if both.differs.any() else "."),
        "",
        "| model | sampler | epsilon | published median [quartiles] | ours: median [quartiles] | our chains |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.model} | {row.sampler} | {row.epsilon:g} | {row.median_published:.2f} [{row.lower_quartile:.2f}, "
        f"{row.upper_quartile:.2f}] | {row['median']:.2f} [{row.lower:.2f}, {row.upper:.2f}] | {row.chains} |"
        for _, row in both[both.epsilon.isin(SHOWN)].iterrows()
    ]
    return "\n".join(lines)


def _error(lower: pd.Series, upper: pd.Series, chains: pd.Series | int) -> np.ndarray:
    """Return the standard error of a median, were the chains normal with those quartiles."""
    deviation = (upper - lower) / (2 * norm.ppf(0.75))
    return np.asarray(np.sqrt(np.pi / 2) * deviation / np.sqrt(chains))


def _listed(differ: pd.DataFrame) -> str:
    """Name the settings that differ, and whether ours is higher or lower, at how many epsilons."""
    counts = differ.groupby(["model", "sampler", np.sign(differ.score)], sort=False).size()
    return ", ".join(
        f"{model} {sampler} ({'higher' if sign > 0 else 'lower'} at {count})"
        for (model, sampler, sign), count in counts.items()
    )


def _shares(ours: pd.DataFrame, measure: str) -> str:
    groups = ours.groupby(["model", "sampler"], sort=False)[measure].agg(["median", "min", "max"])
    return "\n".join(
        f"- {model}, {sampler}: median {row['median']:.3f}, from {row['min']:.3f} to {row['max']:.3f}."
        for (model, sampler), row in groups.iterrows()
    )
