"""How long the gradient of one record can be, from the schema and the model alone.

The gradient in the coefficients is residual * row, and so is all that the predictor is made of: the derivatives in the
other parameters are added to its square. Each family bounds both, with its reason; where it does not, the largest ones
are looked for on a grid over the region.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from math import hypot, log, sqrt
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc import validation
from dpmcmc.errors import InvalidArgument
from dpmcmc.model.bounded_scores.survival import FROM_START
from dpmcmc.model.bounded_scores.zeros import ZERO
from dpmcmc.model.formula.coordinates import Coordinates
from dpmcmc.model.formula.families.family import Bound, Family, Interval
from dpmcmc.model.formula.response import Response

Region: TypeAlias = Mapping[str, tuple[float, float]]

CENTRAL = 0.1
"""A positive parameter is taken to lie between this quantile of its prior and the one as far from the other end."""

POINTS = 41
"""Of a grid along predictors and responses."""

SCALES = (0.1, 2.0)
"""A scale with a formula is taken to lie between these, on the model's scale."""

FAR = 0.001
"""A monotonic effect is taken to lie between this quantile of its prior and the one as far from the other end."""

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


def gradient_bound(coordinates: Coordinates, family: Family, stated: Region | None) -> GradientBound:
    """Return the bound over a region; what is not stated of it comes from the priors."""
    region = _region(coordinates, stated or {})
    conditions = [f"{name} between {low:.3g} and {high:.3g}" for name, (low, high) in region.items()]
    squared = float(len(coordinates.blocks) - sum(len(term.places) for term in coordinates.monotone))
    for term in coordinates.monotone:  # a mean of steps between -1 and 1, and their deviations from it
        largest = max(abs(term.prior.quantile(FAR)), abs(term.prior.quantile(1 - FAR)))
        squared += 1 + largest**2
        conditions.append(f"{term.name} within {largest:.3g}")
    for name, (_, prior) in coordinates.groups.items():
        _, largest = region.get(f"{name}_sigma", (0.0, prior.fixed or 0.0))
        squared += largest**2 * (1 + (EFFECT**2 if prior.fixed is None else 0.0))
        if prior.fixed is None:
            conditions.append(f"the effects {name} within {EFFECT:g} of their standard deviations")
    intervals = _intervals(coordinates, region)
    if coordinates.scale is not None:
        intervals[coordinates.scale.name] = Interval(*SCALES, True)
        conditions.append(f"{coordinates.scale.name} between {SCALES[0]:g} and {SCALES[1]:g}")
    found = (
        _on_grid(coordinates, family, intervals)
        if family.bound is None
        else family.bound(coordinates.response, intervals)
    )
    residual, others, condition = found
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


def _intervals(coordinates: Coordinates, region: Region) -> dict[str, Interval]:
    """Return between what each of the family's parameters lies, and whether it moves at all."""
    found = {name: Interval(*region[name], True) for name in ("cutpoints",) if name in region}
    for name, prior in coordinates.others.items():
        fixed = prior.fixed
        found[name] = Interval(*region[name], True) if fixed is None else Interval(fixed, fixed, False)
    return found


def _on_grid(coordinates: Coordinates, family: Family, intervals: Mapping[str, Interval]) -> Bound:
    """Look for the largest scores on a grid of predictors and responses, at the corners of the region."""
    response = coordinates.response
    lowest, highest = _predictors(response)
    low, high = response.read_bounds
    responses = np.unique(
        np.append(np.linspace(low, high, POINTS), ZERO if response.needs == "zero_or_positive" else low)
    )
    if response.needs in {"count", "proportion", "binary"}:
        responses = np.unique(np.rint(np.linspace(0.0, max(high, 1.0), POINTS)))
    if response.needs == "survival":
        responses = np.array([(log, event, FROM_START) for log in responses for event in (0.0, 1.0)])
    moving = [name for name, interval in intervals.items() if interval.moves]
    corners = list(product(*((interval.low, interval.high) for interval in intervals.values())))
    priors = coordinates.others

    def density(eta: jax.Array, lines: Mapping[str, jax.Array], y: jax.Array) -> jax.Array:
        others = {name: priors[name].from_line(jnp, line) for name, line in lines.items()}
        return family.log_density(eta, y, jnp.float32(response.most_trials), others)

    def longest(corner: jax.Array) -> tuple[jax.Array, Mapping[str, jax.Array]]:
        lines = {name: priors[name].to_line(jnp, value) for name, value in zip(intervals, corner, strict=True)}
        slope = jax.grad(density, argnums=(0, 1))
        over = jax.vmap(jax.vmap(slope, in_axes=(None, None, 0)), in_axes=(0, None, None))
        found = over(jnp.linspace(lowest, highest, POINTS), lines, jnp.asarray(responses, jnp.float32))
        return jax.tree.map(lambda one: jnp.max(jnp.abs(one)), found)

    residual, others = jax.jit(jax.vmap(longest))(jnp.asarray(corners, jnp.float32).reshape(len(corners), -1))
    condition = f"the predictor between {lowest:.3g} and {highest:.3g}"
    return Bound(float(jnp.max(residual)), tuple(float(jnp.max(others[name])) for name in moving), condition)


def _predictors(response: Response) -> tuple[float, float]:
    """Return between what the predictor lies, if the response does not lie outside of what it expects."""
    if response.needs == "count":
        return -5.0, log(max(response.bounds[1], 1.0))
    return (-8.0, 8.0) if response.needs in {"proportion", "binary"} else response.read_bounds
