"""What the releases of a fit with many groups say about its result."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmcmc.diagnostics.quality import Grade, Quality, worst
from dpmcmc.fitting.strategies.grouped_scores.bounds import UNCUT
from dpmcmc.fitting.strategies.grouped_scores.grouped import Grouped
from dpmcmc.fitting.strategies.grouped_scores.known import Known
from dpmcmc.fitting.strategies.grouped_scores.posterior import Drawn, embedded
from dpmcmc.fitting.strategies.grouped_scores.prior import Point, Prior, whole_means
from dpmcmc.fitting.strategies.weighted_scores.draws import RARE
from dpmcmc.fitting.strategies.weighted_scores.grades import MARKED, NARROWER, NOT_IDENTIFIED, NOT_SEEN, labelled
from dpmcmc.fitting.strategies.weighted_scores.lost_groups import finding as lost_groups
from dpmcmc.fitting.strategies.weighted_scores.lost_groups import with_lost_groups
from dpmcmc.fitting.strategies.weighted_scores.residuals import RARE as MISFIT
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.fitting.strategies.weighted_scores.verdict import CLAMPED, MISFITTING, TOO_WIDE, of_model, of_noise
from dpmcmc.fitting.strategies.weighted_scores.verdict import Checks as ModelChecks
from dpmcmc.model.formula.groups import Groups

STEP = 1e-3
"""Of differences, in standard deviations."""

OFF, SHARE = 1.0, 0.05
"""From so many of its own standard deviations on a group may be too far off, and from which share of the information of
all groups on such groups affect everything else."""

GROSSLY = 10.0
"""From so many times the variance of the noise on two releases differ so much that the last one is not near either."""

FAR = "Its last scores were released too far from it: it may lie further out than its interval says."
"""How groups are marked where the steps did not arrive."""

ROWS = "The noise hides how many rows it has, if any: it may lie further out than its interval says."
"""How groups are marked that may be empty."""

FEW = 10
"""So many numbers are named at most."""


class Checks(NamedTuple):
    """What the releases say of the steps and of the model."""

    arrived: bool
    agreement: float
    """How rarely two releases differ more."""
    differ: float
    """The square of how far they differ, in variances of the noise."""
    fits: float
    """How probable residuals like these are under the model."""
    clamped: float
    """How many responses lie at a bound that is stated for them."""
    off: Floats
    """By how many of its own standard deviations each group may be further off than the last scores tell."""
    shares: Floats
    """Of each group in the information of all, which is"""
    knows: float

    @property
    def are_off(self) -> NDArray[np.bool_]:
        """Which groups are."""
        return ~(self.off <= OFF)

    @property
    def have_arrived(self) -> bool:
        """Whether the steps arrived, but for groups that matter to themselves alone."""
        agree = self.agreement >= RARE or (self.fits >= MISFIT and self.differ <= GROSSLY)
        return self.arrived and agree and bool(self.shares @ self.are_off <= SHARE)


Named = Callable[[Floats, Floats, Floats], Mapping[str, np.ndarray]]


def judge(
    grouped: Grouped,
    known: Known,
    drawn: Drawn,
    named: Mapping[str, np.ndarray],
    name: Named,
    checks: Checks,
) -> Quality:
    """Return the verdict.

    Args:
        grouped: the model.
        known: of the slope.
        drawn: the draws.
        named: the same as people read them.
        name: makes them so.
        checks: of the steps and of the model.
    """
    own = {label: float(values.var()) for label, values in labelled(named).items()}
    exact = _exact(grouped, known, drawn, named, name)
    alone: dict[str, float] = {}
    for group, term, effects, spreads in _each(grouped, drawn):
        variance = float(spreads.mean() * _scale(group, term.levels[0], effects[:, 0], named)) ** 2
        alone |= {f"{group}[{level}]": variance for level in term.levels}
    grades = {label: _grade(own[label], exact[label], alone.get(label)) for label in own if label in exact}
    errors = {
        label: float(np.sqrt(max(own[label] - exact[label], 0.0) / exact[label]))
        for label in grades
        if NOT_SEEN not in grades[label].reasons and exact[label] > 0
    }
    error = float(np.sqrt(np.mean(np.square(list(errors.values()))))) if errors else float("inf")
    model = ModelChecks(checks.arrived, checks.fits, clamped=checks.clamped)
    findings = [*of_noise(error, errors, TOO_WIDE), *of_model(model, error)]
    if not checks.have_arrived:
        findings.append(("bad", "The steps did not converge: the last scores were released too far from the result."))
    if not checks.agreement >= RARE:
        why = "Two releases of the scores disagree by more than their noise. The result rests on the last one alone."
        findings.append(("fair", why))
    if checks.clamped:
        grades = {label: _also(one, CLAMPED) for label, one in grades.items()}
    far = [
        f"{group}[{term.levels[place]}]"
        for group, term, _, _ in _each(grouped, drawn)
        for place in np.flatnonzero(checks.are_off)
        if term.number is None
    ]
    grades |= {label: _also(grades[label], FAR) for label in far if label in grades}
    if far:
        why = f"The last scores were released too far from {_some(far)}, which may lie further out than intervals say."
        findings.append(("fair", why))
    hidden = [
        label
        for group, term, _, _ in _each(grouped, drawn)
        for place in np.flatnonzero(known.seen.may_be_empty)
        if (label := f"{group}[{term.levels[place]}]") in grades and not grades[label].reasons
    ]
    grades |= {label: _also(grades[label], ROWS) for label in hidden}
    if hidden:
        why = f"The noise hides how many rows {_some(hidden)} have; they may lie further out than intervals say."
        findings.append(("fair", why))
    marked = [label for label, one in grades.items() if NOT_SEEN in one.reasons]
    if marked:
        findings.append(
            (
                "fair",
                f"{MARKED} {_some(marked)}; the prior dominates there (for groups, the distribution of the others).",
            )
        )
    kept = shares_of_spreads(grouped, known, drawn)
    for label in own:
        if label not in grades:
            share = kept.get(label.removesuffix("_sigma"))
            grades[label] = Grade("good", (), {} if share is None else {"data": share, "privacy": 1 - share})
    if not model.hold:  # nothing tells which coefficients that moves
        names = {group.name for group in grouped.spreads}
        for label, one in grades.items():
            if label.partition("[")[0] not in names and not one.reasons:
                grades[label] = _also(one, MISFITTING)
    grades = with_lost_groups(grades, [label for label in own if label.endswith("_sigma")], own, checks.knows)
    findings += lost_groups(grades)
    verdict = worst(one for one, _ in findings)
    if verdict == "bad":
        grades = {label: Grade("bad", one.reasons, one.shares) for label, one in grades.items()}
    return Quality(verdict, tuple(why for _, why in findings), grades, error if np.isfinite(error) else None)


def _also(grade: Grade, reason: str) -> Grade:
    return Grade(worst((grade.verdict, "fair")), (*grade.reasons, reason), grade.shares)


def _some(labels: Sequence[str]) -> str:
    """Return the first labels, and how many more there are."""
    return ", ".join(labels[:FEW]) + (f" and {len(labels) - FEW} others" if len(labels) > FEW else "")


def _grade(own: float, exact: float, alone: float | None) -> Grade:
    """Return the grade of one number, given its variance, that without privacy, and that of its prior alone."""
    kept = float(np.clip(exact / max(own, 1e-30), 0.0, 1.0))
    of_prior = 0.0 if alone is None else float(np.clip(own / max(alone, 1e-30), 0.0, 1.0))
    shares = {"data": kept * (1 - of_prior), "privacy": 1 - kept, "prior": kept * of_prior}
    if alone is not None and of_prior > max(NOT_IDENTIFIED, NARROWER**2):
        return Grade("fair", (NOT_SEEN,), shares)
    return Grade("good", (), shares)


def _each(grouped: Grouped, drawn: Drawn) -> list[tuple[str, Groups, Floats, Floats]]:
    """Return the name of each term, its groups, and draws of its effects and of their standard deviation."""
    return [
        (group.name, term, drawn.effects[:, :, place], drawn.spreads[:, place])
        for place, (group, term) in enumerate(zip(grouped.spreads, grouped.terms, strict=True))
    ]


def _scale(name: str, level: str, effects: Floats, named: Mapping[str, np.ndarray]) -> float:
    """Return how large an effect of one is as people read it, given draws of that of a level."""
    return float(named[f"{name}[{level}]"].std() / max(effects.std(), 1e-30))


def shares_of_spreads(grouped: Grouped, known: Known, drawn: Drawn) -> dict[str, float]:
    """Return which share of the variance of each standard deviation of effects there is without privacy.

    An effect that is known up to a variance v tells of the standard deviation s in proportion to (s^2 / (s^2 + v))^2.
    """
    point = Point(drawn.effects.mean(axis=0), drawn.common.mean(axis=0))
    blocks = known.slope(point, UNCUT).blocks
    variances = np.diagonal(np.linalg.inv(blocks), axis1=1, axis2=2)
    found: dict[str, float] = {}
    for place, group in enumerate(grouped.spreads):
        spread = drawn.spreads[:, place]
        square = float(np.exp(2 * np.log(spread).mean()))
        told = 2 * float(np.sum((square / (square + variances[:, place])) ** 2)) / square
        found[group.name] = float(np.clip(1 / max(told * spread.var(), 1e-30), 0.0, 1.0))
    return found


def _exact(
    grouped: Grouped, known: Known, drawn: Drawn, named: Mapping[str, np.ndarray], name: Named
) -> dict[str, float]:
    """Return the variances of a posterior without privacy, by what people read."""
    point = Point(drawn.effects.mean(axis=0), drawn.common.mean(axis=0))
    spreads = np.exp(np.log(drawn.spreads).mean(axis=0))
    prior, means = Prior.at(grouped, spreads, point.common), whole_means(grouped, known.means)
    whole = embedded(grouped, known.slope(point, UNCUT), 0.0).plus(prior.arrow(grouped.num_groups, means))
    root = whole.root()
    corner = np.linalg.inv(root.corner @ root.corner.T)
    inverse = np.linalg.inv(np.swapaxes(root.blocks, 1, 2))
    beside = -inverse @ root.border  # how what records see of a group moves with what is common
    own = inverse @ np.swapaxes(inverse, 1, 2)
    along = beside - means
    effects = np.diagonal(own + along @ corner @ np.swapaxes(along, 1, 2), axis1=1, axis2=2)
    steps = STEP * np.sqrt(np.maximum(np.diag(corner), 1e-30))
    both = np.concatenate([point.common + np.diag(steps), point.common - np.diag(steps)])
    still = np.repeat(point.effects[None], len(both), axis=0), np.repeat(spreads[None], len(both), axis=0)
    moved = labelled(name(still[0], both, still[1]))
    found: dict[str, float] = {}
    names = {group.name for group in grouped.spreads}
    for label, values in moved.items():
        if label.partition("[")[0] in names or label.endswith("_sigma"):
            continue
        slope = (values[: len(steps)] - values[len(steps) :]) / (2 * steps)
        found[label] = float(slope @ corner @ slope)
    for place, (group, term, draws, _) in enumerate(_each(grouped, drawn)):
        scale = _scale(group, term.levels[0], draws[:, 0], named)
        variances = effects[:, place] * scale**2
        found |= {f"{group}[{level}]": float(value) for level, value in zip(term.levels, variances, strict=True)}
    return {label: value for label, value in found.items() if value > 0}
