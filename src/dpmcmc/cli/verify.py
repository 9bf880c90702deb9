"""``dpmcmc verify``: every number of a certificate recomputed, with proof."""

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpmcmc import accounting
from dpmcmc.cli.documents import read_document
from dpmcmc.cli.output import AsJson, print_json, print_table
from dpmcmc.errors import InvalidArgument

if TYPE_CHECKING:
    from dpmcmc.verification import Figure, LedgerMatch, Verified

LONGEST_SETTINGS = 4_000_000
"""In characters; those of a fit have some thousands."""


def verify(
    certificate: Annotated[Path, typer.Argument(help="certificate.json, or the run folder that it is in.")],
    ledger: Annotated[
        str | None, typer.Option(help="Compare with this ledger as well: a file, sqlite:///FILE or postgresql://...")
    ] = None,
    run: Annotated[
        str | None, typer.Option(help="The run's name in the ledger (default: that of config.toml beside it).")
    ] = None,
    json: AsJson = False,
) -> None:
    """Recompute every number of a certificate in ball arithmetic; refuse it if anything does not agree."""
    from dpmcmc import verification  # loads Arb, for which the other commands do not wait

    file = certificate / "certificate.json" if certificate.is_dir() else certificate
    found = verification.verify(read_document(file, "a certificate", verification.MOST_CHARACTERS))
    match = None
    if ledger is not None:
        named = run if run is not None else _run_beside(file)
        match = verification.find_entry(found.certificate, accounting.Ledger(ledger), named)
    if json:
        print_json(_plain(found, match))
        return
    _show(file, found, match)


def _run_beside(file: Path) -> str | None:
    """Return the name of the run that a folder is of, where its settings say so."""
    settings = file.with_name("config.toml")
    if not settings.is_file():
        return None
    try:
        entry = tomllib.loads(read_document(settings, "settings", LONGEST_SETTINGS)).get("ledger", {})
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"{str(settings)!r} names no run: {error}; name the run with --run") from error
    if not isinstance(entry, dict) or not isinstance(entry.get("run", ""), str):  # pyright: ignore[reportUnknownMemberType]
        raise InvalidArgument(f"{str(settings)!r} has no table [ledger] with the name of a run; name it with --run")
    return entry.get("run")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _show(file: Path, found: "Verified", match: "LedgerMatch | None") -> None:
    rows = [[figure.name, _stated(figure), _recomputed(figure)] for figure in found.figures]
    print_table(f"{file}: consistent; recomputed in ball arithmetic", ["number", "stated", "recomputed"], rows)
    typer.echo(f"event: SHA-256 {found.event_hash}")
    if match is not None:
        entry = match.entry
        typer.echo(
            f"ledger: entry {entry.number}, run {entry.run}, {entry.dataset!r}, settled {entry.when}: same event, "
            "adjacency and version"
        )
        typer.echo(f"not recorded in the ledger, and so not confirmed: {', '.join(match.unconfirmed)}")
    typer.echo(found.certificate.statement)
    if found.certificate.advisory:
        typer.echo(f"Advisory: {found.certificate.advisory}")


def _stated(figure: "Figure") -> str:
    return "" if figure.stated is None else f"{figure.stated:.12g}"


def _recomputed(figure: "Figure") -> str:
    """Write the middle of an enclosure and its radius; `--json` has the ends."""
    middle, radius = (figure.lower + figure.upper) / 2, (figure.upper - figure.lower) / 2
    return f"{middle:.12g} ± {radius:.0e}" if radius else f"{middle:.12g}"


def _plain(found: "Verified", match: "LedgerMatch | None") -> dict[str, object]:
    figures = [
        {"name": one.name, "stated": one.stated, "lower": one.lower, "upper": one.upper} for one in found.figures
    ]
    entry = None if match is None else match.entry.to_dict()
    unconfirmed = None if match is None else list(match.unconfirmed)
    return {
        "consistent": True,
        "event_hash": found.event_hash,
        "figures": figures,
        "ledger_entry": entry,
        "ledger_does_not_confirm": unconfirmed,
    }
