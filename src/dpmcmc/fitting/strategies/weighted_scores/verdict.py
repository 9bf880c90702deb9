"""What the releases of a weighted fit say about its result."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmcmc.diagnostics.quality import BAD_ERROR, FAIR_ERROR, Grade, Quality, worst
from dpmcmc.fitting.in_words import in_words
from dpmcmc.fitting.strategies.weighted_scores.arrival import Moved
from dpmcmc.fitting.strategies.weighted_scores.beside_prior import BesidePrior
from dpmcmc.fitting.strategies.weighted_scores.bounds import Bias
from dpmcmc.fitting.strategies.weighted_scores.draws import RARE, Joined
from dpmcmc.fitting.strategies.weighted_scores.few_events import HARDLY_ANY, UNSURE
from dpmcmc.fitting.strategies.weighted_scores.grades import (
    MARKED,
    NOT_SEEN,
    OF_PRIOR,
    OFF,
    ROBUST,
    Variances,
    grade,
    is_shape,
    of_group,
)
from dpmcmc.fitting.strategies.weighted_scores.grades import error as number_error
from dpmcmc.fitting.strategies.weighted_scores.lost_groups import finding as lost_groups
from dpmcmc.fitting.strategies.weighted_scores.lost_groups import with_lost_groups
from dpmcmc.fitting.strategies.weighted_scores.other_root import NO_OTHER, OtherRoot
from dpmcmc.fitting.strategies.weighted_scores.residuals import RARE as MISFIT
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats

TOO_WIDE = 6.0
"""The predicted error up to which a wide result is fair, if all else is in order: its intervals hold as stated."""

CLAMPED = "Responses at their bounds affect it."
"""How parameters are marked where responses were clamped."""

FEW_ROWS = "Few rows carry information about it, with little weight: without privacy it may be much narrower."
"""How coefficients of curves are marked whose columns are nearly dependent."""

SKEWED = "Hardly any record carries information about it: it may lie further out than its interval says."
"""How levels are marked whose records know much more at one end of the interval than at the other."""

HARDLY_EVENTS = "Compared with the noise hardly any events inform it: it may lie further out than its interval says."
"""How parameters are marked where the number of events is hardly known."""

NOISY = 0.2
"""The share of its variance from privacy from which on that matters."""

MISFITTING = (
    "The model does not hold for all records: bounded scores may estimate something other than the likelihood would."
)
"""How other parameters are marked that bounds may have moved, where it is seen that the model does not hold."""

HIDDEN_MISFIT = 0.5
"""Posterior standard deviations by which a misfit that is not seen may move a coefficient before it is said."""

UNLIKE = 1.5
"""From so many times the usual width on the widest interval is named."""

FEW = 0.05
"""The effective share of the proposals below which draws are not to be relied on."""


ELSEWHERE = 5e-3
"""How rarely scores with other bounds, which have the same root if the model holds, are told to have another one; they
and the residuals together, too."""


class Checks(NamedTuple):
    """What the releases say of the steps and of the model."""

    arrived: bool
    """Whether the steps before the last were as long as they wanted to be."""
    fits: float
    """How probable residuals like these are under the model."""
    other: OtherRoot = NO_OTHER
    """How far scores with other bounds lead elsewhere."""
    bias: Bias = Bias(0.0, 0.0)
    """How far residuals that the model does not expect move the estimate from that of the likelihood."""
    unseen: float = 0.0
    """How many residuals may be far out without being seen, where there can be any."""
    clamped: float = 0.0
    """How many responses lie at a bound that is stated for them."""
    few: Sequence[str] = ()
    """Coefficients of curves of which few rows may tell much more than they can."""
    skewed: Sequence[str] = ()
    """Levels whose records know much more at one end of the interval than at the other."""
    events: float = 0.0
    """How uncertain the logarithm of the number of events is, in times to an event."""
    knows: float = 0.0
    """What all records know of their predictors."""
    moved: float = 0.0
    """How far a misfit that may be there unseen would move a coefficient, in standard deviations of the posterior."""

    @property
    def hold(self) -> bool:
        """Whether the model holds, as far as residuals and scores with other bounds show, each and together."""
        both = max(self.fits * self.other.p_value, 1e-300)
        together = both * (1 - np.log(both))  # of two numbers between zero and one how rarely the product is less
        return bool(self.fits >= MISFIT and self.other.p_value >= ELSEWHERE and together >= ELSEWHERE)

    @property
    def are_residuals(self) -> bool:
        """Whether it is the residuals by which it is seen that the model does not hold."""
        return not self.hold and bool(
            self.fits < MISFIT or (self.other.p_value >= ELSEWHERE and self.fits < self.other.p_value)
        )


def judge(
    joined: Joined,
    moved: Moved,
    share_kept: float,
    parts: tuple[Variances, Variances],
    jacobians: Mapping[str, Floats],
    spreads: Mapping[str, float],
    checks: Checks,
    beside: BesidePrior,
    shapes: NDArray[np.bool_] | None = None,
    too_wide: float = TOO_WIDE,
) -> Quality:
    """Return the verdict.

    Args:
        joined: the last two releases.
        moved: how far the result is from the last point.
        share_kept: the effective share of the proposals of draws.
        parts: where the variance comes from, and the same without the directions that no data can see.
        jacobians: how each number that people read moves with the parameters.
        spreads: the variances of their draws, if the posterior without privacy is about normal.
        checks: what the releases say of the steps and of the model.
        beside: what the prior does to it.
        shapes: which of the parameters are shapes of the family.
        too_wide: the predicted error above which a result is bad.
    """
    grades = {
        name: grade(*parts, jacobian, spreads.get(name, 0.0), _bias(checks, is_shape(jacobian, shapes)))
        for name, jacobian in jacobians.items()
    }
    errors = {
        name: number_error(*parts, jacobian, spreads.get(name, 0.0))
        for name, jacobian in jacobians.items()
        if NOT_SEEN not in grades[name].reasons
    }
    error = float(np.sqrt(np.mean(np.square(list(errors.values()))))) if errors else float("inf")
    few = [name for name in checks.few if name in errors]
    skewed = [name for name in checks.skewed if name in errors and grades[name].shares.get("privacy", 1.0) > NOISY]
    findings = [
        *_of_steps(joined, moved.has_arrived(checks.arrived, beside.is_half), share_kept),
        *of_noise(error, errors, too_wide),
        *of_model(checks, error),
        *_of_targets(grades if checks.hold else {}),
        *_of_few_rows(few),
        *_of_rare(skewed),
        *_of_events(checks.events),
    ]
    if not checks.hold:
        doubtful = [name for name, value in jacobians.items() if _is_moved(checks, value, spreads.get(name, 0.0))]
        grades |= {name: _also(grades[name], MISFITTING) for name in doubtful if not grades[name].reasons}
    if checks.clamped:
        grades = {name: _also(grade, CLAMPED) for name, grade in grades.items()}
    if checks.events > UNSURE:
        grades = {name: _also(grade, HARDLY_EVENTS) for name, grade in grades.items()}
    grades |= {name: _also(grades[name], FEW_ROWS) for name in few}
    grades |= {name: _also(grades[name], SKEWED) for name in skewed}
    grades |= {name: _also(grades[name], reason) for name, reason in beside.reasons() if name in grades}
    if _is_nowhere(grades):
        rest_on_it = [name for name, jacobian in jacobians.items() if is_shape(jacobian, shapes)]
        grades |= {name: Grade("bad", (NOT_SEEN,), grades[name].shares) for name in rest_on_it}
    marked = [name for name, grade in grades.items() if NOT_SEEN in grade.reasons]
    findings += beside.findings(marked)
    mostly = [name for name in _with_reason(grades, OF_PRIOR) if name not in beside.dominates]
    findings += [
        ("fair", f"{OF_PRIOR} most of the variance of {', '.join(mostly)}: the data say little about it.")
    ] * bool(mostly)
    findings += [("fair", f"{MARKED} {', '.join(marked)}; the prior dominates there.")] * bool(marked)
    of_groups = [name for name in spreads if name not in grades and "_sigma" in name]
    grades |= {name: of_group(name, grades) for name in of_groups}
    grades = with_lost_groups(grades, of_groups, spreads, checks.knows)
    findings += lost_groups(grades)
    verdict = worst(verdict for verdict, _ in findings)
    if verdict == "bad":
        grades = {name: Grade("bad", grade.reasons, grade.shares) for name, grade in grades.items()}
    return Quality(verdict, tuple(why for _, why in findings), grades, error if np.isfinite(error) else None)


Finding = tuple[str, str]
"""A verdict, and its reason."""


def _of_steps(joined: Joined, has_arrived: bool, share_kept: float) -> Iterator[Finding]:
    """Say whether the steps arrived, and whether what they rest on agrees."""
    if not has_arrived:
        yield "bad", "The steps did not converge: the result is far from where the last scores were released."
    disagree = "Two releases of the scores disagree by more than their noise: the scores are not linear between them."
    if joined.is_alone:
        yield "fair", f"{disagree} The result rests on the last one alone."
    elif not joined.p_value >= RARE:
        yield "bad", disagree
    if not share_kept >= FEW:
        yield "bad", "The posterior is far from normal where the prior matters: its draws are not to be relied on."


def of_noise(error: float, errors: Mapping[str, float], too_wide: float) -> Iterator[Finding]:
    """Say how large the noise of privacy is, given the predicted error of all and of each."""
    if error <= FAIR_ERROR:
        return
    verdict = "fair" if error <= too_wide else "bad"
    if error <= BAD_ERROR:
        yield (
            verdict,
            f"The privacy noise moves the means by about {in_words(error)} posterior standard deviations.",
        )
    elif not np.isfinite(error):
        yield verdict, "The privacy noise moves the means by more than one posterior standard deviation."
    else:
        usual = np.hypot(1, np.median(list(errors.values())))
        name, most = max(((name, float(np.hypot(1, each))) for name, each in errors.items()), key=lambda each: each[1])
        also = f", that of {name} {in_words(most)} times" if most > UNLIKE * usual else ""
        yield (
            verdict,
            f"The privacy noise makes intervals about {in_words(usual)} times as wide as without privacy{also}.",
        )


def of_model(checks: Checks, error: float) -> Iterator[Finding]:
    """Say whether the model holds, as far as it is seen."""
    if checks.clamped:
        yield (
            "fair",
            f"About {in_words(checks.clamped)} responses lie at one of their stated bounds: values beyond it were "
            "clamped, and the model does not hold for clamped values. State wider bounds.",
        )
    if checks.unseen and FAIR_ERROR < error < np.inf and checks.hold:
        yield (
            "good",
            f"Fewer than about {in_words(checks.unseen)} outlying residuals would go unnoticed at this budget; with "
            "such outliers, scores that bound the influence of one record estimate something other than the likelihood "
            "would.",
        )
    if checks.moved > HIDDEN_MISFIT and FAIR_ERROR < error < np.inf and checks.hold:
        yield (
            "good",
            "The noise may hide that the model does not hold for all records (a missing square or interaction, for "
            f"instance): that would move a coefficient by about {in_words(checks.moved)} posterior standard "
            "deviations, or more where predictors are skewed.",
        )
    if checks.are_residuals:
        yield (
            "fair",
            "The residuals do not follow the distribution of the model (heavier tails or more zeros, for instance): "
            "scores that bound the influence of one record then estimate something other than the likelihood would.",
        )
    elif not checks.hold:
        yield (
            "fair",
            "The model does not hold equally for all records: scores with tighter bounds, which give less weight to "
            "records with unusual predictors or large residuals, lead to a result that differs by more than the noise. "
            "A square or an interaction may be missing, or the residual spread may depend on a predictor.",
        )


def _of_targets(grades: Mapping[str, Grade]) -> Iterator[Finding]:
    """Say which numbers bounded scores estimate otherwise than the likelihood would."""
    off = _with_reason(grades, ROBUST)
    if off:
        yield "fair", f"{ROBUST}: {', '.join(off)}."


def _with_reason(grades: Mapping[str, Grade], start: str) -> list[str]:
    return [name for name, grade in grades.items() if any(reason.startswith(start) for reason in grade.reasons)]


def _of_few_rows(few: Sequence[str]) -> Iterator[Finding]:
    """Say of which coefficients of curves few rows may tell much more than they can."""
    if few:
        yield (
            "fair",
            "The columns of a curve are nearly dependent except in a few rows, which have little weight here: "
            f"{', '.join(few)} may be much wider than without privacy. Look at the curve (effects) rather than at its "
            "coefficients.",
        )


def _of_rare(levels: Sequence[str]) -> Iterator[Finding]:
    """Say in which levels an outcome is so rare that noise hides it."""
    if levels:
        yield (
            "fair",
            f"The outcome is so rare in a level that the noise hides how rare it is: {', '.join(levels)} may lie "
            "further out than the interval says. Merge levels, or spend more.",
        )


def _of_events(unsure: float) -> Iterator[Finding]:
    """Say that there are so few events, if any, that noise hides how many."""
    if unsure > UNSURE:
        yield (
            "bad" if unsure > HARDLY_ANY else "fair",
            "There are so few events, if any, that the noise hides their number: the result says little about rates "
            "and shapes except that events are rare, and they may lie further out than the intervals say. Follow the "
            "records for longer, or spend more.",
        )


def _is_moved(checks: Checks, jacobian: Floats, spread: float) -> bool:
    """Return whether other bounds move a number by more than its own standard deviation, where the model fails."""
    return not checks.other.at_most(jacobian) <= OFF * np.sqrt(spread)


def _also(grade: Grade, reason: str) -> Grade:
    return Grade(worst((grade.verdict, "fair")), (*grade.reasons, reason), grade.shares)


def _is_nowhere(grades: Mapping[str, Grade]) -> bool:
    """Return whether an intercept has its prior's width: shapes that residuals tell of then rest on nothing."""
    return any(name.rpartition(": ")[2] == "intercept" and NOT_SEEN in grade.reasons for name, grade in grades.items())


def _bias(checks: Checks, is_of_shape: bool) -> float:
    """Return how far off a number is, in standard deviations of the posterior: far if it is a shape that misfits."""
    if is_of_shape and checks.are_residuals:
        return float("inf")
    return checks.bias.shape if is_of_shape else checks.bias.linear
