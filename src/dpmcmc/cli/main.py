"""Entry point of the ``dpmcmc`` command."""

import errno
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from dpmcmc.cli import audit, demo, epsilon, fit, ledger, plan, predict, report, reproduce, resume, schema, verify
from dpmcmc.cli.options import exit_code
from dpmcmc.errors import DpmcmcError

app = typer.Typer(
    help="Bayesian posterior sampling under differential privacy.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command(name="demo")(demo.demo)
app.command(name="fit")(fit.fit)
app.command(name="resume")(resume.resume)
app.command(name="predict")(predict.predict)
app.command(name="report")(report.report)
app.command(name="audit")(audit.audit)
app.command(name="verify")(verify.verify)
app.command(name="reproduce")(reproduce.reproduce)
app.add_typer(epsilon.app, name="epsilon")
app.add_typer(plan.app, name="plan")
app.add_typer(ledger.app, name="ledger")
app.add_typer(schema.app, name="schema")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dpmcmc {version('dpmcmc')}")
        raise typer.Exit


@app.callback()
def options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Bayesian posterior sampling under differential privacy."""


def run() -> None:
    """Run the command; an error that dpmcmc raised on purpose is one line on stderr and an exit code that says what."""
    try:
        app()
    except DpmcmcError as error:
        typer.echo(f"dpmcmc: {error}", err=True)
        sys.exit(exit_code(error))
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        typer.echo(f"dpmcmc: {error.filename!r} cannot be a file: {error.strerror}", err=True)
        sys.exit(2)
