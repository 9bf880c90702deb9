"""How the result of a run, or the plan of one, is shown: to a person, or as JSON to a program."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dpmcmc.cli.budget import charged_in_words, largest_run, room_in_words
from dpmcmc.cli.options import EXIT_BAD, EXIT_BUDGET
from dpmcmc.cli.output import print_json, print_table

if TYPE_CHECKING:
    from dpmcmc.accounting.ledger.account import DatasetAccount
    from dpmcmc.fitting import PreparedFit
    from dpmcmc.posterior import Posterior

SOURCES = ("data", "privacy", "prior")
"""Where the variance of a number comes from, as columns of a summary."""


def show_plan(prepared: "PreparedFit", account: "DatasetAccount", as_json: bool) -> None:
    """Say whether a run would fit; nothing was charged. The exit code says so too."""
    fits = account.admits(prepared.event)
    if as_json:
        print_json({"describe": prepared.describe(), "fits": fits, "ledger": ledger_figures(account)})
    else:
        spent, budget = account.epsilon_spent, account.budget.epsilon
        typer.echo(f"{account.dataset!r} has spent epsilon {spent:.4g} of {budget:g}; {room_in_words(account)}.")
        typer.echo("It fits." if fits else "This run does NOT fit into what is left.")
        typer.echo("Nothing was charged.")
    if not fits:
        raise typer.Exit(EXIT_BUDGET)


def show(posterior: "Posterior", folder: Path, account: "DatasetAccount | None" = None, as_json: bool = False) -> None:
    """Print the summary of a run, what it guarantees, what is left of the budget, and where the run is."""
    if as_json:
        print_json(result_figures(posterior, folder, account))
    else:
        _show_summary(posterior)
        typer.echo(posterior.certificate.statement)
        if account is not None:
            typer.echo(charged_in_words(float(posterior.certificate.epsilon), account))
        typer.echo(f"The run is in {folder}: draws, summary, certificate, settings, report.html.")
        typer.echo(posterior.quality.words)
    if posterior.quality.verdict == "bad":
        raise typer.Exit(EXIT_BAD)


def result_figures(posterior: "Posterior", folder: Path, account: "DatasetAccount | None") -> dict[str, Any]:
    """Return a result as plain values. All of them are in the run folder, too, but for what is left now."""
    certificate, quality = posterior.certificate, posterior.quality
    summary = posterior.summary()
    rows = {str(name): {str(key): _number(cell) for key, cell in row.items()} for name, row in summary.iterrows()}
    return {
        "folder": str(folder),
        "verdict": quality.verdict,
        "reasons": list(quality.reasons),
        "summary": rows,
        "epsilon": float(certificate.epsilon),
        "delta": certificate.delta,
        "statement": certificate.statement,
        "ledger": None if account is None else ledger_figures(account),
    }


def ledger_figures(account: "DatasetAccount") -> dict[str, Any]:
    """Return what is spent of a budget and what is left, as plain values."""
    return {
        "dataset": account.dataset,
        "epsilon": account.budget.epsilon,
        "delta": account.budget.delta,
        "epsilon_spent": float(account.epsilon_spent),
        "epsilon_left": account.epsilon_left,
        "largest_run": largest_run(account),
    }


def _number(cell: Any) -> Any:
    return cell if isinstance(cell, str) else float(cell)


def _show_summary(posterior: "Posterior") -> None:
    summary = posterior.summary()
    if (summary["verdict"].to_numpy() == "good").all():
        summary = summary.drop(columns="verdict")  # the last line says so
    columns = [str(column) for column in summary.columns]
    cells = zip(summary.index, summary.to_numpy(), strict=True)
    rows = [[str(name), *(_cell(*each) for each in zip(columns, row, strict=True))] for name, row in cells]
    print_table("Posterior", ["parameter", *columns], rows)


def _cell(column: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if column in SOURCES:
        return f"{100 * value:.0f}%"
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"
