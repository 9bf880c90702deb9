"""``dpmcmc plan``: how many steps of a sampler a budget pays for."""

import math
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from dpmcmc import accounting
from dpmcmc.accounting import Adjacency, samplers
from dpmcmc.accounting.samplers import Cost
from dpmcmc.cli.budget import largest_run
from dpmcmc.cli.options import names_options
from dpmcmc.cli.output import AsJson, print_json, print_table
from dpmcmc.cli.report import Open, open_page
from dpmcmc.errors import BudgetUnreachable, InvalidArgument, UnsupportedEvent

app = typer.Typer(help="Plan a budget: number of steps, noise, expected error of the posterior.")

Epsilon: TypeAlias = Annotated[float, typer.Option(help="At least 0.")]
Delta: TypeAlias = Annotated[float, typer.Option(help="Strictly between 0 and 1.")]
Chains: TypeAlias = Annotated[int, typer.Option(help="Chains; each is charged.", min=1)]
Relation: TypeAlias = Annotated[Adjacency, typer.Option(help="Which data sets count as neighbours.")]
NoiseRatio: TypeAlias = Annotated[float, typer.Option(help="Noise multiplier of the log-likelihood ratio.")]
HideRatio: TypeAlias = Annotated[bool, typer.Option("--hide-ratio", help="Release only the accept decisions: cheaper.")]
BatchSize: TypeAlias = Annotated[int, typer.Option(help="Records per batch.")]
Population: TypeAlias = Annotated[int, typer.Option(help="Number of records.")]


@app.callback(invoke_without_command=True)
def page(
    context: typer.Context,
    show: Open = False,
    output: Annotated[
        Path | None, typer.Option(help="Interactive page to write (with --open, plan.html by default).")
    ] = None,
) -> None:
    """Plan a budget: number of steps, noise, expected error of the posterior. --open shows an interactive page."""
    if context.invoked_subcommand is not None:
        return
    if not show and output is None:
        typer.echo(context.get_help())
        return
    output = output or Path("plan.html")
    from dpmcmc.planner import write_planner  # JAX takes a second to load; the other commands do without

    with typer.progressbar(length=1000, label="computing") as bar:
        write_planner(output, tick=lambda share: bar.update(round(1000 * share) - bar.pos))
    typer.echo(f"wrote {output}")
    if show:
        open_page(output)


@app.command()
def fit(
    epsilon: Epsilon,
    delta: Delta,
    records: Annotated[int, typer.Option(help="Records, or persons.", min=1)],
    parameters: Annotated[int, typer.Option(help="Parameters of the model.", min=1)],
    sampler: Annotated[str, typer.Option(help="Name of a sampler (`dpmcmc plan samplers`).")] = "private_laplace",
    chains: Chains = 2,
    adjacency: Relation = Adjacency.REPLACE_ONE,
    passes: Annotated[int | None, typer.Option(help="Largest number of passes over all rows.", min=1)] = None,
    json: AsJson = False,
) -> None:
    """Show what `dpmcmc fit` would do with a budget, given only the numbers of records and parameters."""
    from dpmcmc.planner import plan_fit  # JAX takes a second to load; the other commands do without

    answer = plan_fit(
        sampler,
        epsilon=epsilon,
        delta=delta,
        num_records=records,
        num_parameters=parameters,
        num_chains=chains,
        adjacency=adjacency,
        passes=passes,
    )
    if answer is None:
        raise BudgetUnreachable(f"no noise keeps {sampler} within epsilon = {epsilon:g}, delta = {delta:g}")
    if json:
        print_json({"sampler": sampler, "delta": delta, "adjacency": adjacency.value, **answer.to_dict()})
        return
    bound = "" if answer.is_known else "at least "
    typer.echo(
        f"{sampler}: {chains} x {answer.num_steps:,} steps with noise multiplier {answer.noise:.4g}. The posterior "
        f"mean would be off by {bound}about {answer.error:.3g} of its standard deviations."
    )
    if answer.is_refused:
        typer.echo("That is too much for any sampler: fit would refuse, and spend nothing.")
    rows = [[name, f"{value:.6g}"] for name, value in answer.epsilon.items()]
    print_table("What it costs", ["accountant", "epsilon"], rows)


@app.command()
@names_options
def formula(
    formula: Annotated[str, typer.Argument(help='As for `dpmcmc fit`: "y ~ a + b".')],
    schema: Annotated[Path, typer.Option(help="Schema file (TOML): bounds and categories (`dpmcmc schema new`).")],
    records: Annotated[int, typer.Option(help="Records, or persons.", min=1)],
    epsilon: Annotated[
        list[float] | None, typer.Option(help="Epsilon to plan for; may be repeated (default: 0.5 to 8).")
    ] = None,
    delta: Annotated[float | None, typer.Option(help="Strictly between 0 and 1; or --ledger.")] = None,
    ledger: Annotated[
        str | None, typer.Option(help="Plan with the rest of the budget in this ledger; needs --dataset.")
    ] = None,
    dataset: Annotated[str | None, typer.Option(help="Name of the table in the ledger.")] = None,
    family: Annotated[
        str | None, typer.Option(help="Family of the formula; optional if the response implies it.")
    ] = None,
    adjacency: Relation = Adjacency.REPLACE_ONE,
    passes: Annotated[int | None, typer.Option(help="Largest number of passes over all rows.", min=1)] = None,
    json: AsJson = False,
) -> None:
    """Estimate the error of a formula's fit at several epsilons. No row is read, and nothing is charged."""
    if (ledger is None) != (dataset is None):
        raise InvalidArgument("--ledger and --dataset go together: the account of a table in a ledger")
    if ledger is not None and dataset is not None:
        account = accounting.Ledger(ledger).account(dataset)
        delta = account.budget.delta if delta is None else delta
        adjacency, epsilon = account.adjacency, epsilon or [math.floor(100 * largest_run(account)) / 100]
        if epsilon == [0]:
            raise BudgetUnreachable(f"nothing is left of the budget of {dataset!r}: no further run fits")
    if delta is None:
        raise InvalidArgument("--delta is missing: state it, or a --ledger with a --dataset whose budget has one")
    from dpmcmc.planner import plan_formula  # JAX takes a second to load; the other commands do without
    from dpmcmc.planner.formula import EPSILONS

    found = plan_formula(
        formula,
        schema,
        num_records=records,
        delta=delta,
        epsilons=epsilon or EPSILONS,
        family=family,
        adjacency=adjacency,
        passes=passes,
    )
    if json:
        print_json([{**one._asdict(), "is_refused": one.is_refused} for one in found])
        return
    rows = [
        [f"{one.epsilon:g}", f"{one.error:.2g}{' (refused)' if one.is_refused else ''}", _records(one.records)]
        for one in found
    ]
    columns = ["epsilon", "expected error", "records for 0.5"]
    print_table(f"{formula}, {records:,} records, delta = {delta:g}", columns, rows)
    typer.echo("Errors in posterior standard deviations: up to 0.5 is good, above 1 fit refuses and spends nothing.")


def _records(number: int | None) -> str:
    return "over 1e12" if number is None else f"{number:,}"


@app.command(name="samplers")
def list_samplers(json: AsJson = False) -> None:
    """List the samplers: what each queries, and how close its draws come to the posterior."""
    from dpmcmc.catalogue import SAMPLERS  # JAX takes a second to load; the other commands do without

    if json:
        facts = ("title", "releases", "target", "page")
        print_json({name: {fact: getattr(one, fact) for fact in facts} for name, one in SAMPLERS.items()})
        return
    rows = [[name, one.releases, one.target, "yes" if one.recipe else "no"] for name, one in SAMPLERS.items()]
    print_table("Samplers", ["name", "releases per step", "target", "in fit"], rows)


@app.command()
def dp_penalty(
    epsilon: Epsilon,
    delta: Delta,
    noise_ratio: NoiseRatio,
    hide_ratio: HideRatio = False,
    chains: Chains = 1,
    adjacency: Relation = Adjacency.REPLACE_ONE,
    json: AsJson = False,
) -> None:
    """DP-penalty; one-component updates and guided walks have the same price."""
    _answer("dp-penalty", samplers.dp_penalty(noise_ratio, hide_ratio), epsilon, delta, chains, adjacency, json)


@app.command()
def dp_hmc(
    epsilon: Epsilon,
    delta: Delta,
    noise_ratio: NoiseRatio,
    noise_gradient: Annotated[float, typer.Option(help="Noise multiplier of the gradients.")],
    leapfrog: Annotated[int, typer.Option(help="Leapfrog steps per trajectory.", min=1)],
    reuse_gradients: Annotated[
        bool, typer.Option("--reuse-gradients", help="Keep the gradient where two trajectories meet.")
    ] = False,
    hide_ratio: HideRatio = False,
    chains: Chains = 1,
    adjacency: Relation = Adjacency.REPLACE_ONE,
    json: AsJson = False,
) -> None:
    """DP-HMC."""
    cost = samplers.dp_hmc(noise_ratio, noise_gradient, leapfrog, reuse_gradients, hide_ratio)
    _answer("dp-hmc", cost, epsilon, delta, chains, adjacency, json)


@app.command()
def minibatch_penalty(
    epsilon: Epsilon,
    delta: Delta,
    noise_multiplier: Annotated[float, typer.Option(help="Noise sd over the sensitivity of the corrected ratio.")],
    batch_size: BatchSize,
    population: Population,
    chains: Chains = 1,
    json: AsJson = False,
) -> None:
    """Minibatch DP-penalty (replace-one)."""
    cost = samplers.minibatch_penalty(noise_multiplier, batch_size, population)
    _answer("minibatch-penalty", cost, epsilon, delta, chains, Adjacency.REPLACE_ONE, json)


@app.command()
def dp_barker(
    epsilon: Epsilon,
    delta: Delta,
    sensitivity: Annotated[float, typer.Option(help="How far one record moves the log-odds.")],
    chains: Chains = 1,
    adjacency: Relation = Adjacency.REPLACE_ONE,
    json: AsJson = False,
) -> None:
    """Full-data DP-Barker by the exact bit."""
    _answer("dp-barker", samplers.dp_barker(sensitivity), epsilon, delta, chains, adjacency, json)


@app.command()
def subsampled_barker(
    epsilon: Epsilon,
    delta: Delta,
    batch_size: BatchSize,
    population: Population,
    variance: Annotated[float, typer.Option(help="Total noise variance C.")] = 2.0,
    clip_fraction: Annotated[float, typer.Option(help="kappa: ratios are clipped at sqrt(kappa b)/N.")] = 1.0,
    chains: Chains = 1,
    json: AsJson = False,
) -> None:
    """Subsampled DP-Barker (replace-one)."""
    cost = samplers.subsampled_barker(batch_size, population, variance, clip_fraction)
    _answer("subsampled-barker", cost, epsilon, delta, chains, Adjacency.REPLACE_ONE, json)


@app.command()
def dp_sgld(
    epsilon: Epsilon,
    delta: Delta,
    rate: Annotated[float, typer.Option(help="Probability that a record enters a batch.")],
    noise_over_clip: Annotated[float, typer.Option(help="Noise sd over the norm bound of one record.")],
    chains: Chains = 1,
    adjacency: Relation = Adjacency.REPLACE_ONE,
    json: AsJson = False,
) -> None:
    """DP-SGLD; DP-SGHMC and DP-SGNHT by inner step."""
    cost = samplers.dp_sgld(rate, noise_over_clip, adjacency)
    _answer("dp-sgld", cost, epsilon, delta, chains, adjacency, json)


def _answer(
    sampler: str, cost: Cost, epsilon: float, delta: float, chains: int, adjacency: Adjacency, as_json: bool
) -> None:
    """Print the steps per chain under each accountant that can bound the sampler, and under the tight one."""
    per_step, once = cost.per_step * chains, cost.once * chains
    steps: dict[str, int] = {}
    for name in ("tight", *accounting.ACCOUNTANTS):
        try:
            steps[name] = accounting.max_steps(per_step, epsilon, delta, once, name)
        except UnsupportedEvent:
            continue
    if as_json:
        print_json(
            {
                "sampler": sampler,
                "epsilon": epsilon,
                "delta": delta,
                "adjacency": adjacency.value,
                "chains": chains,
                "steps": steps["tight"],
                "by_accountant": {name: count for name, count in steps.items() if name != "tight"},
                "per_step": cost.per_step.to_dict(),
                "once": cost.once.to_dict(),
            }
        )
        return
    each = f" for each of {chains} chains" if chains > 1 else ""
    print_table(
        f"{sampler}: {steps['tight']:,} steps{each} within epsilon = {epsilon:g}, delta = {delta:g}, "
        f"{adjacency.words} adjacency",
        ["accountant", "steps"],
        [[name, f"{count:,}"] for name, count in steps.items() if name != "tight"],
    )
