"""Sums over one record of every few: which places are read, what a neighbour moves, and where they are refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from jax import lax
from toy import shapes_of, slots_of, to_int64

from dpmcmc.accounting.event import counts
from dpmcmc.enclave import PrivateData, SpacedSum, Sum
from dpmcmc.enclave.core.mechanism import Term
from dpmcmc.enclave.engines import LocalEngine
from dpmcmc.enclave.mechanisms import spaced_sum
from dpmcmc.enclave.mechanisms.spaced_sum import PERIOD, STEPS, pattern, places_read
from dpmcmc.enclave.sources import FileSource, MemorySource
from dpmcmc.enclave.tables import read_table
from dpmcmc.errors import InvalidArgument
from dpmcmc.schema import Schema

SIZE, WIDTH, STEP = 1536, 3, 8
PINNED = [2, 13, 14, 13, 5, 15, 7, 8]
"""The first offsets of `pattern(16)`."""


def records(seed=0, size=SIZE):
    rng = np.random.default_rng(seed)
    return {"x": rng.normal(0, 0.2, (size, WIDTH)).astype(np.float32)}


def statistic(scale, record):
    return scale * record["x"]


def total(mechanism, table, chunk_size=300):
    """The exact sum of two chains."""
    queries = [jnp.array([1.0, -0.5], jnp.float32)]
    facts = PrivateData.without_guarantee(table, chunk_size=chunk_size).facts
    plan = mechanism.plan(
        facts, mechanism.contribution(Term(statistic, jax.tree.structure((0.0,)))), shapes_of(queries)
    )
    return to_int64(jax.jit(lambda slots: plan.draw.total(slots, queries, 2))(slots_of(table)))


def read(step=STEP, size=SIZE):
    return np.asarray(places_read(step, size))


def largest_move(one, two):
    return np.sqrt(((one - two).astype(float) ** 2).sum(axis=1)).max()


@pytest.mark.parametrize("step", STEPS)
def test_one_place_of_every_few_is_read_and_nothing_else(step):
    """A record elsewhere may be anything: the sum is that of a table with nothing there."""
    table, gone = records(), records()
    rest = np.setdiff1d(np.arange(SIZE), read(step))
    assert len(rest) == SIZE - SIZE // step
    assert np.array_equal(np.arange(SIZE // step), read(step) // step)
    gone["x"][rest] = 0.0
    found = total(SpacedSum(1.0, 3.0, step), table)
    assert np.array_equal(found, total(Sum(1.0, 3.0), gone))
    assert not np.array_equal(found, total(Sum(1.0, 3.0), table))


@pytest.mark.parametrize("step", STEPS)
def test_orders_that_repeat_themselves_do_not_mislead(step):
    """Kinds that take turns are read in equal parts, for every even period within what the page says, and odd ones."""
    for power in range(int(np.log2(PERIOD // step)) + 1):
        found = np.bincount(read(step, PERIOD) % 2**power, minlength=2**power)
        assert found.min() == found.max() == PERIOD // step // 2**power
    for odd, even in ((3, 16), (25, 2), (7, 64)):
        found = np.bincount(read(step, odd * PERIOD) % (odd * even), minlength=odd * even)
        assert found.min() == found.max()


def test_places_at_a_fixed_distance_would_be_misled():
    """The control: of 16 kinds that take turns they would read one."""
    assert len(np.unique(np.arange(0, PERIOD, STEP) % 16)) == 2
    assert len(np.unique(read(STEP, PERIOD) % 16)) == 16


def test_the_pattern_is_the_same_in_every_release():
    """It is no secret, and a run that is resumed reads the same places; so is what stands in results of old."""
    assert pattern(16)[:8].tolist() == PINNED
    assert all(len(pattern(step)) == PERIOD // step and set(pattern(step)) == set(range(step)) for step in STEPS)


def test_a_neighbour_at_a_place_that_is_read_moves_the_sum_by_two_bounds_at_most_and_elsewhere_not_at_all():
    table, mechanism = records(), SpacedSum(0.3, 3.0, STEP)
    before, bound = total(mechanism, table), bound_of(mechanism, table)
    moves = {}
    for place in (*read()[:3], *np.setdiff1d(np.arange(40), read())[:6], SIZE - 1):
        other = {"x": table["x"].copy()}
        other["x"][place] = -1e3 * np.sign(table["x"][place])
        moves[int(place)] = largest_move(before, total(mechanism, other))
    inside = [move for place, move in moves.items() if place in read()]
    assert 0.5 * bound < min(inside) <= max(inside) <= 2 * bound
    assert {move for place, move in moves.items() if place not in read()} == {0.0}


def bound_of(mechanism, table):
    from dpmcmc.enclave.core.sums import vector_lattice

    facts = PrivateData.without_guarantee(table).facts
    return vector_lattice(mechanism.clip, mechanism.noise_multiplier, facts).bound


def by_a_value(self, slots, queries, num_chains):
    """A mutant: reads one of every few in the order of a value."""
    some = jnp.argsort(slots.rows["x"][:, 0])[:: self.step]
    return of(self, slots, some, queries, num_chains)


def by_the_first_record(self, slots, queries, num_chains):
    """A mutant: an offset that is not public."""
    offset = (jnp.abs(slots.rows["x"][0, 0]) * 1e4).astype(jnp.int32) % self.step
    return of(self, slots, lax.iota(jnp.int32, slots.length // self.step) * self.step + offset, queries, num_chains)


def of(self, slots, places, queries, num_chains):
    rows = {"x": slots.rows["x"][places]}
    taken = spaced_sum.replace(slots, rows=rows, occupied=slots.occupied[places])
    return spaced_sum.ReferenceSum.total(self, taken, queries, num_chains)


@pytest.mark.parametrize("mutant", [by_a_value, by_the_first_record])
def test_places_that_depend_on_a_record_would_be_noticed(mutant, monkeypatch):
    """The negative control: who stands where decides who is read, and one record moves the sum by more than its own."""
    monkeypatch.setattr(spaced_sum.SumOfSome, "total", mutant)
    table, mechanism = records(), SpacedSum(0.3, 3.0, STEP)
    before, bound = total(mechanism, table), bound_of(mechanism, table)
    moves = []
    for place in (0, 1):
        other = {"x": table["x"].copy()}
        other["x"][place] = [-2.0, 0.0, 0.0] if place else [0.0123, 0.0, 0.0]
        moves.append(largest_move(before, total(mechanism, other)))
    assert max(moves) > 2 * bound


def test_the_price_is_that_of_a_sum():
    data, scale = PrivateData.without_guarantee(records()), jnp.float32(1.0)
    one, other = (
        data.price(lambda oracle, q, m=m: oracle.sum(m, statistic, q).value, scale)
        for m in (SpacedSum(2.0, 3.0, STEP), Sum(2.0, 3.0))
    )
    assert counts(one) == counts(other)


@pytest.mark.parametrize("step", [0, 1, 3, 64, 2.5, True])
def test_other_steps_are_refused(step):
    with pytest.raises(InvalidArgument, match="step"):
        SpacedSum(1.0, 1.0, step)


SCHEMA = Schema.from_dict(
    {"columns": {f"x{number}": {"kind": "number", "lower": -1, "upper": 1} for number in range(3)}}
)


def ask(oracle, scale):
    def of_columns(scale, record):
        return scale * jnp.stack([record["x0"], record["x1"], record["x2"]])

    return oracle.sum(SpacedSum(1.0, 3.0, 16), of_columns, scale).value, oracle.sum(
        Sum(1.0, 3.0), of_columns, scale
    ).value


@pytest.fixture(scope="module")
def frame(tmp_path_factory):
    """So many rows that they are several chunks."""
    found = pd.DataFrame(records(size=40_000)["x"].clip(-1, 1), columns=["x0", "x1", "x2"])
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    found.to_parquet(path, row_group_size=7000)
    return found, path


def test_memory_files_and_a_share_of_the_chunks_give_the_same_bits(frame):
    table, path = frame
    read = read_table(table, SCHEMA)
    memory = PrivateData.without_guarantee(read.records, bounds=read.bounds)
    expected = memory.run(ask, jnp.float32(0.7), insecure_seed=3)
    for source in (MemorySource(table, SCHEMA), FileSource(path, SCHEMA)):
        for rows in (PERIOD, 2 * PERIOD, 3 * PERIOD):
            data = PrivateData.without_guarantee(LocalEngine(source, rows))
            found = data.run(ask, jnp.float32(0.7), insecure_seed=3)
            jax.tree.map(np.testing.assert_array_equal, found, expected)
    other = PrivateData.without_guarantee(LocalEngine(MemorySource(table.iloc[::-1], SCHEMA), PERIOD))
    reverse = other.run(ask, jnp.float32(0.7), insecure_seed=3)
    assert not np.array_equal(reverse[0], expected[0])


def test_rows_that_may_move_are_refused(frame):
    """As cells are: a row that is replaced could move all others to places that are read, or from there."""
    import dpmcmc as dp

    _, path = frame
    terms = {"budget": dp.Budget(1.0, 1e-6), "schema": SCHEMA}
    moving, still = (dp.PrivateData(FileSource(path, SCHEMA), **terms, rows_keep_place=keep) for keep in (False, True))
    with pytest.raises(InvalidArgument, match="rows_keep_place"):
        moving.price(ask, jnp.float32(1.0))
    assert still.price(ask, jnp.float32(1.0))
