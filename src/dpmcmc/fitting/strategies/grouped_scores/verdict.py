"""What the releases of a fit with many groups say about its result."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from dpmcmc.diagnostics.quality import Grade, Quality, worst
from dpmcmc.fitting.strategies.grouped_scores.bounds import UNCUT
from dpmcmc.fitting.strategies.grouped_scores.grouped import Grouped
from dpmcmc.fitting.strategies.grouped_scores.known import Known
from dpmcmc.fitting.strategies.grouped_scores.posterior import Drawn, embedded
from dpmcmc.fitting.strategies.grouped_scores.prior import Point, Prior, whole_means
from dpmcmc.fitting.strategies.weighted_scores.draws import RARE
from dpmcmc.fitting.strategies.weighted_scores.grades import MARKED, NARROWER, NOT_IDENTIFIED, NOT_SEEN, labelled
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.fitting.strategies.weighted_scores.verdict import CLAMPED, TOO_WIDE, of_model, of_noise
from dpmcmc.fitting.strategies.weighted_scores.verdict import Checks as ModelChecks
from dpmcmc.model.formula.groups import Groups

STEP = 1e-3
"""Of differences, in standard deviations."""

FEW = 10
"""So many numbers are named at most."""


class Checks(NamedTuple):
    """What the releases say of the steps and of the model."""

    arrived: bool
    agreement: float
    """How rarely two releases differ more."""
    fits: float
    """How probable residuals like these are under the model."""
    clamped: float
    """How many responses lie at a bound that is stated for them."""


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
    if not checks.arrived:
        findings.append(("bad", "The steps did not arrive: they wanted to be longer than answers are linear."))
    if not checks.agreement >= RARE:
        why = "Two releases of the scores disagree by more than their noise. The result rests on the last one alone."
        findings.append(("fair", why))
    if checks.clamped:
        grades = {
            label: Grade(worst((one.verdict, "fair")), (*one.reasons, CLAMPED), one.shares)
            for label, one in grades.items()
        }
    marked = [label for label, one in grades.items() if NOT_SEEN in one.reasons]
    if marked:
        some = ", ".join(marked[:FEW]) + (f" and {len(marked) - FEW} others" if len(marked) > FEW else "")
        findings.append(("fair", f"{MARKED} {some}; the prior dominates there (for groups, what the others are like)."))
    for label in own:
        if label not in grades:
            grades[label] = Grade("good", (), {})
    verdict = worst(one for one, _ in findings)
    if verdict == "bad":
        grades = {label: Grade("bad", one.reasons, one.shares) for label, one in grades.items()}
    return Quality(verdict, tuple(why for _, why in findings), grades, error if np.isfinite(error) else None)


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
