"""``dpmcmc audit``: the user's own model on synthetic rows, and a page that says what was seen."""

import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from dpmcmc.cli.fit import read_model
from dpmcmc.cli.options import EXIT_BROKEN, names_options
from dpmcmc.cli.output import print_table
from dpmcmc.cli.report import Open, open_page
from dpmcmc.errors import InvalidArgument

if TYPE_CHECKING:
    from dpmcmc.audits.models import ModelAudit


@names_options
def audit(
    model: Annotated[str | None, typer.Option(help="A model in a file, model.py:name.")] = None,
    formula: Annotated[str | None, typer.Option(help='A formula, "y ~ a + b", with --schema.')] = None,
    schema: Annotated[Path | None, typer.Option(help="Schema file (TOML): bounds and categories.")] = None,
    family: Annotated[
        str | None,
        typer.Option(help="Family of a formula: gaussian, poisson, ...; optional if the response implies it."),
    ] = None,
    epsilon: Annotated[float, typer.Option(help="Claimed epsilon of one release.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Claimed delta of one release.")] = 1e-6,
    runs: Annotated[int, typer.Option(help="Number of runs on each of the two neighbouring tables.")] = 100_000,
    output: Annotated[Path, typer.Option(help="HTML page to write.")] = Path("audit.html"),
    show: Open = False,
) -> None:
    """Audit your own model: attack its releases on synthetic rows and compare what is seen with the claimed epsilon."""
    if (model is None) == (formula is None):
        raise InvalidArgument("say what to audit: --model model.py:name, or --formula with --schema")
    stated = str(model if formula is None else formula)
    chosen = read_model(stated)
    if formula is not None and schema is None:
        raise InvalidArgument("--formula needs --schema, which says what its columns are")
    # JAX and the rest take a second to load; the other commands do without
    from dpmcmc.audits.models import audit_model
    from dpmcmc.audits.page import write_page

    made, record, bounds = _with_records(chosen, schema, family)
    asked: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "runs": runs, "is_formula": formula is not None}
    found = audit_model(stated, made, record, bounds, **asked, tell=_tell)
    _show(found)
    page = write_page(found, output)
    typer.echo(f"wrote {page}")
    if show:
        open_page(page)
    if found.is_broken:
        raise typer.Exit(EXIT_BROKEN)


def _with_records(chosen: Any, schema: Path | None, family: str | None) -> tuple[Any, Any, Any]:
    """Return the model, the shapes of a record and the stated bounds: of a schema, or of the model's own arguments."""
    import jax
    import jax.numpy as jnp

    from dpmcmc.model import Model, from_numpyro

    if schema is not None:
        from dpmcmc.audits.synthetic import vault_of_schema
        from dpmcmc.fitting.models import as_model

        vault = vault_of_schema(schema)
        return as_model(chosen, vault, family), vault.facts.record, vault.facts.bounds
    if isinstance(chosen, Model):
        raise InvalidArgument("a Model does not say what a record is; state its columns with --schema")
    names = list(inspect.signature(chosen).parameters)
    record = {name: jax.ShapeDtypeStruct((), jnp.float32) for name in names}
    return from_numpyro(chosen, record), record, {}


def _tell(words: str, share: float) -> None:
    """Say how it gets on, on standard error."""
    Console(file=sys.stderr).print(f"{share:4.0%} {words}", highlight=False)


def _show(found: "ModelAudit") -> None:
    from dpmcmc.audits.closures import in_words

    rows = [
        [
            f"{one.finding.pair.mechanism}, {', '.join(one.paths)}",
            f"{one.finding.runs:,}",
            f"{one.finding.claimed:.3f}",
            f"{one.finding.lower_no_assumption:.3f}",
            f"{one.finding.lower_trade_off:.3f}",
            f"{100 * one.sensitivity:.2f} %",
        ]
        for one in found.tried
    ]
    columns = ["release", "runs", "claimed epsilon", "seen, no assumption", "seen, if Gaussian", "sensitivity used"]
    verdict = "MORE WAS SEEN THAN IS CLAIMED" if found.is_broken else "nothing exceeds the claim"
    if fixed := in_words(found.closures):
        verdict += ", except for what the model closes over"
        typer.echo(f"warning: the model closes over {fixed}. They have to be public: no run varies them", err=True)
    print_table(f"Audit of {found.name}: {verdict}", columns, rows, f"Confidence 1 - {found.error:g} for all of it.")
