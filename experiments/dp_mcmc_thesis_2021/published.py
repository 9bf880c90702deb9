"""The thesis's own results, read off its box plots (20 chains: median and quartiles), and ours against them."""

from pathlib import Path

import pandas as pd

PUBLISHED = Path(__file__).parent / "published.csv"


def compare(table: pd.DataFrame, measure: str) -> str:
    """Say, model by model and sampler by sampler, in how many cases the published median lies within our repeats."""
    published = pd.read_csv(PUBLISHED)
    published = published[published.measure == measure]
    ours = table[table.reading == "published"].dropna(subset=[measure])
    groups = ours.groupby(["model", "sampler", "epsilon"])[measure].agg(["min", "median", "max"]).reset_index()
    both = groups.merge(published, on=["model", "sampler", "epsilon"], suffixes=("", "_published"))
    if both.empty:
        return _shares(ours, measure)
    both["within"] = (both["min"] <= both["median_published"]) & (both["median_published"] <= both["max"])
    both["overlap"] = (both["min"] <= both["upper_quartile"]) & (both["lower_quartile"] <= both["max"])
    lines = [
        f"Published median within the least and the most of our chains: {both.within.sum()} of {len(both)} cases; "
        f"published quartiles overlap with them: {both.overlap.sum()} of {len(both)}.",
        "",
        "| model | sampler | epsilon | published median [quartiles] | ours: median [least, most] |",
        "|---|---|---|---|---|",
    ]
    shown = both[both.epsilon.isin([1.0, 4.0, 6.0])]
    lines += [
        f"| {row.model} | {row.sampler} | {row.epsilon:g} | {row.median_published:.2f} [{row.lower_quartile:.2f}, "
        f"{row.upper_quartile:.2f}] | {row['median']:.2f} [{row['min']:.2f}, {row['max']:.2f}] |"
        for _, row in shown.iterrows()
    ]
    return "\n".join(lines)


def _shares(ours: pd.DataFrame, measure: str) -> str:
    groups = ours.groupby(["model", "sampler"], sort=False)[measure].agg(["median", "min", "max"])
    return "\n".join(
        f"- {model}, {sampler}: median {row['median']:.3f}, from {row['min']:.3f} to {row['max']:.3f}."
        for (model, sampler), row in groups.iterrows()
    )
