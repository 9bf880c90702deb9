"""Parts of a dataset: attacks on one person reach what the ledger has spent; none exceeds it but on who is in two.

Noisy sums of values in [-1/2, 1/2] are released of parts and of the whole, as a ledger admitted them. An attack is the
best test between two tables that differ in one person, at its exact rates: the sum of 1/z^2 over the releases that read
them is all it depends on.
"""

import pytest
from test_accounting_lower_bounds import EPSILONS, gaussian_attack, respects

from dpmcmc.accounting import Budget, Gaussian, Ledger, delta

RUNS = [
    ("whole", 9.0, 2),
    ("north", 5.0, 3),
    ("south", 4.0, 1),
    ("whole", 20.0, 4),
    ("south", 9.0, 9),
    ("east", 3.0, 1),
]
PARTS = ("north", "south", "east", "west")


@pytest.fixture
def ledger() -> Ledger:
    """A book in which the runs stand."""
    book = Ledger.in_memory()
    book.register("whole", Budget(8.0, 1e-6), "add_or_remove_one")
    for part in PARTS:
        book.register(part, part_of="whole")
    for dataset, noise, times in RUNS:
        book.reserve(dataset, Gaussian(noise) * times, description="sums").settle()
    return book


def read(*parts: str) -> list[tuple[float, int]]:
    """The releases that read a person who is in these parts."""
    return [(noise, times) for dataset, noise, times in RUNS if dataset in ("whole", *parts)]


@pytest.mark.parametrize("at", EPSILONS)
def test_attacks_on_a_person_of_one_part_reach_what_is_spent_and_none_exceeds_it(at: float, ledger: Ledger) -> None:
    attacks = {part: gaussian_attack(read(part), at) for part in PARTS}
    for part, attack in attacks.items():
        spent = delta(ledger.account(part).spent, at)
        assert respects(spent, attack)
        assert spent <= attack * (1 + 1e-6) + 1e-14
    of_all = delta(ledger.account("whole").spent, at)
    assert respects(of_all, max(attacks.values()))
    assert of_all <= max(attacks.values()) * (1 + 1e-6) + 1e-14


@pytest.mark.parametrize("parts", [("north", "south"), ("south", "east")])
def test_somebody_in_two_parts_has_lost_more_than_the_ledger_says(parts: tuple[str, str], ledger: Ledger) -> None:
    """The statement is the owner's: where it is false, so is the total. The attack notices."""
    attack = gaussian_attack(read(*parts), 1.0)
    assert not respects(delta(ledger.account("whole").spent, 1.0), attack)


def test_who_moves_from_one_part_to_another_is_added_and_removed(ledger: Ledger) -> None:
    """Two neighbours away under add-or-remove-one: releases of either part tell, and the loss is that of both."""
    moved = gaussian_attack([one for part in ("south", "east") for one in read(part) if one not in read()], 1.0)
    one_part = max(delta(ledger.account(part).spent, 1.0) for part in ("south", "east"))
    assert not respects(one_part, moved)
