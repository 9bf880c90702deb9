"""Whether a cell of a row was missing, read off the record."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from dpmcmc import missing_cells
from dpmcmc.errors import InvalidArgument


def is_missing(name: str, record: Mapping[str, Any]) -> jax.Array:
    """Say whether the cell of a column was missing, as far as the record says."""
    if not any(map(missing_cells.is_hidden, record)):
        return jnp.bool_(False)
    leaf, bit = missing_cells.places(record)[name]
    if leaf not in record:
        raise InvalidArgument(
            f"the record has {len(missing_cells.places(record))} columns, and says of others which cells were missing; "
            "give the model the record as the table has it"
        )
    return (jnp.asarray(record[leaf]).astype(jnp.int32) & 2**bit) != 0
