"""The authors' public code run again on data of its own (published.csv, one row a repeat), and ours against it."""

from pathlib import Path

import pandas as pd
from scipy.stats import mannwhitneyu

PUBLISHED = Path(__file__).parent / "published.csv"
FALSE_ALARM = 0.01
"""Of all rank tests together."""

NAMES = {
    "dp_hmc": "DP-HMC",
    "dp_penalty": "DP-penalty",
    "dp_sgld_published": "DP-SGLD",
    "dp_sgnht": "DP-SGNHT",
}


def compare(table: pd.DataFrame) -> pd.DataFrame:
    """Return, for every setting that both have at full length, both medians and the p-value of a rank test."""
    theirs = pd.read_csv(PUBLISHED)
    ours = table[(table.reading == "published") & (table.steps == table.steps_allowed)]
    rows = []
    for (model, sampler, epsilon), part in theirs.groupby(["model", "sampler", "epsilon"], sort=False):
        own = ours[(ours.model == model) & (ours.sampler == sampler) & (ours.epsilon == epsilon)]
        if len(own) < 2:
            continue
        rows.append(
            {
                "model": model,
                "sampler": sampler,
                "epsilon": epsilon,
                "steps": int(own.steps.iloc[0]),
                "steps_of_their_code": int(part.steps.iloc[0]),
                "mmd_of_their_code": part.mmd.median(),
                "mmd": own.mmd.median(),
                "least": own.mmd.min(),
                "most": own.mmd.max(),
                "p_value": float(mannwhitneyu(own.mmd, part.mmd).pvalue),
                "acceptance_of_their_code": part.acceptance.median(),
                "acceptance": own.acceptance.median(),
            }
        )
    return pd.DataFrame(rows)


def say(found: pd.DataFrame) -> str:
    """Return the comparison as a table, and how many tests tell the two apart."""
    if found.empty:
        return "No setting was run at full length, so nothing is compared with the authors' code."
    level = FALSE_ALARM / len(found)
    apart = int((found.p_value < level).sum())
    inside = int(((found.least <= found.mmd_of_their_code) & (found.mmd_of_their_code <= found.most)).sum())
    lines = [
        f"Against the authors' own code, on another realisation of the data: a two-sided rank test at {level:.1e} each "
        f"(false alarm {FALSE_ALARM:.0%} in all) tells the MMDs apart in {apart} of {len(found)} settings; their "
        f"median lies between our least and our most in {inside}.",
        "",
        "| model | sampler | epsilon | steps: theirs, ours | MMD: theirs | ours [least, most] | p | acceptance: both |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.model} | {NAMES[row.sampler]} | {row.epsilon:g} | {row.steps_of_their_code}, {row.steps} | "
        f"{row.mmd_of_their_code:.3f} | {row.mmd:.3f} [{row.least:.2f}, {row.most:.2f}] | {row.p_value:.2f} | "
        f"{row.acceptance_of_their_code:.2f}, {row.acceptance:.2f} |"
        for row in found.itertuples()
    ]
    return "\n".join(lines)


def orderings(medians: pd.DataFrame) -> str:
    """Return the paper's claims on who is better, with how often they are true."""
    full = medians[(medians.reading == "published") & (medians.steps == medians.steps_allowed)]
    tables = {
        model: part.pivot_table(index="epsilon", columns="sampler", values="mmd_median")
        for model, part in full.groupby("model")
    }
    lines = []
    if "banana" in tables:
        t = tables["banana"].dropna(subset=["dp_hmc", "dp_penalty"])
        nearer = (t.dp_hmc / t.dp_penalty).median()
        lines.append(
            f'- Banana, DP-HMC and DP-penalty "roughly equal": ratio of their MMDs {nearer:.2f} in the median.'
        )
        rest = t.dropna(subset=[name for name in ("dp_sgld_published", "dp_sgnht") if name in t])
        if {"dp_sgld_published", "dp_sgnht"} <= set(t) and len(rest):
            worse = (
                rest[["dp_sgld_published", "dp_sgnht"]].min(axis=1) > rest[["dp_hmc", "dp_penalty"]].max(axis=1)
            ).sum()
            lines.append(
                f"- Banana, DP-SGLD and DP-SGNHT worse than both: at {worse} of {len(rest)} epsilons that were run."
            )
    if "gaussian" in tables and "dp_sgld_published" in tables["gaussian"]:
        t = tables["gaussian"].dropna()
        lines.append(
            f"- Gaussian, DP-SGLD best: at {(t.idxmin(axis=1) == 'dp_sgld_published').sum()} of {len(t)} epsilons."
        )
        lines.append(
            f"- Gaussian, DP-penalty worst: at {(t.idxmax(axis=1) == 'dp_penalty').sum()} of {len(t)} epsilons."
        )
        lines.append(
            '- Gaussian, DP-HMC and DP-SGNHT "mostly equal": ratio of their MMDs '
            f"{(t.dp_hmc / t.dp_sgnht).median():.2f} in the median."
        )
    return "\n".join(lines)
