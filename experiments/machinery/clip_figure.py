"""The figure of a clipping study: MMD against the bound, and against the share of ratios that it cut."""

import pandas as pd

from experiments.machinery import pictures
from experiments.machinery.study import Product

LABELS = {"hmc": "HMC", "random_walk": "random walk"}


def clip_product(table: pd.DataFrame, caption: str, claimed_share: float) -> Product:
    """Draw the study; the claim is that a share of clipped ratios below `claimed_share` does not show in the MMD."""
    models = list(dict.fromkeys(table.model))
    figure, panels = pictures.grid(2, len(models), width=6.4, sharey="col")
    for column, model in enumerate(models):
        top, bottom = panels[:, column]
        top.set_xscale("log")
        for index, (algorithm, label) in enumerate(LABELS.items()):
            part = table[(table.model == model) & (table.algorithm == algorithm)]
            pictures.medians(top, part, "clip", "mmd", index=index, label=label, shift=0.06 * (index - 0.5))
            look = pictures.style(index) | {"linestyle": "none", "markersize": 6, "alpha": 0.6}
            bottom.plot(part.ratios_clipped, part.mmd, label=label, **look)
        bottom.axvline(claimed_share, color="black", linewidth=1.2, linestyle=(0, (4, 2)))
        pictures.dress(top, xlabel="bound of one record's ratio, over the distance", ylabel="MMD", title=model)
        pictures.dress(bottom, xlabel="share of ratios that were clipped", ylabel="MMD")
    pictures.legend_above(figure, panels[0, 0], 2)
    return Product(caption, _verdict(table, claimed_share), figure, _medians(table))


def _medians(table: pd.DataFrame) -> pd.DataFrame:
    groups = table.groupby(["model", "algorithm", "clip"], sort=False)
    found = groups["mmd"].agg(mmd_median="median", mmd_least="min", mmd_most="max", runs="count")
    return found.join(groups[["ratios_clipped", "acceptance"]].median()).reset_index()


def _verdict(table: pd.DataFrame, claimed_share: float) -> str:
    """Compare runs with few clipped ratios with those below the claimed share."""
    lines = []
    for (model, algorithm), part in table.groupby(["model", "algorithm"], sort=False):
        none = part[part["clip"] == part["clip"].max()].mmd
        some = part[(part.ratios_clipped > 0.01) & (part.ratios_clipped <= claimed_share)].mmd
        many = part[part.ratios_clipped > 2 * claimed_share].mmd
        lines.append(
            f"- {model}, {LABELS[algorithm]}: median MMD {_median(none)} without clipping, {_median(some)} where "
            f"1 % to {claimed_share:.0%} of the ratios are clipped, {_median(many)} where more than "
            f"{2 * claimed_share:.0%} are."
        )
    return "\n".join(lines)


def _median(values: pd.Series) -> str:
    return f"{values.median():.3f}" if len(values) else "(no run)"
