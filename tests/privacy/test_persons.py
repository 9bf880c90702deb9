"""Persons who own several rows: places, the choice among rows, and what one person can do to a release."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from toy import compute, slots_of

from dpmcmc.enclave import GradientSum, LogRatio, PrivateData
from dpmcmc.enclave.core.mechanism import Term
from dpmcmc.enclave.noise.chacha20 import insecure_key
from dpmcmc.enclave.tables import read_table
from dpmcmc.errors import InvalidArgument
from dpmcmc.model import Model
from dpmcmc.model.persons import per_person
from dpmcmc.schema import SEED, SEEDS, Column, Schema

X = Column(kind="number", lower=-5, upper=5, missing="indicator", fill=1)
GROUP = Column(kind="category", categories=("a", "b"), missing="fill", fill="b")
K = 3
SCHEMA = Schema({"x": X, "group": GROUP}, person="who", max_rows_per_person=K)
MODEL = Model(
    lambda theta: -0.5 * jnp.sum(theta**2),
    lambda theta, row: -0.5 * (row["x"] - theta[0] - row["group"] * theta[1]) ** 2,
)


def frame(rows) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["who", "x", "group"], dtype=object)


def records(rows, schema=SCHEMA):
    return read_table(frame(rows), schema).records


def record(rows, who):
    """The places of one person, as a multiset of rows."""
    names = sorted({str(row[0]) for row in rows})
    found = records(rows)
    found.pop(SEED)  # of the person, not of a row
    place = names.index(who)
    return sorted(zip(*(found[leaf][place].tolist() for leaf in sorted(found)), strict=True))


def test_places_and_padding():
    found = records([("b", 2, "a"), ("a", None, "b"), ("b", -9, "c")])
    np.testing.assert_array_equal(found["present"], np.float32([[1, 0, 0], [1, 1, 0]]))
    np.testing.assert_array_equal(found["x_missing"], np.float32([[1, 0, 0], [0, 0, 0]]))
    np.testing.assert_array_equal(found["x"][0], np.float32([1, 1, 1]))
    assert sorted(found["x"][1, :2].tolist()) == [-5, 2]
    np.testing.assert_array_equal(found["group"][0], np.int32([1, 1, 1]))
    assert {leaf: found[leaf].dtype.name for leaf in found} == {
        "x": "float32", "x_missing": "float32", "group": "int32", "present": "float32", "(seed)": "float32",
        "(missing cells 1-3 of 3)": "int32",
    }  # fmt: skip


def test_the_first_place_always_holds_a_row():
    found = records([(who, 0.1 * who, "a") for who in range(20)])
    assert np.all(found["present"][:, 0] == 1)


def test_a_row_of_nobody_does_not_count():
    named = [("b", 2, "a"), ("a", 1, "b")]
    nobody = [(None, 4, "a"), ("", 4, "a"), ("  ", 3, "b"), (float("nan"), 3, "b")]
    for leaf, values in records(named).items():
        np.testing.assert_array_equal(records(nobody + named)[leaf], values)


def test_one_person_is_one_name_however_it_is_kept():
    found = records([(7, 1, "a"), ("7", 2, "a"), (7.0, 3, "a"), (" 7 ", 4, "a")])
    assert found["present"].tolist() == [[1, 1, 1]]


ROWS = st.lists(
    st.tuples(st.sampled_from("pqr"), st.one_of(st.none(), st.floats(-6, 6)), st.sampled_from(["a", "b", None])),
    min_size=1,
    max_size=12,
)


@settings(deadline=None, max_examples=100)
@given(ROWS, ROWS, st.randoms(use_true_random=False))
def test_a_record_depends_on_the_rows_of_its_person_alone(rows, others, random):
    """The same rows of p among other rows of q and r, in another order, give the same record of p."""
    mine = [row for row in rows if row[0] == "p"]
    if not mine:
        return
    mixed = mine + [row for row in others if row[0] != "p"]
    random.shuffle(mixed)
    assert record(mixed, "p") == record(rows, "p")


def test_records_do_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(0)
    rows = [(int(who), round(float(x), 1), "ab"[int(g)]) for who, x, g in rng.uniform(0, [9, 2, 2], (200, 3))]
    shuffled = [rows[place] for place in rng.permutation(len(rows))]
    for leaf, values in records(rows).items():
        np.testing.assert_array_equal(records(shuffled)[leaf], values)


def test_the_rows_that_count_are_as_good_as_drawn_at_random():
    """A person has nine equal rows and a tenth; k = 3. It counts with probability 0.3, whichever it is.

    2000 persons: the frequency is within four standard errors, one false alarm in 16,000 (and the hash is fixed).
    """
    for odd in (-2.0, 2.0):
        found = records(
            [(who, 0.0, "a") for who in range(2000) for _ in range(9)] + [(w, odd, "a") for w in range(2000)]
        )
        assert np.all(found["present"] == 1)
        often = np.mean(np.any(found["x"] == odd, axis=1))
        assert abs(often - 0.3) < 4 * np.sqrt(0.3 * 0.7 / 2000)


def test_a_seed_follows_from_the_name_alone():
    """24 bits of a hash, uniform: a false alarm in a million, and the hash is fixed."""
    few = records([("p", 1, "a"), ("q", 2, "b")])[SEED]
    more = records([("o", 9, "b"), ("q", -3, "a"), ("p", 0, "b"), ("p", 4, "a")])[SEED]
    np.testing.assert_array_equal(few, more[1:])
    many = records([(who, 0.0, "a") for who in range(4000)])[SEED]
    assert many.min() >= 0
    assert many.max() < SEEDS
    assert np.all(many == np.round(many))
    assert stats.kstest(many / SEEDS, "uniform").pvalue > 1e-6
    assert abs(np.corrcoef(many, np.arange(4000))[0, 1]) < 5 / np.sqrt(4000)


def test_equal_rows_all_count():
    assert records([("p", 1, "a")] * 2)["present"].tolist() == [[1, 1, 0]]
    assert records([("p", 1, "a")] * 5)["present"].tolist() == [[1, 1, 1]]


# The model of a person.


def test_a_person_is_the_sum_of_its_rows():
    found = records([("a", 1.5, "a"), ("b", -1, "a"), ("b", 2, "b"), ("c", 0, "b"), ("c", 0, "b"), ("c", 4, "a")])
    theta = jnp.array([0.3, -0.7])
    model = per_person(MODEL)
    for place in range(3):
        person = {leaf: jnp.asarray(values[place]) for leaf, values in found.items()}
        rows = [
            {leaf: values[j] for leaf, values in person.items() if leaf != SEED}
            for j in range(K)
            if person["present"][j]
        ]
        expected = sum(MODEL.log_likelihood(theta, row) for row in rows)
        np.testing.assert_allclose(model.log_likelihood(theta, person), expected, rtol=1e-6)
        gradient = jax.grad(model.log_likelihood)(theta, person)
        each = [jax.grad(MODEL.log_likelihood)(theta, row) for row in rows]
        np.testing.assert_allclose(gradient, sum(each), rtol=1e-5)
    assert model.log_prior is MODEL.log_prior


@pytest.mark.parametrize("padding", [0.0, -1.0, np.nan, np.inf])
def test_a_place_without_a_row_cannot_poison_the_sum(padding):
    """log x at a padded 0, -1 or NaN is not finite, nor are its derivatives; the sum and its gradient are."""
    model = per_person(Model(lambda theta: 0.0 * theta, lambda theta, row: theta * jnp.log(row["x"]) ** 1.5))
    person = {"x": jnp.array([2.0, padding, padding]), "present": jnp.array([1.0, 0.0, 0.0])}
    value, gradient = jax.value_and_grad(model.log_likelihood)(2.0, person)
    np.testing.assert_allclose([value, gradient], [2 * np.log(2) ** 1.5, np.log(2) ** 1.5], rtol=1e-6)


def test_leaves_may_have_more_axes():
    model = per_person(Model(jnp.sum, lambda theta, row: row["z"] @ theta))
    person = {"z": jnp.arange(6.0).reshape(3, 2), "present": jnp.array([1.0, 1.0, 0.0])}
    assert model.log_likelihood(jnp.array([1.0, 10.0]), person) == 2 + 40


def test_a_record_without_places_is_refused():
    for record in ({"x": jnp.zeros(3)}, jnp.zeros(3), {"present": jnp.ones(3)}):
        with pytest.raises(InvalidArgument, match="one of them 'present'"):
            per_person(MODEL).log_likelihood(jnp.zeros(2), record)


# What one person can do.

THETA, OTHER = jnp.array([0.1, -0.2]), jnp.array([0.2, -0.1])
PERSON = per_person(MODEL)
FIXED = [("p", 1.0, "a"), ("p", 2.0, "b"), ("r", -3.0, "a")]
FACTS = PrivateData.without_guarantee(records([*FIXED, ("q", 0, "a")]), bounds=SCHEMA.bounds).facts
TERM = Term(PERSON.log_likelihood, jax.tree.structure((0,)))
PROBES = [  # the mechanism, its queries, and how far a person may move it
    (GradientSum(2.0, 3.0), [THETA], 4.0),
    (LogRatio(2.0, 3.0), [THETA, OTHER], 4.0 * np.linalg.norm(OTHER - THETA)),
]


@jax.jit
def probe(slots):
    keys = jax.random.split(insecure_key(5), 1)
    return [
        compute(mechanism, FACTS, mechanism.contribution(TERM), slots, [query[None] for query in queries], keys)[0]
        for mechanism, queries, _ in PROBES
    ]


MINE = st.lists(
    st.tuples(
        st.sampled_from([0.0, 1e-40, 5.0, -5.0, 1e308, -1e308, np.inf, -np.inf, np.nan, None, "x"]),
        st.sampled_from(["a", "b", "c", None]),
    ),
    min_size=1,
    max_size=8,
)


@settings(deadline=None, max_examples=150)
@given(MINE, st.sampled_from(["q", "o", "zz"]), MINE, st.sampled_from(["q", "o", "zz"]))
def test_one_person_moves_a_release_by_no_more_than_its_sensitivity(mine, name, yours, other_name):
    """One person is replaced by any other: another name, other rows, more of them, and anywhere in the order."""

    def released(who, rows):
        return probe(slots_of(records([*FIXED[:1], *((who, *row) for row in rows), *FIXED[1:]])))

    for one, other, (_, _, bound) in zip(released(name, mine), released(other_name, yours), PROBES, strict=True):
        assert np.all(np.isfinite(one))
        assert np.all(np.linalg.norm(np.atleast_2d(one - other), axis=1) <= bound * (1 + 1e-4) + 1e-4)


def test_rows_as_records_would_break_that_bound():
    """The same move with the rows taken for records: the test above has power."""
    schema = Schema({"x": X, "group": GROUP})
    facts = PrivateData.without_guarantee(records(FIXED, schema)).facts
    term = Term(MODEL.log_likelihood, jax.tree.structure((0,)))
    mechanism, queries, bound = PROBES[0]

    @jax.jit
    def released(slots):
        keys = jax.random.split(insecure_key(5), 1)
        return compute(mechanism, facts, mechanism.contribution(term), slots, [queries[0][None]], keys)[0]

    one, other = (released(slots_of(records([*FIXED, *[("q", x, "a")] * 8], schema))) for x in (5.0, -5.0))
    assert np.linalg.norm(one - other) > 2 * bound


def test_a_vault_of_persons_runs():
    rng = np.random.default_rng(1)
    rows = [(f"p{int(who)}", float(x), "ab"[int(g)]) for who, x, g in rng.uniform(0, [30, 2, 2], (200, 3))]
    data = PrivateData.without_guarantee(records(rows), bounds=SCHEMA.bounds, chunk_size=7)
    quiet = GradientSum(clip=50.0, noise_multiplier=0.002)
    noisy = data.run(lambda oracle, theta: oracle.force(quiet, theta).value, THETA, model=PERSON)
    found = records(rows)
    exact = sum(
        np.asarray(jax.grad(PERSON.log_likelihood)(THETA, {leaf: values[place] for leaf, values in found.items()}))
        for place in range(len(found["x"]))
    )
    np.testing.assert_allclose(noisy, exact - np.asarray(THETA), atol=2.0)
