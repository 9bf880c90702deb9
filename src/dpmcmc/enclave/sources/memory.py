"""Records from a table in memory, or one that is small enough to be read into it."""

from collections.abc import Iterator
from typing import Any

import jax

from dpmcmc.enclave.sources.chunking import BLOCK, digest_of, identity_of, num_rows
from dpmcmc.enclave.sources.contract import refuse_persons, rows_before
from dpmcmc.enclave.tables.columns import Leaves
from dpmcmc.enclave.tables.readers import read_table
from dpmcmc.schema import Schema


class MemorySource:
    """The rows of a table, prepared once and held as arrays that cannot be written to.

    Args:
        source: a table in memory, or whatever else `read_table` takes.
        schema: what the owner states of the columns: a `Schema`, what one is made of, or a TOML file. No persons.
    """

    def __init__(self, source: Any, schema: Any) -> None:
        stated = Schema.read(schema)
        refuse_persons(stated)
        table = read_table(source, stated)
        self._records, self._bounds = table.records, table.bounds
        for values in self._records.values():
            values.setflags(write=False)

    def __repr__(self) -> str:
        return f"MemorySource({', '.join(self._bounds)})"

    @property
    def num_records(self) -> int:
        """The number of rows."""
        return num_rows(self._records)

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """The stated bounds of each leaf."""
        return dict(self._bounds)

    @property
    def record(self) -> dict[str, jax.ShapeDtypeStruct]:
        """The shape and type of one record, by leaf."""
        return {leaf: jax.ShapeDtypeStruct(values.shape[1:], values.dtype) for leaf, values in self._records.items()}

    @property
    def identity(self) -> bytes:
        """A digest of all rows. It is private."""
        return identity_of(self._bounds, map(digest_of, self.chunks(BLOCK)))

    def confirm(self) -> None:
        """Do nothing: nobody writes to the arrays."""

    def chunks(self, rows: int, first: int = 0) -> Iterator[Leaves]:
        """Return the records in chunks of a given size; they are parts of what is held, not copies.

        Args:
            rows: how many rows a chunk has; the last may have fewer.
            first: the number of the first chunk that is wanted.
        """
        starts = range(rows_before(rows, first), self.num_records, rows)
        return ({leaf: values[start : start + rows] for leaf, values in self._records.items()} for start in starts)
