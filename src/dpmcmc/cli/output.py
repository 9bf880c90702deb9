"""How answers are printed: a table for people, JSON for programs."""

import json
import math
from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def print_json(answer: Any) -> None:
    """Print plain values as JSON; infinity becomes the text "infinity", since JSON has no number for it."""
    typer.echo(json.dumps(_plain(answer), indent=2))


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> None:
    """Print a table with its last columns aligned to the right; nothing is cut off, however narrow the terminal."""
    typer.echo(title)
    console = Console(highlight=False, soft_wrap=False)
    table = Table(padding=(0, 1 if _has_room(columns, rows, console.width) else 0))
    for position, column in enumerate(columns):
        table.add_column(column, justify="left" if position == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))  # "ward[south]" is a name, not a style
    console.print(table)
    if caption:
        typer.echo(caption)  # not the table's own, which is as narrow as the table


def _has_room(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> bool:
    """Say whether cells with a space on either side fit; without, "ward[south]" is not broken so soon."""
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    return sum(widths) + 3 * len(widths) + 1 <= width


def _plain(answer: Any) -> Any:
    match answer:
        case dict():
            return {str(name): _plain(value) for name, value in answer.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # JSON values are untyped
        case list() | tuple():
            return [_plain(value) for value in answer]  # pyright: ignore[reportUnknownVariableType]
        case float() if math.isinf(answer):
            return "infinity"
        case _:
            return answer
