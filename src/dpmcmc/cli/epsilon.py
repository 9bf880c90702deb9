"""``dpmcmc epsilon``: what a sequence of releases costs."""

import sys
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from dpmcmc import accounting
from dpmcmc.accounting import Adjacency, Event
from dpmcmc.cli.documents import read_document
from dpmcmc.cli.output import AsJson, print_json, print_table
from dpmcmc.errors import UnsupportedEvent

app = typer.Typer(
    help="Compute the privacy cost of a sequence of releases, under every accountant.", no_args_is_help=True
)

LONGEST_EVENT = 4_000_000
"""In characters, as long as the longest certificate."""

Steps: TypeAlias = Annotated[int, typer.Option(help="Number of releases, over all chains.", min=1)]
Delta: TypeAlias = Annotated[float, typer.Option(help="Strictly between 0 and 1.")]
Relation: TypeAlias = Annotated[Adjacency, typer.Option(help="Which data sets count as neighbours.")]
NoiseMultiplier: TypeAlias = Annotated[float, typer.Option(help="Noise sd over the l2 sensitivity.")]
BatchSize: TypeAlias = Annotated[int, typer.Option(help="Records per batch.")]
Population: TypeAlias = Annotated[int, typer.Option(help="Number of records.")]


@app.command()
def gaussian(
    noise_multiplier: NoiseMultiplier,
    delta: Delta,
    steps: Steps = 1,
    adjacency: Relation = Adjacency.REPLACE_ONE,
    json: AsJson = False,
) -> None:
    """Sums with Gaussian noise."""
    _answer(accounting.Gaussian(noise_multiplier) * steps, delta, adjacency, json)


@app.command()
def accept_bit(
    noise_multiplier: NoiseMultiplier,
    delta: Delta,
    steps: Steps = 1,
    adjacency: Relation = Adjacency.REPLACE_ONE,
    json: AsJson = False,
) -> None:
    """Decisions of penalty tests whose noisy ratios stay hidden."""
    _answer(accounting.AcceptBit(noise_multiplier) * steps, delta, adjacency, json)


@app.command()
def poisson(
    rate: Annotated[float, typer.Option(help="Probability that a record enters a batch.")],
    noise_over_clip: Annotated[float, typer.Option(help="Noise sd over the norm bound of one record.")],
    delta: Delta,
    steps: Steps = 1,
    adjacency: Relation = Adjacency.REPLACE_ONE,
    json: AsJson = False,
) -> None:
    """Gaussian sums over Poisson samples (DP-SGLD, DP-SGHMC, DP-SGNHT)."""
    _answer(accounting.PoissonGaussian(rate, noise_over_clip, adjacency) * steps, delta, adjacency, json)


@app.command()
def fixed_batch(
    batch_size: BatchSize,
    population: Population,
    noise_multiplier: NoiseMultiplier,
    delta: Delta,
    steps: Steps = 1,
    json: AsJson = False,
) -> None:
    """Gaussian sums over batches drawn without replacement (replace-one)."""
    event = accounting.FixedBatchGaussian(batch_size, population, noise_multiplier)
    _answer(event * steps, delta, Adjacency.REPLACE_ONE, json)


@app.command()
def logistic_bit(
    sensitivity: Annotated[float, typer.Option(help="How far one record moves the log-odds.")],
    delta: Delta,
    steps: Steps = 1,
    adjacency: Relation = Adjacency.REPLACE_ONE,
    json: AsJson = False,
) -> None:
    """Decisions of full-data Barker tests."""
    _answer(accounting.LogisticBit(sensitivity) * steps, delta, adjacency, json)


@app.command()
def barker(
    batch_size: BatchSize,
    population: Population,
    delta: Delta,
    variance: Annotated[float, typer.Option(help="Total noise variance C.")] = 2.0,
    clip_fraction: Annotated[float, typer.Option(help="kappa: ratios are clipped at sqrt(kappa b)/N.")] = 1.0,
    steps: Steps = 1,
    json: AsJson = False,
) -> None:
    """Decisions of Barker tests on batches drawn without replacement (replace-one)."""
    event = accounting.BarkerTest(batch_size, population, variance, clip_fraction)
    _answer(event * steps, delta, Adjacency.REPLACE_ONE, json)


@app.command()
def event(
    file: Annotated[Path, typer.Argument(help="An event as JSON, for example from a certificate; - reads stdin.")],
    delta: Delta,
    adjacency: Relation = Adjacency.REPLACE_ONE,
    json: AsJson = False,
) -> None:
    """Any event, from a JSON file."""
    document = sys.stdin.read() if str(file) == "-" else read_document(file, "an event", LONGEST_EVENT)
    _answer(Event.from_json(document), delta, adjacency, json)


def _answer(event: Event, delta: float, adjacency: Adjacency, as_json: bool) -> None:
    certificate = accounting.Certificate(event, adjacency, delta)
    by_accountant: dict[str, float] = {}
    for name in accounting.ACCOUNTANTS:
        try:
            by_accountant[name] = float(accounting.epsilon(event, delta, name))
        except UnsupportedEvent:
            continue
    best = certificate.epsilon
    if as_json:
        print_json(
            {
                "epsilon": float(best),
                "accountant": best.accountant,
                "delta": delta,
                "adjacency": adjacency.value,
                "by_accountant": by_accountant,
                "event": event.to_dict(),
            }
        )
        return
    print_table(
        f"epsilon = {float(best):.6g} at delta = {delta:g}, {adjacency.words} adjacency",
        ["accountant", "epsilon"],
        [
            [name + (" (tight)" if name == best.accountant else ""), f"{value:.6g}"]
            for name, value in by_accountant.items()
        ],
    )
