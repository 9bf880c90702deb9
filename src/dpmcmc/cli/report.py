"""``dpmcmc report``: the page of a run, rebuilt from its folder."""

import webbrowser
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

Open: TypeAlias = Annotated[bool, typer.Option("--open", help="Show it in a browser.")]


def report(
    folder: Annotated[Path, typer.Argument(help="The run folder, as `dpmcmc fit --output` wrote it.")],
    output: Annotated[
        Path | None, typer.Option(help="HTML page to write (default: report.html in the folder).")
    ] = None,
    show: Open = False,
) -> None:
    """Write the report of a run as an HTML page, from its run folder alone; it may be published."""
    from dpmcmc.posterior import Posterior  # JAX and the rest take a second to load; the other commands do without

    page = Posterior.load(folder).report(folder / "report.html" if output is None else output)
    typer.echo(f"wrote {page}")
    if show:
        open_page(page)


def open_page(page: Path) -> None:
    """Show a page in a browser, where there is one."""
    if not webbrowser.open(page.resolve().as_uri()):
        typer.echo(f"no browser was found; open {page}")
