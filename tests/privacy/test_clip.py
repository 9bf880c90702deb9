import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpmcmc.enclave.clip import clip_scalar, clip_vector, largest_entry

ANY_FLOAT = st.floats(width=32, allow_nan=True, allow_infinity=True, allow_subnormal=True)
VECTOR = st.lists(ANY_FLOAT | st.sampled_from([0.0, 3.4028235e38, -3.4028235e38, 1e30, 1e-45]), min_size=4, max_size=4)


def test_small_vectors_are_left_alone_and_large_ones_keep_their_direction():
    values = jnp.array([[0.3, -0.4], [3.0, -4.0], [0.0, 0.0]])
    clipped = clip_vector(values, 1.0)
    np.testing.assert_array_equal(clipped[0], values[0])
    np.testing.assert_allclose(clipped[1], [0.6, -0.8], rtol=1e-6)
    np.testing.assert_array_equal(clipped[2], [0.0, 0.0])


@pytest.mark.parametrize("size", [1e-30, 1e-3, 1.0, 1e10, 1e30, 1.7e38])
def test_the_norm_never_overflows(size):
    values = jnp.array([2 * size, -size, size], jnp.float32)
    expected = np.array([2, -1, 1]) * min(size, 0.5 / 6**0.5)
    np.testing.assert_allclose(clip_vector(values, 0.5), expected, rtol=1e-6)
    np.testing.assert_allclose(jax.jit(lambda value: clip_vector(value, 0.5))(values), expected, rtol=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_record_that_is_not_finite_counts_as_zero(bad):
    values = jnp.array([[1.0, bad, 2.0], [0.1, 0.2, 0.3]])
    clipped = jax.jit(lambda value: clip_vector(value, 10.0))(values)
    np.testing.assert_array_equal(clipped[0], 0)
    np.testing.assert_array_equal(clipped[1], values[1])
    np.testing.assert_array_equal(clip_scalar(jnp.array([bad, 1.0, -7.0]), 2.0), [0.0, 1.0, -2.0])
    assert np.isinf(largest_entry(values, -1)[0, 0])


CLIP = jax.jit(lambda value: clip_vector(value, 1.0)), jax.jit(lambda value: clip_scalar(value, 1.0))


@settings(max_examples=200, deadline=None)
@given(VECTOR)
def test_the_clipped_norm_is_within_the_bound(entries):
    vector, scalar = (np.asarray(clip(jnp.array(entries, jnp.float32))) for clip in CLIP)
    clipped = vector.astype(np.float64)
    assert np.isfinite(clipped).all()
    assert np.sqrt((clipped**2).sum()) <= 1 + 1e-6
    assert np.abs(scalar).max() <= 1


def test_any_axis_and_any_batch():
    values = jax.random.normal(jax.random.key(0), (2, 3, 4)) * 3
    along_middle = jax.jit(lambda value: clip_vector(value, 1.0, axis=1))(values)
    moved = jax.jit(lambda value: clip_vector(value, 1.0))(jnp.moveaxis(values, 1, -1))
    np.testing.assert_allclose(along_middle, jnp.moveaxis(moved, -1, 1), rtol=1e-6)
    by_row = jax.jit(jax.vmap(lambda row: clip_vector(row, 1.0, axis=0)))(values)
    np.testing.assert_allclose(by_row, along_middle, rtol=1e-6)
