"""``dpmcmc resume``: resume an interrupted run."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from dpmcmc.cli.fit import connected, read_model, run_or_say_how_to_resume, show
from dpmcmc.errors import InvalidArgument, ResumeRefused


def resume(
    folder: Annotated[Path, typer.Argument(help="The run folder, --output of `dpmcmc fit`.")],
    stop: Annotated[
        bool, typer.Option("--stop", help="Finish now: keep the draws so far and refund the unused budget.")
    ] = False,
    scheduler: Annotated[
        str | None, typer.Option(help="The Dask scheduler, if its address has changed since the run began.")
    ] = None,
) -> None:
    """Resume an interrupted run, stopped by Ctrl-C or otherwise; it is not charged again."""
    if not folder.is_dir():
        raise InvalidArgument(f"{str(folder)!r} is not a run folder: no such folder")
    folder = folder.resolve()
    # JAX and the rest take a second to load; the other commands do without
    from dpmcmc import fitting
    from dpmcmc.cli.budget import account_now
    from dpmcmc.enclave import Journal
    from dpmcmc.enclave.tables import from_table
    from dpmcmc.posterior import Posterior
    from dpmcmc.run.folder import is_finished

    if is_finished(folder):
        typer.echo("The run is finished: there is nothing to do, and nothing was charged.")
        show(Posterior.load(folder), folder)
        return
    with Journal.open(folder) as journal:
        command: dict[str, Any] | None = journal.memo["command"]
    if command is None:
        raise InvalidArgument(f"{str(folder)!r} was started in Python; continue with dpmcmc.resume(folder, data)")
    try:
        os.chdir(command["directory"])  # paths mean what they meant when the run was begun
    except OSError as error:
        raise ResumeRefused(
            f"{command['directory']!r}, where the run was started, cannot be entered: {error.strerror}"
        ) from error
    model = read_model(command["model"])
    records = from_table(
        command["data"],
        schema=Path(command["schema"]),
        ledger=command["ledger"],
        dataset=command["dataset"],
        adjacency=command["adjacency"],
        capacity=command["capacity"],
        scratch=command.get("scratch"),
        client=connected(scheduler or command.get("scheduler")),
        rows_keep_place=command.get("rows_keep_place", False),
    )
    chosen = None if isinstance(model, str) else model
    posterior = run_or_say_how_to_resume(folder, lambda: fitting.resume(folder, records, chosen, stop=stop))
    show(posterior, folder, account_now(command["ledger"], command["dataset"]))
