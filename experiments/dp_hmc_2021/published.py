"""The authors' public code run again on data of its own (published.csv, one row a repeat), and ours against it."""

import math
from pathlib import Path

import pandas as pd
from scipy.stats import t as student_t

PUBLISHED = Path(__file__).parent / "published.csv"
FALSE_ALARM = 0.01
"""Of all tests together."""

NAMES = {
    "dp_hmc": "DP-HMC",
    "dp_penalty": "DP-penalty",
    "dp_sgld_published": "DP-SGLD",
    "dp_sgnht": "DP-SGNHT",
}


def compare(table: pd.DataFrame) -> str:
    """Return both side by side for every setting at full length, and a test of each sampler on each model."""
    theirs = pd.read_csv(PUBLISHED)
    ours = table[(table.reading == "published") & (table.steps == table.steps_allowed)]
    settings = ["model", "sampler", "epsilon"]
    shared = ours.groupby(settings).size().rename("n").reset_index().merge(theirs[settings].drop_duplicates())
    if shared.empty:
        return "No setting was run at full length, so nothing is compared with the authors' code."
    ours, theirs = ours.merge(shared[settings]), theirs.merge(shared[settings])
    return f"{_tests(ours, theirs)}\n\n{_side_by_side(ours, theirs)}"


def _tests(ours: pd.DataFrame, theirs: pd.DataFrame) -> str:
    """Compare the mean MMD over all epsilons by Welch's test.

    Our repeats run through all epsilons, so one repeat is one number; theirs are independent runs at each epsilon.
    """
    groups = [group for group, part in ours.groupby(["model", "sampler"]) if part.repeat.nunique() > 1]
    level = FALSE_ALARM / max(1, len(groups))
    lines = [
        f"Against the authors' own code: mean MMD over the epsilons that both have, Welch's test, {level:.2%} for each "
        f"({FALSE_ALARM:.0%} in all).",
        "",
        "| model | sampler | our repeats | theirs | ours | difference | p | told apart |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for model, sampler in groups:
        own = (
            ours[(ours.model == model) & (ours.sampler == sampler)]
            .pivot_table(index="repeat", columns="epsilon", values="mmd")
            .dropna()
        )
        other = (
            theirs[(theirs.model == model) & (theirs.sampler == sampler)]
            .groupby("epsilon")
            .mmd.agg(["mean", "var", "count"])
        )
        means = own.mean(axis=1)
        of_ours, of_theirs = means.var() / len(means), float((other["var"] / other["count"]).sum()) / len(other) ** 2
        gap, error = means.mean() - other["mean"].mean(), math.sqrt(of_ours + of_theirs)
        freedom = (of_ours + of_theirs) ** 2 / (
            of_ours**2 / (len(means) - 1) + of_theirs**2 / (int(other["count"].sum()) - len(other))
        )
        p_value = 2 * float(student_t.sf(abs(gap) / error, freedom))
        lines.append(
            f"| {model} | {NAMES[sampler]} | {len(means)} | {other['mean'].mean():.3f} | {means.mean():.3f} | "
            f"{gap:+.3f} ± {error:.3f} | {p_value:.2f} | {'yes' if p_value < level else 'no'} |"
        )
    return "\n".join(lines)


def _side_by_side(ours: pd.DataFrame, theirs: pd.DataFrame) -> str:
    lines = [
        "| model | sampler | epsilon | steps: both | median MMD: theirs | ours [least, most] | acceptance: both |",
        "|---|---|---|---|---|---|---|",
    ]
    for (model, sampler, epsilon), part in theirs.groupby(["model", "sampler", "epsilon"], sort=False):
        own = ours[(ours.model == model) & (ours.sampler == sampler) & (ours.epsilon == epsilon)]
        rates = (
            f"{part.acceptance.median():.2f}, {own.acceptance.median():.2f}" if part.acceptance.notna().any() else ""
        )
        lines.append(
            f"| {model} | {NAMES[sampler]} | {epsilon:g} | {part.steps.iloc[0]}, {own.steps.iloc[0]} | "
            f"{part.mmd.median():.3f} | {own.mmd.median():.3f} [{own.mmd.min():.2f}, {own.mmd.max():.2f}] | {rates} |"
        )
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
