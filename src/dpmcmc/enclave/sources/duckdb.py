"""Records from the answer to a DuckDB query."""

from collections.abc import Iterator
from typing import Any

import jax

from dpmcmc.enclave.sources.ahead import read_ahead
from dpmcmc.enclave.sources.chunking import BLOCK, confirmed, digest_of, identity_of, num_rows, regrouped
from dpmcmc.enclave.sources.contract import refuse_persons, rows_before
from dpmcmc.enclave.sources.preparation import Preparation
from dpmcmc.enclave.tables import columns, frames
from dpmcmc.enclave.tables.arrow import arrow
from dpmcmc.enclave.tables.columns import Leaves
from dpmcmc.enclave.tables.guard import in_own_words, without_values
from dpmcmc.enclave.tables.readers import check_names
from dpmcmc.errors import SourceChanged
from dpmcmc.schema import Schema


class DuckDBSource:
    """The answer to a query, which is run anew in every pass, and compared, block by block, with the first answer.

    The query is run twice when the source is opened: DuckDB promises an order only where the query states one, and
    two answers that differ are refused before anything is charged. Later passes hand out no block that differs. One
    pass at a time, and nothing else on the connection meanwhile. Where the query takes long, a `Scratch` asks it once
    more and never again.

    Args:
        source: the query and its connection.
        schema: what the owner states of the columns: a `Schema`, what one is made of, or a TOML file.
        persons: whether it may name persons, as for `FileSource`.
    """

    apart = 2**62
    """How many rows are sooner read than passed over: a query is asked from its first row on."""

    def __init__(self, source: frames.DuckDBQuery, schema: Any, *, persons: bool = False) -> None:
        self._schema = Schema.read(schema)
        refuse_persons(self._schema, persons=persons)
        self._preparation = Preparation(self._schema)
        names = self._schema.read_columns
        answer = frames.answer_of(source)
        check_names("the answer to the DuckDB query", list(answer.columns), names)
        self._answer = without_values(frames.QUERY_FAILED, lambda: frames.columns_of(answer, names))
        self._digests: list[bytes] = []
        self._rows = 0
        for block in self._blocks():
            self._digests.append(digest_of(block))
            self._rows += num_rows(block)
        for _ in self._verified():
            pass

    def __repr__(self) -> str:
        return f"DuckDBSource({', '.join(self.bounds)})"

    @property
    def num_records(self) -> int:
        """The number of rows of the answer."""
        return self._rows

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """The stated bounds of each leaf."""
        return self._schema.bounds

    @property
    def record(self) -> dict[str, jax.ShapeDtypeStruct]:
        """The shape and type of one record, by leaf."""
        return self._preparation.record

    @property
    def identity(self) -> bytes:
        """A digest of all rows. It is private."""
        return identity_of(self.bounds, self._digests)

    def confirm(self) -> None:
        """Do nothing: every block that was handed out was compared with the first answer."""

    def chunks(self, rows: int, first: int = 0) -> Iterator[Leaves]:
        """Return the records in chunks of a given size; another thread asks for them ahead of the caller.

        Args:
            rows: how many rows a chunk has; the last may have fewer.
            first: the number of the first chunk that is wanted. The query is run for all rows before it, too.

        Raises:
            SourceChanged: the answer is another than before. It comes before the rows that differ.
        """
        skip = rows_before(rows, first)
        return self._ahead(rows, skip)

    def _ahead(self, rows: int, skip: int) -> Iterator[Leaves]:
        left = max(self._rows - skip, 1)
        yield from read_ahead(regrouped(self._verified(), min(rows, left), skip))

    def _verified(self) -> Iterator[Leaves]:
        """Return blocks that are those of the first answer."""
        digests = iter(self._digests)

        def same(block: Leaves) -> Leaves:
            if digest_of(block) != next(digests, None):
                raise _other_answer()
            return block

        def complete() -> None:
            if next(digests, None) is not None:
                raise _other_answer()

        yield from confirmed(map(same, self._blocks()), self._rows, complete, "the answer to the DuckDB query")

    def _blocks(self) -> Iterator[Leaves]:
        return self._preparation.chunks(self._batches(), BLOCK)

    def _batches(self) -> Iterator[Any]:
        read = getattr(self._answer, "to_arrow_reader", None) or self._answer.fetch_arrow_reader  # before DuckDB 1.4
        reader = in_own_words(frames.QUERY_FAILED, lambda: read(BLOCK))
        for field in reader.schema:
            if field.name == self._schema.person:
                columns.value_type(field.name, field.type)
                continue
            empty = arrow().chunked_array([], field.type)
            columns.numbers(field.name, empty, self._schema.columns[field.name], self._schema.decimal)
        try:
            while (batch := in_own_words(frames.QUERY_FAILED, lambda: next(reader, None))) is not None:
                yield batch
        finally:
            reader.close()


def _other_answer() -> SourceChanged:
    return SourceChanged(
        "source, a DuckDB query, gave a different answer than before; expected the same rows, in the same order, "
        "whenever it is asked. End it with ORDER BY and columns that tell all rows apart, take out whatever is random, "
        "and let nobody write to its tables meanwhile. Or write the answer to a Parquet file, and open that"
    )
