"""``dpmcmc fit``: from a table with sensitive rows to a private posterior."""

import importlib.util
import os
import re
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpmcmc import accounting
from dpmcmc.accounting import Adjacency
from dpmcmc.cli.budget import account_now, confirm, explained
from dpmcmc.cli.options import granted, names_options
from dpmcmc.cli.output import AsJson
from dpmcmc.cli.result import show, show_plan
from dpmcmc.errors import InvalidArgument, LedgerUnavailable, RunInterrupted, UnknownDataset

if TYPE_CHECKING:
    from dpmcmc.posterior import Posterior

IN_A_FILE = re.compile(r"(?P<file>[^~]+\.py):(?P<name>\w+)")


@names_options
def fit(
    model: Annotated[str, typer.Argument(help='A formula, "y ~ a + b", or a NumPyro model in a file, model.py:name.')],
    data: Annotated[
        str, typer.Option(help="The table: CSV, Parquet, Arrow; a folder, a pattern such as 'l/*.parquet', a URL.")
    ],
    schema: Annotated[Path, typer.Option(help="Schema file (TOML): bounds and categories (`dpmcmc schema new`).")],
    ledger: Annotated[str, typer.Option(help="Ledger to charge: a file, sqlite:///FILE or postgresql://...")],
    epsilon: Annotated[float, typer.Option(help="Epsilon of this run; it is charged to the ledger.")],
    delta: Annotated[float | None, typer.Option(help="Delta (default: that of the budget).")] = None,
    family: Annotated[
        str | None, typer.Option(help="Family of a formula: gaussian, gamma, poisson, ... (docs/formulas.md).")
    ] = None,
    prior: Annotated[
        list[str] | None, typer.Option(help='For formulas: the prior of a term, "age=normal(0, 1)"; may be repeated.')
    ] = None,
    sampler: Annotated[str, typer.Option(help="auto, or the name of a sampler (`dpmcmc plan samplers`).")] = "auto",
    chains: Annotated[int, typer.Option(help="Number of chains; each is charged.")] = 2,
    steps: Annotated[int | None, typer.Option(help="Steps per chain (default: depends on the sampler).")] = None,
    passes: Annotated[
        int | None, typer.Option(help="For formulas: the largest number of passes over all rows.")
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(help="Address of a Dask scheduler whose workers hold the rows: tcp://HOST:PORT or tls://..."),
    ] = None,
    scratch: Annotated[
        Path | None,
        typer.Option(help="Folder for private temporary files, for tables that do not fit into memory."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Run folder to write, a new one; required unless --dry-run.")
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="Name of the table in the ledger (default: that of the file).")
    ] = None,
    grant_epsilon: Annotated[
        float | None, typer.Option(help="Grant the table a budget with this epsilon if it has none.")
    ] = None,
    grant_delta: Annotated[float | None, typer.Option(help="Delta of that budget.")] = None,
    adjacency: Annotated[Adjacency, typer.Option(help="Which data sets count as neighbours.")] = Adjacency.REPLACE_ONE,
    capacity: Annotated[
        int | None,
        typer.Option(
            help="Required under add_or_remove_one: an upper bound on the number of records, known without the data."
        ),
    ] = None,
    rows_keep_place: Annotated[
        bool,
        typer.Option("--rows-keep-place", help="State that the order of the rows does not depend on their values."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done and what it would cost; charge nothing.")
    ] = False,
    allow_low_accuracy: Annotated[
        bool, typer.Option("--allow-low-accuracy", help="Run even if the expected error is above 1 posterior SD.")
    ] = False,
    purpose: Annotated[str, typer.Option(help="What the result is for; published with the run.")] = "",
    contact: Annotated[str, typer.Option(help="Contact for readers of the report; published with the run.")] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation at a terminal.")] = False,
    json: AsJson = False,
) -> None:
    """Fit a model to private rows under a budget, and write a run folder that may be published.

    Exit codes: 2 wrong usage, 3 the budget does not suffice, 4 the result would be useless, 5 its verdict is bad.
    """
    folder = None if dry_run else _new_folder(output)
    priors = _priors(prior)
    grant = granted(grant_epsilon, grant_delta)
    chosen = read_model(model)
    name = _name(data, scheduler)
    dataset = name if dataset is None else dataset
    book = _book(ledger, dataset, is_for_show=dry_run and grant is not None)
    if grant is None:
        with explained(ledger, dataset):
            accounting.Ledger(ledger).account(dataset)
    # JAX and the rest take a second to load; the other commands do without
    from dpmcmc.enclave.tables import from_table
    from dpmcmc.fitting import prepare_fit, run_in_folder

    client = connected(scheduler)
    records = from_table(
        data,
        schema=schema,
        ledger=book,
        dataset=dataset,
        budget=grant,
        adjacency=adjacency,
        capacity=capacity,
        scratch=scratch,
        client=client,
        rows_keep_place=rows_keep_place,
    )
    prepared = prepare_fit(
        chosen,
        records,
        epsilon=epsilon,
        delta=delta,
        family=family,
        priors=priors,
        sampler=sampler,
        num_chains=chains,
        num_steps=steps,
        passes=passes,
        allow_low_accuracy=allow_low_accuracy,
        purpose=purpose,
        contact=contact,
    )
    if not json:
        typer.echo(prepared.describe())
    if folder is None:
        account = (accounting.Ledger(book) if isinstance(book, str) else book).account(dataset)
        show_plan(prepared, account, json)
        return
    confirm(yes, epsilon, dataset)
    command: dict[str, Any] = {
        "directory": str(Path.cwd()),
        "model": model,
        "data": data,
        "schema": str(schema),
        "ledger": ledger,
        "dataset": dataset,
        "adjacency": adjacency.value,
        "capacity": capacity,
        "scheduler": scheduler,
        "scratch": None if scratch is None else str(scratch),
        "rows_keep_place": rows_keep_place,
    }
    with explained(ledger, dataset):
        posterior = run_or_say_how_to_resume(folder, lambda: run_in_folder(prepared, folder, command=command))
    show(posterior, folder, account_now(ledger, dataset), json)


def _name(data: str, scheduler: str | None) -> str:
    """Return the name of a table in the ledger; a file of this machine that is not there is refused."""
    from dpmcmc.enclave.sources.opening import check_there, is_plain, name_of  # PyArrow takes a while to load

    if scheduler is None and is_plain(data) and not Path(data).exists():  # a grant to no file would stay in the ledger
        raise InvalidArgument(f"--data {data!r} cannot be read: no such file or folder")
    if scheduler is None:
        check_there(data)
    return name_of(data)


def connected(scheduler: str | None) -> Any:
    """Return a client of a Dask scheduler, if one is named."""
    if scheduler is None:
        return None
    from dpmcmc.enclave.engines.dask import connect

    return connect(scheduler)


def _new_folder(output: Path | None) -> Path:
    """Make sure, before anything is spent, that the result will have a place."""
    if output is None:
        raise InvalidArgument("--output is missing; expected the run folder to write, or --dry-run")
    if output.exists():
        raise InvalidArgument(f"--output {str(output)!r} exists; choose a new one, a saved run is not overwritten")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidArgument(f"--output {str(output)!r} cannot be written: {error.strerror}") from error
    if not os.access(output.parent, os.W_OK):
        raise InvalidArgument(f"--output {str(output)!r} cannot be written: permission denied")
    return output


def _priors(stated: list[str] | None) -> dict[str, str] | None:
    parts = [text.partition("=") for text in stated or []]
    wrong = next((name for name, equals, _ in parts if not equals), None)
    if wrong is not None:
        raise InvalidArgument(f'--prior {wrong!r} must be NAME=PRIOR, such as "age=normal(0, 1)"')
    return {name.strip(): prior.strip() for name, _, prior in parts} or None


def read_model(stated: str) -> Any:
    """Return a formula as it is, and ``file.py:name`` as what the file calls by that name."""
    named = IN_A_FILE.fullmatch(stated.strip())
    if named is None:
        if stated.strip().endswith(".py"):
            raise InvalidArgument(f"{stated!r} must say which model of the file, as in {stated.strip()}:NAME")
        return stated
    file, name = Path(named["file"]), named["name"]
    if not file.is_file():
        raise InvalidArgument(f"{str(file)!r} cannot be read: no such file")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise InvalidArgument(f"{str(file)!r} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        with _without_bytecode():
            spec.loader.exec_module(module)
    except Exception as error:  # whatever the file raises is what is wrong with it; no record was read yet
        raise InvalidArgument(f"{str(file)!r} cannot be imported: {type(error).__name__}: {error}") from error
    if not hasattr(module, name):
        raise InvalidArgument(f"{str(file)!r} has no {name!r}; expected a NumPyro model of that name")
    from dpmcmc.model import Model

    found = getattr(module, name)
    if not (callable(found) or isinstance(found, Model)):
        raise InvalidArgument(f"{name!r} in {str(file)!r} is a {type(found).__name__}; expected a NumPyro model")
    return found


@contextmanager
def _without_bytecode() -> Generator[None]:
    """Leave nothing beside a file that is imported."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before


def _book(url: str, dataset: str, is_for_show: bool) -> "accounting.Ledger | str":
    """Return the ledger to charge; where a grant is only for show and nothing is known, one that leaves no trace."""
    if not is_for_show:
        return url
    try:
        accounting.Ledger(url).account(dataset)
    except (LedgerUnavailable, UnknownDataset):
        return accounting.Ledger.in_memory()
    return url


def run_or_say_how_to_resume(folder: Path, run: Callable[[], "Posterior"]) -> "Posterior":
    """Run; if that is interrupted, say how to go on, and leave with the exit code of Ctrl-C."""
    try:
        return run()
    except RunInterrupted as stopped:
        if stopped.__cause__ is not None:  # not by Ctrl-C
            raise
        typer.echo(f"dpmcmc: {stopped}", err=True)
    except KeyboardInterrupt:
        typer.echo(
            f"dpmcmc: stopped at once; `dpmcmc resume {folder}` continues the run at no further charge", err=True
        )
    raise typer.Exit(130)
