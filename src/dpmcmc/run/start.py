"""Starting points of chains: stated points or draws from the prior, never anything computed from the data."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.enclave import PrivateData
from dpmcmc.errors import InvalidArgument
from dpmcmc.missing_cells import is_hidden
from dpmcmc.model import Model
from dpmcmc.run.program import Layout


def start_points(model: Model, init: Any, num_chains: int, key: jax.Array) -> tuple[Layout, jax.Array]:
    """Return the layout of a position, and the starting point of each chain as a vector.

    Args:
        model: the model, whose `unconstrain` takes stated parameters to positions.
        init: parameters as `model.constrain` returns them, for all chains; a list with one such per chain; or None,
            for draws from the prior.
        num_chains: the number of chains.
        key: the random key of the draws from the prior.
    """
    if init is None:
        if model.sample_prior is None:
            raise InvalidArgument(
                "init=None draws the starts from the prior, and this model's prior cannot be drawn from; "
                "state init=, the parameters to start from"
            )
        positions = [model.sample_prior(one) for one in jax.random.split(key, num_chains)]
    else:
        starts = init if isinstance(init, list) else [init] * num_chains
        if len(starts) != num_chains:
            raise InvalidArgument(f"init is a list of {len(starts)} starts; expected {num_chains}, one per chain")
        positions = [model.unconstrain(jax.tree.map(_real, start)) for start in starts]
    layout = _layout(model, positions)
    vectors = jnp.stack([layout.ravel(position) for position in positions])
    _check_finite(model, positions, vectors)
    return layout, vectors


def check_likelihood(model: Model, data: PrivateData, layout: Layout, vectors: jax.Array) -> None:
    """Refuse starts at which the likelihood is not finite for records at the stated bounds; reads no record."""
    records = _records_at_bounds(data)
    if not records:
        return
    finite = [
        bool(jnp.isfinite(model.log_likelihood(layout.unravel(vector), record)))
        for vector in vectors
        for record in records
    ]
    if not any(finite):
        raise InvalidArgument(
            "the log-likelihood is not finite at the start, for records anywhere in the stated bounds: "
            "check init=, the bounds and the model; nothing was charged"
        )


def _layout(model: Model, positions: list[Any]) -> Layout:
    layouts = {Layout.of(position) for position in positions}
    expected = layouts if model.position is None else {Layout.of(model.position)}
    if layouts != expected or len(layouts) != 1:
        shown = [jax.tree.unflatten(one.structure, one.shapes) for one in (*layouts, *expected)]
        raise InvalidArgument(f"init has the shapes {shown[0]}; expected {shown[-1]}, the shapes of a position")
    layout = layouts.pop()
    if not layout.dimension:
        raise InvalidArgument("init holds no number; expected at least one parameter")
    return layout


def _check_finite(model: Model, positions: list[Any], vectors: jax.Array) -> None:
    if not bool(jnp.all(jnp.isfinite(vectors))):
        raise InvalidArgument("init is not finite: every parameter must start at a real number inside its support")
    for position in positions:
        density, gradient = jax.value_and_grad(model.log_prior)(position)
        if not all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves((density, gradient))):
            raise InvalidArgument(
                "the log-prior or its gradient is not finite at the start: check init= and the support of the prior"
            )


def _real(value: Any) -> jax.Array:
    try:
        return jnp.asarray(value, jnp.float32)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"init holds a {type(value).__name__}; expected real numbers") from error


def _records_at_bounds(data: PrivateData) -> list[Any]:
    """Return synthetic records at the lower bounds, the upper bounds and the middle; none if a bound is not stated.

    They have no missing cells.
    """
    leaves, structure = jax.tree.flatten(data.facts.record)
    stated = data.facts.bounds.items()
    bounds = [(low, low if is_hidden(name) else high) for name, (low, high) in stated]
    if len(bounds) != len(leaves) or not np.all(np.isfinite(bounds)):
        return []
    return [
        jax.tree.unflatten(
            structure,
            [
                jnp.full(leaf.shape, low + share * (high - low), leaf.dtype)
                for (low, high), leaf in zip(bounds, leaves, strict=True)
            ],
        )
        for share in (0.0, 1.0, 0.5)
    ]
