"""What is left of a budget, in words that answer the next question: how large may one more run be?"""

import math
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from dpmcmc import accounting
from dpmcmc.errors import BudgetExceeded, LedgerError, UnknownDataset

if TYPE_CHECKING:
    from dpmcmc.accounting.ledger.account import DatasetAccount

HALVINGS = 12
"""Of the budget, in the search for the largest run: a four-thousandth of it is left open."""


def largest_run(account: "DatasetAccount") -> float:
    """Return the largest epsilon, at the budget's delta, of one more run that fits; a run of Gaussian releases.

    It is more than what is left of the budget, since epsilons do not add up.
    """

    def fits(epsilon: float) -> bool:
        noise = accounting.noise_for(accounting.Gaussian, epsilon=epsilon, delta=account.budget.delta)
        return account.admits(accounting.Gaussian(noise))

    low, high = 0.0, account.budget.epsilon
    if fits(high):
        return high
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def rounded_down(epsilon: float) -> str:
    """Return a figure with two digits after the point that is not above the truth."""
    return f"{math.floor(100 * epsilon) / 100:.2f}"


def room_in_words(account: "DatasetAccount") -> str:
    """Say what one more run may spend."""
    largest = largest_run(account)
    if largest < 0.01:
        return "no further run fits"
    return f"one more run of up to about epsilon {rounded_down(largest)} fits"


def charged_in_words(charged: float, account: "DatasetAccount") -> str:
    """Say what a run was charged, what is spent in all, and what is left."""
    spent, left = float(account.epsilon_spent), account.epsilon_left
    return (
        f"Charged epsilon {charged:.4g}. {account.dataset!r} has spent {spent:.4g} of {account.budget.epsilon:g}, "
        f"{left:.4g} is left: {room_in_words(account)} (epsilons do not add up)."
    )


def account_now(ledger: str, dataset: str) -> "DatasetAccount | None":
    """Return an account, or nothing if the ledger does not answer: a result that was paid for is shown anyway."""
    try:
        return accounting.Ledger(ledger).account(dataset)
    except LedgerError:
        return None


@contextmanager
def explained(ledger: str, dataset: str) -> Generator[None]:
    """Let refusals of the ledger say what would fit, and how a dataset is registered."""
    try:
        yield
    except UnknownDataset as refusal:
        raise UnknownDataset(
            f"{refusal}: `dpmcmc ledger init {ledger} --dataset {dataset} --epsilon EPSILON --delta DELTA`, or "
            "--grant-epsilon and --grant-delta of this command"
        ) from refusal
    except BudgetExceeded as refusal:
        account = account_now(ledger, dataset)
        room = "" if account is None else f"; {room_in_words(account)}"
        raise BudgetExceeded(f"{refusal}{room}") from refusal


def confirm(is_agreed: bool, epsilon: float, dataset: str) -> None:
    """Ask a person at a terminal before a budget is spent; a script that nobody could answer for is not asked."""
    if is_agreed or not sys.stdin.isatty():
        return
    if not typer.confirm(f"Spend epsilon {epsilon:g} of the budget of {dataset!r} for good?"):
        typer.echo("Nothing was charged.")
        raise typer.Exit(1)
