"""Tables in files: the names of their columns, and some of those columns, as an Arrow table."""

import csv
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple

from dpmcmc.enclave.tables.arrow import arrow
from dpmcmc.enclave.tables.guard import without_values
from dpmcmc.errors import InvalidArgument

_BLOCK, _LARGEST = 2**20, 2**30
"""How many bytes of a text are read at once, and how many at most where a line is longer."""


class Format(NamedTuple):
    """How one kind of file is read, and what is said where it cannot be."""

    types: Callable[[Path, str], list[tuple[str, Any]]]
    """The names and types of the columns, given what stands between the fields of a text."""
    read: Callable[[Path, list[str], str], Any]
    well_formed: str


def paths_of(source: Path) -> list[Path]:
    """Return the file itself, or all Parquet files of a folder, in the order of their names."""
    if not source.exists():
        raise InvalidArgument(f"source={str(source)!r} cannot be read: no such file or folder")
    if not source.is_dir():
        return [source]
    inside = [path.relative_to(source) for path in sorted(source.rglob("*.parquet"))]
    hidden = (".", "_")  # what Spark and its like leave behind
    found = [source / path for path in inside if not any(part.startswith(hidden) for part in path.parts)]
    if not found:
        raise InvalidArgument(f"source={str(source)!r} is a folder without Parquet files; expected some, *.parquet")
    seen: set[tuple[int, int]] = set()
    for path in found:
        refuse_again(path, str(path), seen)
    return found


def refuse_again(path: str | Path, shown: str, seen: set[tuple[int, int]]) -> None:
    """Refuse a file that was seen before, under whatever name: a link to it is the same file."""
    status = without_values(f"source={shown!r} cannot be read", Path(path).stat)
    if (status.st_dev, status.st_ino) in seen:
        raise InvalidArgument(f"source={shown!r} is named more than once; its rows would count more than once")
    seen.add((status.st_dev, status.st_ino))


def column_types(path: Path, delimiter: str = "") -> list[tuple[str, Any]]:
    """Return the names of the columns, and the Arrow types under which they are kept. No row is read.

    The names are not for messages: in a file without a header they are a row.
    """
    file_format = _format(path)
    return without_values(_unreadable(path, file_format), lambda: file_format.types(path, delimiter))


def column_names(path: Path, delimiter: str = "") -> list[str]:
    """Return the names of the columns; they are not for messages either."""
    return [name for name, _ in column_types(path, delimiter)]


def read_columns(path: Path, names: list[str], delimiter: str = "") -> Any:
    """Return columns of a file, whose names were checked, as an Arrow table."""
    file_format = _format(path)

    def read() -> Any:
        return whole(file_format.read(path, names, delimiter).select(names))

    return without_values(_unreadable(path, file_format), read)


def whole(table: Any) -> Any:
    """Return an Arrow table, or a batch, after making sure that it is whole: of its layout, and of no cell."""
    for column in table.columns:
        for chunk in getattr(column, "chunks", [column]):
            _layout(chunk).validate(full=True)
    return table


def _layout(array: Any) -> Any:
    """Return the same memory under a type of which every content is valid: of texts bytes, of times integers."""
    pyarrow, types, kind = arrow(), arrow(".types"), array.type
    if types.is_dictionary(kind):
        return pyarrow.DictionaryArray.from_arrays(array.indices, _layout(array.dictionary))
    if types.is_string(kind) or types.is_large_string(kind):
        return array.view(pyarrow.binary() if types.is_string(kind) else pyarrow.large_binary())
    if types.is_temporal(kind) and kind.bit_width in (32, 64):
        return array.view(pyarrow.int32() if kind.bit_width == 32 else pyarrow.int64())
    if types.is_decimal(kind):
        return array.view(pyarrow.binary(kind.byte_width))
    return array


def _unreadable(path: Path, file_format: Format) -> str:
    return f"source={str(path)!r} cannot be read; expected {file_format.well_formed}"


def _format(path: Path) -> Format:
    if path.suffix.lower() not in FORMATS:
        raise InvalidArgument(
            f"source={str(path)!r} must end in one of {', '.join(FORMATS)}, or be a folder of Parquet"
        )
    arrow()
    return FORMATS[path.suffix.lower()]


def delimiter_of(path: str, stated: str) -> str:
    """Return what stands between the fields of a text file: what is stated, or what its ending says."""
    return stated or ("\t" if path.lower().endswith(".tsv") else ",")


def header(file: Any, delimiter: str) -> list[str]:
    """Return the names in the first line of a text file that is open for bytes."""
    text = TextIOWrapper(file, encoding="utf-8-sig", errors="replace", newline="")
    return next(csv.reader(text, delimiter=delimiter), [])


def block_sizes(size: int) -> Iterator[int]:
    """Yield ever larger blocks, up to the whole text: an error would disclose that a line is longer than a block."""
    block = _BLOCK
    while block < min(size, _LARGEST):
        yield block
        block *= 8
    yield max(min(size + 1, _LARGEST), _BLOCK)


def check_quotes(file: Any, shown: str) -> None:
    """Refuse a text, open for bytes, with a quote that never ends: it would make one cell of all lines after it."""
    count = 0
    while block := file.read(_BLOCK):
        count += block.count(b'"')
    if count % 2:
        raise InvalidArgument(
            f"source={shown!r} has an odd number of quotes, so that one of them has no end and takes all lines after "
            "it into its cell; expected quotes in pairs, and a quote in a cell written twice. Rewrite the file"
        )


def csv_options(names: list[str], delimiter: str, num_columns: int, block: int) -> dict[str, Any]:
    """Return how pyarrow reads some columns of a text file: as texts, for a guessed type would depend on every row."""
    module = arrow(".csv")
    return {
        "parse_options": module.ParseOptions(
            delimiter=delimiter,
            newlines_in_values=True,
            ignore_empty_lines=num_columns > 1,  # in a single column an empty line is an empty cell
        ),
        "read_options": module.ReadOptions(block_size=block),
        "convert_options": module.ConvertOptions(
            check_utf8=False,  # a cell that is no text is one of no value
            include_columns=names,
            column_types=dict.fromkeys(names, arrow().string()),
            null_values=[],
            strings_can_be_null=False,
        ),
    }


def _csv_types(path: Path, delimiter: str) -> list[tuple[str, Any]]:
    with path.open("rb") as file:
        names = header(file, delimiter_of(path.name, delimiter))
    return [(name, arrow().string()) for name in names]


def _csv_columns(path: Path, names: list[str], delimiter: str) -> Any:
    num_columns, *smaller, largest = len(_csv_types(path, delimiter)), *block_sizes(path.stat().st_size)
    with path.open("rb") as file:
        check_quotes(file, str(path))

    def read(block: int) -> Any:
        options = csv_options(names, delimiter_of(path.name, delimiter), num_columns, block)
        return arrow(".csv").read_csv(str(path), **options)

    for block in smaller:
        with suppress(arrow().ArrowInvalid):
            return read(block)
    return read(largest)


def _parquet_types(path: Path, _: str) -> list[tuple[str, Any]]:
    with arrow(".parquet").ParquetFile(path) as file:
        return [(field.name, field.type) for field in file.schema_arrow]


def _parquet_columns(path: Path, names: list[str], _: str) -> Any:
    with arrow(".parquet").ParquetFile(path) as file:
        return file.read(columns=names)


def _arrow_types(path: Path, _: str) -> list[tuple[str, Any]]:
    with arrow().OSFile(str(path)) as file:
        return [(field.name, field.type) for field in arrow_reader(file).schema]


def _arrow_columns(path: Path, names: list[str], _: str) -> Any:
    wanted = [position for position, (name, _) in enumerate(_arrow_types(path, "")) if name in names]
    with arrow().OSFile(str(path)) as file:
        return arrow_reader(file, included_fields=wanted).read_all()


def arrow_reader(file: Any, **options: Any) -> Any:
    """Return a reader of either form of Arrow's files; Feather is the one that begins with its name."""
    ipc = arrow(".ipc")
    begins_with_name = file.read(6) == b"ARROW1"
    file.seek(0)
    return (ipc.open_file if begins_with_name else ipc.open_stream)(file, options=ipc.IpcReadOptions(**options))


_CSV = Format(
    _csv_types,
    _csv_columns,
    "text in UTF-8, a first line with the names of the columns, and as many fields in every line",
)
_PARQUET = Format(_parquet_types, _parquet_columns, "a whole Parquet file")
_ARROW = Format(_arrow_types, _arrow_columns, "a whole file of Arrow, or of Feather in its second version")
FORMATS = {".csv": _CSV, ".tsv": _CSV, ".parquet": _PARQUET, ".feather": _ARROW, ".arrow": _ARROW, ".ipc": _ARROW}
"""How a file is read, by the end of its name."""
