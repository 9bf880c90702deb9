"""``dpmcmc ledger``: the ledger of privacy budgets."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from dpmcmc import accounting
from dpmcmc.accounting import Adjacency, Budget, Event
from dpmcmc.cli.budget import largest_run, rounded_down
from dpmcmc.cli.output import AsJson, print_json, print_table
from dpmcmc.errors import InvalidArgument

if TYPE_CHECKING:
    from dpmcmc.accounting.ledger.account import Entry

app = typer.Typer(help="The ledger of privacy budgets.", no_args_is_help=True)

Url: TypeAlias = Annotated[str, typer.Argument(help="A file, sqlite:///FILE or postgresql://USER@HOST/DATABASE")]
OneDataset: TypeAlias = Annotated[str | None, typer.Option("--dataset", help="Show only this dataset.")]


@app.command()
def init(
    url: Url,
    dataset: Annotated[str | None, typer.Option(help="Also register a dataset of this name.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Total epsilon of the dataset, for all runs.")] = None,
    delta: Annotated[float | None, typer.Option(help="Total delta of the dataset, for all runs.")] = None,
    adjacency: Annotated[
        Adjacency | None, typer.Option(help="Which data sets count as neighbours (default: replace_one).")
    ] = None,
    adaptive: Annotated[
        bool, typer.Option("--adaptive", help="Use a privacy filter: the total holds for adaptively chosen runs.")
    ] = False,
    part_of: Annotated[
        str | None,
        typer.Option(
            help="State that the dataset is a part of this registered one, and that nobody is in two parts. Parts "
            "share the budget; charges of different parts do not add up."
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Create a ledger, or add a dataset to an existing one."""
    if part_of is not None:
        if dataset is None or (epsilon, delta, adjacency, adaptive) != (None, None, None, False):
            raise InvalidArgument("a part has --dataset and --part-of alone: it shares the budget of the whole")
        ledger = accounting.Ledger(url)
        ledger.register(dataset, part_of=part_of)
    else:
        budget = _budget(dataset, epsilon, delta)
        ledger = accounting.Ledger.create(url)
        if dataset is not None and budget is not None:
            ledger.register(dataset, budget, adjacency or Adjacency.REPLACE_ONE, adaptive=adaptive)
    _show(ledger, dataset, json)


@app.command()
def show(url: Url, dataset: OneDataset = None, json: AsJson = False) -> None:
    """Show the budget of each dataset, what is spent, and the largest possible further run."""
    _show(accounting.Ledger(url), dataset, json)


@app.command()
def history(url: Url, dataset: OneDataset = None, json: AsJson = False) -> None:
    """Show every entry in one line: time, user, description, epsilon, and the total spent after it."""
    book = accounting.Ledger(url)
    entries = book.history(dataset)
    if json:
        print_json([entry.to_dict() for entry in entries])
        return
    budgets = {name: book.account(name).budget for name in {entry.dataset for entry in entries}}
    everything = book.history()  # what was charged to a whole counts in its parts, and theirs in the whole
    for entry, total in zip(everything, totals(everything), strict=True):
        if entry.dataset in budgets:
            typer.echo(_line(entry, total, budgets[entry.dataset]))


def totals(entries: "list[Entry]") -> Iterator[Event]:
    """Return what a dataset had spent or reserved after each entry; settling replaces what was reserved."""
    from dpmcmc.accounting.ledger.account import together

    charged: dict[str, dict[str | None, Event]] = {}
    wholes: dict[str, str] = {}
    for entry in entries:
        own = charged.setdefault(entry.dataset, {})
        if entry.part_of is not None:
            wholes[entry.dataset] = entry.part_of
        if entry.event is not None:
            own[entry.run] = entry.event
        whole = wholes.get(entry.dataset, entry.dataset)
        parts = [name for name in wholes if wholes[name] == whole] if whole == entry.dataset else [entry.dataset]
        asked_of_all, *asked_of_parts = (accounting.compose(charged[name].values()) for name in (whole, *parts))
        yield together(asked_of_all, asked_of_parts)


def _line(entry: "Entry", total: Event, budget: Budget) -> str:
    when = entry.when[:16].replace("T", " ")
    head = f"#{entry.number} {when} {entry.who} {entry.kind} {entry.dataset}: {entry.description}"
    if entry.event is None:
        return f"{head}, epsilon {budget.epsilon:g} at delta {budget.delta:g}, {entry.adjacency.words}"
    own, spent = (float(accounting.epsilon(event, budget.delta)) for event in (entry.event, total))
    return f"{head}, epsilon {own:.4g} -> spent {spent:.4g} of {budget.epsilon:g}"


def _budget(dataset: str | None, epsilon: float | None, delta: float | None) -> Budget | None:
    if dataset is not None and epsilon is not None and delta is not None:
        return Budget(epsilon, delta)
    if (dataset, epsilon, delta) == (None, None, None):
        return None
    raise InvalidArgument("a dataset is registered with --dataset, --epsilon and --delta together; give all three")


def _show(ledger: "accounting.Ledger", dataset: str | None, as_json: bool) -> None:
    accounts = [ledger.account(name) for name in ([dataset] if dataset is not None else ledger.datasets())]
    if as_json:
        print_json([{**account.to_dict(), "largest_run": largest_run(account)} for account in accounts])
        return
    rows = [
        [
            account.dataset,
            f"{account.budget.epsilon:g}",
            f"{account.budget.delta:g}",
            account.adjacency.words,
            f"{account.epsilon_spent:.4g}",
            f"{account.epsilon_left:.4g}",
            rounded_down(largest_run(account)),
            str(len(account.standing)),
        ]
        for account in accounts
    ]
    columns = ["dataset", "epsilon", "delta", "adjacency", "spent", "left", "next run", "open"]
    caption = "next run: about the largest epsilon that fits; epsilons do not simply add up.\nopen: runs not settled."
    print_table("Ledger", columns, rows, caption=caption if rows else "no dataset is registered yet")
