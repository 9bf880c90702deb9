import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dpmcmc.enclave.noise import chacha20 as rng
from dpmcmc.enclave.noise.chacha20_gpu import chacha20_kernel

BITS, SPLIT, FOLD_IN = 1, 2, 3


def reference_block(key, counter, nonce):
    """RFC 8439, Section 2.3, word by word in Python integers."""

    def rotate(word, bits):
        return ((word << bits) | (word >> (32 - bits))) & 0xFFFFFFFF

    def quarter(a, b, c, d):
        for left, right in ((16, 12), (8, 7)):
            state[a] = (state[a] + state[b]) & 0xFFFFFFFF
            state[d] = rotate(state[d] ^ state[a], left)
            state[c] = (state[c] + state[d]) & 0xFFFFFFFF
            state[b] = rotate(state[b] ^ state[c], right)

    start = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574, *key, counter, *nonce]
    state = list(start)
    for _ in range(10):
        for column in range(4):
            quarter(column, 4 + column, 8 + column, 12 + column)
        for column in range(4):
            quarter(column, 4 + (column + 1) % 4, 8 + (column + 2) % 4, 12 + (column + 3) % 4)
    return [(a + b) & 0xFFFFFFFF for a, b in zip(start, state, strict=True)]


def words_of(key):
    return [int(word) for word in np.asarray(jax.random.key_data(key)).ravel()]


def test_block_function_passes_the_vector_of_rfc_8439():
    key = jnp.asarray(np.frombuffer(bytes(range(32)), "<u4"))
    nonce = [int(word) for word in np.frombuffer(bytes.fromhex("000000090000004a00000000"), "<u4")]
    block = rng.chacha20_blocks(key, jnp.array([1], jnp.uint32), nonce)[0]
    expected = (
        "e4e7f110 15593bd1 1fdd0f50 c47120a3 c7f4d1c7 0368c033 9aaa2204 4e6cd4c3 "
        "466482d2 09aa9f07 05d7c214 a2028bd9 d19c12b5 b94e16de e883d0cb 4e3c50a2"
    )
    assert [f"{int(word):08x}" for word in block] == expected.split()


def test_streams_are_the_block_function_in_their_own_domains():
    key = rng.insecure_key(11)
    words = words_of(key)
    bits = [int(word) for word in jax.random.bits(key, (40,), jnp.uint32)]
    stream = [word for counter in range(3) for word in reference_block(words, counter, (BITS, 0, 0))]
    assert bits == stream[:40]
    children = [word for counter in range(2) for word in reference_block(words, counter, (SPLIT, 0, 0))]
    assert words_of(jax.random.split(key, 3)) == children[:24]
    assert words_of(jax.random.fold_in(key, 7)) == reference_block(words, 7, (FOLD_IN, 0, 0))[:8]


def test_streams_never_collide():
    """No 256-bit window is met twice among bits, children and grandchildren of both kinds."""

    @jax.jit
    def family(key):
        folds = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(40))
        children = jnp.concatenate([jax.random.split(key, 40), folds])
        grandchildren = jax.vmap(lambda child: jax.random.split(child, 3))(children).reshape(-1)
        again = jax.vmap(lambda child: jax.random.fold_in(child, 0))(children)
        keys = jnp.concatenate([key[None], children, grandchildren, again])
        return jax.random.key_data(keys), jax.vmap(lambda one: jax.random.bits(one, (8,), jnp.uint32))(keys)

    windows = np.concatenate([np.asarray(part) for part in family(rng.insecure_key(5))])
    assert len(windows) == 2 * (1 + 80 + 240 + 80)
    assert len({tuple(window) for window in windows.tolist()}) == len(windows)


@pytest.mark.parametrize("transform", ["jit", "vmap of jit", "jit of vmap of scan"])
def test_transformed_draws_are_the_same_bits(transform):
    key = rng.insecure_key(2)

    def draw(index):
        child, other = jax.random.split(jax.random.fold_in(key, index))
        return jax.random.bits(child, (5,), jnp.uint32) ^ jax.random.bits(other, (5,), jnp.uint32)

    indices = jnp.arange(4)
    plain = jnp.stack([draw(i) for i in range(4)])
    found = {
        "jit": lambda: jnp.stack([jax.jit(draw)(i) for i in indices]),
        "vmap of jit": lambda: jax.vmap(jax.jit(draw))(indices),
        "jit of vmap of scan": lambda: jax.jit(
            jax.vmap(lambda row: lax.scan(lambda carry, i: (carry, draw(i)), 0, row)[1])
        )(indices.reshape(2, 2)).reshape(4, 5),
    }[transform]()
    np.testing.assert_array_equal(found, plain)


def test_keys_come_from_the_operating_system():
    first, second = rng.fresh_key(), rng.fresh_key()
    assert words_of(first) != words_of(second)
    assert len(words_of(first)) * 32 == 256
    assert first.dtype == rng.insecure_key(0).dtype
    assert jnp.issubdtype(first.dtype, jax.dtypes.prng_key)


def test_insecure_keys_are_reproducible_and_differ_by_seed():
    assert words_of(rng.insecure_key(1)) == words_of(rng.insecure_key(1))
    assert len({tuple(words_of(rng.insecure_key(seed))) for seed in (0, 1, 2, 2**31 - 1)}) == 4


@pytest.mark.parametrize("dtype", [jnp.uint8, jnp.uint16, jnp.uint32])
def test_every_bit_is_fair(dtype):
    """Each of the bits of 2^16 draws: |z| < 5.2, false alarm below 32 * 2e-7 < 1e-5."""
    draws = np.asarray(jax.random.bits(rng.insecure_key(3), (2**16,), dtype))
    width = 8 * draws.dtype.itemsize
    ones = (draws[:, None] >> np.arange(width, dtype=draws.dtype) & 1).sum(axis=0, dtype=np.int64)
    assert np.all(np.abs(ones - 2**15) < 5.2 * 2**7)


def test_wide_bits_where_the_caller_enabled_them():
    with jax.enable_x64(True):
        wide = np.asarray(jax.random.bits(rng.insecure_key(3), (4,), jnp.uint64))
    narrow = np.asarray(jax.random.bits(rng.insecure_key(3), (8,), jnp.uint32)).astype(np.uint64)
    np.testing.assert_array_equal(wide, (narrow[::2] << np.uint64(32)) | narrow[1::2])


def test_float_draws_work_on_these_keys():
    """The generator is a full citizen: 20000 normals have mean 0 and variance 1 to 5 standard errors."""
    normals = np.asarray(jax.random.normal(rng.insecure_key(9), (20_000,)))
    assert abs(normals.mean()) < 5 / 20_000**0.5
    assert abs(normals.var() - 1) < 5 * (2 / 20_000) ** 0.5


@pytest.mark.parametrize("count", [1, 5, 300])
def test_the_kernel_makes_the_blocks_of_the_loop(count):
    keys = jnp.asarray(np.random.default_rng(0).integers(0, 2**32, (2, 8), np.uint32))
    counters = jnp.arange(count, dtype=jnp.uint32) + 3
    kernel, loop = (
        jax.vmap(lambda key, blocks=blocks: blocks(key, counters, (1, 0, 7)))(keys)
        for blocks in (chacha20_kernel, rng.chacha20_loop)
    )
    np.testing.assert_array_equal(kernel, loop)
