"""Grades of each parameter: the sources of its variance, and whether the records identify it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmcmc.diagnostics.quality import Grade
from dpmcmc.fitting.in_words import in_words
from dpmcmc.fitting.strategies.weighted_scores.draws import Joined
from dpmcmc.fitting.strategies.weighted_scores.release import Release
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats

NOT_IDENTIFIED = 0.35
"""The share of a parameter's variance that comes from the prior from which on the budget may not identify it: from its
own, or from that of a direction that is free, of a rare level, say, which has a little of it."""

NARROWER = 0.5
"""The share of its own prior's width below which a parameter is identified, whatever its variance comes from."""

MARKED = "Not identified at this budget:"
NOT_SEEN = f"{MARKED} it has its prior's width."
"""The mark of parameters that the budget does not identify."""

ROBUST = "Residuals that the model does not expect move it away from the estimate of the likelihood"
"""The mark of parameters for which bounded scores and likelihood differ."""

OF_PRIOR = "The prior makes up"
"""The mark of parameters whose variance comes mostly from a prior, their own or another parameter's."""

MOSTLY = 0.5
"""The share of the variance that is most of it: not of effects of groups, which their spread says, nor beside them."""

SURE = 1e6
"""Factor on the prior precision of a direction that removes it from the result."""

FREE = 0.9
"""The part of a parameter that is in directions that are not seen from which on it is free by itself."""

DOUBTFUL = 1.3
"""From so many times the variance of one slope on, that of the draws is the slopes' doubt and not chance."""

HIDDEN = 0.01
"""The share of its variance from which on a parameter has a part that no data can see."""

OFF = 1.0
"""Own standard deviations between the robust target and the model's from which on a parameter is only fair."""


class Variances(NamedTuple):
    """Covariances of the parameters by source, with those of the posterior without privacy and of the prior."""

    data: Floats
    privacy: Floats
    prior: Floats
    exact: Floats
    alone: Floats
    """Of the prior by itself."""


def variances(joined: Joined, prior: Floats, information: Floats, known: Floats) -> Variances:
    """Return the covariances by source.

    Args:
        joined: the last two releases.
        prior: the precision of the prior.
        information: the information of the records without weights and privacy, in whitened coordinates.
        known: directions of the parameters to leave out, as rows: those that no data can identify.
    """
    release = joined.release
    factor, alone = release.whitening.factor, np.asarray(np.linalg.pinv(prior), float)
    known = np.concatenate([known, np.where(_is_free(release), 0.0, known)])
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
        alone,
    )


def _is_free(release: Release) -> NDArray[np.bool_]:
    """Return which parameters are free by themselves, as a group without rows is.

    Then what no data can see, all groups raised and the intercept lowered, is not seen of the others alone either.
    """
    own = release.whitening.inverse / np.maximum(np.linalg.norm(release.whitening.inverse, axis=0), 1e-30)
    return np.sum((release.unseen(release.slope).T @ own) ** 2, axis=0) > FREE


def is_shape(jacobian: Floats, shapes: NDArray[np.bool_] | None) -> bool:
    """Return whether a number depends on shape parameters alone."""
    return shapes is not None and bool(np.any(jacobian[..., shapes]) and not np.any(jacobian[..., ~shapes]))


def grade(parts: Variances, visible: Variances, jacobian: Floats, spread: float, bias: float) -> Grade:
    """Return the grade of one number.

    Args:
        parts: the covariances by source.
        visible: the same without the directions that no data can identify.
        jacobian: its derivative with respect to the parameters.
        spread: the variance of its draws, if known.
        bias: its bias from residuals in excess of the model's expectation, in standard deviations.
    """
    shares, seen = _shares(parts, jacobian), _shares(visible, jacobian)
    if not all(np.isfinite(share) for share in shares.values()):
        return Grade("bad", ("Its variance is not a positive number.",), {})
    exact, own = (float(np.sum(jacobian @ part * jacobian)) for part in (parts.exact, sum(parts[:3])))
    own = max(own, spread)
    if seen["prior"] > NOT_IDENTIFIED and own > NARROWER**2 * float(np.sum(jacobian @ parts.alone * jacobian)):
        return Grade("bad", (NOT_SEEN,), shares)
    is_hidden = _hidden(parts, visible, jacobian) > HIDDEN
    if is_hidden:
        shares = _of_seen(visible, jacobian, own)
    elif spread > 0:
        # what privacy adds is all that a posterior without it would not have: noise, lost efficiency, a doubtful slope
        kept = min(exact / own, 1 - shares["privacy"])
        rest = max(shares["data"] + shares["prior"], 1e-30)
        shares = {
            "data": kept * shares["data"] / rest,
            "privacy": 1 - kept,
            "prior": kept * shares["prior"] / rest,
        }
    reasons: list[str] = []
    if bias * np.sqrt(exact) > OFF * np.sqrt(own):
        size = f" by about {in_words(bias)} standard deviations" if np.isfinite(bias) else ""
        reasons.append(f"{ROBUST}{size}.")
    if shares["prior"] > MOSTLY and not is_hidden:
        reasons.append(f"{OF_PRIOR} {in_words(100 * shares['prior'])} % of its variance.")
    return Grade("fair" if reasons else "good", tuple(reasons), shares)


def _hidden(parts: Variances, visible: Variances, jacobian: Floats) -> float:
    """Return the share of a number's variance in directions that no data can identify."""
    whole, prior, seen = (float(np.sum(jacobian @ part * jacobian)) for part in (sum(parts[:3]), parts[2], visible[2]))
    return max(prior - seen, 0.0) / max(whole, 1e-30)


def _of_seen(visible: Variances, jacobian: Floats, own: float) -> dict[str, float]:
    """Return the shares of a number that no data can see a part of, as of an intercept beside those of groups.

    Of that part, and of how widely groups are spread, as much would be unknown without privacy: the noise adds to the
    rest alone.
    """
    data, privacy, prior, exact, _ = (float(np.sum(jacobian @ part * jacobian)) for part in visible)
    added = min(max(data + privacy + prior - exact, privacy), own)
    told = min(data, own - added)
    return {"data": told / own, "privacy": added / own, "prior": 1 - (told + added) / own}


def of_group(name: str, grades: Mapping[str, Grade]) -> Grade:
    """Return the grade of the standard deviation of random intercepts: its variance comes from where theirs does."""
    group = name.rpartition("_sigma")[0]
    its = [grade.shares for other, grade in grades.items() if other.startswith(f"{group}[") and grade.shares]
    if not its:
        return Grade("bad", (NOT_SEEN,))
    return Grade("good", (), {part: float(np.mean([shares[part] for shares in its])) for part in its[0]})


def _shares(parts: Variances, jacobian: Floats) -> dict[str, float]:
    each = {
        name: max(float(np.sum(jacobian @ part * jacobian)), 0.0)
        for name, part in (("data", parts.data), ("privacy", parts.privacy), ("prior", parts.prior))
    }
    total = sum(each.values())
    return {name: value / total if total > 0 else float("nan") for name, value in each.items()}


def error(parts: Variances, visible: Variances, jacobian: Floats, spread: float) -> float:
    """Return the predicted distance from the posterior without privacy, in its standard deviations.

    Draws that are far wider than the normal distribution of one slope have a slope that is in doubt; but where a
    direction has a part that no data can see, a random intercept's, it is the doubt of how widely these are spread.
    """
    data, privacy, prior, exact, _ = (float(np.sum(jacobian @ part * jacobian)) for part in parts)
    free = float(np.sum(jacobian @ visible.prior * jacobian))
    hidden = prior - free
    is_doubtful = spread > DOUBTFUL * (data + privacy + prior) and hidden < HIDDEN * (data + privacy + prior)
    total = spread if is_doubtful else data + privacy + free
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
