"""Sums in blocks: the same integers as a sum of the vectors written out, places that are held, price and noise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from toy import shapes_of, slots_of, to_int64

from dpmcmc.accounting.event import counts
from dpmcmc.enclave import BlockSum, PrivateData, Sum
from dpmcmc.enclave.arithmetic import quantise
from dpmcmc.enclave.core.mechanism import Term
from dpmcmc.errors import InvalidArgument

BLOCKS, LENGTH, COMMON, SIZE = 7, 2, 3, 1500
RARE = 1e-5


def records(seed=0):
    rng = np.random.default_rng(seed)
    return {
        "place": rng.integers(0, BLOCKS, SIZE).astype(np.float32),
        "x": rng.normal(0, 0.2, (SIZE, LENGTH + COMMON)).astype(np.float32),
    }


def in_blocks(scale, record):
    return jnp.concatenate([record["place"][None], scale * record["x"]])


def written_out(scale, record):
    own = (record["place"] == jnp.arange(BLOCKS)).astype(jnp.float32)[:, None] * record["x"][:LENGTH]
    return scale * jnp.concatenate([own.ravel(), record["x"][LENGTH:]])


def total(mechanism, statistic, table, chunk_size=300):
    """The exact sum of two chains."""
    queries = [jnp.array([1.0, -0.5], jnp.float32)]
    facts = PrivateData.without_guarantee(table, chunk_size=chunk_size).facts
    term = Term(statistic, jax.tree.structure((0.0,)))
    plan = mechanism.plan(facts, mechanism.contribution(term), shapes_of(queries))
    return to_int64(jax.jit(lambda slots: plan.draw.total(slots, queries, 2))(slots_of(table)))


def test_a_sum_in_blocks_is_the_sum_of_the_vectors_written_out_bit_for_bit():
    table = records()
    found = total(BlockSum(2.0, 3.0, BLOCKS, LENGTH), in_blocks, table)
    assert np.array_equal(found, total(Sum(2.0, 3.0), written_out, table))
    assert np.array_equal(found, total(BlockSum(2.0, 3.0, BLOCKS, LENGTH), in_blocks, table, chunk_size=4000))
    assert np.abs(found).min() > 0


@pytest.mark.parametrize("place", [-1.0, BLOCKS, 1e9, -1e9, np.nan, np.inf])
def test_a_record_that_names_no_block_adds_nothing(place):
    table, gone = records(), records()
    table["place"][5] = place
    gone["x"][5] = 0.0
    mechanism = BlockSum(2.0, 3.0, BLOCKS, LENGTH)
    assert np.array_equal(total(mechanism, in_blocks, table), total(mechanism, in_blocks, gone))


def test_places_are_held_whatever_untrusted_code_says(monkeypatch):
    """All records end in the last block: no place is beyond it, and nothing is lost."""
    monkeypatch.setattr(quantise, "place", lambda value, _: jnp.full_like(value, 2**31 - 1, jnp.int32))
    table = records()
    found = total(BlockSum(2.0, 3.0, BLOCKS, LENGTH), in_blocks, table)
    own = {"place": np.full(SIZE, BLOCKS - 1, np.float32), "x": table["x"]}
    assert np.array_equal(found, total(Sum(2.0, 3.0), written_out, own))


def test_the_price_is_that_of_a_sum():
    data = PrivateData.without_guarantee(records())
    scale = jnp.float32(1.0)
    one, other = (
        data.price(lambda oracle, q, m=m, s=s: oracle.sum(m, s, q).value, scale)
        for m, s in ((BlockSum(2.0, 3.0, BLOCKS, LENGTH), in_blocks), (Sum(2.0, 3.0), written_out))
    )
    assert counts(one) == counts(other)


@pytest.fixture(scope="module")
def noise():
    """Of a table without records that count, in blocks that nobody is in too: two thousand chains."""
    table = {"place": np.full(8, 2.0, np.float32), "x": np.zeros((8, LENGTH + COMMON), np.float32)}
    data, mechanism = PrivateData.without_guarantee(table), BlockSum(2.0, 3.0, BLOCKS, LENGTH)

    def program(oracle, queries):
        return jax.vmap(lambda q: oracle.sum(mechanism, in_blocks, q).value)(queries)

    return np.asarray(data.run(program, jnp.ones(2000)), float) / (2 * 2.0 * 3.0)


def test_every_coordinate_has_its_own_noise(noise):
    assert noise.shape == (2000, BLOCKS * LENGTH + COMMON)
    assert stats.kstest(noise.ravel(), "norm").pvalue > RARE
    assert min(stats.kstest(column, "norm").pvalue for column in noise.T) > RARE / noise.shape[1]
    assert abs(np.corrcoef(noise.T) - np.eye(noise.shape[1])).max() < 0.12


@pytest.mark.parametrize("factor", [2 / 3, 3 / 2])
def test_another_scale_is_noticed(noise, factor):
    assert stats.kstest(noise[:, 0] * factor, "norm").pvalue < RARE


def test_a_statistic_of_another_length_is_refused():
    data = PrivateData.without_guarantee(records())
    for mechanism in (BlockSum(1.0, 1.0, 5, 5), BlockSum(1.0, 1.0, 2**23, 4)):
        with pytest.raises(InvalidArgument, match="do not fit"):
            data.price(lambda oracle, m=mechanism: oracle.sum(m, lambda record: in_blocks(1.0, record)).value)
