import math
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy import to_int64

from dpmcmc.enclave.arithmetic import int64, quantise
from dpmcmc.enclave.arithmetic import lattice as lat
from dpmcmc.enclave.arithmetic.int64 import Wide
from dpmcmc.enclave.arithmetic.lattice import Lattice
from dpmcmc.enclave.core.gate import Ball, Interval, gated_sum
from dpmcmc.enclave.mechanisms.barker_bit import logistic_lattice
from dpmcmc.enclave.noise.floating import from_float
from dpmcmc.errors import InvalidArgument

FLOAT32_MAX = 3.4028235e38
NASTY = [0.0, -0.0, FLOAT32_MAX, -FLOAT32_MAX, 1e30, -1e30, math.inf, -math.inf, math.nan, 1e-45, -1e-45, 1.2e-38]
ENTRY = st.floats(width=32, allow_nan=True, allow_infinity=True, allow_subnormal=True) | st.sampled_from(NASTY)
NEAR = st.floats(min_value=-2, max_value=2, width=32) | st.sampled_from([1.0, -1.0, 0.5, 2**-24, *NASTY])
INT64 = st.integers(-(2**62), 2**62 - 1)


def wide(value):
    return Wide(jnp.int32(value >> 32), jnp.uint32(value & 0xFFFFFFFF))


def square_norm(steps):
    """Exact: Python integers do not overflow."""
    return sum(int(step) ** 2 for step in np.asarray(steps).ravel())


# --- integers of two words ------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(INT64, INT64, st.integers(1, 31))
def test_wide_arithmetic_is_integer_arithmetic(first, second, bits):
    assert int(to_int64(int64.add(wide(first), wide(second)))) == first + second
    assert int(to_int64(int64.negate(wide(first)))) == -first
    assert int(to_int64(int64.magnitude(wide(first)))) == abs(first)
    if abs(first) << bits < 2**63:
        assert int(to_int64(int64.shift_left(wide(first), bits))) == first << bits
    assert float(int64.to_float(wide(first), 0.5)) == pytest.approx(first / 2, rel=3e-7)


@settings(max_examples=100, deadline=None)
@given(st.floats(-(2.0**61), 2.0**61, width=32))
def test_floats_become_the_nearest_integer(value):
    assert int(to_int64(from_float(jnp.float32(value)))) == round(value)


def test_words_survive_the_edges():
    values = np.array([-(2**31), -1, 0, 1, 2**31 - 1], np.int32)
    np.testing.assert_array_equal(to_int64(int64.widen(jnp.asarray(values))), values)
    assert int(to_int64(from_float(jnp.float32(np.nan)))) == 0
    assert float(int64.to_float(wide(-5), 1.0)) == -5.0
    assert float(int64.to_float(wide(2**40 - 1), 1.0)) == 2.0**40


@pytest.mark.parametrize("rows", [1, 63, 128, 4992])
def test_sums_are_exact_beyond_int32(rows):
    steps = np.random.default_rng(rows).integers(-(2**24), 2**24, size=(rows, 2), endpoint=True).astype(np.int32)
    steps[: rows // 2] = 2**24
    expected = steps.astype(object).sum(axis=0)
    counts = np.ones(rows, np.bool_)
    np.testing.assert_array_equal(to_int64(int64.sum_records(jnp.asarray(steps), counts, 2**24)), expected)
    counts[::3] = False
    expected = steps[counts].astype(object).sum(axis=0)
    np.testing.assert_array_equal(to_int64(int64.sum_records(jnp.asarray(steps), counts, 2**24)), expected)


def test_rows_that_fill_no_whole_number_of_blocks_are_refused():
    assert int64.rows_in_block(2**24) == 64
    with pytest.raises(InvalidArgument, match="200 rows are no multiple of 64"):
        int64.sum_records(jnp.zeros((200, 1), jnp.int32), jnp.ones(200, jnp.bool_), 2**24)


# --- choosing a lattice ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise_over_clip", [1 / 256, 0.3, 1.0, 2 / 3, 20.0, 37.123, 1e4, 2.0**30])
@pytest.mark.parametrize("clip", [1e-6, 0.7, 6.0, 1e6])
def test_gradient_lattices_keep_their_promises(clip, noise_over_clip):
    lattice = lat.gradient_lattice(clip, noise_over_clip, num_records=10**6)
    assert math.log2(lattice.scale).is_integer()
    assert 2.0**16 <= lattice.scale <= 2.0**40
    assert Fraction(lattice.scale) / lattice.bound >= Fraction(noise_over_clip)
    assert lattice.scale / (lattice.bound + 1) < noise_over_clip
    assert lattice.scale * lattice.granularity == pytest.approx(noise_over_clip * clip, rel=1e-7)
    assert lattice.granularity == float(np.float32(lattice.granularity))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: lat.gradient_lattice(1.0, 0.001, 10), "noise_over_clip=0.001 must be between"),
        (lambda: lat.gradient_lattice(1.0, 2.0**31, 10), "noise_over_clip"),
        (lambda: lat.gradient_lattice(1.0, math.inf, 10), "noise_over_clip=inf must be > 0 and finite"),
        (lambda: lat.gradient_lattice(0.0, 1.0, 10), "clip=0.0 must be > 0"),
        (lambda: lat.gradient_lattice(1.0, 1.0, 2**43), "exact sum could overflow"),
        (lambda: lat.gradient_lattice(1.0, 1.0, 0), "num_records=0 must be >= 1"),
        (lambda: Ball(lat.gradient_lattice(1.0, 1.0, 10).bound, 10**6), "num_coordinates=1000000 is too many"),
        (lambda: logistic_lattice(2.0**21, 10), "clip=2097152.0 must be between"),
        (lambda: logistic_lattice(1e-9, 10), "clip=1e-09 must be between"),
        (lambda: Lattice(1.0, 0), "bound=0 must be >= 1"),
        (lambda: Lattice(1.0, 5, -1.0), "scale=-1.0 must be >= 0"),
        (lambda: Lattice(-1.0, 5), "granularity=-1.0 must be > 0"),
    ],
)
def test_impossible_lattices_are_refused(make, message):
    with pytest.raises(InvalidArgument, match=message):
        make()


@pytest.mark.parametrize("clip", [1e-4, 0.01, 1.0, 300.0])
def test_logistic_lattices_are_powers_of_two(clip):
    lattice = logistic_lattice(clip, 10**6)
    assert math.log2(lattice.granularity).is_integer()
    assert 2.0**-26 <= lattice.granularity <= 1
    assert lattice.bound * lattice.granularity <= clip < (lattice.bound + 1) * lattice.granularity


# --- sensitivity, in integers ---------------------------------------------------------------------------------------


def gated(contribution, lattice):
    """What one record adds: rounded by code that is not trusted, and held by the gate."""
    return Ball(lattice.bound, contribution.shape[-1]).hold(quantise.vector(contribution, lattice))


def gated_number(contribution, lattice):
    return Interval(-lattice.bound, lattice.bound).hold(quantise.scalar(contribution, lattice))


LATTICES = {bound: Lattice(1 / bound, bound) for bound in (1, 7, 1000, 838_860, 2**20, 2**24)}
QUANTISE = {bound: jax.jit(lambda y, one=one: gated(y, one)) for bound, one in LATTICES.items()}
QUANTISE_SCALAR = jax.jit(lambda y: gated_number(y, LATTICES[838_860]))


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(sorted(LATTICES)), st.lists(ENTRY | NEAR, min_size=6, max_size=6))
def test_no_record_exceeds_the_bound(bound, entries):
    assert square_norm(QUANTISE[bound](jnp.array(entries, jnp.float32))) <= bound**2


@pytest.mark.parametrize(
    ("num_coordinates", "bound"), [(1, 2**20), (2, 2**24), (10, 1000), (10, 2**20), (100, 2**24), (3000, 2**20)]
)
def test_records_on_the_sphere_stay_inside(num_coordinates, bound):
    """Random directions at, just inside and just outside the clip, and all mass in few coordinates."""
    key_of_direction, key_of_length = jax.random.split(jax.random.key(num_coordinates))
    directions = jax.random.normal(key_of_direction, (400, num_coordinates)) ** jnp.array([[1], [5]] * 200)
    lengths = 1 + 0.01 * jax.random.normal(key_of_length, (400, 1)) ** 3
    contributions = directions / jnp.linalg.norm(directions, axis=1, keepdims=True) * lengths
    steps = np.asarray(jax.jit(lambda y: gated(y, Lattice(1 / bound, bound)))(contributions))
    norms = np.array([math.sqrt(square_norm(row)) for row in steps])
    assert all(square_norm(row) <= bound**2 for row in steps)
    # and the clip costs little: nobody is taken further in than the room that the gate needs, which is a small part
    room = quantise.room(bound, num_coordinates)
    assert np.all(norms >= np.minimum(lengths[:, 0] * bound, room) - math.sqrt(num_coordinates) / 2 - 2**-20 * bound)
    slack = (
        2**-17
        + math.sqrt(num_coordinates) * (2**-14 + 1 / bound)
        + num_coordinates * 2**-22
        + num_coordinates**2 / 2**31
    )
    assert bound * (1 - slack) <= room <= bound


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(ENTRY | NEAR, min_size=3, max_size=3), min_size=4, max_size=4), st.integers(0, 2))
def test_neighbours_differ_by_at_most_the_sensitivity(rows, index):
    """Replace-one: |f(D) - f(D')|_2 <= 2 bound. Add or remove one: <= bound. Exactly, for scalars and vectors."""
    lattice = LATTICES[838_860]
    records, other = np.array(rows[:3], np.float32), np.array(rows[3:], np.float32)
    replaced, added = records.copy(), np.concatenate([records, other])
    replaced[index] = other[0]

    def vectors(table):
        return np.asarray(QUANTISE[lattice.bound](table)).astype(np.int64).sum(axis=0)

    def scalars(table):
        return np.asarray(QUANTISE_SCALAR(table[:, 0])).astype(np.int64).sum()

    assert square_norm(vectors(records) - vectors(replaced)) <= (2 * lattice.bound) ** 2
    assert square_norm(vectors(records) - vectors(added)) <= lattice.bound**2
    assert abs(int(scalars(records) - scalars(replaced))) <= 2 * lattice.bound
    assert abs(int(scalars(records) - scalars(added))) <= lattice.bound


def test_double_precision_contributions_are_held_too():
    with jax.enable_x64(True):
        entries = [[1e15, -1e15, 1e10], [5e-324, 0, 1], [np.inf, 0, 0], [np.nan, 1, 1], [1e308, 0, 0], [0.3, 0.4, 0.1]]
        steps = np.asarray(gated(jnp.array(entries, jnp.float64), LATTICES[2**20]))
        scalar = np.asarray(gated_number(jnp.array([1e308, -1e308, np.nan]), LATTICES[2**20]))
    assert steps.dtype == scalar.dtype == np.int32
    assert all(square_norm(row) <= 2**40 for row in steps)
    assert square_norm(steps[0]) > 0.999 * 2**40
    np.testing.assert_array_equal(steps[2:5], 0)
    np.testing.assert_allclose(steps[5], [0.3 * 2**20, 0.4 * 2**20, 0.1 * 2**20], atol=1)
    np.testing.assert_array_equal(scalar, [2**20, -(2**20), 0])


@pytest.mark.parametrize("size", [2e19, 1e30, FLOAT32_MAX])
def test_records_whose_square_overflows_count_as_zero(size):
    contributions = jnp.array([[1.0, -0.5, 0.25], [0.0, 0.0, -1.0]], jnp.float32) * jnp.float32(size)
    for convert in (QUANTISE[2**20], lambda y: gated(y, LATTICES[2**20])):
        np.testing.assert_array_equal(convert(contributions), 0)


@pytest.mark.parametrize("size", [1e3, 1e10, 1.5e19])
def test_large_records_keep_their_direction(size):
    contributions = jnp.array([[1.0, -0.5, 0.25], [0.0, 0.0, -1.0]], jnp.float32) * jnp.float32(size)
    for convert in (QUANTISE[2**20], lambda y: gated(y, LATTICES[2**20])):
        steps = np.asarray(convert(contributions))
        np.testing.assert_allclose(steps[0], steps[0, 0] * np.array([1, -0.5, 0.25]), atol=2)
        assert square_norm(steps[0]) > 0.9995 * 2**40
        assert square_norm(steps[1]) > 0.9995 * 2**40


def test_inside_the_clip_rounding_is_to_the_nearest_step():
    lattice = lat.gradient_lattice(6.0, 20.0, 10**5)
    contributions = jax.random.normal(jax.random.key(1), (1000, 5))
    steps = np.asarray(gated(contributions, lattice))
    # half a step, and the float32 rounding of a quotient below 2^20
    assert np.abs(steps * lattice.granularity - np.asarray(contributions)).max() <= 0.55 * lattice.granularity
    np.testing.assert_array_equal(np.asarray(gated(-contributions, lattice)), -steps)
    ratios = np.asarray(gated_number(contributions, lattice))
    np.testing.assert_array_equal(np.asarray(gated_number(-contributions, lattice)), -ratios)


# --- the same bits, however the records are walked ------------------------------------------------------------------

TABLE = np.random.default_rng(0).integers(-32, 32, size=(2003, 10)).astype(np.float32) / 8  # squares add up exactly
SUM_LATTICE = lat.gradient_lattice(3.0, 20.0, len(TABLE))


def contribution(rows):
    return quantise.vector(rows, SUM_LATTICE)


def walk(of_rows, table, chunk_size, bound, once):
    """The gated sum over a table of all its rows."""
    length, width = table.shape
    return gated_sum(
        Ball(bound, width),
        lambda at: of_rows(at.of(table)),
        lambda at: jnp.ones(at.size, jnp.bool_),
        length,
        chunk_size,
        once,
    )


ONCE = jnp.int32(1)


@pytest.mark.parametrize("chunk_size", [1, 7, 1000, 2003, 5000])
def test_chunks_and_order_do_not_change_a_bit(chunk_size):
    steps = np.asarray(jax.jit(contribution)(jnp.asarray(TABLE)))
    expected = steps.astype(np.int64).sum(axis=0)
    total_of = jax.jit(lambda table, once: walk(lambda rows: rows, table, chunk_size, SUM_LATTICE.bound, once))
    for table in (steps, steps[::-1], steps[np.random.default_rng(1).permutation(len(TABLE))]):
        np.testing.assert_array_equal(to_int64(total_of(jnp.asarray(table), ONCE)), expected)
    rounded = jax.jit(lambda table, once: walk(contribution, table, chunk_size, SUM_LATTICE.bound, once))
    found = to_int64(rounded(jnp.asarray(TABLE), ONCE))  # XLA may round by the shape: one step a record at most
    np.testing.assert_allclose(found, expected, atol=len(TABLE), rtol=0)


def test_chains_share_the_pass_and_programs_hold_no_64_bit_number():
    scales = jnp.array([0.5, 1.0, 2.0])

    def one_chain(scale, once):
        return walk(lambda rows: contribution(rows * scale), jnp.asarray(TABLE), 100, SUM_LATTICE.bound, once)

    chains = jax.vmap(one_chain, in_axes=(0, None))
    together = to_int64(jax.jit(chains)(scales, ONCE))
    np.testing.assert_array_equal(together, [to_int64(jax.jit(one_chain)(scale, ONCE)) for scale in scales])
    text = str(jax.make_jaxpr(chains)(scales, ONCE))
    assert not any(wide_type in text for wide_type in ("i64", "u64", "f64"))


def test_granularities_may_differ_by_chain():
    lattices = Lattice(jnp.array([1e-6, 3e-6]), 10**6)
    rows = jnp.asarray(TABLE)
    steps = jax.vmap(lambda one: gated(rows, one))(lattices)
    for chain, granularity in enumerate((1e-6, 3e-6)):
        expected = gated(rows, Lattice(granularity, 10**6))
        np.testing.assert_array_equal(steps[chain], expected)


def test_strict_promotion_and_tables_of_nobody():
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        total = walk(contribution, jnp.asarray(TABLE[:50]), 8, SUM_LATTICE.bound, ONCE)
        int64.to_float(total, SUM_LATTICE.granularity)
        gated_number(jnp.asarray(TABLE[:, 0]), SUM_LATTICE)
        nobody = gated_sum(
            Ball(SUM_LATTICE.bound, 10),
            lambda at: jnp.full((at.size, 10), 1000, jnp.int32),
            lambda at: jnp.zeros(at.size, jnp.bool_),
            50,
            8,
            ONCE,
        )
    np.testing.assert_array_equal(to_int64(nobody), np.zeros(10))


EIGHT_DEVICES = """
import sys; sys.path[:0] = {path!r}
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from dpmcmc.enclave.arithmetic import int64, quantise
from dpmcmc.enclave.arithmetic.lattice import gradient_lattice
from test_lattice import ONCE, walk
from toy import to_int64

table = np.random.default_rng(0).integers(-32, 32, size=(8000, 5)).astype(np.float32) / 8
lattice = gradient_lattice(3.0, 20.0, 8000)

def total(rows, once):
    return walk(lambda chunk: quantise.vector(chunk, lattice), rows, 300, lattice.bound, once)

expected = to_int64(jax.jit(total)(jnp.asarray(table), ONCE))
mesh = jax.make_mesh((8,), ("shard",))
rows = jax.device_put(table, NamedSharding(mesh, PartitionSpec("shard")))
assert len(rows.sharding.device_set) == 8
spread = jax.shard_map(lambda part, once: int64.sum_across(total(part, once), "shard"), mesh=mesh,
                       in_specs=(PartitionSpec("shard"), PartitionSpec()), out_specs=PartitionSpec(), check_vma=False)
np.testing.assert_array_equal(to_int64(jax.jit(spread)(rows, ONCE)), expected)
print("equal")
"""


def test_eight_devices_give_the_same_bits():
    path = [str(Path(__file__).parent), *[entry for entry in sys.path if entry]]
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", EIGHT_DEVICES.format(path=path)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "equal\n", done.stderr
