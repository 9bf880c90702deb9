"""``dpmcmc ledger``: the book of privacy budgets."""

from typing import Annotated, TypeAlias

import typer

from dpmcmc import accounting
from dpmcmc.accounting import Adjacency, Budget
from dpmcmc.cli.output import AsJson, print_json, print_table
from dpmcmc.errors import InvalidArgument

app = typer.Typer(help="The book of privacy budgets.", no_args_is_help=True)

Url: TypeAlias = Annotated[str, typer.Argument(help="sqlite:///FILE or postgresql://USER@HOST/DATABASE")]
OneDataset: TypeAlias = Annotated[str | None, typer.Option("--dataset", help="Only this dataset.")]


@app.command()
def init(
    url: Url,
    dataset: Annotated[str | None, typer.Option(help="Register a dataset of this name as well.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="The dataset's epsilon, for all time.")] = None,
    delta: Annotated[float | None, typer.Option(help="The dataset's delta, for all time.")] = None,
    adjacency: Annotated[Adjacency, typer.Option(help="Which data sets count as neighbours.")] = Adjacency.REPLACE_ONE,
    adaptive: Annotated[
        bool, typer.Option("--adaptive", help="Keep the total by a filter: it holds however runs are chosen.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Make a ledger, or add a dataset to one that is there."""
    budget = _budget(dataset, epsilon, delta)
    ledger = accounting.Ledger.create(url)
    if dataset is not None and budget is not None:
        ledger.register(dataset, budget, adjacency, adaptive=adaptive)
    _show(ledger, dataset, json)


@app.command()
def show(url: Url, dataset: OneDataset = None, json: AsJson = False) -> None:
    """What each dataset may spend, and what is left of it."""
    _show(accounting.Ledger(url), dataset, json)


@app.command()
def history(url: Url, dataset: OneDataset = None, json: AsJson = False) -> None:
    """Every entry: who did what when, and what it released."""
    entries = accounting.Ledger(url).history(dataset)
    if json:
        print_json([entry.to_dict() for entry in entries])
        return
    rows = [
        [
            str(entry.number),
            entry.when,
            entry.who,
            entry.kind,
            entry.dataset,
            entry.what,
            str(entry.budget or entry.event),
        ]
        for entry in entries
    ]
    print_table("Ledger history", ["entry", "when (UTC)", "who", "kind", "dataset", "what", "terms"], rows)


def _budget(dataset: str | None, epsilon: float | None, delta: float | None) -> Budget | None:
    if dataset is not None and epsilon is not None and delta is not None:
        return Budget(epsilon, delta)
    if (dataset, epsilon, delta) == (None, None, None):
        return None
    raise InvalidArgument("a dataset is registered with --dataset, --epsilon and --delta together; give all three")


def _show(ledger: "accounting.Ledger", dataset: str | None, as_json: bool) -> None:
    accounts = [ledger.account(name) for name in ([dataset] if dataset is not None else ledger.datasets())]
    if as_json:
        print_json([account.to_dict() for account in accounts])
        return
    rows = [
        [
            account.dataset,
            f"{account.budget.epsilon:g}",
            f"{account.budget.delta:g}",
            account.adjacency.words,
            f"{account.epsilon_spent:.4g}",
            f"{account.epsilon_left:.4g}",
            str(len(account.standing)),
        ]
        for account in accounts
    ]
    columns = ["dataset", "epsilon", "delta", "adjacency", "spent", "left", "runs not settled"]
    print_table("Ledger", columns, rows, caption="" if rows else "no dataset is registered yet")
