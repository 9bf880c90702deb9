"""What a paper consists of here: studies, which make tables, and targets, which make a figure or a table of them."""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pandas as pd

if TYPE_CHECKING:  # cells run without it
    from matplotlib.figure import Figure

Configuration: TypeAlias = Mapping[str, Any]
"""What configuration.toml says, by section, and other TOML files beside it."""

Cell: TypeAlias = dict[str, Any]
"""One setting and one repeat, in plain values: all that its result depends on, the seed included."""

Rows: TypeAlias = list[dict[str, Any]]
"""What a cell found: numbers and words by column; lists, such as draws to be shown, stay out of the written table."""

Tables: TypeAlias = Mapping[str, pd.DataFrame]
"""The results of studies by the name of the study."""


@dataclass(frozen=True)
class Study:
    """Cells of one kind, and what runs one: together they make one tidy table.

    Attributes:
        name: the name of its table.
        cells: from the configuration to the cells.
        run: from a cell to its rows, a pure function at the top level of a module, so that any process can run it.
        run_together: the same for cells that differ in their ``repeat`` alone, in one program, where that is faster.
            What it returns has the same law, not the same digits.
    """

    name: str
    cells: Callable[[Configuration], list[Cell]]
    run: Callable[[Cell], Rows]
    run_together: Callable[[list[Cell]], list[Rows]] | None = None


@dataclass(frozen=True)
class Product:
    """What a target makes: a picture, a table that says the same, and what they show in a few words."""

    caption: str
    """What is shown, and in which setting: written under the picture and into the summary."""
    summary: str
    """What came out, in Markdown: lines that start with a verdict where the paper claims something."""
    figure: "Figure | None" = None
    table: pd.DataFrame | None = None


@dataclass(frozen=True)
class Target:
    """One figure or table of a paper."""

    name: str
    title: str
    studies: tuple[Study, ...]
    make: Callable[[Tables, Configuration], Product]


@dataclass(frozen=True)
class Paper:
    """A folder of experiments."""

    name: str
    """What the command line calls it."""
    title: str
    folder: Path
    targets: tuple[Target, ...] = field(default=())

    def output(self, *, quick: bool = False) -> Path:
        """Return the folder for what is found, made if need be; a quick run has one apart."""
        place = self.folder / ("quick" if quick else "results")
        place.mkdir(exist_ok=True)
        return place

    def configuration(self, *, quick: bool = False) -> dict[str, Any]:
        """Return what the TOML files of the folder say together; where `quick`, with their sections of that name."""
        sections: dict[str, Any] = {}
        for place in sorted(self.folder.glob("*.toml")):
            sections = merged(sections, tomllib.loads(place.read_text(encoding="utf-8")))
        reduced = sections.pop("quick", {})
        return merged(sections, reduced) if quick else sections


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested settings with the changes put in place."""
    result = dict(base)
    for name, value in changes.items():
        old = result.get(name)
        result[name] = merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return result
