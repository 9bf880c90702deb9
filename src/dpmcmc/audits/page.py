"""The page of an audit of a model: what was tried, and what was seen."""

import math
import os
from importlib.metadata import version
from pathlib import Path

from dpmcmc.audits.closures import in_words
from dpmcmc.audits.models import ModelAudit, Tried
from dpmcmc.errors import InvalidArgument
from dpmcmc.report.page import environment


def write_page(found: ModelAudit, path: str | os.PathLike[str]) -> Path:
    """Write the page; it needs nothing but a browser."""
    place = Path(path)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(render(found), encoding="utf-8")
    except OSError as error:
        raise InvalidArgument(f"path={str(place)!r} cannot be written: {error.strerror}") from error
    return place


def render(found: ModelAudit) -> str:
    """Return the page as HTML."""
    rows = [_row(one) for one in found.tried]
    return (
        environment("dpmcmc.audits")
        .get_template("audit.html")
        .render(
            audit=found, rows=rows, canaries=_canaries(found), fixed=in_words(found.closures), version=version("dpmcmc")
        )
    )


def _row(one: Tried) -> dict[str, str | bool | float]:
    finding = one.finding
    return {
        "mechanism": finding.pair.mechanism,
        "path": ", ".join(one.paths),
        "runs": f"{finding.runs:,}",
        "claimed": f"{finding.claimed:.3f}",
        "no_assumption": f"{finding.lower_no_assumption:.3f}",
        "trade_off": f"{finding.lower_trade_off:.3f}",
        "moved": f"{100 * one.sensitivity:.2f}",
        "share": 100 * min(max(finding.lower_trade_off, 0.0) / finding.claimed, 1.0),
        "share_no_assumption": 100 * min(max(finding.lower_no_assumption, 0.0) / finding.claimed, 1.0),
        "broken": one.is_broken,
    }


def _canaries(found: ModelAudit) -> list[tuple[str, list[tuple[str, str, str]]]]:
    """Return the synthetic rows that each release was tried with, once for each pair."""
    shown: dict[str, list[tuple[str, str, str]]] = {}
    for one in found.tried:
        first, second = one.canaries
        shown.setdefault(
            one.finding.pair.mechanism, [(name, _cell(first[name]), _cell(second[name])) for name in first]
        )
    return list(shown.items())


def _cell(value: object) -> str:
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(_cell(one) for one in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return str(value)
