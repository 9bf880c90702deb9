# ruff: noqa: ARG001, ARG005
"""The vault gives nothing away, takes no bad input, and charges exactly when records are read."""

import copy
import json
import pickle
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from toy import TOYS, ToyGradient, ToySum

from dpmcmc.accounting.adjacency import Adjacency
from dpmcmc.accounting.budget import Budget
from dpmcmc.accounting.event import Gaussian
from dpmcmc.enclave.data import PrivateData
from dpmcmc.enclave.mechanisms.exact import ExactSum
from dpmcmc.enclave.mechanisms.sum import Sum
from dpmcmc.errors import BudgetExceeded, InvalidArgument, LedgerUnavailable, RecordsRefused

SECRET = 0.8765432
ASK = ToySum()


@pytest.fixture
def secret(book):
    return PrivateData(
        {"x": np.full((4, 2), SECRET), "y": np.arange(4)}, ledger=book, dataset="people", extra_mechanisms=TOYS
    )


def total(oracle):
    return oracle.sum(ASK, lambda record: record["x"]).value


# Nothing leaks.


def test_repr_shows_public_facts_only(secret):
    for text in (repr(secret), str(secret), f"{secret}", repr(secret.facts)):
        assert "0.876" not in text
        assert "people" in text or "Facts" in text
    assert "size=4" in repr(secret)
    assert "x: float32[2]" in repr(secret)
    assert "replace_one" in repr(secret)


def test_repr_hides_the_number_of_records_where_it_is_private(book):
    data = PrivateData(
        np.zeros((1234, 2)),
        adjacency="add_or_remove_one",
        capacity=2000,
        ledger=book,
        dataset="people",
        extra_mechanisms=TOYS,
    )
    assert "1234" not in repr(data) + repr(data.facts)
    assert "capacity=2000" in repr(data)
    assert data.facts.size == 2000


@pytest.mark.parametrize(
    "look",
    [
        pickle.dumps,
        copy.copy,
        copy.deepcopy,
        iter,
        list,
        len,
        bool,
        float,
        np.asarray,
        jnp.asarray,
        jnp.sum,
        jax.jit(lambda x: x),
        jax.device_put,
        lambda data: jax.vmap(lambda x: x)(data),
        lambda data: jax.make_jaxpr(lambda x: x)(data),
        lambda data: data[0],
        lambda data: data["x"],
        lambda data: data == data,
        lambda data: data != 1,
        lambda data: data < 1,
        lambda data: data * 2,
        lambda data: 2 + data,
        lambda data: 0.5 in data,
        lambda data: json.dumps(data),
        lambda data: vars(data),
        lambda data: data.records,
    ],
)
def test_nothing_reads_it(secret, look):
    with pytest.raises((RecordsRefused, TypeError, AttributeError)) as caught:
        look(secret)
    assert "0.876" not in str(caught.value)


def test_it_is_no_pytree(secret):
    assert len(jax.tree.leaves({"data": secret})) == 1
    assert jax.tree.leaves(secret)[0] is secret


def test_errors_of_a_program_show_no_value(secret):
    def program(oracle):
        def statistic(record):
            return record["x"] if record["x"][0] > 0 else 0.0

        return oracle.sum(ASK, statistic).value

    with pytest.raises(jax.errors.TracerBoolConversionError) as caught:
        secret.run(program)
    assert "0.876" not in str(caught.value)


def test_the_vault_keeps_its_own_copy(book):
    records = np.zeros((5, 2), np.float32)
    data = PrivateData(records, ledger=book, dataset="people", extra_mechanisms=TOYS)
    before = data.run(lambda oracle: oracle.sum(ToySum(noise_multiplier=1e-6), lambda r: r).value)
    records[:] = 1.0
    after = data.run(lambda oracle: oracle.sum(ToySum(noise_multiplier=1e-6), lambda r: r).value)
    np.testing.assert_allclose(before, after, atol=1e-4)


# Values outside the bounds, and values that are none.


def exact_sum(records, bounds=None):
    data = PrivateData.without_guarantee({"x": records}, bounds=bounds, extra_mechanisms=TOYS)
    noiseless = ToySum(clip=1e6, noise_multiplier=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return data.run(lambda oracle: oracle.sum(noiseless, lambda record: record["x"].astype(float)).value)


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([0.5, 7.0, -7.0], 0.5 + 2 - 1),
        ([np.inf, -np.inf], 2 - 1),
        ([1e308, -1e308], 2 - 1),
        ([np.nan, 1.0], 1.0),
        ([5e-324, 1.0], 1.0),
        (np.array([2**62, -(2**62), 1]), 2 - 1 + 1),
        (np.array([255, 0, 1], np.uint8), 2 + 0 + 1),
    ],
)
def test_values_outside_the_bounds_are_clamped_silently(records, expected):
    np.testing.assert_allclose(exact_sum(np.array(records), {"x": (-1, 2)}), expected, atol=1e-4)


def test_integers_beyond_the_precision_saturate():
    top = np.iinfo(np.int32).max
    data = PrivateData.without_guarantee(np.array([2**40, -(2**40)]))
    np.testing.assert_array_equal(data._slots.rows[:2], [top, -top - 1])
    assert not np.any(data._slots.rows[2:])
    assert data._slots.occupied.tolist() == [True, True, *[False] * (data._slots.length - 2)]


# Bad input.


@pytest.mark.parametrize(
    ("records", "options", "message"),
    [
        (np.zeros((0, 3)), {}, "no row"),
        ([], {}, "no array"),
        ({}, {}, "no array"),
        ({"x": np.zeros(3), "y": np.zeros(4)}, {}, "different numbers of rows: x, y"),
        ({"x": np.array(["a", "b"])}, {}, "'x'.*type <U1"),
        ({"x": np.array([None, 1], object)}, {}, "'x'.*type object"),
        ({"x": np.zeros(3, complex)}, {}, "'x'.*type complex128"),
        ({"x": np.zeros(3, "datetime64[s]")}, {}, "'x'.*datetime64"),
        (np.float32(1.0), {}, "single value"),
        (np.zeros(3), {"bounds": {"records": (1, 0)}}, "lower < upper"),
        (np.zeros(3), {"bounds": {"records": (1, 1)}}, "lower < upper"),
        (np.zeros(3), {"bounds": {"records": (np.nan, 1)}}, "lower < upper"),
        (np.zeros(3), {"bounds": {"records": 3}}, "must be a pair"),
        (np.zeros(3), {"bounds": (0, 1)}, r"as in bounds=\{'records': \(lower, upper\)\}"),
        (np.zeros(3), {"bounds": {"records": ("a", "b")}}, "must be a pair"),
        (np.zeros(3, np.int32), {"bounds": {"records": (0.2, 0.8)}}, "hold no value of the type int32"),
        (np.zeros(3), {"bounds": {"age": (0, 1)}}, "no such leaf: age; the records have records"),
        (np.zeros(3), {"adjacency": "friends"}, "adjacency='friends' must be one of"),
        (np.zeros(3), {"adjacency": "add_or_remove_one"}, "capacity=None must be stated"),
        (np.zeros(3), {"adjacency": "add_or_remove_one", "capacity": 0}, "capacity=0 must be >= 1"),
        (
            np.zeros(3),
            {"adjacency": "add_or_remove_one", "capacity": 2},
            "capacity=2 is less than the number of records",
        ),
        (np.zeros(3), {"capacity": 3}, "capacity must be left out"),
        (np.zeros(3), {"chunk_size": 0}, "chunk_size=0 must be >= 1"),
    ],
)
def test_bad_records_and_facts(book, records, options, message):
    with pytest.raises(InvalidArgument, match=message):
        PrivateData(records, ledger=book, dataset="people", extra_mechanisms=TOYS, **options)


def test_records_may_not_be_tracers(book):
    with pytest.raises(RecordsRefused, match="outside jit"):
        jax.jit(lambda x: PrivateData(x, ledger=book, dataset="people", extra_mechanisms=TOYS).price(total))(
            jnp.zeros(3)
        )


@pytest.mark.parametrize("payers", [{}, {"dataset": "people"}, {"budget": 3.0}, {"ledger": object()}])
def test_somebody_must_pay(payers):
    with pytest.raises(InvalidArgument, match="state the budget"):
        PrivateData(np.zeros(3), **payers)


def test_one_row_is_enough(book):
    data = PrivateData(np.zeros((1, 2)), ledger=book, dataset="people", extra_mechanisms=TOYS)
    assert data.run(lambda oracle: oracle.sum(ASK, lambda record: record).value).shape == (2,)


# What is charged, and when.


def test_failures_before_a_release_cost_nothing(secret, book):
    failing = [
        lambda oracle: 1 / 0,
        lambda oracle: oracle.sum(ASK, lambda record: record["z"]),
        lambda oracle: oracle.sum(ASK, lambda record: record["x"] @ jnp.zeros(3)),
        lambda oracle: oracle.force(ToyGradient(), jnp.zeros(2)),
        lambda oracle: oracle.force(ToyGradient(), {}),
        lambda oracle: oracle.force(ToyGradient(), jnp.zeros(2, int)),
        lambda oracle: "text",
    ]
    for program in failing:
        with pytest.raises(Exception):  # noqa: B017, PT011
            secret.run(program)
    with pytest.raises(InvalidArgument, match="an argument of the program is a str"):
        secret.run(lambda oracle, x: x, "text")
    assert book.reserved == []


def test_a_failure_after_the_release_keeps_the_charge(secret, book, monkeypatch):
    def fail(_):
        raise RuntimeError("the device is gone")

    monkeypatch.setattr(jax, "block_until_ready", fail)
    with pytest.raises(RuntimeError, match="the device is gone"):
        secret.run(total)
    assert book.reserved == book.settled == [Gaussian(2.0)]


def test_a_book_that_cannot_be_written_after_the_run_leaves_the_charge_standing(secret, book, monkeypatch):
    def fail(self, spent=None):
        raise LedgerUnavailable("disk full")

    monkeypatch.setattr("toy.Entry.settle", fail)
    with pytest.warns(RuntimeWarning, match="paid but not settled"):
        result = secret.run(total)
    assert result.shape == (2,)
    assert book.reserved == [Gaussian(2.0)]


def test_a_budget_pays_until_it_is_spent():
    data = PrivateData(np.zeros((20, 2)), budget=Budget(1.0, 1e-6))
    ask = lambda oracle: oracle.sum(Sum(clip=1.0, noise_multiplier=8.0), lambda record: record).value  # noqa: E731
    with pytest.raises(BudgetExceeded, match="Nothing was charged"):
        _ = [data.run(ask) for _ in range(20)]
    with pytest.raises(BudgetExceeded, match="NonPrivate"):
        data.run(ask, insecure_seed=0)


def test_the_ledger_is_told_the_adjacency(book):
    told = []

    class Listening:
        def reserve(self, dataset, event, *, description, adjacency):
            told.append((dataset, description, adjacency))
            return book.reserve(dataset, event, description=description, adjacency=adjacency)

    data = PrivateData(
        np.zeros((3, 2)),
        adjacency="add_or_remove_one",
        capacity=9,
        ledger=Listening(),
        dataset="people",
        extra_mechanisms=TOYS,
    )
    data.run(lambda oracle: oracle.sum(ASK, lambda record: record).value, description="a pilot")
    assert told == [("people", "a pilot", Adjacency.ADD_OR_REMOVE_ONE)]


def test_pricing_reads_no_record(secret, monkeypatch):
    monkeypatch.setattr("dpmcmc.enclave.core.vault.jax.jit", None)  # whatever executes would need it
    assert secret.price(total) == Gaussian(2.0)


def test_arguments_keep_their_structure_and_type(secret):
    result = secret.run(
        lambda oracle, a, b: {"a": a, "b": b, "key": jax.random.normal(b["k"])},
        (1.0, np.arange(3)),
        {"k": jax.random.key(0), "flag": True},
    )
    assert result["a"][0].dtype == jnp.float32
    assert result["a"][1].dtype == jnp.int32
    assert result["b"]["flag"].dtype == bool
    assert result["key"].shape == ()


# Tables.


@pytest.mark.parametrize(
    "make",
    [
        lambda age, smoker: pd.DataFrame({"age": age, "smoker": smoker}),
        lambda age, smoker: np.rec.fromarrays([age, smoker], names="age,smoker"),
        lambda age, smoker: {"age": age, "smoker": smoker},
    ],
    ids=["pandas", "structured array", "columns by name"],
)
def test_a_table_is_its_columns_by_name(make):
    table = make(np.array([20.0, 30.0, 200.0]), np.array([True, False, True]))
    data = PrivateData.without_guarantee(table, bounds={"age": (0, 100)})

    def ages(oracle):
        return oracle.sum(ExactSum(), lambda record: record["age"] * record["smoker"]).value

    assert float(data.run(ages)[0]) == 120.0  # the impossible age is held to its bound
    assert "age: float32" in repr(data)


def test_text_in_a_table_is_refused_before_anything_is_charged(book):
    with pytest.raises(InvalidArgument, match="ward"):
        PrivateData(pd.DataFrame({"ward": ["north", "south"]}), ledger=book, dataset="people", extra_mechanisms=TOYS)
    assert book.reserved == []
