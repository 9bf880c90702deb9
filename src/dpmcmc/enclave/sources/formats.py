"""How files of each kind are read as a stream of record batches, from whatever filesystem has them."""

import math
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from dpmcmc.enclave.sources.picking import Intervals, after, pieces, within
from dpmcmc.enclave.sources.places import Place
from dpmcmc.enclave.tables import files
from dpmcmc.enclave.tables.arrow import arrow

_ROWS, _CELLS = 2**17, 2**21
"""How many rows of Parquet, and how many cells, are decoded at once at most."""

_AT_ONCE = 2**26
"""How many bytes a row group of Parquet may take to be decoded at once."""

_BUFFER = 2**18
"""How many bytes of each column of Parquet are read at once from a local disk."""


EVERYTHING = [(0, 2**62)]
"""All places that a file can have."""


class Format(NamedTuple):
    """How one kind of file is read; the last argument is what stands between the fields of a text."""

    types: Callable[[Place, str], list[tuple[str, Any]]]
    """The names and types of the columns."""
    num_rows: Callable[[Place, list[str], str], int]
    """The number of rows."""
    batches: Callable[[Place, list[str], Intervals, str], Generator[Any]]
    """Some columns of the rows at some places, batch by batch."""


@contextmanager
def _parquet(place: Place) -> Generator[Any]:
    ahead: dict[str, Any] = {"buffer_size": _BUFFER, "pre_buffer": False} if place.is_local else {"pre_buffer": True}
    with place.filesystem.open_input_file(place.path) as file, arrow(".parquet").ParquetFile(file, **ahead) as parquet:
        yield parquet


def _parquet_types(place: Place, _: str) -> list[tuple[str, Any]]:
    with _parquet(place) as file:
        return [(field.name, field.type) for field in file.schema_arrow]


def _parquet_count(place: Place, _names: list[str], _: str) -> int:
    with _parquet(place) as file:
        return file.metadata.num_rows


def _parquet_batches(place: Place, names: list[str], intervals: Intervals, _: str) -> Generator[Any]:
    """Read the row groups that hold these places: small ones at once, which is faster, large ones piece by piece."""
    with _parquet(place) as file:
        rows, start = max(min(_ROWS, _CELLS // len(names)), 1), 0
        width = _width([field.type for field in file.schema_arrow if field.name in names])
        for group in range(file.num_row_groups):
            size = file.metadata.row_group(group).num_rows
            inside = within(intervals, start, start + size)
            start += size
            if inside and size * width <= _AT_ONCE:
                yield from _inside(file.read_row_group(group, columns=names).to_batches(max_chunksize=rows), inside)
            elif inside:
                yield from _inside(file.iter_batches(batch_size=rows, row_groups=[group], columns=names), inside)


def _width(types: list[Any]) -> float:
    """Return how many bytes a row takes, at most a little more; infinity where it depends on the cells."""
    is_primitive = arrow(".types").is_primitive
    return sum(max(each.bit_width, 8) / 8 for each in types) if all(map(is_primitive, types)) else math.inf


@contextmanager
def _arrow(place: Place, names: list[str] | None = None) -> Generator[Any]:
    with place.filesystem.open_input_file(place.path) as file:
        if names is None:
            yield files.arrow_reader(file)
            return
        schema = files.arrow_reader(file).schema
        wanted = [position for position, field in enumerate(schema) if field.name in names]
        file.seek(0)
        yield files.arrow_reader(file, included_fields=wanted)


def _arrow_types(place: Place, _: str) -> list[tuple[str, Any]]:
    with _arrow(place) as reader:
        return [(field.name, field.type) for field in reader.schema]


def _arrow_count(place: Place, names: list[str], _: str) -> int:
    """Count by what the end of the file says; a stream of Arrow has no such end and is read through."""
    with _arrow(place) as reader:
        is_file = hasattr(reader, "num_record_batches")
    if is_file:
        dataset = arrow(".dataset").dataset([place.path], filesystem=place.filesystem, format="ipc")
        return dataset.count_rows()
    return sum(batch.num_rows for batch in _arrow_batches(place, names, EVERYTHING, ""))


def _arrow_batches(place: Place, names: list[str], intervals: Intervals, _: str) -> Generator[Any]:
    with _arrow(place, names) as reader:
        if hasattr(reader, "num_record_batches"):
            batches = (reader.get_batch(number) for number in range(reader.num_record_batches))
        else:
            batches = iter(reader)
        yield from _inside(batches, intervals)


def _csv_types(place: Place, delimiter: str) -> list[tuple[str, Any]]:
    with place.filesystem.open_input_stream(place.path, compression=None) as file:
        names = files.header(file, files.delimiter_of(place.path, delimiter))
    return [(name, arrow().string()) for name in names]


def _csv_count(place: Place, names: list[str], delimiter: str) -> int:
    with place.filesystem.open_input_stream(place.path, compression=None) as file:
        files.check_quotes(file, place.shown)
    return sum(batch.num_rows for batch in _csv_batches(place, names, EVERYTHING, delimiter))


def _csv_batches(place: Place, names: list[str], intervals: Intervals, delimiter: str) -> Generator[Any]:
    """Read block by block; where a line is longer than one, go on from there with longer ones."""
    *smaller, largest = files.block_sizes(place.filesystem.get_file_info(place.path).size or 2**63)
    for block in smaller:
        with suppress(arrow().ArrowInvalid):
            for batch in _csv_blocks(place, names, intervals, delimiter, block):
                intervals = after(intervals, batch.num_rows)
                yield batch
            return
    yield from _csv_blocks(place, names, intervals, delimiter, largest)


def _csv_blocks(place: Place, names: list[str], intervals: Intervals, delimiter: str, block: int) -> Generator[Any]:
    between, num_columns = files.delimiter_of(place.path, delimiter), len(_csv_types(place, delimiter))
    options = files.csv_options(names, between, num_columns, block)
    with (
        place.filesystem.open_input_stream(place.path, compression=None) as file,
        arrow(".csv").open_csv(file, **options) as reader,
    ):
        yield from _inside(reader, intervals)


def _inside(batches: Iterable[Any], intervals: Intervals) -> Generator[Any]:
    """Return what batches hold of some places."""
    for batch, low, high in pieces(batches, intervals, lambda batch: batch.num_rows):
        yield batch.slice(low, high - low)


_CSV = Format(_csv_types, _csv_count, _csv_batches)
_PARQUET = Format(_parquet_types, _parquet_count, _parquet_batches)
_ARROW = Format(_arrow_types, _arrow_count, _arrow_batches)
FORMATS = {".csv": _CSV, ".tsv": _CSV, ".parquet": _PARQUET, ".feather": _ARROW, ".arrow": _ARROW, ".ipc": _ARROW}
"""How a file is read, by the end of its name."""
