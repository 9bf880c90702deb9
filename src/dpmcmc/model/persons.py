"""Models of persons who own several rows, from models of one row."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from dpmcmc.errors import InvalidArgument
from dpmcmc.model.model import Model
from dpmcmc.schema import OF_PERSON, PRESENT


def per_person(model: Model) -> Model:
    """Return the model of a person, given that of a row: log p(person) = sum over the rows present of log p(row).

    A record of the new model is a mapping of leaves with a leading axis, a person's places, and the leaf ``present``,
    which is 1 where a place holds a row. Places without a row are given the person's first row, and their terms are
    left out of the sum: so neither the value nor the gradient can become NaN by a row that is not there. The first
    place always holds a row. Where persons have effects of their own, ``(1|person)`` in a formula, a person's rows are
    independent given these, which are integrated over.
    """

    def rows_of(person: Any) -> tuple[dict[str, jax.Array], jax.Array]:
        if not isinstance(person, Mapping) or PRESENT not in person or len(person) < 2:
            raise InvalidArgument(f"a record of per_person(model) must be a mapping of leaves, one of them {PRESENT!r}")
        present = person[PRESENT] > 0
        return {name: _present_rows(leaf, present) for name, leaf in person.items() if name not in OF_PERSON}, present

    def log_likelihood(position: Any, person: Any) -> jax.Array:
        rows, present = rows_of(person)
        terms = jax.vmap(model.log_likelihood, in_axes=(None, 0))(position, rows)
        return jnp.sum(jnp.where(present, terms, 0.0))

    if model.of_rows is not None:
        likelihood, observed = model.of_rows(rows_of)
        return replace(model, log_likelihood=likelihood, observed=observed, of_rows=None)
    observed = None if model.observed is None else model.observed.of_rows(rows_of)
    return replace(model, log_likelihood=log_likelihood, observed=observed)


def _present_rows(leaf: jax.Array, present: jax.Array) -> jax.Array:
    """Return a leaf with its first row in every place that holds none."""
    mask = present.reshape(present.shape + (1,) * (leaf.ndim - 1))
    return jnp.where(mask, leaf, leaf[:1])
