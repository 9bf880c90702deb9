"""How long a row was under observation, and how that ended: what stands beside the time in a survival response."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from dpmcmc.errors import InvalidArgument
from dpmcmc.model.bounded_scores.survival import FROM_START
from dpmcmc.model.formula.columns import Columns, Record
from dpmcmc.model.formula.families.family import Family
from dpmcmc.model.formula.kinds import words


def read_followed(
    time: str, event: str, entry: str | None, family: Family, columns: Columns
) -> Callable[[Record], tuple[jax.Array, jax.Array]]:
    """Check the columns and return how the event, and the logarithm of the entry, are read."""
    last = columns[time].bounds[1]
    beyond = [cut for cut in family.cuts if cut >= last]
    if beyond:
        raise InvalidArgument(
            f"family={family.name!r} has cuts at {', '.join(f'{cut:g}' for cut in beyond)}; {time!r} is stated to be "
            f"at most {last:g}, so no row has information about a hazard after that"
        )
    read_event = _event(event, columns)
    if entry is None:
        return lambda record: (read_event(record), jnp.float32(FROM_START))
    column = columns[entry]
    if column.kind not in {"number", "integer"} or column.bounds[0] < 0 or column.bounds[0] >= last:
        raise InvalidArgument(
            f"the entry {entry!r} is {words(column)}; expected a number with lower >= 0, on the scale of {time!r}, "
            f"which is at most {last:g}"
        )

    def read(record: Record) -> tuple[jax.Array, jax.Array]:
        value = columns.number(entry, record)
        log_entry = jnp.where(value > 0, jnp.log(jnp.maximum(value, 1e-30)), FROM_START)
        return read_event(record), jnp.maximum(log_entry, FROM_START)

    return read


def _event(name: str, columns: Columns) -> Callable[[Record], jax.Array]:
    """Return how it is read whether the event was seen: one if it was."""
    column = columns[name]
    if column.kind == "category" and len(column.levels) == 2:
        return lambda record: (columns.category(name).code(record) == 1).astype(jnp.float32)
    if column.kind == "boolean" or (column.kind == "integer" and column.bounds == (0, 1)):
        return lambda record: (columns.number(name, record) > 0.5).astype(jnp.float32)
    raise InvalidArgument(
        f"the event {name!r} is {words(column)}; expected a boolean, an integer from 0 to 1, or a category with two "
        "levels, the second of which is the event"
    )
