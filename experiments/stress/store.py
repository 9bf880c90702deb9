"""Lines of JSON in small files, one line a run: nothing is lost with a process that is killed."""

import fcntl
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "results"
CELLS = FOLDER / "cells"


def place(kind: str, name: str, ending: str = "") -> Path:
    """Return the file of a problem, or of a problem at a budget."""
    plain = "".join(letter if letter.isalnum() or letter in ".=-" else "_" for letter in f"{name} {ending}".strip())
    return CELLS / kind / f"{plain}.jsonl"


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """Return what a file holds; a line that was not finished is left out."""
    if not path.exists():
        return
    for line in path.read_text().splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue


def append(path: Path, found: Mapping[str, Any]) -> None:
    """Add a line, in one piece, after whatever a killed process may have left."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        text = json.dumps(_plain(found), separators=(",", ":"))
        file.seek(0, 2)
        if file.tell():
            file.seek(-1, 2)
            text = text if file.read(1) == b"\n" else "\n" + text
        file.write(text.encode() + b"\n")


def by_seed(path: Path) -> dict[int, dict[str, Any]]:
    """Return the first line of each seed."""
    found: dict[int, dict[str, Any]] = {}
    for line in lines(path):
        found.setdefault(line["seed"], line)
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(each) for each in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        return float(f"{value:.10g}") if math.isfinite(value) else None
    return value
