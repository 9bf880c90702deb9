"""The charged clip fraction."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy import GaussianModel, slots_of, to_int64

from dpmcmc.accounting.accountants import without_approximations
from dpmcmc.accounting.event import Gaussian
from dpmcmc.enclave.arithmetic import quantise
from dpmcmc.enclave.core.gate import Interval
from dpmcmc.enclave.core.mechanism import Term
from dpmcmc.enclave.core.paths import per_chain
from dpmcmc.enclave.core.sums import reference_sum
from dpmcmc.enclave.data import PrivateData
from dpmcmc.enclave.mechanisms.noisy_count import NoisyCount
from dpmcmc.errors import InvalidArgument

MODEL = GaussianModel()
THETA = jnp.array([0.1, -0.2, 0.3])
ADJACENCIES = [{"adjacency": "replace_one"}, {"adjacency": "add_or_remove_one", "capacity": 60}]


def vault(records, **facts):
    return PrivateData.without_guarantee(records, **facts)


def count(mechanism):
    return lambda oracle: oracle.sum(mechanism, lambda record: record)


@pytest.mark.parametrize("facts", ADJACENCIES)
def test_one_record_counts_once_under_either_adjacency(table, facts):
    price = vault(table, **facts).price(count(NoisyCount(1.5, 4.0)))
    released, slack = without_approximations(price)
    assert released == Gaussian(4.0)
    assert slack.total_variation < 1e-18
    assert slack.log_ratio < 1e-9


def test_it_counts_gradients_above_a_clip_and_what_is_not_finite(table):
    records = np.concatenate([table, [[np.nan, 0, 0], [np.inf, 0, 0], [3e38, 3e38, 3e38], [0, 0, 0]]]).astype(
        np.float32
    )

    def program(oracle, theta):
        return oracle.sum(NoisyCount(1.5, 0.01), jax.grad(MODEL.log_likelihood), theta)

    noisy = vault(records).run(program, THETA)
    expected = (np.linalg.norm(table - np.asarray(THETA), axis=1) > 1.5).sum() + 3
    np.testing.assert_allclose(noisy.value, expected, atol=0.1)
    np.testing.assert_allclose(noisy.variance, 0.01**2, rtol=1e-4)


@pytest.mark.parametrize("clip", [1e-30, 1e30])
def test_clips_of_any_size(clip):
    records = np.array([0.0, 0.5 * clip, 2 * clip, -2 * clip], np.float32)
    np.testing.assert_allclose(vault(records).run(count(NoisyCount(clip, 0.01))).value, 2, atol=0.1)


def test_noise_has_the_declared_scale_and_not_two_thirds_or_three_halves_of_it(table):
    chains, mechanism = 4000, NoisyCount(1.5, 4.0)
    program = lambda o, x: jax.vmap(lambda y: o.sum(mechanism, lambda a, r: a * r, y).value)(x)  # noqa: E731
    values = np.asarray(vault(table).run(program, jnp.ones(chains), insecure_seed=1))
    expected = (np.linalg.norm(table, axis=1) > 1.5).sum()
    assert values.mean() == pytest.approx(expected, abs=4.5 * 4 / np.sqrt(chains))
    error = 4.5 * np.sqrt(2 / chains)
    assert abs(values.var() / 16 - 1) < error
    assert all(abs(values.var() / (16 * factor) - 1) > error for factor in (4 / 9, 9 / 4))


VALUES = st.sampled_from([0.0, -0.0, 1.5, -1.5, 1e-40, 1.2e-38, 1e20, 3.4028235e38, np.inf, -np.inf, np.nan])
ROWS = st.lists(st.tuples(VALUES, VALUES, VALUES), min_size=5, max_size=5)
MECHANISM = NoisyCount(1.5, 4.0)
FACTS = vault(np.zeros((5, 3))).facts
LATTICE = MECHANISM.lattice(FACTS)


@jax.jit
def steps(slots):
    exceeds = MECHANISM.contribution(Term(lambda record: record, jax.tree.structure(())))
    gate = Interval(0, LATTICE.bound)
    return reference_sum(FACTS.chunk_size, 1, exceeds, slots, [], per_chain(LATTICE, 1), gate, quantise.count)


@settings(max_examples=100, deadline=None)
@given(rows=ROWS, replacement=st.tuples(VALUES, VALUES, VALUES), index=st.integers(0, 4))
def test_a_neighbour_moves_the_count_by_one_at_most(rows, replacement, index):
    table = np.array(rows, np.float32)
    other = table.copy()
    other[index] = replacement
    gone = slots_of(table, occupied=np.arange(5) != index)
    before, after, less = (int(to_int64(steps(one))[0, 0]) for one in (slots_of(table), slots_of(other), gone))
    assert abs(before - after) in (0, LATTICE.bound)
    assert before - less in (0, LATTICE.bound)
    assert before % LATTICE.bound == 0
    assert LATTICE.scale >= 4.0 * LATTICE.bound


@pytest.mark.parametrize("field", ["clip", "noise_multiplier"])
@pytest.mark.parametrize("value", [0, 0.0, -1.0, np.inf, np.nan, None, "1", True])
def test_bad_numbers(field, value):
    with pytest.raises(InvalidArgument, match=f"{field}="):
        NoisyCount(**{"clip": 1.0, "noise_multiplier": 1.0, field: value})
