"""How objects show themselves in a notebook: a title, a table of pairs, and words; everything is escaped."""

from collections.abc import Iterable, Sequence
from html import escape
from textwrap import shorten

_CELL = 'style="text-align:left;vertical-align:top;padding:.1em 1em .1em 0"'
_NAME = _CELL.replace("padding", "white-space:nowrap;padding")


def card(title: str, rows: Iterable[tuple[str, object]], *, body: str = "", notes: Sequence[str] = ()) -> str:
    """Return a small table as HTML.

    Args:
        title: what it is.
        rows: what is known of it, in pairs.
        body: further HTML, escaped already.
        notes: sentences below.
    """
    cells = "".join(
        f"<tr><th {_NAME}>{escape(name)}</th><td {_CELL}>{escape(str(value))}</td></tr>" for name, value in rows
    )
    below = "".join(f"<p>{escape(note)}</p>" for note in notes if note)
    return f"<div><p><strong>{escape(title)}</strong></p><table>{cells}</table>{body}{below}</div>"


def line(words: str, width: int = 80) -> str:
    """Return words in one line of a screen, cut off with dots where they are longer."""
    return shorten(words, width, placeholder=" ...")
