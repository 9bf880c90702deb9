"""Counts: no negative entry passes, neighbours are sqrt(2) apart, and the noise is that of this distance."""

from fractions import Fraction
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy import shapes_of, slots_of, to_int64

from dpmcmc.accounting import Gaussian
from dpmcmc.accounting.event import counts
from dpmcmc.audits import bins
from dpmcmc.audits.audit import audit
from dpmcmc.audits.pairs import ADD, REPLACE
from dpmcmc.enclave import Counts, PrivateData, Sum
from dpmcmc.enclave.arithmetic import quantise
from dpmcmc.enclave.core.gate import Ball
from dpmcmc.enclave.core.mechanism import Term
from dpmcmc.enclave.core.sums import gaussian_noise
from dpmcmc.enclave.mechanisms import counts as counts_module
from dpmcmc.enclave.mechanisms.counts import ROOT_OF_TWO, PositiveBall
from dpmcmc.errors import InvalidArgument

SIZE, BINS, RARE = 1200, 6, 1e-5
ADJACENCIES = [{}, {"adjacency": "add_or_remove_one", "capacity": 1500}]


def vault(table, **facts):
    return PrivateData.without_guarantee(table, **facts)


def one_hot(record):
    return (record == jnp.arange(BINS)).astype(jnp.float32)


def ask(mechanism, statistic=one_hot):
    return lambda oracle: oracle.sum(mechanism, statistic)


@pytest.fixture(scope="module")
def table():
    return np.random.default_rng(0).integers(-1, BINS, SIZE).astype(np.float32)  # some are in no bin


def lattice_of(mechanism, table):
    """The bound and the scale that a plan adds up and draws with."""
    facts, seen = vault(table).facts, []
    watched = lambda multiplier, _, lattice: seen.append(lattice) or gaussian_noise(multiplier, 1, lattice)  # noqa: E731
    with mock.patch.object(counts_module, "gaussian_noise", watched):
        mechanism.plan(facts, mechanism.contribution(Term(one_hot, jax.tree.structure(()))), [])
    return seen[0]


def total(table, mechanism, statistic):
    """The exact sum, as Python's integers, and its bound."""
    facts = vault(table, chunk_size=300).facts
    contribution = mechanism.contribution(Term(statistic, jax.tree.structure(())))
    plan = mechanism.plan(facts, contribution, shapes_of([]))
    return to_int64(jax.jit(lambda slots: plan.draw.total(slots, [], 1))(slots_of(table))).astype(object)[0]


@pytest.mark.parametrize("facts", ADJACENCIES)
def test_the_price_is_that_of_a_sum(table, facts):
    one, other = (vault(table, **facts).price(ask(kind(1.0, 3.0))) for kind in (Counts, Sum))
    assert [part for part in counts(one) if isinstance(part, Gaussian)] == [Gaussian(3.0)]
    assert len(counts(one)) == len(counts(other))


@pytest.mark.parametrize("clip", [1.0, 3.7])
@pytest.mark.parametrize("multiplier", [0.01, 0.3, 1.0, 2.0**0.5, 7.7, 1e6])
def test_the_noise_is_at_least_that_of_the_distance_in_rational_numbers(table, clip, multiplier):
    lattice = lattice_of(Counts(clip, multiplier), table)
    square = (Fraction(lattice.scale) / lattice.bound) ** 2
    assert square >= 2 * Fraction(multiplier) ** 2
    assert square <= 2 * Fraction(multiplier) ** 2 * Fraction(1001, 1000), "and hardly more"
    assert Fraction(ROOT_OF_TWO) ** 2 > 2 * (1 + Fraction(1, 2**25))


def test_histograms_are_counted(table):
    found = vault(table, chunk_size=300).run(ask(Counts(1.0, 0.01)), insecure_seed=1)
    np.testing.assert_allclose(found.value, [(table == place).sum() for place in range(BINS)], atol=0.1)
    np.testing.assert_allclose(found.variance, 2 * 0.01**2, rtol=1e-3)


@pytest.mark.parametrize("facts", ADJACENCIES)
def test_the_variance_is_half_that_of_a_sum_under_replace_one(table, facts):
    one, other = (
        float(vault(table, **facts).run(ask(kind(1.0, 2.0)), insecure_seed=1).variance) for kind in (Counts, Sum)
    )
    assert one / other == pytest.approx(1.0 if facts else 0.5, rel=1e-6)


def test_what_has_a_negative_entry_counts_as_zero():
    rows = np.array([[0.6, 0.8], [0.6, -0.8], [-0.0, 1.0], [1.0, -1e-3], [np.nan, 0.5], [0.5, np.inf]], np.float32)
    found = vault(rows).run(ask(Counts(1.0, 0.005), lambda record: record), insecure_seed=1).value
    np.testing.assert_allclose(found, [0.6, 1.8], atol=0.05)


ENTRIES = st.integers(-(2**31), 2**31 - 1) | st.sampled_from([0, 1, -1, -(2**31), 2**20, 724_077, 1_000_000])
PAIRS = st.tuples(st.lists(ENTRIES, min_size=3, max_size=3), st.lists(ENTRIES, min_size=3, max_size=3))


@settings(max_examples=300, deadline=None)
@given(PAIRS)
def test_whatever_two_records_hand_over_they_are_root_two_apart_at_most(pair):
    ball = Ball(2**20, 3).movable
    gate = PositiveBall(ball.beyond, ball.limit, ball.coarse, ball.drop, ball.largest)
    one, other = (np.asarray(gate.hold(jnp.asarray(np.array(each, np.int32)))).astype(object) for each in pair)
    assert ((one - other) ** 2).sum() <= 2 * 2**40
    assert (one >= 0).all()
    assert (one**2).sum() <= 2**40


def test_two_bins_are_that_far_apart(table, monkeypatch):
    """The distance is attained, so that less noise would be too little: in integers, by records in different bins."""
    ends = []
    for place in (1.0, 4.0):
        moved = table.copy()
        moved[7] = place
        ends.append(total(moved, Counts(1.0, 1.0), one_hot))
    bound = lattice_of(Counts(1.0, 1.0), table).bound
    move = ((ends[0] - ends[1]) ** 2).sum()
    assert 0.999 * 2 * bound**2 < move <= 2 * bound**2
    monkeypatch.setattr(quantise, "vector", lambda y, *_, **__: jnp.full(y.shape, -3, jnp.int32))
    assert not total(table, Counts(1.0, 1.0), one_hot).any()
    assert total(table, Sum(1.0, 1.0), one_hot).any(), "the control: a sum lets them pass"


@pytest.fixture(scope="module")
def noise():
    data, mechanism = vault(np.full(8, -1.0, np.float32)), Counts(1.0, 3.0)

    def program(oracle, queries):
        return jax.vmap(lambda q: oracle.sum(mechanism, lambda q, record: q * one_hot(record), q).value)(queries)

    return np.asarray(data.run(program, jnp.ones(2000), insecure_seed=3), float) / (3.0 * 2**0.5)


def test_noise_has_the_declared_scale_and_not_two_thirds_or_three_halves_of_it(noise):
    error = 4.5 * np.sqrt(2 / noise.size)
    assert noise.shape == (2000, BINS)
    assert abs(noise.var() - 1) < error
    assert all(abs(noise.var() * factor - 1) > error for factor in (4 / 9, 9 / 4))
    assert abs(np.corrcoef(noise.T) - np.eye(BINS)).max() < 0.12


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_audits_see_most_of_the_claim_and_no_more(adjacency):
    found = audit(bins.bins(1.0, 1e-6, adjacency, "exact", True), 30_000, delta=1e-6, error=RARE)
    assert not found.is_broken, found
    assert found.lower_trade_off > 0.5 * found.claimed


@pytest.mark.parametrize("field", ["clip", "noise_multiplier"])
@pytest.mark.parametrize("value", [0, -1.0, np.inf, np.nan, None, "1", True])
def test_bad_numbers(field, value):
    with pytest.raises(InvalidArgument, match=f"{field}="):
        Counts(**{"clip": 1.0, "noise_multiplier": 1.0, field: value})
