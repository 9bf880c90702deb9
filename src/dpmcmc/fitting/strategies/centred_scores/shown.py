"""How far parameters are from a point in what the laws of responses show of them.

The released scores tell about the parameters through the laws of the responses alone. Where directions of the
parameters change no law, as a common mean raised and all effects lowered, or a spread doubled and its effects halved,
the likelihood is constant along curves: a normal one in the parameters themselves would close them off. So distances
are measured in the laws' own parameters, mapped to the real line, at made-up records within the stated bounds.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import biject_to, constraints

from dpmcmc.enclave import PrivateData
from dpmcmc.fitting.strategies.centred_scores.laws import TRUNCATED, is_known
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.fitting.strategies.weighted_scores.whitening import Whitening
from dpmcmc.model import made_up
from dpmcmc.model.observed import Observed
from dpmcmc.run.program import Layout

RECORDS = 64
SMALLEST = 1e-4
"""Singular values below this share of the largest are directions that the laws do not show."""


def displacement(
    observed: Observed, data: PrivateData, layout: Layout, point: Floats, whitening: Whitening, scales: Floats
) -> Callable[[Any], jax.Array]:
    """Return ``of(vector)``: the whitened displacement from a point that the laws show; in JAX."""
    shown, base, jacobian = _at(observed, data, layout, point, scales)
    back = jnp.asarray(whitening.inverse @ (scales[:, None] * np.linalg.pinv(jacobian, rcond=SMALLEST)), jnp.float32)
    return lambda vector: back @ (shown(vector) - base)


def linear_displacement(point: Floats, whitening: Whitening) -> Callable[[Any], jax.Array]:
    """Return the whitened displacement from a point itself."""
    back, here = jnp.asarray(whitening.inverse, jnp.float32), jnp.asarray(point, jnp.float32)
    return lambda vector: back @ (vector - here)


def hidden_directions(observed: Observed, data: PrivateData, layout: Layout, point: Floats, scales: Floats) -> Floats:
    """Return the directions at a point that change no law, as rows of length one."""
    _, _, jacobian = _at(observed, data, layout, point, scales)
    _, values, rows = np.linalg.svd(jacobian, full_matrices=True)
    values = np.append(values, np.zeros(len(rows) - len(values)))
    found = rows[values <= SMALLEST * values.max(initial=0.0)] * scales
    return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-30)


def _at(
    observed: Observed, data: PrivateData, layout: Layout, point: Floats, scales: Floats
) -> tuple[Callable[[Any], jax.Array], jax.Array, Floats]:
    """Return the laws' parameters on the real line, at made-up records, as a function of a flat position.

    With it what they are at a point, and how they move there, in widths of the prior. Made-up records at which these
    are not finite, such as the logarithm of a zero, are left out: a derivative through one would not be a number.
    """
    tables = made_up.tables(data.facts.record, data.facts.bounds, RECORDS)
    rows = jax.tree.map(lambda *leaves: np.concatenate([np.asarray(leaf) for leaf in leaves]), *tables)
    of_rows, with_moves = _compiled(observed, layout)
    base, moves = (np.asarray(each, float) for each in with_moves(np.asarray(point, np.float32), rows))
    jacobian = moves * scales
    kept = np.isfinite(base).all(axis=1) & np.isfinite(jacobian).all(axis=(1, 2))
    if not kept.any():
        raise ValueError("the laws are not finite at any made-up record where the steps led")
    rows = jax.tree.map(lambda leaf: leaf[kept], rows)

    def shown(vector: Any) -> jax.Array:
        return of_rows(vector, rows)

    return shown, jnp.asarray(base[kept].ravel(), jnp.float32), jacobian[kept].reshape(-1, len(point))


@lru_cache(maxsize=32)
def _compiled(observed: Observed, layout: Layout) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return what gives the laws' parameters at a flat position, for rows, and them with how they move.

    Compiled once for each model: points and rows are arguments.
    """

    def of_row(vector: Any, row: Any) -> jax.Array:
        found = observed.at(layout.unravel(vector), row)
        parts = [
            jax.vmap(lambda *law, site=site: unconstrained(site.law(*law)))(law.parameters, law.others)
            if is_known(site.example)
            else law.parameters
            for site, law in zip(observed.sites, found, strict=True)
        ]
        return jnp.concatenate([jnp.ravel(part) for part in parts])

    def of_rows(vector: Any, rows: Any) -> jax.Array:
        return jnp.ravel(jax.vmap(of_row, in_axes=(None, 0))(vector, rows))

    def with_moves(vector: Any, rows: Any) -> tuple[jax.Array, jax.Array]:
        moves = jax.vmap(jax.jacfwd(of_row), in_axes=(None, 0))(vector, rows)
        return jax.vmap(of_row, in_axes=(None, 0))(vector, rows), moves

    return jax.jit(of_rows), jax.jit(with_moves)


def unconstrained(law: Any) -> jax.Array:
    """Return the parameters of a distribution on the real line."""
    if isinstance(law, dist.MixtureSameFamily):
        parts = [
            jnp.ravel(jnp.log(jnp.asarray(law.mixing_distribution.probs))),
            unconstrained(law.component_distribution),
        ]
        return jnp.concatenate(parts)
    if isinstance(law, TRUNCATED):
        ends = [jnp.ravel(jnp.asarray(vars(law)[name], float)) for name in ("low", "high") if name in vars(law)]
        return jnp.concatenate([unconstrained(law.base_dist), *ends])
    found: list[jax.Array] = []
    for name, constraint in law.arg_constraints.items():
        value = getattr(law, name, None)  # some keep another form of it, and compute it
        if value is None or not jnp.issubdtype(jnp.asarray(value).dtype, jnp.floating):
            continue
        if constraint is constraints.simplex:
            found.append(jnp.ravel(jnp.log(value)))
        else:
            found.append(jnp.ravel(biject_to(constraint).inv(jnp.asarray(value))))
    return jnp.concatenate(found)
