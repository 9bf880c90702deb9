"""How long the gradient of one record can be, from the schema and the model alone.

The gradient in the coefficients is residual * row, and so is all that the predictor is made of: the derivatives in the
other parameters are added to its square. With eta the predictor, y the response and everything on the model's scale:

- bernoulli |y - p| <= 1, binomial |y - n p| <= n, categorical |e_y - p| <= sqrt 2: everywhere.
- poisson |y - mu| <= u for mu <= u, the largest count. negative_binomial: (y - mu) / (1 + mu / c) likewise; in log c
  at most 2 u, of c (psi(y + c) - psi(c)) - c y / (c + mu), between -y and y, and a part between -mu and 0.
- gaussian: |y - eta| <= w, the width of the response, where eta lies within the bounds: w / sigma^2; in log sigma
  between -1 and w^2 / sigma^2 - 1.
- student_t: (nu + 1) r / (sigma (nu + r^2)) <= (nu + 1) / (2 sigma sqrt nu) for every r; in log sigma between -1 and
  nu; in log nu half of the sum of a number between 0 and 1 / nu (the digammas), r^2 / (nu + r^2) between 0 and 1, and
  nu r^2 / (nu + r^2) - nu log(1 + r^2 / nu) <= 0, where r is at most the width over sigma.
- ordinal: |1 - F(a) - F(b)| <= 1 in eta and the first cutpoint; in the logarithm of a gap g below at most g, in that of
  the own gap at most g + g / (e^g - 1) <= g + 1; so all gaps together at most their sum plus one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import hypot, log, sqrt
from typing import TypeAlias

from dpmcmc import validation
from dpmcmc.errors import InvalidArgument
from dpmcmc.model.formula.coordinates import Coordinates

Region: TypeAlias = Mapping[str, tuple[float, float]]

CENTRAL = 0.1
"""A positive parameter is taken to lie between this quantile of its prior and the one as far from the other end."""

EFFECT = 3.0
"""Random intercepts are taken to lie within so many of their standard deviations."""


@dataclass(frozen=True)
class GradientBound:
    """A bound on the norm of one record's gradient in the unconstrained space, tempered.

    Attributes:
        value: the bound.
        region: where it holds, in words: "everywhere", or conditions on the parameters on the model's scale.
        everywhere: whether it holds at every position.
    """

    value: float
    region: str
    everywhere: bool


def gradient_bound(coordinates: Coordinates, family: str, stated: Region | None) -> GradientBound:
    """Return the bound over a region; what is not stated of it comes from the priors."""
    region = _region(coordinates, stated or {})
    conditions = [f"{name} between {low:.3g} and {high:.3g}" for name, (low, high) in region.items()]
    squared = float(len(coordinates.blocks))
    for name, (_, prior) in coordinates.groups.items():
        _, largest = region.get(f"{name}_sigma", (0.0, prior.fixed or 0.0))
        squared += largest**2 * (1 + (EFFECT**2 if prior.fixed is None else 0.0))
        if prior.fixed is None:
            conditions.append(f"the random intercepts {name} within {EFFECT:g} of their standard deviations")
    residual, others, condition = _BOUNDS[family](coordinates, region)
    conditions += [condition] if condition else []
    value = hypot(residual * sqrt(squared), *others)
    return GradientBound(value, "; ".join(conditions) or "everywhere", not conditions)


def _region(coordinates: Coordinates, stated: Region) -> dict[str, tuple[float, float]]:
    """Return the interval of each positive parameter: as stated, or the middle of its prior."""
    priors = {name: prior for name, prior in coordinates.others.items() if prior.fixed is None}
    priors |= {f"{name}_sigma": prior for name, (_, prior) in coordinates.groups.items() if prior.fixed is None}
    region = {name: (prior.quantile(CENTRAL), prior.quantile(1 - CENTRAL)) for name, prior in priors.items()}
    if coordinates.cutpoints is not None:
        region["cutpoints"] = (0.0, coordinates.cutpoints.quantile(0.99) - coordinates.cutpoints.quantile(0.01))
    unknown = sorted(set(stated) - set(region))
    if unknown:
        raise InvalidArgument(f"region has {', '.join(unknown)}; expected some of {', '.join(region) or '(nothing)'}")
    for name, (low, high) in stated.items():
        low, high = validation.number(f"region[{name!r}]", low), validation.number(f"region[{name!r}]", high)
        if not 0 <= low < high or (low == 0 and name != "cutpoints"):
            validation.refuse(f"region[{name!r}]", (low, high), "must be two positive numbers, the smaller one first")
        region[name] = (low, high)
    return region


_Bound: TypeAlias = tuple[float, list[float], str]
"""The largest residual, the largest derivatives in the other parameters, and a condition in words."""


def _interval(coordinates: Coordinates, region: Region, name: str) -> tuple[float, float, bool]:
    """Return between what a parameter lies, and whether it moves at all."""
    fixed = coordinates.others[name].fixed
    return (*region[name], True) if fixed is None else (fixed, fixed, False)


def _width(coordinates: Coordinates) -> float:
    lower, upper = coordinates.response.bounds
    return (upper - lower) / coordinates.response.half


def _gaussian(coordinates: Coordinates, region: Region) -> _Bound:
    sigma, _, moves = _interval(coordinates, region, "sigma")
    width = _width(coordinates)
    others = [max(1.0, (width / sigma) ** 2 - 1)] if moves else []
    return width / sigma**2, others, "the predicted mean within the bounds of the response"


def _student_t(coordinates: Coordinates, region: Region) -> _Bound:
    sigma, _, sigma_moves = _interval(coordinates, region, "sigma")
    least, most, nu_moves = _interval(coordinates, region, "nu")
    largest = _width(coordinates) / sigma
    others = [max(1.0, most)] if sigma_moves else []
    if nu_moves:
        others.append(0.5 * max(1 / least + 1, most * log(1 + largest**2 / most)))
    residual = max((nu + 1) / (2 * sqrt(nu)) for nu in (least, most)) / sigma
    return residual, others, "the predicted location within the bounds of the response" if nu_moves else ""


def _counts(coordinates: Coordinates, region: Region) -> _Bound:
    del region
    upper = coordinates.response.bounds[1]
    others = [2 * upper for prior in coordinates.others.values() if prior.fixed is None]
    return upper, others, f"the predicted mean at most {upper:g}"


def _trials(coordinates: Coordinates, region: Region) -> _Bound:
    del region
    return coordinates.response.most_trials, [], ""


def _classes(coordinates: Coordinates, region: Region) -> _Bound:
    del coordinates, region
    return sqrt(2.0), [], ""


def _ordinal(coordinates: Coordinates, region: Region) -> _Bound:
    del coordinates
    return 1.0, [1.0, region["cutpoints"][1] + 1], ""


_BOUNDS: Mapping[str, Callable[[Coordinates, Region], _Bound]] = {
    "gaussian": _gaussian,
    "student_t": _student_t,
    "bernoulli": _trials,
    "binomial": _trials,
    "poisson": _counts,
    "negative_binomial": _counts,
    "categorical": _classes,
    "ordinal": _ordinal,
}
