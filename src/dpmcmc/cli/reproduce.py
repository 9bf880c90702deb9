"""``dpmcmc reproduce``: reproduces figures and tables of the literature, from a clone."""

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from dpmcmc.cli.output import print_table
from dpmcmc.errors import InvalidArgument


def reproduce(
    targets: Annotated[
        list[str] | None, typer.Argument(help="Figures, such as dp-hmc/figure-1, or papers, such as dp-hmc.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All figures and tables of all papers.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Run at reduced size, into a separate folder, as a test.")
    ] = False,
    show: Annotated[bool, typer.Option("--list", help="List what can be reproduced.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Repeat finished runs.")] = False,
    finished: Annotated[bool, typer.Option("--finished", help="Run nothing; show the results so far.")] = False,
    workers: Annotated[int | None, typer.Option(help="Processes (default: one per core).", min=1)] = None,
    minutes: Annotated[float | None, typer.Option(help="Stop after this many minutes.", min=0.0)] = None,
    together: Annotated[
        int, typer.Option(help="Number of repeats that one program computes at once, for accelerators.", min=1)
    ] = 1,
) -> None:
    """Reproduce figures and tables of the literature; an interrupted reproduction is resumed."""
    catalogue = _machinery("catalogue")
    if show:
        rows = [[f"{paper.name}/{target.name}", target.title] for paper, target in _every(catalogue)]
        print_table("dpmcmc reproduce TARGET", ["target", "what it is"], rows)
        return
    if bool(targets) == everything:
        raise InvalidArgument("targets must be named, or --all given, not both; --list names them")
    chosen = catalogue.choose(list(catalogue.papers()) if everything else targets)
    runner = _machinery("runner")
    processes = 0 if finished else workers or os.cpu_count() or 1
    effort = runner.Effort(processes, minutes, together)
    for summary in runner.reproduce(chosen, effort, quick=quick, fresh=fresh):
        typer.echo(f"wrote {os.path.relpath(summary)}")


def _every(catalogue: Any) -> list[tuple[Any, Any]]:
    return [(paper, target) for paper in catalogue.papers().values() for target in paper.targets]


def _machinery(name: str) -> Any:
    """Import a part of the experiments' machinery from the clone that this is installed from, or that one stands in."""
    for root in (Path(__file__).parents[3], Path.cwd()):
        if (root / "experiments" / "machinery").is_dir():
            if str(root) not in sys.path:
                sys.path.insert(0, str(root))
            return import_module(f"experiments.machinery.{name}")
    raise InvalidArgument(
        "the folder experiments/ was not found: it is part of a clone of the repository and not of the installed "
        "package; run `pip install --editable .` in a clone, or this command from its top folder"
    )
