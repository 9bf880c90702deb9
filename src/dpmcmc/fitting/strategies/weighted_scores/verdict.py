"""What the releases of a weighted fit say about its result."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpmcmc.diagnostics.quality import BAD_ERROR, FAIR_ERROR, Grade, Quality, worst
from dpmcmc.fitting.strategies.weighted_scores.arrival import Moved
from dpmcmc.fitting.strategies.weighted_scores.bounds import Bias, Bounds
from dpmcmc.fitting.strategies.weighted_scores.draws import RARE, Joined
from dpmcmc.fitting.strategies.weighted_scores.release import Release
from dpmcmc.fitting.strategies.weighted_scores.residuals import RARE as MISFIT
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats

TOO_WIDE = 6.0
"""The predicted error up to which a wide result is fair, if all else is in order: its intervals hold as stated."""

NOT_IDENTIFIED = 0.35
"""The share of a parameter's variance that comes from its prior from which on the budget does not identify it."""

MARKED = "Not identified at this budget:"
NOT_SEEN = f"{MARKED} it has its prior's width."
"""How parameters are marked of which the budget tells nothing."""

ROBUST = "Residuals that the model does not expect move it away from the estimate of the likelihood"
"""How parameters are marked whose bounded scores have another target."""

LEAST_LOST = 0.05
"""The least variance that other weights are taken to add."""

SURE = 1e6
"""How much more certain than by its prior a direction is made to be left out."""

DOUBTFUL = 1.3
"""From so many times the variance of one slope on, that of the draws is the slopes' doubt and not chance."""

HIDDEN = 0.01
"""The share of its variance from which on a parameter has a part that no data can see."""

FEW = 0.05
"""The effective share of the proposals below which draws are not to be relied on."""


ELSEWHERE = 1e-4
"""How rarely scores with other weights, which have the same root if the model holds, are told to have another one."""

OFF = 1.0
"""Own standard deviations between the robust target and the model's from which on a parameter is only fair."""


class Checks(NamedTuple):
    """What the releases say of the steps and of the model."""

    arrived: bool
    """Whether the steps before the last were as long as they wanted to be."""
    fits: float
    """How probable residuals like these are under the model."""
    weights: float = 1.0
    """How probable it is that scores with other weights lead as far elsewhere under the model."""
    bias: Bias = Bias(0.0, 0.0)
    """How far residuals that the model does not expect move the estimate from that of the likelihood."""
    unseen: float = 0.0
    """How many residuals may be far out without being seen, where there can be any."""


def other_weights(joined: Joined, before: Sequence[Release], bounds: Bounds, size: float, others: float = 0.0) -> float:
    """Return how probable it is under the model that scores with the pilot's weights lead as far from the result.

    If the model holds, both have the same root but for noise and for what the pilot's weights lose.

    Args:
        joined: the last releases.
        before: the last releases of the pilot.
        bounds: with which the last releases were asked.
        size: the number of records.
        others: how many records of the last releases there are for one of the pilot's that it did not ask.
    """
    last, dimension = joined.release, joined.release.dimension
    if any(np.linalg.eigvalsh(one.slope)[0] <= 2 * one.noise_level for one in (*before, last)):
        return 1.0
    gain = np.linalg.inv(last.slope)
    root = last.point + last.whitening.factor @ gain @ last.score
    exact = np.linalg.inv(last.full_information(bounds.inefficiency))
    lost = max(bounds.pilot_inefficiency - bounds.inefficiency, 0.0) + LEAST_LOST
    covariance = (2 * lost + others * bounds.pilot_inefficiency) * exact + last.score_variance * gain @ gain.T
    apart = np.zeros(dimension)
    for one in before:
        gain = last.whitening.inverse @ one.whitening.factor @ np.linalg.inv(one.slope)
        move = one.whitening.inverse @ (root - one.point)
        apart += gain @ (one.score - one.slope @ move) / len(before)
        bent = float(move @ move) ** 2 / size  # answers are linear up to about the square of a move
        noise = one.score_variance + one.slope_sd**2 * float(move @ move)
        covariance += (noise * gain @ gain.T + bent * np.eye(dimension)) / len(before) ** 2
    return float(special.chdtrc(dimension, max(apart @ np.linalg.solve(covariance, apart), 0.0)))


class Variances(NamedTuple):
    """Covariances of the parameters by where they come from, and that of the posterior without privacy."""

    data: Floats
    privacy: Floats
    prior: Floats
    exact: Floats


def variances(joined: Joined, prior: Floats, information: Floats, known: Floats) -> Variances:
    """Return where the covariance comes from.

    Args:
        joined: the last two releases.
        prior: its precision.
        information: of the records without weights and without privacy, in whitened coordinates.
        known: directions of the parameters that are left out, as rows: those that no data can see.
    """
    release = joined.release
    factor = release.whitening.factor
    prior = prior + SURE * np.trace(prior) * known.T @ known
    seen = release.seen(release.slope)
    of_data = release.data_variance(seen)
    gain = np.linalg.solve(of_data + release.score_variance * np.eye(release.dimension), seen).T
    of_prior = factor.T @ prior @ factor
    covariance = np.linalg.inv(gain @ seen + of_prior)
    full = factor @ covariance
    exact = np.linalg.inv(information + of_prior)
    return Variances(
        full @ gain @ of_data @ gain.T @ full.T,
        release.score_variance * full @ gain @ gain.T @ full.T,
        full @ of_prior @ full.T,
        factor @ exact @ factor.T,
    )


def judge(
    joined: Joined,
    moved: Moved,
    share_kept: float,
    parts: tuple[Variances, Variances],
    jacobians: Mapping[str, Floats],
    spreads: Mapping[str, float],
    checks: Checks,
    decided: Sequence[str],
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
        decided: coefficients that the prior decides about.
        shapes: which of the parameters are shapes of the family.
        too_wide: the predicted error above which a result is bad.
    """
    grades = {
        name: _grade(*parts, jacobian, spreads.get(name, 0.0), _bias(checks, _is_shape(jacobian, shapes)))
        for name, jacobian in jacobians.items()
    }
    errors = [
        _error(*parts, jacobian, spreads.get(name, 0.0))
        for name, jacobian in jacobians.items()
        if NOT_SEEN not in grades[name].reasons
    ]
    error = float(np.sqrt(np.mean(np.square(errors)))) if errors else float("inf")
    reasons: list[str] = []
    verdicts: list[str] = []
    is_of_prior = shapes is not None and bool(2 * len(decided) >= np.sum(~shapes) - 1)
    if not moved.has_arrived(checks.arrived, is_of_prior):
        verdicts.append("bad")
        reasons.append("The steps did not arrive: the result is far from where the last scores were released.")
    if joined.is_alone:
        verdicts.append("fair")
        reasons.append(
            "Two releases of the scores disagree by more than their noise: the answers are not linear between them. "
            "The result rests on the last one alone."
        )
    elif not joined.p_value >= RARE:
        verdicts.append("bad")
        reasons.append(
            "Two releases of the scores disagree by more than their noise: the answers are not linear between them."
        )
    if not share_kept >= FEW:
        verdicts.append("bad")
        reasons.append("The posterior is far from normal where the prior matters: its draws are not to be relied on.")
    if not error <= FAIR_ERROR:
        verdicts.append("fair" if error <= too_wide else "bad")
        reasons.append(_of_noise(error))
    if checks.unseen and FAIR_ERROR < error < np.inf and checks.fits >= MISFIT:
        reasons.append(
            f"Fewer than about {checks.unseen:.2g} residuals that are far out would not be seen at this budget: with "
            "some of them scores that bound what one record can do estimate something else than the likelihood would."
        )
    if not checks.fits >= MISFIT:
        verdicts.append("fair")
        reasons.append(
            "The residuals do not have the distribution of the model, they have heavier tails or more zeros, say: "
            "scores that bound what one record can do then estimate something else than the likelihood would."
        )
    elif not checks.weights >= ELSEWHERE:
        verdicts.append("fair")
        reasons.append(
            "The model does not hold for all records alike: scores that give less weight to records with unusual "
            "predictors lead elsewhere than the noise explains. A term may be missing, a square or an interaction, say."
        )
    off = [name for name, grade in grades.items() if any(reason.startswith(ROBUST) for reason in grade.reasons)]
    if off:
        verdicts.append("fair")
        reasons.append(f"{ROBUST}: {', '.join(off)}.")
    if decided:
        verdicts.append("fair")
        reasons.append(
            f"The prior decides about {', '.join(decided)}: the data are far out in it, or tell little more than it "
            "does. It is stated for half the range of the bounds; state narrower bounds, or a wider prior."
        )
    if any(name.rpartition(": ")[2] == "intercept" and NOT_SEEN in grade.reasons for name, grade in grades.items()):
        rest_on_it = [name for name, jacobian in jacobians.items() if _is_shape(jacobian, shapes)]
        grades |= {name: Grade("bad", (NOT_SEEN,), grades[name].shares) for name in rest_on_it}
    marked = [name for name, grade in grades.items() if NOT_SEEN in grade.reasons]
    of_all = worst(verdicts[: len(verdicts) - bool(decided)])
    if marked:
        verdicts.append("fair")
        reasons.append(f"{MARKED} {', '.join(marked)}; the prior decides there.")
    grades |= {name: _of_group(name, grades) for name in spreads if name not in grades and "_sigma" in name}
    if of_all == "bad":
        grades = {name: Grade("bad", grade.reasons, grade.shares) for name, grade in grades.items()}
    return Quality(worst(verdicts), tuple(reasons), grades, error if np.isfinite(error) else None)


def _of_noise(error: float) -> str:
    """Say how large the noise of privacy is, given the predicted error."""
    if error <= BAD_ERROR:
        return f"The noise of privacy moves the means by about {error:.2g} of the posterior's standard deviations."
    if not np.isfinite(error):
        return "The noise of privacy moves the means by more than one of the posterior's standard deviations."
    return (
        f"The noise of privacy is larger than the posterior's own spread: intervals are about {np.hypot(1, error):.2g} "
        "times as wide as without privacy."
    )


def _is_shape(jacobian: Floats, shapes: NDArray[np.bool_] | None) -> bool:
    """Return whether a number depends on shape parameters alone."""
    return shapes is not None and bool(np.any(jacobian[..., shapes]) and not np.any(jacobian[..., ~shapes]))


def _bias(checks: Checks, is_shape: bool) -> float:
    """Return how far off a number is, in standard deviations of the posterior: far if it is a shape that misfits."""
    if is_shape and not checks.fits >= MISFIT:
        return float("inf")
    return checks.bias.shape if is_shape else checks.bias.linear


def _grade(parts: Variances, visible: Variances, jacobian: Floats, spread: float, bias: float) -> Grade:
    shares, seen = _shares(parts, jacobian), _shares(visible, jacobian)
    if not all(np.isfinite(share) for share in shares.values()):
        return Grade("bad", ("Its variance is not a positive number.",), {})
    if seen["prior"] > NOT_IDENTIFIED:
        return Grade("bad", (NOT_SEEN,), shares)
    exact, own = (float(np.sum(jacobian @ part * jacobian)) for part in (parts.exact, sum(parts[:3])))
    if spread > 0:
        # what privacy adds is all that a posterior without it would not have: noise, lost efficiency, a doubtful slope
        own = max(own, spread)
        kept = min(exact / own, 1 - shares["privacy"])
        rest = max(shares["data"] + shares["prior"], 1e-30)
        shares = {
            "data": kept * shares["data"] / rest,
            "privacy": 1 - kept,
            "prior": kept * shares["prior"] / rest,
        }
    if bias * np.sqrt(exact) > OFF * np.sqrt(own):
        size = f" by about {bias:.2g} standard deviations" if np.isfinite(bias) else ""
        return Grade("fair", (f"{ROBUST}{size}.",), shares)
    return Grade("good", (), shares)


def _of_group(name: str, grades: Mapping[str, Grade]) -> Grade:
    """Return the grade of the standard deviation of random intercepts: its variance comes from where theirs does."""
    group = name.rpartition("_sigma")[0]
    its = [grade.shares for other, grade in grades.items() if other.startswith(f"{group}[") and grade.shares]
    if not its:
        return Grade("bad", (NOT_SEEN,))
    return Grade("good", (), {part: float(np.mean([shares[part] for shares in its])) for part in its[0]})


def _shares(parts: Variances, jacobian: Floats) -> dict[str, float]:
    each = {
        name: float(np.sum(jacobian @ part * jacobian))
        for name, part in (("data", parts.data), ("privacy", parts.privacy), ("prior", parts.prior))
    }
    total = sum(each.values())
    return {name: value / total if total > 0 else float("nan") for name, value in each.items()}


def _error(parts: Variances, visible: Variances, jacobian: Floats, spread: float) -> float:
    """Return the predicted distance from the posterior without privacy, in its standard deviations.

    Draws that are far wider than the normal law of one slope have a slope that is in doubt; but where a direction has a
    part that no data can see, a random intercept's, it is the doubt of how widely these are spread.
    """
    data, privacy, prior, exact = (float(np.sum(jacobian @ part * jacobian)) for part in parts)
    hidden = prior - float(np.sum(jacobian @ visible.prior * jacobian))
    is_doubtful = spread > DOUBTFUL * (data + privacy + prior) and hidden < HIDDEN * (data + privacy + prior)
    total = spread if is_doubtful else data + privacy
    return float(np.sqrt(max(total - exact, privacy) / exact))


def labelled(named: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return the numbers of every parameter by their labels, (draws,)."""
    labelled: dict[str, Any] = {}
    for name, values in named.items():
        flat = values.reshape(len(values), -1)
        indices = list(np.ndindex(values.shape[1:])) if values.ndim > 1 else [()]
        for column, index in enumerate(indices):
            label = f"{name}[{', '.join(map(str, index))}]" if index else name
            labelled[label] = flat[:, column].astype(float)
    return labelled
