"""Where records stand: uniformly drawn, one slot apart for neighbours, and nothing tells how many there are."""

import logging
import re
from itertools import permutations

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tables import PERSONS
from toy import Book, GaussianModel

from dpmcmc.enclave import ExactSum, GradientSum, LogRatio, PrivateData, SubsampledGradientSum, Sum
from dpmcmc.enclave.core import places
from dpmcmc.enclave.core.places import ROWS_IN_TILE, draw_places, fill, new_seed, num_slots
from dpmcmc.errors import InvalidArgument

ADDED = {"adjacency": "add_or_remove_one", "capacity": 600}
FALSE_ALARM = 1e-6
"""Of each chi-square test here. The seeds are fixed, so a failure is a change of the code."""


def seed(number):
    return number.to_bytes(32, "little")


# --- the draw -------------------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 300), st.integers(0, 100), st.integers(0, 10**9))
def test_places_are_an_injection_into_the_slots(num_records, more, number):
    capacity = max(num_records + more, 1)
    found = draw_places(seed(number), num_records, capacity)
    assert len(found) == num_records == len(set(found.tolist()))
    assert all(0 <= place < capacity for place in found)
    np.testing.assert_array_equal(found, draw_places(seed(number), num_records, capacity))
    if num_records:  # taking the last record away leaves all others where they are
        np.testing.assert_array_equal(found[:-1], draw_places(seed(number), num_records - 1, capacity))


def test_seeds_decide_the_places():
    assert len(new_seed()) == 32
    assert new_seed() != new_seed()
    one, other = (draw_places(seed(number), 50, 100) for number in (0, 1))
    assert not np.array_equal(one, other)


def fits(draws, num_records, capacity):
    """Say whether all injections are equally likely, by a chi-square test."""
    injections = {places: i for i, places in enumerate(permutations(range(capacity), num_records))}
    counts = np.bincount([injections[tuple(draw.tolist())] for draw in draws], minlength=len(injections))
    assert len(draws) / len(injections) >= 20
    return stats.chisquare(counts).pvalue > FALSE_ALARM


@pytest.mark.parametrize(("num_records", "capacity"), [(1, 5), (2, 4), (3, 3), (3, 5), (4, 4)])
def test_all_injections_are_equally_likely(num_records, capacity):
    draws = [draw_places(seed(number), num_records, capacity) for number in range(3000)]
    assert fits(draws, num_records, capacity)
    mutants = {"a subset in the order of the records": [np.sort(draw) for draw in draws]} if num_records > 1 else {}
    mutants["the first slots"] = [np.arange(num_records)] * 3000
    mutants["one slot too often"] = [*draws[:2400], *[draws[0]] * 600]
    for name, mutant in mutants.items():
        assert not fits(mutant, num_records, capacity), name


def test_no_place_of_a_large_table_is_likelier():
    draws = np.array([draw_places(seed(number), 20, 64) for number in range(2000)])
    assert stats.chisquare(np.bincount(draws.ravel(), minlength=64)).pvalue > FALSE_ALARM
    assert stats.chisquare(np.bincount(draws[:, 7], minlength=64)).pvalue > FALSE_ALARM
    together = np.bincount(draws[:, 0] * 64 + draws[:, 1], minlength=64**2).reshape(64, 64)
    assert not np.any(np.diag(together))


# --- the slots ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_devices", [1, 3])
@pytest.mark.parametrize(("num_records", "capacity"), [(0, 1), (5, 5), (5, 512), (5, 513), (700, 2000)])
def test_records_stand_in_their_places_and_nothing_elsewhere(num_records, capacity, num_devices):
    leaves = [np.arange(1, num_records + 1, dtype=np.int32), np.ones((num_records, 2), np.float32)]
    own = draw_places(seed(3), num_records, capacity)
    for where in (own, None):
        (numbers, vectors), occupied = fill(leaves, where, num_slots(capacity, num_devices))
        order = np.arange(num_records) if where is None else where
        assert len(occupied) == len(numbers) == len(vectors)
        assert len(occupied) % (ROWS_IN_TILE * num_devices) == 0
        assert capacity <= len(occupied) < capacity + ROWS_IN_TILE * num_devices
        assert occupied.dtype == np.bool_
        assert (numbers.dtype, vectors.dtype) == (np.int32, np.float32)
        np.testing.assert_array_equal(numbers[order], leaves[0])
        empty = np.setdiff1d(np.arange(len(occupied)), order)
        assert not np.any(numbers[empty])
        assert not np.any(vectors[empty])
        np.testing.assert_array_equal(np.flatnonzero(occupied), np.sort(order))


@pytest.mark.parametrize("gone", [0, 7, 19])
def test_neighbours_differ_in_one_slot(gone):
    """The injection of a table, restricted to all records but one, is an injection of its neighbour's, as likely."""
    rows = np.random.default_rng(gone).normal(size=(20, 3)).astype(np.float32)
    own = draw_places(seed(5), 20, 60)
    rest = np.arange(20) != gone
    ((one,), here), ((other,), there) = fill([rows], own, 512), fill([rows[rest]], own[rest], 512)
    assert np.flatnonzero(here != there).tolist() == [own[gone]]
    assert np.flatnonzero(np.any(one != other, axis=1)).tolist() == [own[gone]]


# --- the vault ------------------------------------------------------------------------------------------------------


def vault(size, **facts):
    rows = np.random.default_rng(0).normal(size=(size, 3)).astype(np.float32)
    return PrivateData.without_guarantee(rows, **{**ADDED, **facts})


def program(oracle, theta):
    force = oracle.force(GradientSum(1.0, 2.0), theta).value
    ratio = oracle.log_posterior_ratio(LogRatio(1.0, 2.0), theta, theta + 1.0).value
    batch = oracle.force(SubsampledGradientSum.poisson(1.0, 2.0, 0.1), theta).value
    return force, ratio, batch, oracle.sum(Sum(1.0, 2.0), lambda record: record).value


def instructions(text):
    """A compiled program without the lines of source that its instructions come from."""
    return [
        re.sub(r", metadata=\{.*?\}", "", line) for line in text.splitlines() if re.match(r"\s+(ROOT )?%\S+ = ", line)
    ]


def test_nothing_public_depends_on_the_number_of_records(caplog, capfd):
    """Shapes, prices, the program as it is translated and as it is compiled, what is printed and what is logged."""
    seen = []
    for size in (0, 1, 599, 600):
        caplog.clear()
        with caplog.at_level(logging.DEBUG, logger="dpmcmc"):
            data = vault(size)
            prepared = data._programs.prepare(program, (jnp.zeros(3),), GaussianModel())
            results = data.run(program, jnp.zeros(3), model=GaussianModel())
        seen.append(
            {
                "price": prepared.audit.event,
                "paths": prepared.audit.paths,
                "translated": prepared.text(),
                "compiled": instructions(prepared.compile().as_text()),
                "repr": repr(data),
                "facts": {name: str(getattr(data.facts, name)) for name in ("size", "bounds", "record", "chunk_size")},
                "results": [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(results)],
                "slots": [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(data._slots)],
                "log": [record.getMessage() for record in caplog.records if record.name.startswith("dpmcmc")],
                "printed": tuple(capfd.readouterr().out),
            }
        )
    assert len(seen[0]["compiled"]) > 100
    for what in seen[0]:
        for other in seen[1:]:
            assert other[what] == seen[0][what], what
    assert "599" not in seen[0]["repr"]


def test_records_stand_at_other_places_in_every_vault():
    first, second = vault(300), vault(300)
    assert not np.array_equal(first._slots.occupied, second._slots.occupied)
    for one in (first, second):
        assert int(np.sum(one._slots.occupied)) == 300
        np.testing.assert_array_equal(*(leaves[0] for leaves in (first._in_order(), second._in_order())))
        assert np.max(np.flatnonzero(one._slots.occupied)) < 600


def test_under_replace_one_a_record_keeps_its_place():
    data = vault(40, adjacency="replace_one", capacity=None)
    assert data._places is None
    assert np.asarray(data._slots.occupied).tolist() == [i < 40 for i in range(ROWS_IN_TILE)]


def test_more_records_than_slots_are_refused_without_their_number(monkeypatch):
    book = Book()
    rows = np.zeros((1234, 3), np.float32)
    monkeypatch.setattr(places, "draw_places", None)
    with pytest.raises(InvalidArgument, match="capacity=1000 is less than the number of records") as caught:
        PrivateData(rows, ledger=book, dataset="people", adjacency="add_or_remove_one", capacity=1000)
    assert "1234" not in str(caught.value)
    assert book.reserved == []


@pytest.mark.parametrize("capacity", [2**30 + 1, 2**40, 10**30])
def test_more_slots_than_can_be_numbered_are_refused_before_any_is_drawn(capacity):
    book = Book()
    with pytest.raises(InvalidArgument, match=rf"{capacity} slots are too many: a vault holds 2\^30"):
        PrivateData(np.zeros((4, 3)), ledger=book, dataset="p", adjacency="add_or_remove_one", capacity=capacity)
    assert book.reserved == []
    assert num_slots(2**30, 1) == 2**30


def test_a_table_without_records_is_noise_and_nothing_else():
    """2000 releases of nothing against the declared normal law, and against laws that it is not."""
    data = PrivateData.without_guarantee(np.zeros((0, 1), np.float32), adjacency="add_or_remove_one", capacity=5)

    def ask(oracle, each):
        return jax.vmap(lambda one: oracle.sum(Sum(2.0, 3.0), lambda q, record: q + record, one).value)(each)

    values = np.ravel(data.run(ask, jnp.full(2000, 1e3), insecure_seed=1))
    assert stats.kstest(values / 6.0, "norm").pvalue > 1e-4
    assert stats.kstest(values / 6.0 + 2.0 / 6.0, "norm").pvalue < 1e-9, "one record, which there is none of"
    assert stats.kstest(values / 4.5, "norm").pvalue < 1e-9
    assert float(data.run(lambda oracle: oracle.sum(ExactSum(), lambda _: jnp.ones(1)).value)[0]) == 0.0


def test_sums_of_hidden_tables_are_those_of_their_records():
    data, rows = vault(400), np.random.default_rng(0).normal(size=(400, 3)).astype(np.float32)
    found = data.run(lambda oracle: oracle.sum(ExactSum(), lambda record: record).value)
    np.testing.assert_allclose(found, rows.sum(axis=0), rtol=1e-4, atol=1e-3)
    noisy = data.run(lambda oracle: oracle.sum(Sum(10.0, 0.004), lambda record: record).value)
    np.testing.assert_allclose(noisy, rows.sum(axis=0), atol=6 * 10.0 * 0.004 + 400 * 1e-4)


# --- persons --------------------------------------------------------------------------------------------------------


def persons(count):
    return pd.DataFrame(
        {
            "patient": np.arange(count),
            "age": np.arange(count) + 1.0,
            "visits": [1] * count,
            "smoker": [True] * count,
            "ward": ["a"] * count,
        }
    )


@pytest.mark.parametrize("facts", [{}, {"adjacency": "add_or_remove_one", "capacity": 100}])
def test_the_order_of_persons_is_not_that_of_their_names(facts):
    """Else a name would decide at which place of the table, and in which batch, its rows are read."""
    vaults = [
        PrivateData.from_table(persons(90), schema=PERSONS, ledger=Book(), dataset="x", **facts) for _ in range(3)
    ]
    orders = [data._places.tolist() for data in vaults]
    for order in orders:
        assert len(set(order)) == 90
        assert order != sorted(order)
        assert max(order) < (100 if facts else 90)
    assert orders[0] != orders[1] != orders[2]
    for data in vaults:
        for one, other in zip(data._in_order(), vaults[0]._in_order(), strict=True):
            np.testing.assert_array_equal(one, other)
    ages = [np.asarray(data._slots.rows["age"])[:90, 0].tolist() for data in vaults]
    assert ages[0] != ages[1]
    assert ages[0] != sorted(ages[0])
