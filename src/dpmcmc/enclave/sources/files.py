"""Records from files: Parquet, Arrow, Feather and text, on a disk or wherever a URL leads."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Generator, Iterator, Sequence
from copy import copy
from itertools import accumulate
from typing import Any, TypeVar

import jax

from dpmcmc.enclave.sources.ahead import read_ahead
from dpmcmc.enclave.sources.chunking import BLOCK, confirmed, digest_of, identity_of
from dpmcmc.enclave.sources.contract import changed, refuse_persons, rows_before
from dpmcmc.enclave.sources.fingerprints import Fingerprint, fingerprint
from dpmcmc.enclave.sources.formats import FORMATS
from dpmcmc.enclave.sources.picking import Intervals, within
from dpmcmc.enclave.sources.places import Place, Stated, find
from dpmcmc.enclave.sources.preparation import Preparation
from dpmcmc.enclave.tables import columns
from dpmcmc.enclave.tables import files as tables
from dpmcmc.enclave.tables.arrow import arrow
from dpmcmc.enclave.tables.columns import Leaves
from dpmcmc.enclave.tables.guard import in_own_words, without_values
from dpmcmc.enclave.tables.readers import check_names
from dpmcmc.errors import InvalidArgument
from dpmcmc.schema import Schema

Result = TypeVar("Result")

_EVERY_ROW = 2**62
"""More than any file has."""

_BATCHES_AHEAD = 8
"""How many batches wait at most to be prepared: about as many as a row group has."""


class FileSource:
    """The rows of files, read as often as they are needed, in the order that the package states.

    Opening it reads what the files say of themselves, all of them, and of texts and streams of Arrow, which do not say
    how many rows they have, every row once.

    Args:
        source: a path or a URL; of a file, of a folder, of which all files below are meant, or a pattern such as
            ``sales/*.parquet``, where ``**`` stands for any number of folders. Or a list of such. Of a folder the
            Parquet files are read and, where there are none, those of the one other kind that it has.
        schema: what the owner states of the columns: a `Schema`, what one is made of, or a TOML file.
        persons: whether it may name persons; rows then have a further leaf, `PERSON`, and are no records yet.
    """

    def __init__(self, source: Stated | Sequence[Stated], schema: Any, *, persons: bool = False) -> None:
        self._schema = Schema.read(schema)
        refuse_persons(self._schema, persons=persons)
        self._preparation = Preparation(self._schema)
        self._places = find(source)
        self._marks = [self._words(place, lambda place=place: fingerprint(place)) for place in self._places]
        self._check_types()
        self._rows = [self._words(place, lambda place=place: self._count(place)) for place in self._places]
        self.confirm()

    def __repr__(self) -> str:
        return f"FileSource({', '.join(self.bounds)})"

    @property
    def num_records(self) -> int:
        """The number of rows of all files."""
        return sum(self._rows)

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
        """A digest of all rows, for which they are read once. It is private."""
        return identity_of(self.bounds, map(digest_of, self.chunks(BLOCK)))

    def confirm(self) -> None:
        """Make sure that all files are as they were."""
        for place, mark in zip(self._places, self._marks, strict=True):
            if _now(place) != mark:
                raise changed(f"source={place.shown!r}")

    def chunks(self, rows: int, first: int = 0) -> Iterator[Leaves]:
        """Return the records in chunks of a given size; other threads read and prepare them ahead of the caller.

        Args:
            rows: how many rows a chunk has; the last may have fewer.
            first: the number of the first chunk that is wanted.

        Raises:
            SourceChanged: a file is not what it was. It comes before the last chunk, or instead of any.
        """
        skip = rows_before(rows, first)
        return self._ahead([(skip, self.num_records)] if skip < self.num_records else [], rows, 0)

    def picked(self, intervals: Intervals, rows: int, lead: int = 0) -> Iterator[Leaves]:
        """Return the rows at some places, in chunks of a given size, after `lead` empty ones.

        Of the files that hold them, and of these alone, the row groups that do are read, and these rows are prepared.

        Raises:
            SourceChanged: one of these files is not what it was; as for `chunks`.
        """
        part, before = self._holding(intervals[0][0], intervals[-1][1])
        return part._ahead([(low - before, high - before) for low, high in intervals], rows, lead)

    def between(self, start: int, end: int, rows: int) -> Iterator[Leaves]:
        """Return the rows from `start` to `end`, in chunks of a given size; as for `picked`."""
        return self.picked([(start, end)], rows)

    def arrived(self) -> "FileSource":
        """Return the same files as another machine has them, after making sure that they are the same."""
        here = copy(self)
        here._marks = [_now(place) or mark for place, mark in zip(self._places, self._marks, strict=True)]
        for place, mark, before in zip(self._places, here._marks, self._marks, strict=True):
            if mark.content != before.content:
                raise changed(f"source={place.shown!r}")
        here.confirm()
        return here

    def _holding(self, start: int, end: int) -> tuple["FileSource", int]:
        """Return a source of the files alone that hold some rows, and how many rows come before its first."""
        ends = [*accumulate(self._rows)]
        first, last = bisect_right(ends, start), bisect_left(ends, end) + 1
        part = copy(self)
        part._places, part._marks, part._rows = (each[first:last] for each in (self._places, self._marks, self._rows))
        return part, ends[first - 1] if first else 0

    def _ahead(self, intervals: Intervals, rows: int, lead: int) -> Iterator[Leaves]:
        yield from read_ahead(self._pass(intervals, rows, lead))

    def _pass(self, intervals: Intervals, rows: int, lead: int) -> Iterator[Leaves]:
        self.confirm()
        count = lead + sum(high - low for low, high in intervals)
        batches = read_ahead(self._batches(intervals), _BATCHES_AHEAD)
        chunks = self._preparation.chunks(batches, max(min(rows, count), 1), lead)
        yield from confirmed(chunks, count, self.confirm, self._what)

    def _batches(self, intervals: Intervals) -> Generator[Any]:
        names, start = self._schema.read_columns, 0
        for place, rows in zip(self._places, self._rows, strict=True):
            inside = within(intervals, start, start + rows)
            start += rows
            if not inside:
                continue
            if inside[-1][1] == rows:  # what was added since is read, and noticed
                inside[-1] = inside[-1][0], _EVERY_ROW
            batches = FORMATS[place.suffix].batches(place, names, inside, self._schema.delimiter)
            try:
                yield from self._guarded(place, batches, names)
            finally:
                batches.close()

    def _guarded(self, place: Place, batches: Iterator[Any], names: list[str]) -> Iterator[Any]:
        """Return valid batches of a file; where it cannot be read, say so, or that it changed."""

        def following() -> Any:
            batch = next(batches, None)
            if batch is not None:
                batch = tables.whole(batch.select(names))
            return batch

        while True:
            try:
                batch = in_own_words(_unreadable(place), following)
            except InvalidArgument as refusal:
                batch, problem = None, refusal
            else:
                problem = None
            if problem is not None:
                self.confirm()
                raise problem
            if batch is None:
                return
            yield batch

    def _count(self, place: Place) -> int:
        return FORMATS[place.suffix].num_rows(place, self._schema.read_columns, self._schema.delimiter)

    def _check_types(self) -> None:
        """Refuse files that lack a column, keep it under a type that cannot be read, or each under another kind."""
        kinds: dict[str, str] = {}
        for place in self._places:
            types = self._words(place, lambda place=place: FORMATS[place.suffix].types(place, self._schema.delimiter))
            check_names(f"source={place.shown!r}", [name for name, _ in types], self._schema.read_columns)
            for name, kept in types:
                if name == self._schema.person:
                    columns.value_type(name, kept)
                if name not in self._schema.columns:
                    continue
                empty = arrow().chunked_array([], kept)
                columns.numbers(name, empty, self._schema.columns[name], self._schema.decimal)
                kind = _kind(kept)
                if kind and kinds.setdefault(name, kind) != kind:
                    raise InvalidArgument(
                        f"source={place.shown!r} keeps column {name!r} as {kind}, and a file before it as "
                        f"{kinds[name]}; expected files that agree. Rewrite one of them, or leave it out"
                    )

    @property
    def _what(self) -> str:
        return f"source={self._places[0].shown!r}" + (" or a file after it" if len(self._places) > 1 else "")

    @staticmethod
    def _words(place: Place, function: Callable[[], Result]) -> Result:
        return without_values(_unreadable(place), function)


def _unreadable(place: Place) -> str:
    return f"source={place.shown!r} cannot be read; expected {tables.FORMATS[place.suffix].well_formed}"


def _now(place: Place) -> Fingerprint | None:
    """Return the fingerprint of a file, or None where it is gone."""
    try:
        return in_own_words("", lambda: fingerprint(place))
    except InvalidArgument:
        return None


def _kind(kept: Any) -> str:
    """Return what the cells of an Arrow column are, in words; nothing for a column of nulls."""
    types = arrow(".types")
    kind = kept.value_type if types.is_dictionary(kept) else kept
    if types.is_null(kind):
        return ""
    if types.is_boolean(kind):
        return "truth values"
    is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    return "numbers" if is_number else "texts"
