"""Times to an event whose hazard is constant between stated cuts, and proportional between records."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random

from dpmcmc.errors import InvalidArgument
from dpmcmc.model.bounded_scores.pieces import Pieces
from dpmcmc.model.formula.families.family import Family, Others, Stated
from dpmcmc.model.formula.families.survival import hazard_intercept, log_density_of, survival_of
from dpmcmc.model.formula.links import HAZARD

NAME = "piecewise_exponential"
MOST_CUTS = 30


def piecewise_exponential(cuts: Sequence[float]) -> Family:
    """Return the family with these cuts."""
    _check(cuts)
    begins = np.array([0.0, *cuts])
    names = [f"hazard_ratio[{_text(cut)}+]" for cut in cuts]

    def hazards(eta: jax.Array, others: Others) -> jax.Array:
        """Return the hazards of the pieces, (..., pieces)."""
        ratios = jnp.stack([jnp.ones(()), *(jnp.asarray(others[name]) for name in names)])
        return jnp.exp(eta)[..., None] * ratios

    def passed(log_time: jax.Array) -> jax.Array:
        """Return the time that is spent in each piece."""
        return jnp.clip(jnp.exp(log_time)[..., None] - begins, 0.0, np.append(np.diff(begins), np.inf))

    def cumulative(eta: jax.Array, log_time: jax.Array, others: Others) -> jax.Array:
        return jnp.sum(hazards(eta, others) * passed(log_time), axis=-1)

    def log_hazard(eta: jax.Array, log_time: jax.Array, others: Others) -> jax.Array:
        """Return that of the logarithm of the time."""
        time = jnp.exp(log_time)[..., None]
        own = (time > begins) & (time <= np.append(begins[1:], np.inf))
        return jnp.sum(jnp.where(own, jnp.log(hazards(eta, others)), 0.0), axis=-1) + log_time

    def mean(eta: jax.Array, _: jax.Array, others: Others) -> jax.Array:
        """Return the sum over the pieces of survival until there times the mean time spent there."""
        each = hazards(eta, others)
        inside = each * np.append(np.diff(begins), np.inf)
        before = jnp.concatenate([jnp.zeros((*each.shape[:-1], 1)), jnp.cumsum(inside[..., :-1], axis=-1)], axis=-1)
        return jnp.sum(jnp.exp(-before) * -jnp.expm1(-inside) / each, axis=-1)

    def draw(key: jax.Array, eta: jax.Array, _: jax.Array, others: Others) -> jax.Array:
        """Draw a cumulative hazard, and return when it is reached."""
        each, left = hazards(eta, others), random.exponential(key, eta.shape)[..., None]
        inside = each[..., :-1] * np.diff(begins)
        before = jnp.concatenate([jnp.zeros((*each.shape[:-1], 1)), jnp.cumsum(inside, axis=-1)], axis=-1)
        spent = jnp.clip((left - before) / each, 0.0, np.append(np.diff(begins), np.inf))
        return jnp.sum(spent, axis=-1)

    def scores(response: Stated) -> Pieces:
        return Pieces(tuple(map(float, cuts)), response.read_bounds[1], response.has_entry)

    return Family(
        name=f"{NAME}({', '.join(map(_text, cuts))})",
        words=(
            "a time whose hazard is constant between the cuts; the predictor is the logarithm of that before the "
            "first, and hazard ratios are those of later pieces to it"
        ),
        response="survival",
        link=HAZARD,
        log_density=log_density_of(log_hazard, cumulative),
        mean=mean,
        draw=draw,
        scores=scores,
        intercept=hazard_intercept,
        coefficients="normal(0, 1)",
        spread="half_normal(1)",
        others=dict.fromkeys(names, "lognormal(0, 1)"),
        survival=survival_of(cumulative),
        cuts=tuple(map(float, cuts)),
    )


def _text(cut: float) -> str:
    return f"{cut:.12g}"


def _check(cuts: Sequence[Any]) -> None:
    if not cuts or len(cuts) > MOST_CUTS:
        raise InvalidArgument(
            f"family={NAME!r} has {len(cuts)} cuts; expected 1 to {MOST_CUTS} times between which the hazard is "
            f"constant, as in {NAME}(30, 90, 365)"
        )
    if any(
        not 0 < first < second < np.inf for first, second in zip([1e-300, *cuts], [*cuts, cuts[-1] * 2], strict=True)
    ):
        raise InvalidArgument(
            f"family={NAME!r} has the cuts {', '.join(map(_text, cuts))}; expected positive times, each larger "
            "than the one before"
        )
