"""Conversion of formulas and NumPyro models to a `Model`."""

import tomllib
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import jax

from dpmcmc.enclave import PrivateData
from dpmcmc.errors import InvalidArgument
from dpmcmc.model import Model, from_formula, from_numpyro, per_person
from dpmcmc.model.formula.prior_texts import as_texts
from dpmcmc.schema import Schema

MODELS_KEPT = 32
_TAKEN_APART: dict[Any, Model] = {}


@lru_cache(maxsize=MODELS_KEPT)
def _of_formula(formula: str, schema: str, family: str | None, priors: tuple[tuple[str, str], ...] | None) -> Model:
    """Return the model of a formula; cached, so that functions compiled for it are reused."""
    read = Schema.from_dict(tomllib.loads(schema))
    return from_formula(formula, read, family=family, priors=None if priors is None else dict(priors))


def _of_function(model: Callable[..., Any], data: PrivateData) -> Model:
    """Return a NumPyro model, taken apart once for records of one kind; what it reads beside them is as it was then."""
    leaves, structure = jax.tree.flatten(data.facts.record)
    kind = structure, tuple((leaf.shape, leaf.dtype) for leaf in leaves), tuple(sorted(data.facts.bounds.items()))
    try:
        known = _TAKEN_APART.get((model, kind))
    except TypeError:  # arguments that cannot be hashed are not cached
        return from_numpyro(model, data)
    made = from_numpyro(model, data) if known is None else known
    _TAKEN_APART[model, kind] = made
    if len(_TAKEN_APART) > MODELS_KEPT:
        del _TAKEN_APART[next(iter(_TAKEN_APART))]
    return made


def as_model(
    model: Model | str | Callable[..., Any],
    data: PrivateData,
    family: str | None = None,
    priors: Mapping[str, Any] | None = None,
) -> Model:
    """Return a formula, a NumPyro model or a `Model` as one over the records of `data`, of which it reads no value.

    Where a record is a person with several rows, the model of a row becomes that of a person.
    """
    schema = data.schema
    if not isinstance(model, str) and (family is not None or priors is not None):
        raise InvalidArgument("family= and priors= are for formulas; a model has its own")
    if isinstance(model, str):
        if schema is None:
            raise InvalidArgument("a formula needs the columns of a table; create the data with PrivateData.from_table")
        stated = None if priors is None else tuple(sorted(as_texts(priors).items()))
        made: Model = _of_formula(model, schema.to_toml(), family, stated)
    elif isinstance(model, Model):
        made = model
    elif schema is not None and schema.person is not None:
        raise InvalidArgument(
            "a NumPyro model of a table in which a person has several rows cannot be split automatically; make it "
            "with from_numpyro and the record of one row, and pass that"
        )
    else:
        made = _of_function(model, data)
    return made if schema is None or schema.person is None else _of_persons(made)


@lru_cache(maxsize=MODELS_KEPT)
def _of_persons(model: Model) -> Model:
    """Return the model of a person; cached, as that of a row is, so that a second fit compiles nothing."""
    return per_person(model)
