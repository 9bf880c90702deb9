"""Public quantities of a model at a point, without records: one program for all of them, compiled once per model.

The slopes of its prior, the parameters of its distributions at synthetic records within the stated bounds, on the real
line, how these move, and the parameters as people read them. Points and records are arguments.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import biject_to, constraints

from dpmcmc.enclave import PrivateData
from dpmcmc.fitting.strategies.centred_scores.laws import TRUNCATED, is_known
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.model import Model, synthetic
from dpmcmc.model.observed import Observed
from dpmcmc.run.program import Layout

RECORDS = 64


class AtPoint(NamedTuple):
    """A model at a point."""

    gradient: Any
    """Of the log-prior,"""
    hessian: Any
    laws: Any
    """(record, parameter of its distributions)"""
    moves: Any
    """of these, by coordinates."""
    parameters: Any
    """As people read them."""


class Points:
    """A model that can be evaluated at points; `rows` are its synthetic records."""

    def __init__(self, model: Model, data: PrivateData, layout: Layout) -> None:
        tables = synthetic.tables(data.facts.record, data.facts.bounds, RECORDS)
        self.rows = jax.tree.map(lambda *leaves: np.concatenate([np.asarray(leaf) for leaf in leaves]), *tables)
        self._ask = _compiled(model, layout)

    def at(self, point: Floats, rows: Any = None) -> AtPoint:
        """Return the public quantities at a point, on the host."""
        found = self._ask(np.asarray(point, np.float32), self.rows if rows is None else rows)
        gradient, hessian, laws, moves = (np.asarray(each, float) for each in found[:-1])
        return AtPoint(gradient, hessian, laws, moves, jax.tree.map(np.asarray, found.parameters))


@lru_cache(maxsize=32)
def _compiled(model: Model, layout: Layout) -> Callable[[Any, Any], AtPoint]:
    def density(vector: Any) -> jax.Array:
        return model.log_prior(layout.unravel(vector))

    @jax.jit
    def at(vector: Any, rows: Any) -> AtPoint:
        def laws(vector: Any) -> jax.Array:
            return laws_at(model.observed, layout, vector, rows)

        return AtPoint(
            jax.grad(density)(vector),
            jax.hessian(density)(vector),
            laws(vector),
            jax.jacfwd(laws)(vector),
            model.constrain(layout.unravel(vector)),
        )

    return at


def laws_at(observed: Observed | None, layout: Layout, vector: Any, rows: Any) -> jax.Array:
    """Return the unconstrained distribution parameters of rows at a flat position, (row, parameter); in JAX."""
    if observed is None:
        raise TypeError("the model observes nothing of a record")

    def of_row(row: Any) -> jax.Array:
        found = observed.at(layout.unravel(vector), row)
        parts = [
            jax.vmap(lambda *law, site=site: unconstrained(site.law(*law)))(law.parameters, law.others)
            if is_known(site.example)
            else law.parameters
            for site, law in zip(observed.sites, found, strict=True)
        ]
        return jnp.concatenate([jnp.ravel(part) for part in parts])

    return jax.vmap(of_row)(rows)


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
