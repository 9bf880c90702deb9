"""From batches of Arrow to chunks of leaves: what `columns` says of every cell, written where it belongs.

`columns` and `cells` say what a cell becomes. What stands here gives the same bits sooner, and hands everything else to
them: single-precision numbers are never widened, small integers and truth values are looked up in a table of all that
they can be, and texts are read as numbers by Arrow where all of them are plain ones.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import jax
import numpy as np

from dpmcmc import missing_cells
from dpmcmc.enclave.tables import cells, columns
from dpmcmc.enclave.tables.arrow import arrow
from dpmcmc.enclave.tables.columns import Leaves
from dpmcmc.enclave.tables.guard import in_own_words
from dpmcmc.enclave.tables.persons import IDENTITY_WORDS
from dpmcmc.enclave.tables.readers import identities
from dpmcmc.schema import PERSON, Column, Schema


class Preparation:
    """What the rows of a schema become.

    Args:
        schema: what is stated of the columns. Where it names persons, rows have a further leaf, `PERSON`: what tells
            whose a row is, or zeros where it is nobody's.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._places = missing_cells.places(schema.row_bounds)
        self._singles = {name: _StoredSingle(column) for name, column in schema.columns.items()}
        self._lookups = {
            name: {
                kind: _Lookup(column, possible)
                for kind, possible in _POSSIBLE.items()
                if (column.kind, kind) != ("category", "bool")  # which is refused
            }
            for name, column in schema.columns.items()
        }
        codes = [name for name, column in schema.columns.items() if column.kind == "category"]
        codes += [name for name in schema.row_bounds if missing_cells.is_hidden(name)]
        self.types: dict[str, np.dtype[Any]] = {
            name: np.dtype(np.int32 if name in codes else np.float32) for name in schema.row_bounds
        }
        if schema.person is not None:
            self.types[PERSON] = np.dtype((np.uint32, IDENTITY_WORDS))

    @property
    def record(self) -> dict[str, jax.ShapeDtypeStruct]:
        """The shape and type of one record, by leaf."""
        return {name: jax.ShapeDtypeStruct(kind.shape, kind.base) for name, kind in self.types.items()}

    def chunks(self, batches: Iterator[Any], rows: int, lead: int = 0) -> Iterator[Leaves]:
        """Return the leaves of record batches in chunks of a given size; the first begins with `lead` rows of zeros."""
        chunk, filled = self._empty(rows), lead
        for values in chunk.values():
            values[:lead] = 0
        for batch in batches:
            at = 0
            while at < batch.num_rows:
                take = min(batch.num_rows - at, rows - filled)
                self._write(batch.slice(at, take), {leaf: into[filled : filled + take] for leaf, into in chunk.items()})
                at, filled = at + take, filled + take
                if filled == rows:
                    yield chunk
                    chunk, filled, lead = self._empty(rows), 0, 0
        if filled > lead:
            yield {leaf: values[:filled] for leaf, values in chunk.items()}

    def _empty(self, rows: int) -> Leaves:
        return {
            name: (np.zeros if missing_cells.is_hidden(name) else np.empty)(rows, kind)
            for name, kind in self.types.items()
        }

    def _write(self, batch: Any, into: Leaves) -> None:
        if (person := self._schema.person) is not None:
            whose = partial(identities, person, arrow().chunked_array([batch.column(person)]))
            into[PERSON][:] = in_own_words(f"column {person!r} cannot be read", whose)
        for name, column in self._schema.columns.items():
            write = partial(self._column, name, batch.column(name), column, into[name])
            missing = in_own_words(f"column {name!r} cannot be read", write)
            if column.missing == "indicator":
                into[f"{name}_missing"][:] = 0.0 if missing is None else missing
            if missing is not None:
                leaf, bit = self._places[name]
                into[leaf] |= missing.astype(np.int32) << bit

    def _column(self, name: str, kept: Any, column: Column, into: np.ndarray) -> np.ndarray | None:
        """Write the values of a column; return where cells are missing, or None where none is."""
        single, kind = self._singles[name], str(kept.type)
        if single.applies and kind == "float":
            return single.write(kept.to_numpy(zero_copy_only=False), into)
        lookup = self._lookups[name].get(kind)
        if lookup is not None:
            return lookup.write(kept, into)
        values = _parsed(kept, column, self._schema.decimal)
        if values is None:
            values = columns.numbers(name, arrow().chunked_array([kept]), column, self._schema.decimal)
        missing = np.isnan(values)
        into[:] = columns.stored(values, missing, column)
        return missing if missing.any() else None


class _Lookup:
    """`columns.stored` of truth values and of integers of 8 bits, by a table of all that they can be."""

    def __init__(self, column: Column, possible: Iterable[Any]) -> None:
        codes = {category: code for code, category in enumerate(column.categories)}
        reading = {"category": cells.one_of(codes), "boolean": cells.truth(column.words)}.get(column.kind, cells.number)
        values = np.array([*map(reading, possible), np.nan], np.float64)  # the last stands for a null
        self._missing = np.isnan(values)
        self._stored = columns.stored(values, self._missing, column)
        self._ends = self._stored[:-1].min(), self._stored[:-1].max()
        own = self._clip(np.array([*possible], self._stored.dtype))
        self._is_clip = np.array_equal(own, self._stored[:-1]) and not self._missing[:-1].any()

    def _clip(self, values: np.ndarray, into: Any = None) -> np.ndarray:
        """Return numbers as they are stored where nothing but their bounds changes them."""
        return np.clip(values, *self._ends, out=into, dtype=self._stored.dtype)

    def write(self, kept: Any, into: np.ndarray) -> np.ndarray | None:
        """Write cells as they are stored; return where they are missing, or None."""
        pyarrow, null = arrow(), len(self._stored) - 1
        if self._is_clip and not kept.null_count and str(kept.type) != "bool":  # all that they can be was compared
            self._clip(kept.to_numpy(), into)
            return None
        places = kept.cast(pyarrow.uint8(), safe=False)
        if kept.null_count:
            places = places.cast(pyarrow.int16()).fill_null(null)
        elif not self._missing[:null].any():
            into[:] = self._stored[places.to_numpy()]
            return None
        numbers = places.to_numpy()
        into[:] = self._stored[numbers]
        missing = self._missing[numbers]
        return missing if missing.any() else None


_POSSIBLE = {"bool": (False, True), "int8": (*range(128), *range(-128, 0)), "uint8": range(256)}
"""What cells of a type can be, in the order of their bits."""


class _StoredSingle:
    """`columns.stored` of single-precision numbers, without double precision.

    A number is rounded and clamped to bounds of double precision, and the result is rounded to single precision.
    Rounding keeps order and leaves single-precision numbers alone, so clamping to the rounded bounds is the same, but
    for the sign of a bound that is rounded to zero: there this does not apply.
    """

    def __init__(self, column: Column) -> None:
        self._lower, self._upper = np.float32(column.bounds[0]), np.float32(column.bounds[1])
        self._stand_in = columns.stored(np.zeros(1), np.ones(1, np.bool_), column)[0]
        self._rounds = column.kind == "integer"
        stated = (*column.bounds, column.stand_in)
        self.applies = column.kind in ("number", "integer") and not any(
            np.float32(each) == 0 and each != 0 for each in stated
        )

    def write(self, values: np.ndarray, into: np.ndarray) -> np.ndarray | None:
        """Write numbers as they are stored; return where they are missing, or None."""
        if self._rounds:
            values = np.rint(values, out=into)
        np.clip(values, self._lower, self._upper, out=into)
        np.add(into, np.float32(0), out=into)  # zero has one sign
        if not np.isnan(into.min()):
            return None
        missing = np.isnan(into)
        into[missing] = self._stand_in
        return missing


def _parsed(kept: Any, column: Column, decimal: str) -> np.ndarray | None:
    """Return texts as numbers where each is blank or a plain number, which Arrow reads as Python does; else None."""
    pyarrow, compute = arrow(), arrow(".compute")
    texts = (pyarrow.string(), pyarrow.large_string())
    if column.kind not in ("number", "integer") or decimal == "," or kept.type not in texts:
        return None
    blank = compute.equal(kept, "")
    try:
        values = compute.if_else(blank, pyarrow.scalar(None, kept.type), kept).cast(pyarrow.float64())
    except pyarrow.ArrowInvalid:  # Python reads more: spaces, underscores, other digits
        return None
    return values.to_numpy(zero_copy_only=False)
