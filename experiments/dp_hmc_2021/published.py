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
    """Return the paper's claims on who is better, with how often they are true where chains ran at full length."""
    full = medians[(medians.reading == "published") & (medians.steps == medians.steps_allowed)]

    def of(model: str, *samplers: str) -> pd.DataFrame:
        part = full[full.model == model].pivot_table(index="epsilon", columns="sampler", values="mmd_median")
        return part.reindex(columns=list(samplers)).dropna()

    lines = []
    banana, everything = of("banana", "dp_hmc", "dp_penalty"), of("banana", *NAMES)
    if len(banana):
        ratio = (banana.dp_hmc / banana.dp_penalty).median()
        lines.append(f'- Banana, DP-HMC and DP-penalty "roughly equal": ratio of their MMDs {ratio:.2f} in the median.')
    if len(everything):
        least, most = everything[["dp_sgld_published", "dp_sgnht"]].min(axis=1), banana.max(axis=1)[everything.index]
        lines.append(
            f"- Banana, DP-SGLD and DP-SGNHT worse than both: at {(least > most).sum()} of the {len(everything)} "
            "epsilons that were run at full length."
        )
    gaussian = of("gaussian", *NAMES)
    if len(gaussian):
        best, worst = gaussian.idxmin(axis=1), gaussian.idxmax(axis=1)
        ratio = (gaussian.dp_hmc / gaussian.dp_sgnht).median()
        lines += [
            f"- Gaussian, DP-SGLD best: at {(best == 'dp_sgld_published').sum()} of {len(gaussian)} epsilons.",
            f"- Gaussian, DP-penalty worst: at {(worst == 'dp_penalty').sum()} of {len(gaussian)} epsilons.",
            f'- Gaussian, DP-HMC and DP-SGNHT "mostly equal": ratio of their MMDs {ratio:.2f} in the median.',
        ]
    return "\n".join(lines)
