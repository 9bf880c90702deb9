"""The gate: what passes is within the bound, in integers; honest records pass; what fails is zero; sums are exact."""

from fractions import Fraction
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy import to_int64

from dpmcmc.enclave.arithmetic import quantise
from dpmcmc.enclave.arithmetic.lattice import Lattice
from dpmcmc.enclave.core.gate import Ball, Interval, gated_sum, hold, seal
from dpmcmc.errors import InvalidArgument

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
BOUNDS = [2, 3, 7, 1000, 2**15 - 1, 2**15, 2**15 + 1, 2**16, 838_860, 2**20, 2**24 - 1, 2**24]
LENGTHS = [1, 2, 3, 10, 100, 1000, 4096]
ONCE = jnp.int32(1)


def squares(rows):
    """The square norms, in integers of any size."""
    return (np.asarray(rows).astype(object) ** 2).sum(axis=-1)


def check_held(gate, rows, counts=None):
    """Everything that passes is in the ball and unchanged, what is within reach passes, and what fails is zero."""
    held = np.asarray(gate.hold(jnp.asarray(rows)))
    norms, passed = squares(rows), np.any(held != 0, axis=-1)
    unchanged = np.all(held == rows, axis=-1)
    assert np.all(unchanged | ~passed), "a vector was changed"
    assert np.all(squares(held) <= gate.bound**2), "a vector beyond the bound passed"
    within = norms <= Fraction(gate.reach) ** 2
    assert np.all(unchanged[within.astype(bool)]), "a vector within reach was dropped"
    if counts is not None:
        counts.append((int(passed.sum()), int((~passed).sum())))


# --- what passes ----------------------------------------------------------------------------------------------------


@st.composite
def vectors(draw):
    bound = draw(st.sampled_from(BOUNDS))
    edges = [INT_MIN, INT_MIN + 1, INT_MAX, bound, -bound, bound + 1, -bound - 1, bound - 1, 0, 1, -1, 2**16, -(2**16)]
    entry = st.sampled_from(edges) | st.integers(-bound - 2, bound + 2) | st.integers(INT_MIN, INT_MAX)
    length = draw(st.sampled_from([1, 2, 3, 10]))
    return bound, np.array([draw(st.lists(entry, min_size=length, max_size=length))], np.int64).astype(np.int32)


@settings(max_examples=400, deadline=None)
@given(vectors())
def test_what_passes_a_ball_is_in_it_and_unchanged(case):
    bound, rows = case
    check_held(Ball(bound, rows.shape[1]), rows)


def spread_out(bound, length, generator):
    """Vectors of every kind: about as long as the bound, with all their mass in a few entries, and extreme ones."""
    directions = generator.normal(size=(160, length)) ** generator.choice([1, 3, 9], (160, 1))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    sizes = bound * generator.choice([0.1, 0.5, 0.99, 0.999, 1 - 2**-12, 1.0, 1 + 2**-12, 1.001, 1.5, 30.0], (160, 1))
    rounded = np.clip(np.rint(directions * sizes), INT_MIN, INT_MAX)
    edges = [0, INT_MIN, INT_MAX, bound, -bound, bound + 1, -bound - 1, 2**16, 2**15, -(2**16), 1, -1]
    constant = np.array([[edge] * length for edge in edges], np.float64)
    single = np.array([[edge] + [0] * (length - 1) for edge in edges], np.float64)
    mixed = generator.choice(edges, (40, length)).astype(np.float64)
    lonely = np.where(generator.uniform(size=(40, length)) < 2 / length, mixed, 0)
    return np.concatenate([rounded, constant, single, mixed, lonely]).astype(np.int64).astype(np.int32)


@pytest.mark.parametrize("length", LENGTHS)
def test_balls_of_every_size_and_length(length):
    generator, counts = np.random.default_rng(length), []
    for bound in BOUNDS:
        check_held(Ball(bound, length), spread_out(bound, length, generator), counts)
    assert sum(passed for passed, _ in counts) > 100, "hardly anything passed: the test has no power"
    assert sum(failed for _, failed in counts) > 100


def test_squares_that_would_overflow_do_not_pass():
    """2^16 entries of 2^16 have a square of 2^48, which is nothing in 32 bits; so with 2^31 and its like."""
    for length in (1, 2, 4, 16, 4096):
        for entry in (2**16, 2**17, INT_MIN, 2**30, -(2**24), 46341, 65536, 92682):
            rows = np.full((1, length), entry, np.int32)
            for bound in (2, 1000, 2**15, 2**16 - 1):
                if squares(rows)[0] > bound**2:
                    assert not np.any(Ball(bound, length).hold(jnp.asarray(rows)))


def test_balls_are_no_smaller_than_they_must_be():
    """The reach is what it is said to be: next to it, and not far below the bound for lattices that are used."""
    for bound in (2**10, 2**15, 2**20, 2**24):
        for length in LENGTHS:
            gate = Ball(bound, length)
            lost = 1 - gate.reach / bound
            assert 0 <= lost <= (length**0.5) * 2**-14 + length**2 / 2**31 + 2.0**-14
    for bound, length in ((2, 1), (1000, 3), (2**13, 30)):
        assert Ball(bound, length).reach == bound  # nothing is coarsened: exact


def test_too_many_coordinates_for_a_ball_are_refused():
    for bound, length in ((2**20, 10**6), (2**10, 2**24 + 1)):
        with pytest.raises(InvalidArgument, match=f"num_coordinates={length} is too many for a lattice of"):
            Ball(bound, length)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from([(-7, 7), (0, 838_860), (-(2**24), 2**24), (-1, 0)]),
    st.lists(st.integers(INT_MIN, INT_MAX) | st.integers(-10, 10), min_size=4, max_size=4),
)
def test_intervals_move_to_the_nearest(limits, entries):
    low, high = limits
    gate = Interval(low, high)
    found = np.asarray(gate.hold(jnp.asarray(np.array(entries, np.int64).astype(np.int32))))
    assert found.tolist() == [min(max(entry, low), high) for entry in entries]
    assert gate.largest == max(-low, high)


def test_nobody_counts_where_nobody_is():
    rows = jnp.asarray(np.random.default_rng(0).integers(-9, 9, (2, 6, 3)), jnp.int32)
    occupied = jnp.array([True, False, True, True, False, False])
    held = np.asarray(hold(Ball(1000, 3), rows, occupied[:, None]))
    np.testing.assert_array_equal(held, np.where(np.asarray(occupied)[:, None], rows, 0))


# --- the loop that seals, and the sum --------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "compiled"])
def test_seal_returns_what_was_computed(wrap):
    values = jnp.arange(12, dtype=jnp.int32).reshape(3, 4)

    def sealed(once, values):
        made = seal(once, lambda turn: (values * 3 + turn, jnp.sum(values)), (jnp.zeros_like(values), jnp.int32(7)))
        return jax.tree.map(lambda leaf: leaf + 1, made)

    many, one = wrap(sealed)(ONCE, values)
    np.testing.assert_array_equal(many, 3 * values + 1)
    assert int(one) == 67
    chains = wrap(jax.vmap(sealed, in_axes=(None, 0)))(ONCE, jnp.stack([values, -values]))
    np.testing.assert_array_equal(chains[0], np.stack([3 * values + 1, 1 - 3 * values]))


def python_sum(rows, occupied, bound):
    """Sums over the rows, one chain after the other, in integers of any size."""
    inside = squares(rows) <= bound**2
    return [
        [
            sum(int(row[i]) for row, there, own in zip(chain, occupied, ok, strict=True) if there and own)
            for i in range(3)
        ]
        for chain, ok in zip(rows, inside, strict=True)
    ]


@pytest.mark.parametrize(
    ("length", "chunk"), [(1, 1), (1, 50), (5, 2), (512, 512), (512, 100), (1000, 7), (1023, 512), (1024, 5000)]
)
def test_gated_sums_are_those_of_python(length, chunk):
    bound, generator = 2**15 - 1, np.random.default_rng(length + chunk)
    rows = generator.integers(-bound // 3, bound // 3, (2, length, 3), endpoint=True).astype(np.int32)
    rows[:, ::5] = bound // 2
    rows[:, ::11] = generator.choice([INT_MIN, INT_MAX, bound + 1, 2**16], (2, len(rows[0, ::11]), 3))
    occupied = generator.uniform(size=length) < 0.7

    def total(once, rows, occupied):
        return gated_sum(Ball(bound, 3), lambda at: at.of(rows, 1), lambda at: at.of(occupied), length, chunk, once)

    found = to_int64(jax.jit(total)(ONCE, jnp.asarray(rows), jnp.asarray(occupied)))
    assert found.tolist() == python_sum(rows, occupied, bound)


def test_sums_of_what_was_made_of_gated_integers_are_exact():
    """Squares of them, whose bound is another one, as far as the sum needs more than 32 bits."""
    bound, length = 2**12, 3000
    rows = np.random.default_rng(1).choice([bound, -bound, bound - 1, 2**20, 5], (1, length, 1)).astype(np.int32)

    def total(once, rows):
        return gated_sum(
            Interval(-bound, bound),
            lambda at: at.of(rows, 1),
            lambda at: jnp.ones(at.size, jnp.bool_),
            length,
            700,
            once,
            lambda held: jnp.concatenate([held, held * held], axis=-1),
            bound**2,
        )

    held = np.clip(rows.astype(object), -bound, bound)
    expected = [held.sum(), (held**2).sum()]
    assert expected[1] > 2**34
    assert to_int64(jax.jit(total)(ONCE, jnp.asarray(rows)))[0].tolist() == expected


# --- honest records pass --------------------------------------------------------------------------------------------

SHAPES = [(2**10, 1), (2**10, 10), (2**10, 1000), (838_860, 3), (2**20, 10), (2**20, 1000), (2**24, 2), (2**24, 4096)]


@cache
def to_steps(bound):
    return jax.jit(lambda y, g: quantise.vector(y, Lattice(g, bound)))


def check_honest(bound, length, rows, granularity):
    """Integers of floats pass the gate as they are; finite ones become what they should, and no other become zero."""
    lattice_steps = np.asarray(to_steps(bound)(jnp.asarray(rows), jnp.float32(granularity)))
    np.testing.assert_array_equal(Ball(bound, length).hold(jnp.asarray(lattice_steps)), lattice_steps)
    exact = rows.astype(np.float64)
    with np.errstate(all="ignore"):
        norms = np.sqrt((exact**2).sum(axis=1))
        usable = np.all(np.isfinite(rows), axis=1) & (norms < 1.8e19) & (norms > 2.0**-49)
        scale = np.minimum(1 / float(np.float32(granularity)), quantise.room(bound, length) / norms)[:, None]
    expected = exact[usable] * scale[usable]
    error = np.abs(lattice_steps[usable] - expected)
    # half a step, and the roundings of a sum of squares, a root, a quotient and two products in float32
    assert np.all(error <= 0.51 + np.abs(expected) * (4 + length / 2) * 2.0**-23 + 2.0**-23 * bound)
    assert not np.any(lattice_steps[~np.all(np.isfinite(rows), axis=1)])


@pytest.mark.parametrize("width", [1, 2, 7, 16, 33, 110, 300])
@pytest.mark.parametrize("extreme", [np.nan, np.inf, -np.inf, 3.4028235e38, 1e-45, 0.0])
def test_no_record_changes_the_integers_of_another(width, extreme):
    """Norms are a product with ones of many records at once: whatever one of them is, the bits of the others stay."""
    rows = np.random.default_rng(width).normal(size=(515, width)).astype(np.float32)
    before = np.asarray(to_steps(2**20)(jnp.asarray(rows), jnp.float32(1e-6)))
    for place in (0, 1, 15, 16, 256, 511, 513, 514):
        changed = rows.copy()
        changed[place] = extreme
        after = np.asarray(to_steps(2**20)(jnp.asarray(changed), jnp.float32(1e-6)))
        others = np.arange(len(rows)) != place
        np.testing.assert_array_equal(after[others], before[others])
    assert np.any(before)


FLOATS = st.floats(width=32) | st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e-45, 1.2e-38, 3.4028235e38, np.inf, np.nan])


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from([shape for shape in SHAPES if shape[1] <= 10]),
    st.lists(FLOATS | st.floats(-2, 2, width=32), min_size=10, max_size=10),
    st.sampled_from([2.0**-20, 1e-6, 1.0, 1e3, 2.0**-30]),
)
def test_integers_of_honest_numbers_pass(shape, entries, granularity):
    bound, length = shape
    check_honest(bound, length, np.array([entries[:length]], np.float32), granularity)


@pytest.mark.parametrize(("bound", "length"), SHAPES)
def test_integers_of_honest_vectors_on_the_sphere_pass(bound, length):
    generator = np.random.default_rng(length)
    directions = generator.normal(size=(600, length)) ** generator.choice([1, 3, 9], (600, 1))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    sizes = np.concatenate([np.linspace(0.995, 1.005, 400), np.geomspace(1e-9, 1e12, 200)])[:, None]
    check_honest(bound, length, (directions * sizes).astype(np.float32), 1 / bound)
    ones = np.sign(directions) * sizes / length**0.5  # where every entry may be rounded away from zero
    check_honest(bound, length, ones.astype(np.float32), 1 / bound)


@pytest.mark.parametrize("width", [1, 2, 5, 100, 1000])
def test_integers_of_honest_rows_pass(width):
    generator = np.random.default_rng(width)
    rows = generator.normal(size=(500, width)) ** generator.choice([1, 3, 9], (500, 1))
    rows *= generator.choice([1e-38, 1e-30, 1e-3, 1.0, 1e20, 1e30], (500, 1))
    rows[::50] = np.sign(rows[::50]) * 3.4e38
    rows[1::50, 0], rows[2::50, -1] = np.nan, -np.inf
    rows[3::50] = 0.0
    rows[4::50] = 1e-45
    with np.errstate(all="ignore"):
        rows = rows.astype(np.float32)
    steps, units = (np.asarray(part) for part in jax.jit(quantise.rows)(jnp.asarray(rows)))
    gate = Ball(quantise.ROW_BOUND, width)
    np.testing.assert_array_equal(gate.hold(jnp.asarray(steps)), steps)
    empty, there = ~np.any(steps, axis=1), np.abs(rows) >= np.finfo(np.float32).tiny  # XLA flushes smaller ones
    np.testing.assert_array_equal(empty, ~np.all(np.isfinite(rows), axis=1) | ~np.any(there, axis=1))
    finite = np.all(np.isfinite(rows), axis=1)
    assert not np.any(units[empty & finite])
    assert np.all(np.isnan(units[~finite])), "so that nothing else of the record counts"
    norms = np.sqrt(squares(steps[~empty]).astype(float))
    assert np.all(norms >= gate.reach - 2 - width**0.5), "rows are as long as they may be: their precision"


@settings(max_examples=200, deadline=None)
@given(st.lists(FLOATS, min_size=5, max_size=5))
def test_integers_of_any_row_pass(row):
    rows = jnp.asarray(np.array([row], np.float32))
    steps, _ = ROWS(rows)
    np.testing.assert_array_equal(Ball(quantise.ROW_BOUND, 5).hold(steps), steps)
    if np.all(np.isfinite(row)) and np.any(np.abs(row) > 1.2e-38):
        assert np.any(steps)


ROWS = jax.jit(quantise.rows)


# --- and mutants do not ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("room", [1.0, 1 + 2**-9, 2.0, 1000.0])
def test_without_room_the_gate_holds_the_bound(room, monkeypatch):
    """Contributions that are held to more than the gate lets pass: some fail, and no sum exceeds its bound."""
    bound, length = 2**20, 100
    directions = np.random.default_rng(3).normal(size=(500, length))
    rows = jnp.asarray(2 * directions / np.linalg.norm(directions, axis=1, keepdims=True), jnp.float32)
    monkeypatch.setattr(quantise, "room", lambda bound, _: bound * room)
    made = jax.jit(lambda rows: quantise.vector(rows, Lattice(1e-9, bound)))(rows)
    held = np.asarray(Ball(bound, length).hold(made))
    assert np.all(squares(held) <= bound**2)
    assert np.any(squares(made) > bound**2), "the mutant is none"
    assert np.mean(np.any(held, axis=1)) < 0.9
    monkeypatch.undo()
    honest = jax.jit(lambda rows: quantise.vector(rows, Lattice(1e-9, bound)))(rows)
    assert np.all(np.any(Ball(bound, length).hold(honest), axis=1))


@pytest.mark.parametrize("shift", [1, 2**20, INT_MAX])
def test_integers_that_are_off_do_not_pass_beyond_the_bound(shift, monkeypatch):
    bound = 2**20
    rows = jnp.asarray(np.random.default_rng(4).normal(size=(500, 3)), jnp.float32)
    honest = quantise.vector
    monkeypatch.setattr(quantise, "vector", lambda *given: honest(*given) + np.int32(shift))
    made = jax.jit(lambda rows: quantise.vector(rows, Lattice(1e-9, bound)))(rows)
    held = np.asarray(Ball(bound, 3).hold(made))
    assert np.all(squares(held) <= bound**2)
