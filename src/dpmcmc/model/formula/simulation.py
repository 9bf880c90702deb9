"""Records that a model makes up: columns uniform between the bounds of the schema, the response from the family.

They are public, like the schema and the prior they come from: what is tuned on them costs nothing.
"""

from collections.abc import Iterable
from math import ceil, floor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import random

from dpmcmc.model.formula.columns import Columns
from dpmcmc.model.formula.coordinates import Coordinates, Position
from dpmcmc.model.formula.families.family import Family
from dpmcmc.model.formula.persons import OfPersons
from dpmcmc.schema import Column

MISSING_SHARE = 0.1
"""How often a value is missing in a simulated record, where the schema has a place for that."""


class Simulation(NamedTuple):
    """Parameters and records.

    Attributes:
        position: the parameters that the records were drawn with.
        records: an array for each column, one entry per record.
    """

    position: Any
    records: dict[str, jax.Array]


def draw_columns(key: jax.Array, names: Iterable[str], columns: Columns, num_records: int) -> dict[str, jax.Array]:
    """Draw columns, each uniform over what it may hold, independent of each other; indicators with their columns."""
    wanted = sorted(names)
    uniform = dict(zip(wanted, random.uniform(key, (len(wanted), num_records)), strict=True))
    records = {name: _column(uniform[name], columns[name]) for name in wanted}
    for name in wanted:
        owner = name.removesuffix("_missing")
        if owner != name and owner in columns.known and columns[owner].missing == "indicator":
            records[name] = (uniform[name] < MISSING_SHARE).astype(jnp.float32)
            if owner in records:
                filled = columns[owner].stand_in
                records[owner] = jnp.where(records[name] == 1, filled, records[owner]).astype(records[owner].dtype)
    return records


def draw_response(
    key: jax.Array,
    position: Position,
    records: dict[str, jax.Array],
    coordinates: Coordinates,
    family: Family,
    own: OfPersons | None = None,
) -> jax.Array:
    """Draw a response for each record, as a table holds it: where persons have effects, of another one each."""
    natural = coordinates.natural(position)
    eta = jax.vmap(lambda record: coordinates.predictor(natural, record))(records)
    if own is not None:
        key, of_persons = random.split(key)
        keys = random.split(of_persons, len(eta))
        eta = eta + jax.vmap(lambda key, record: own.effect(key, natural, record))(keys, records)
    trials = jax.vmap(coordinates.response.read_trials)(records) * jnp.ones(eta.shape[:1])
    others = (
        jax.vmap(lambda record: dict(coordinates.others_of(natural, record)))(records) if coordinates.scale else None
    )
    return coordinates.response.stored(family.draw(key, eta, trials, natural.others if others is None else others))


def _column(uniform: jax.Array, column: Column) -> jax.Array:
    lower, upper = column.bounds
    if column.kind == "number":
        return jnp.clip(lower + (upper - lower) * uniform, lower, upper)
    count = len(column.levels) if column.kind == "category" else floor(upper) - ceil(lower) + 1
    whole = jnp.minimum(jnp.floor(uniform * count), count - 1)
    return whole.astype(jnp.int32) if column.kind == "category" else whole + ceil(lower)
