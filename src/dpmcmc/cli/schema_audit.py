"""``dpmcmc schema audit``: how well a schema fits a table, in noisy counts that are charged to it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpmcmc.accounting import Adjacency
from dpmcmc.cli.budget import account_now, charged_in_words
from dpmcmc.cli.options import granted, names_options
from dpmcmc.cli.output import AsJson, print_json, print_table

if TYPE_CHECKING:
    from dpmcmc.schema_audit import SchemaAudit


@names_options
def audit(
    schema: Annotated[Path, typer.Argument(help="The TOML file.")],
    data: Annotated[Path, typer.Option(help="The table: CSV, Parquet, Arrow, or a folder of Parquet.")],
    ledger: Annotated[str, typer.Option(help="Ledger to charge: a file, sqlite:///FILE or postgresql://...")],
    epsilon: Annotated[float, typer.Option(help="Epsilon of the audit; 0.1 is enough for most tables.")],
    delta: Annotated[float | None, typer.Option(help="Delta (default: that of the budget).")] = None,
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
    json: AsJson = False,
) -> None:
    """Count with noise the missing, unknown and clamped cells of a private table; the ledger is charged."""
    grant = granted(grant_epsilon, grant_delta)
    from dpmcmc.schema_audit import audit_schema  # JAX and the rest take a second to load

    found = audit_schema(
        data,
        schema,
        epsilon=epsilon,
        delta=delta,
        ledger=ledger,
        dataset=dataset,
        budget=grant,
        adjacency=adjacency,
        capacity=capacity,
    )
    if json:
        print_json(_plain(found))
        return
    _show(str(data), found)
    from dpmcmc.enclave.sources.opening import name_of

    account = account_now(ledger, dataset or name_of(data))
    if account is not None:
        typer.echo(charged_in_words(float(found.certificate.epsilon), account))


def _show(data: str, found: "SchemaAudit") -> None:
    """Print the counts with their shares, what should be looked into, and what it cost."""
    from dpmcmc.schema_audit import percent

    problems, rows = ("missing", "unknown", "clamped"), list[list[str]]()
    for name, shares in found.shares.items():
        counts = found.counts[name]
        cells = {problem: f"{max(counts[problem], 0):,.0f} ({percent(share)})" for problem, share in shares.items()}
        rows.append([name, *(cells.get(problem, "") for problem in problems)])
    of_all = percent(found.noise_sd / max(found.num_records, 1.0))
    units = "records" if found.schema.person is None else "persons, each by the share of the rows"
    print_table(
        f"{data}: cells that do not fit the schema, of {found.num_records:,.0f} {units}",
        ["column", *problems],
        rows,
        f"Each count has noise with a standard deviation of {found.noise_sd:,.0f} ({of_all}).",
    )
    for warning in found.warnings:
        typer.echo(f"Warning: {warning}.")
    typer.echo(found.certificate.statement)


def _plain(found: "SchemaAudit") -> dict[str, object]:
    return {
        "counts": found.counts,
        "num_records": found.num_records,
        "noise_sd": found.noise_sd,
        "warnings": list(found.warnings),
        "certificate": found.certificate.to_dict(),
    }
