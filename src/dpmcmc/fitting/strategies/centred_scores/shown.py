"""How far parameters are from a point in what the laws of responses show of them.

The released scores tell about the parameters through the laws of the responses alone. Where directions of the
parameters change no law, as a common mean raised and all effects lowered, or a spread doubled and its effects halved,
the likelihood is constant along curves: a normal one in the parameters themselves would close them off. So distances
are measured in the laws' own parameters, mapped to the real line, at made-up records within the stated bounds.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import biject_to, constraints

from dpmcmc.enclave import PrivateData
from dpmcmc.fitting.strategies.weighted_scores.newton import Whitening
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.model import made_up
from dpmcmc.model.observed import ObservedSite
from dpmcmc.run.program import Layout

RECORDS = 64
SMALLEST = 1e-4
"""Singular values below this share of the largest are directions that the laws do not show."""


def displacement(
    site: ObservedSite, data: PrivateData, layout: Layout, point: Floats, whitening: Whitening, scales: Floats
) -> Callable[[Any], jax.Array]:
    """Return ``of(vector)``: the whitened displacement from a point that the laws show; in JAX."""
    shown = _shown(site, data, layout)
    base, jacobian, kept = _at(shown, point, scales)
    inverse = np.zeros(jacobian.T.shape)
    inverse[:, kept] = np.linalg.pinv(jacobian[kept], rcond=SMALLEST)
    back = jnp.asarray(whitening.inverse @ (scales[:, None] * inverse), jnp.float32)
    return lambda vector: back @ jnp.where(kept, shown(vector) - base, 0.0)


def linear_displacement(point: Floats, whitening: Whitening) -> Callable[[Any], jax.Array]:
    """Return the whitened displacement from a point itself."""
    back, here = jnp.asarray(whitening.inverse, jnp.float32), jnp.asarray(point, jnp.float32)
    return lambda vector: back @ (vector - here)


def hidden_directions(site: ObservedSite, data: PrivateData, layout: Layout, point: Floats, scales: Floats) -> Floats:
    """Return the directions at a point that change no law, as rows of length one."""
    _, jacobian, kept = _at(_shown(site, data, layout), point, scales)
    _, values, rows = np.linalg.svd(jacobian[kept], full_matrices=True)
    values = np.append(values, np.zeros(len(rows) - len(values)))
    found = rows[values <= SMALLEST * values.max(initial=0.0)] * scales
    return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-30)


def _shown(site: ObservedSite, data: PrivateData, layout: Layout) -> Callable[[Any], jax.Array]:
    """Return the laws' parameters on the real line, at made-up records, as a function of a flat position."""
    rows = jax.tree.map(
        lambda *tables: jnp.concatenate(tables), *made_up.tables(data.facts.record, data.facts.bounds, RECORDS)
    )

    def shown(vector: Any) -> jax.Array:
        def of_row(row: Any) -> jax.Array:
            found = site.at(layout.unravel(vector), row)
            return unconstrained(site.law(found.parameters, found.others))

        return jnp.ravel(jax.vmap(of_row)(rows))

    return shown


def _at(shown: Callable[[Any], jax.Array], point: Floats, scales: Floats) -> tuple[jax.Array, Floats, Any]:
    """Return what is shown at a point, how it moves in widths of the prior, and which of it is finite."""
    here = jnp.asarray(point, jnp.float32)
    base, jacobian = shown(here), np.asarray(jax.jacfwd(shown)(here), float) * scales
    return base, jacobian, np.isfinite(np.asarray(base)) & np.isfinite(jacobian).all(axis=1)


def unconstrained(law: Any) -> jax.Array:
    """Return the parameters of a distribution on the real line."""
    if isinstance(law, dist.MixtureSameFamily):
        parts = [
            jnp.ravel(jnp.log(jnp.asarray(law.mixing_distribution.probs))),
            unconstrained(law.component_distribution),
        ]
        return jnp.concatenate(parts)
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
