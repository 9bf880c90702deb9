"""One run of a fit, held against its reference: right, honest or wrong."""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.stats import binom

from dpmcmc.diagnostics.quality import Grade, Quality
from dpmcmc.diagnostics.summary import coordinates
from experiments.stress.emulated import Emulated, widths_of_prior
from experiments.stress.models import ModelProblem
from experiments.stress.problems import Problem
from experiments.stress.reference import Reference, compared

FAR = 4.0
"""Own standard deviations from the reference from which on a parameter is off."""

WIDTHS = (0.7, 1.5)
"""Between these factors of what it should be, a standard deviation is right."""

RARE = 1e-3
"""How rarely so few 95 % intervals hold the parameters that made the rows."""

PRIORS, NARROWER = 0.9, 0.5
"""Shares of the prior's width: above the first one the records do not identify a parameter; below the second one a
result does, and a mark is for nothing."""

OF_PRIOR = "The prior "
"""How reasons begin that say what the prior does, which is in the reference as well: they are no marks."""

SHOWN = 6
"""Of so many offending parameters it is kept how far they are off and how wide, and whether they are marked."""

MISFIT = (
    "residuals do not follow",
    "Residuals that the model",
    "does not hold",
    "not linear",
    "did not converge",
    "stated bounds",
)
"""What reasons speak of that say that a model does not hold."""


class Priors:
    """Widths of the prior of what is compared."""

    def __init__(self, problem: Problem | ModelProblem, model: Any) -> None:
        draws = {name: values[0] for name, values in widths_of_prior(model).items()}
        self.widths = {name: width(values) for name, values in compared(problem, draws).items()} if draws else {}

    def share(self, name: str, sd: float, found: Reference) -> float:
        """Return a standard deviation as a share of the prior's width; one where it has none.

        The prior of a random intercept is as wide as the spread that the records say.
        """
        if not self.widths.get(name):
            return 1.0
        spread = found.means.get(f"{name.rsplit('[', 1)[0]}_sigma", np.inf)
        return sd / min(self.widths[name], spread)


def width(values: np.ndarray) -> float:
    """Return half of what the middle two thirds span: some priors have no variance."""
    low, high = np.quantile(values, [0.16, 0.84])
    return float(high - low) / 2


def one_run(emulated: Emulated, records: Any, seed: int, found: Reference, priors: Priors) -> dict[str, object]:
    """Fit one table, and hold the result against its reference."""
    problem = emulated.problem
    started = time.process_time()
    drawn = emulated.fit(records, seed) if problem.holds else None
    seconds = time.process_time() - started
    if drawn is not None:
        return {**judged(problem, drawn.quality, drawn.draws, found, priors), "seconds": round(seconds, 3)}
    drawn, without_noise = emulated.fit_twice(records, seed)
    seconds = (time.process_time() - started) / 2
    return {
        **judged_where_it_does_not_hold(problem, drawn, without_noise, found, priors),
        "seconds": round(seconds, 3),
    }


def judged(
    problem: Problem | ModelProblem,
    quality: Quality,
    draws: Mapping[str, np.ndarray],
    found: Reference,
    priors: Priors,
) -> dict[str, object]:
    """Return what a result is, beside the means and standard deviations that it should have."""
    flat = {name: values.reshape(-1, *values.shape[2:]) for name, values in draws.items()}
    values = compared(problem, flat)
    decided = " ".join(reason for reason in quality.reasons if reason.startswith(OF_PRIOR)).replace(" by about", ",")
    marked, offending, missed, off, widths, errors = set(), set(), set(), {}, {}, {}
    inside, holds = 0, dict[str, bool]()
    for name, each in values.items():
        grade = quality.parameters.get(name, Grade())
        is_marked = grade.verdict == "bad" or any(not reason.startswith(OF_PRIOR) for reason in grade.reasons)
        is_decided = f" {name}," in decided or f" {name}:" in decided
        own, its = float(each.std()), found.sds[name]
        moved = float(each.mean()) - found.means[name]
        noise = _noise(quality, grade, own, its)
        off[name], errors[name] = abs(moved) / own if own > 0 else np.inf, moved / its
        widths[name] = own / np.hypot(its, noise)
        if is_marked:
            marked.add(name)
        is_identified = priors.share(name, its, found) < PRIORS
        is_off = not off[name] <= FAR or not WIDTHS[0] <= widths[name] <= WIDTHS[1]
        if is_off and (is_identified or not is_marked):
            offending.add(name)
        if name in problem.truth and not is_decided:
            low, high = np.quantile(each, [0.025, 0.975])
            holds[name] = bool(low <= problem.truth[name] <= high)
            if not is_marked:
                inside += holds[name]
                missed |= set() if holds[name] else {name}
    is_bad = quality.verdict == "bad"
    covers, all_cover = _cover(inside, inside + len(missed)), _cover(sum(holds.values()), len(holds))
    needless = {name for name in marked - offending if priors.share(name, float(values[name].std()), found) < NARROWER}
    claimed = [name for name in values if name not in marked]
    return {
        "verdict": quality.verdict,
        "right": not offending and covers and all_cover and not is_bad,
        "honest": is_bad or (offending <= marked and covers),
        "false_alarm": not offending and covers and all_cover and (is_bad or bool(needless)),
        "off": max((off[name] for name in claimed), default=0.0),
        "inside": inside,
        "intervals": inside + len(missed),
        "error": _rms([errors[name] for name in claimed]),
        "error_of_all": _rms(list(errors.values())),
        "predicted": quality.predicted_error,
        "marked": len(marked),
        "num_offending": len(offending),
        "offending": {
            name: [round(float(off[name]), 2), round(float(widths[name]), 2), name in marked]
            for name in sorted(offending, key=lambda name: name in marked)[:SHOWN]
        },
        "missed": sorted(missed) if not covers else [],
        "reasons": [reason.split(":")[0][:60] for reason in quality.reasons],
    }


def _cover(inside: int, number: int) -> bool:
    """Return whether so many of a number of 95 % intervals are not too few."""
    return bool(number == 0 or inside >= binom.ppf(RARE, number, 0.95))


def _noise(quality: Quality, grade: Grade, own: float, its: float) -> float:
    """Return the standard deviation of the noise, as the result states it."""
    if "privacy" in grade.shares and np.isfinite(grade.shares["privacy"]):
        return float(np.sqrt(grade.shares["privacy"])) * own
    return its * (quality.predicted_error or 0.0)


def judged_where_it_does_not_hold(
    problem: Problem, drawn: Any, without_noise: Any, found: Reference, priors: Priors
) -> dict[str, object]:
    """Return what a result is beside that of the same estimating equation without noise.

    If that one is more than one own standard deviation from the exact posterior, the result must say so.
    """
    if without_noise is None:
        return judged(problem, drawn.quality, drawn.draws, found, priors)
    own = {name: values.ravel() for name, values in coordinates(drawn.draws).items()}
    its = {name: values.ravel() for name, values in coordinates(without_noise.draws).items()}
    means = {name: float(values.mean()) for name, values in its.items()}
    sds = {name: float(values.std()) for name, values in its.items()}
    result = judged(problem, drawn.quality, drawn.draws, Reference("noiseless", True, 0.0, means, sds), priors)
    apart = max(abs(means[name] - found.means[name]) / max(own[name].std(), 1e-30) for name in means)
    says = drawn.quality.verdict == "bad" or (
        drawn.quality.verdict == "fair" and any(word in reason for reason in drawn.quality.reasons for word in MISFIT)
    )
    result["apart"] = round(float(apart), 3)
    if apart > 1 and not says:
        result |= {"right": False, "honest": False}
    if apart > 1:
        result["false_alarm"] = False  # an alarm has its reason then
    return result


def _rms(values: list[float]) -> float | None:
    return float(np.sqrt(np.mean(np.square(values)))) if values else None
