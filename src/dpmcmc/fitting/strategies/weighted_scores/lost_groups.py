"""Groups that the budget cannot see: what is told of their spread, and of what they share, rests on the others.

Without privacy all groups would tell of the standard deviation of their effects, and of their common mean. If the noise
hides many of them, few are left, and both are wider than they would be: by about the root of how many groups there are
for each that is seen.
"""

from collections.abc import Mapping, Sequence

from dpmcmc.diagnostics.quality import Grade, worst
from dpmcmc.fitting.strategies.weighted_scores.grades import NOT_SEEN

MANY, MOST = 1 / 3, 1 / 2
"""The share of the groups that are not seen from which on their spread is marked, and from which on all that they
share."""

WIDE = 3.0
"""From so many times the standard deviation that a group of usual size would have on a group is lost: of effects that
are all near zero little is told as well, but they are as narrow as their spread."""

FEW_SEEN = (
    "Many groups are not identified at this budget: it rests on the others, and may be wider than without privacy."
)
"""How parameters are marked that too few groups tell of."""


def with_lost_groups(
    grades: Mapping[str, Grade], labels: Sequence[str], variances: Mapping[str, float], knows: float
) -> dict[str, Grade]:
    """Return grades in which the spread of groups is marked where many of these are not seen.

    Args:
        grades: by label.
        labels: of all standard deviations of effects of groups.
        variances: of the draws, by label.
        knows: what all records know of their predictors.
    """
    found = dict(grades)
    for label in labels:
        group = label.rpartition("_sigma")[0]
        own = [name for name in grades if name.startswith(f"{group}[")]
        most = WIDE**2 * len(own) / max(knows, 1e-30)
        lost = sum(NOT_SEEN in grades[name].reasons and variances[name] > most for name in own)
        if not lost > MANY * len(own):
            continue
        beside = [label, *([*own, _shared(group)] if lost > MOST * len(own) else [])]
        for name in beside:
            if name in found and NOT_SEEN not in found[name].reasons:
                one = found[name]
                found[name] = Grade(worst((one.verdict, "fair")), (*one.reasons, FEW_SEEN), one.shares)
    return found


def finding(grades: Mapping[str, Grade]) -> list[tuple[str, str]]:
    """Return what is said of the whole result."""
    few = [name for name, grade in grades.items() if FEW_SEEN in grade.reasons and name.endswith("_sigma")]
    if not few:
        return []
    findings = [("fair", f"Many groups are not identified: {', '.join(few)} may be wider than without privacy.")]
    if any(FEW_SEEN in grade.reasons and not name.endswith("_sigma") for name, grade in grades.items()):
        findings.append(
            (
                "fair",
                "Most groups are not identified: the slope of a predictor in which groups differ may contain "
                "differences between groups that their own effects would explain.",
            )
        )
    return findings


def _shared(group: str) -> str:
    """Return the name of the coefficient around which effects lie."""
    prefix, between, term = group.rpartition(": ")
    effect = term.partition("|")[0]
    return f"{prefix}{between}{'intercept' if effect == '1' else effect}"
