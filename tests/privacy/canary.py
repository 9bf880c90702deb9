"""A row that occurs nowhere else, and a search for any trace of it in all files below a folder.

A file is searched as it is, and what is packed inside it: streams of zlib, gzip and zstd (JAX's compilation cache), and
the arrays and attributes of HDF5 and the columns of Parquet (draws). Records quantised to 16 bits are not looked for:
two bytes are anywhere. Of draws.csv the numbers are searched as numbers: among a hundred thousand random digits any six
turn up once in a while.
"""

import base64
import gzip
import importlib
import io
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pandas as pd

NAME, NUMBER = "Quenby Zorn", "123456.789"
INCOME, WEIGHT = (0.0, 1_000_000.0), (0.0, 200_000.0)
"""The bounds of the two columns that hold the number."""

WORDS = (NAME, "Quenby", "Zorn", NUMBER, "123456", "123457", "123,456", "1.23456", "0.123456", "0.617283", "0.753086")
"""Texts, among them the number as a share of the bounds and as scaled by them, -0.753086 and 0.234567."""


def numbers() -> dict[str, float]:
    """The number as it stands, centred, as a share of its bounds and scaled by them to [-1, 1]."""
    forms = {"as it stands": float(NUMBER)}
    for column, (lower, upper) in {"income": INCOME, "weight": WEIGHT}.items():
        centre, half = (lower + upper) / 2, (upper - lower) / 2
        forms[f"{column} centred"] = float(NUMBER) - centre
        forms[f"{column} as a share"] = (float(NUMBER) - lower) / (upper - lower)
        forms[f"{column} scaled"] = (float(NUMBER) - centre) / half
    return forms


def traces() -> dict[str, bytes]:
    """Every sequence of bytes that would give the row away, by what it is."""
    found = {}
    for word in WORDS:
        for encoding in ("utf-8", "utf-16-le", "utf-16-be"):
            found[f"{word!r} in {encoding}"] = word.encode(encoding)
        found[f"{word!r} in hex"] = word.encode().hex().encode()
    for shift in range(3):  # base64 of a longer text: the letters that do not depend on what stands around the name
        coded = base64.b64encode(b"\0" * shift + NAME.encode())
        found[f"the name in base64, shifted by {shift}"] = coded[-(-8 * shift // 6) : (8 * (shift + len(NAME))) // 6]
    for what, value in numbers().items():
        for kind in ("<d", ">d", "<f", ">f"):
            found[f"the number {what} as {kind}"] = struct.pack(kind, value)
        single = float(np.float32(value))
        found |= {f"single precision {what} as {kind}": struct.pack(kind, single) for kind in ("<d", ">d")}
    for kind in ("<i", ">i", "<q", ">q"):
        found[f"the rounded number as {kind}"] = struct.pack(kind, round(float(NUMBER)))
    return found


TRACES = traces()


def traces_in(content: bytes) -> list[str]:
    return [what for what, sequence in TRACES.items() if sequence in content]


def contents(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the bytes of a file, and the bytes of whatever is packed in it, each with where it was."""
    raw = path.read_bytes()
    table = _numbers_in(raw) if path.name == "draws.csv" else None
    yield "as it is", raw if table is None else table
    for name, unpack in UNPACKERS.items():
        try:
            yield f"unpacked by {name}", unpack(raw)
        except Exception:  # noqa: S112  # it is not packed so
            continue
    if h5py.is_hdf5(path):
        with h5py.File(path) as file:
            yield "in HDF5", b"\0".join(_inside(file))
    if raw[:4] == raw[-4:] == b"PAR1":
        try:
            frame = pd.read_parquet(path)
        except Exception:  # it only looks like one
            return
        yield "in Parquet", _columns(frame)


def _columns(frame: pd.DataFrame) -> bytes:
    """Return names and values of a table: numbers in single and in double precision, others as texts."""
    parts = [str(list(frame.columns)).encode()]
    for column in (frame[name] for name in frame):
        if column.dtype.kind in "biuf":
            parts += [np.asarray(column, kind).tobytes() for kind in (np.float32, np.float64)]
        else:
            parts.append(str(column.tolist()).encode())
    return b"\0".join(parts)


def _numbers_in(raw: bytes) -> bytes | None:
    """Return what a CSV file holds besides numbers, and the numbers as such; None if it is no table of numbers."""
    frame = pd.read_csv(io.BytesIO(raw))
    return _columns(frame) if all(kind.kind in "biuf" for kind in frame.dtypes) else None


def _zstd(raw: bytes) -> bytes:
    for name in ("compression.zstd", "zstandard"):
        try:
            return importlib.import_module(name).decompress(raw)
        except ModuleNotFoundError:
            continue
    raise ValueError


UNPACKERS = {"zlib": zlib.decompress, "gzip": gzip.decompress, "zstd": _zstd}


def _inside(file: h5py.File) -> list[bytes]:
    parts: list[bytes] = []

    def visit(name: str, item: h5py.Group | h5py.Dataset) -> None:
        parts.append(name.encode())
        values = [*item.attrs.values(), *([item[()]] if isinstance(item, h5py.Dataset) else [])]
        for value in values:
            array = np.asarray(value)
            parts.append(array.tobytes() if array.dtype.kind in "biufcSV" else str(array.tolist()).encode())

    visit("/", file)
    file.visititems(visit)
    return parts


def search(folder: Path) -> tuple[list[str], list[str]]:
    """Search all files below a folder: return the traces that were found, and all that was searched."""
    found: list[str] = []
    searched: list[str] = []
    for path in sorted(folder.rglob("*")):
        found += [f"{path.relative_to(folder)}: {what} in its name" for what in traces_in(path.name.encode())]
        if path.is_file():
            for where, content in contents(path):
                searched.append(f"{path.relative_to(folder)} {where}")
                found += [f"{searched[-1]}: {what}" for what in traces_in(content)]
    return found, searched
