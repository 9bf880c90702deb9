"""A run that is charged under one relation of neighbours, and taken up under another.

The attack: an event says how much noise there is in sensitivities, and a sensitivity is two clips under replace-one and
one under add-or-remove-one. A run is charged under the one, stopped before it begins, and taken up by a vault of the
same records under the other, whose ledger would refuse it: half the noise for the price. Or a run that has begun goes
on with another capacity, or with persons where there were records.

What must happen: refused, and nothing is executed.

False alarms: none; nothing is executed.
"""

import numpy as np
import pytest

from dpmcmc.accounting import Budget, Ledger
from dpmcmc.enclave import Journal, PrivateData, Sum
from dpmcmc.errors import AdjacencyMismatch, ResumeRefused

ROWS = {"x": np.zeros(1024, np.float32)}
ADJACENCIES = {
    "replace_one": {"adjacency": "replace_one"},
    "add_or_remove_one": {"adjacency": "add_or_remove_one", "capacity": 1024},
}


class Stopped(BaseException):
    """The process is no more."""


def ask(oracle):
    return oracle.sum(Sum(1.0, 50.0), lambda record: record["x"]).value


def ledger(adjacency):
    made = Ledger.in_memory()
    made.register("people", Budget(1000.0, 1e-6), adjacency)
    return made


def vault(book, **terms):
    return PrivateData(ROWS, bounds={"x": (0, 1)}, ledger=book, dataset="people", **terms)


def stop(data, price, folder, *, after):
    with Journal.create(folder, {}) as journal, data.reserve_resumable(price, journal) as paid:
        for _ in range(after):
            paid.run(ask)
        raise Stopped


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_a_standing_charge_is_not_taken_up_under_another_adjacency(adjacency, tmp_path):
    book = ledger(adjacency)
    (other_name,) = set(ADJACENCIES) - {adjacency}
    data, other = vault(book, **ADJACENCIES[adjacency]), vault(book, **ADJACENCIES[other_name])
    price = other.price(ask)  # who sets something aside says what
    with pytest.raises(AdjacencyMismatch):
        other.run(ask)
    with pytest.raises(Stopped):
        stop(data, price, tmp_path / "run", after=0)
    with (
        Journal.open(tmp_path / "run") as journal,
        pytest.raises(ResumeRefused, match="was charged under"),
        other.reserve_resumable(price, journal) as paid,
    ):
        paid.run(ask)


OTHERS = {
    "adjacency": {"adjacency": "replace_one"},
    "capacity": {"adjacency": "add_or_remove_one", "capacity": 1025},
}


def test_a_run_that_has_begun_goes_on_under_its_own_terms_alone(tmp_path, monkeypatch):
    data = vault(book := ledger("add_or_remove_one"), **ADJACENCIES["add_or_remove_one"])
    price = data.price(ask)
    with pytest.raises(Stopped):
        stop(data, price, tmp_path / "run", after=1)

    def refused(other):
        with Journal.open(tmp_path / "run") as journal, pytest.raises(ResumeRefused, match="begun with other records"):
            other.reserve_resumable(price, journal).__enter__()

    for terms in OTHERS.values():
        refused(vault(book, **terms))
    with monkeypatch.context() as patch:
        patch.setattr(PrivateData, "unit", "person")
        refused(vault(book, **ADJACENCIES["add_or_remove_one"]))
    again = vault(book, **ADJACENCIES["add_or_remove_one"])
    with Journal.open(tmp_path / "run") as journal, again.reserve_resumable(price, journal) as paid:
        paid.run(ask)
