"""The noise source: ChaCha20 keys from the operating system's entropy, as ordinary typed JAX keys.

A key is 256 bits. Everything drawn from it is output of the ChaCha20 block function (RFC 8439, Section 2.3),

    words = block(key, counter, nonce),    nonce = (domain, 0, 0),

with one domain for bits, one for `split` and one for `fold_in`. Two calls that differ in key, domain or counter read
different inputs of a pseudo-random function, so a child's stream never meets its parent's, its siblings', or those of
the other operation. Publishing a key removes the noise it made: keys are never logged or returned, and the only one
that is ever stored is that of a run which may be resumed, in private and until the run is settled (`journal`).
"""

import secrets
from collections.abc import Sequence
from importlib import import_module
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.random import define_prng_impl

CONSTANTS = np.array([0x61707865, 0x3320646E, 0x79622D32, 0x6B206574], np.uint32)  # "expand 32-byte k"
KEY_WORDS, BLOCK_WORDS = 8, 16
_BITS, _SPLIT, _FOLD_IN, _SEED = 1, 2, 3, 4  # domains
_MAX_BLOCKS = 2**32
_PLACES = np.arange(BLOCK_WORDS).reshape(4, 4)
_ROLLED = np.concatenate([np.roll(row, -shift) for shift, row in enumerate(_PLACES)])
_ROLLED_BACK = np.concatenate([np.roll(row, shift) for shift, row in enumerate(_PLACES)])

_Rows = tuple[jax.Array, jax.Array, jax.Array, jax.Array]


def fresh_key() -> jax.Array:
    """Return a key of 256 bits from the operating system's entropy."""
    return key_of(secrets.token_bytes(4 * KEY_WORDS))


def key_of(secret: bytes) -> jax.Array:
    """Return the key that 32 secret bytes are."""
    return jax.random.wrap_key_data(jax.device_put(np.frombuffer(secret, np.uint32)), impl=CHACHA20)


def insecure_key(seed: int) -> jax.Array:
    """Return a key that anyone who knows `seed` can make: for tests. What it noises carries no guarantee."""
    return jax.random.key(seed, impl=CHACHA20)


def chacha20_blocks(key: jax.Array, counters: jax.Array, nonce: Sequence[int]) -> jax.Array:
    """Return one block of 16 words for each counter, shape (len(counters), 16): RFC 8439, Section 2.3.

    On a GPU one kernel does it: as a loop of XLA's it would be dozens, and take as long as the sum that is noised.
    """
    if jax.default_backend() == "gpu":
        return import_module("dpmcmc.enclave.noise.chacha20_gpu").chacha20_kernel(key, counters, nonce)
    return chacha20_loop(key, counters, nonce)


def chacha20_loop(key: jax.Array, counters: jax.Array, nonce: Sequence[int]) -> jax.Array:
    """Return the blocks, by XLA.

    The state is one array over (word, block), and ten double rounds are a loop: unrolled, XLA needs minutes to compile
    them; as an array for each row two and a half times as long, and a program draws many times.
    """

    def rows(words: jax.Array) -> jax.Array:
        return jnp.broadcast_to(words[:, None], (words.shape[0], counters.shape[0]))

    known = jnp.concatenate([jnp.asarray(CONSTANTS), key])
    start = jnp.concatenate([rows(known), counters[None, :], rows(jnp.asarray(nonce, jnp.uint32))])
    return (start + lax.fori_loop(0, 10, lambda _, state: _double_round(state), start)).T


def _double_round(state: jax.Array) -> jax.Array:
    """A round down the columns, then one down the diagonals, which are columns while the rows are rolled."""
    for after in (_ROLLED, _ROLLED_BACK):
        rows = state[0:4], state[4:8], state[8:12], state[12:16]
        state = jnp.concatenate(quarter_rounds(rows))[after]
    return state


def quarter_rounds(rows: _Rows) -> _Rows:
    """The quarter round of RFC 8439, Section 2.1, on columns: four at once, or one."""
    a, b, c, d = rows
    for left, right in ((16, 12), (8, 7)):
        a = a + b
        d = _rotate(d ^ a, left)
        c = c + d
        b = _rotate(b ^ c, right)
    return a, b, c, d


def _rotate(words: jax.Array, bits: int) -> jax.Array:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))


def _words(key: jax.Array, domain: int, count: int) -> jax.Array:
    blocks = -(-count // BLOCK_WORDS)
    if blocks > _MAX_BLOCKS:
        raise ValueError(f"one key gives at most {_MAX_BLOCKS} blocks of 64 bytes; split it")
    return chacha20_blocks(key, jnp.arange(blocks, dtype=jnp.uint32), (domain, 0, 0)).reshape(-1)[:count]


def _random_bits(key: jax.Array, bit_width: int, shape: tuple[int, ...]) -> jax.Array:
    if bit_width == 64:
        words = _words(key, _BITS, 2 * prod(shape)).reshape(*shape, 2).astype(jnp.uint64)
        return (words[..., 0] << np.uint64(32)) | words[..., 1]
    return _words(key, _BITS, prod(shape)).reshape(shape).astype(f"uint{bit_width}")


def _split(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return _words(key, _SPLIT, prod(shape) * KEY_WORDS).reshape(*shape, KEY_WORDS)


def _fold_in(key: jax.Array, data: jax.Array | int) -> jax.Array:
    counter = jnp.asarray(data, jnp.uint32).reshape(1)
    return chacha20_blocks(key, counter, (_FOLD_IN, 0, 0))[0, :KEY_WORDS]


def _seed(seed: jax.Array) -> jax.Array:
    """The key of an integer. Only `insecure_key` comes here: a seed has no entropy to speak of."""
    low = seed.astype(jnp.uint32)
    high = (seed >> 32).astype(jnp.uint32) if seed.dtype.itemsize == 8 else jnp.zeros_like(low)
    words = jnp.zeros(KEY_WORDS, jnp.uint32).at[0].set(low).at[1].set(high)
    return chacha20_blocks(words, jnp.zeros(1, jnp.uint32), (_SEED, 0, 0))[0, :KEY_WORDS]


CHACHA20 = define_prng_impl(
    key_shape=(KEY_WORDS,),
    seed=_seed,
    split=_split,
    random_bits=_random_bits,
    fold_in=_fold_in,
    name="chacha20",
    tag="cc20",
)
"""The implementation, for `jax.random.wrap_key_data` and to recognise a key by its dtype."""
