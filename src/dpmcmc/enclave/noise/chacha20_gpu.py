"""ChaCha20 on a GPU, by one kernel: the same blocks as `chacha20_loop`, which the self-test compares with RFC 8439."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas

from dpmcmc.enclave.noise.chacha20 import BLOCK_WORDS, CONSTANTS, KEY_WORDS, quarter_rounds


def chacha20_kernel(key: jax.Array, counters: jax.Array, nonce: Sequence[int]) -> jax.Array:
    """Return the blocks, by one kernel with a thread for each; interpreted where there is no GPU, for tests."""
    (count,) = counters.shape
    padded = 1 << (max(count, 1) - 1).bit_length()  # kernels want powers of two
    size = min(padded, 128)
    blocks = pallas.pallas_call(
        partial(_kernel, tuple(nonce)),
        grid=(padded // size,),
        in_specs=[pallas.BlockSpec((KEY_WORDS,), lambda _: (0,)), pallas.BlockSpec((size,), lambda block: (block,))],
        out_specs=pallas.BlockSpec((BLOCK_WORDS, size), lambda block: (0, block)),
        out_shape=jax.ShapeDtypeStruct((BLOCK_WORDS, padded), jnp.uint32),
        interpret=jax.default_backend() != "gpu",
    )(key, jnp.pad(counters, (0, padded - count)))
    return blocks.T[:count]


def _kernel(nonce: tuple[int, ...], key: Any, counters: Any, blocks: Any) -> None:
    def spread(word: Any) -> jax.Array:
        return jnp.broadcast_to(word, counters.shape)

    start = [spread(jnp.uint32(int(word))) for word in CONSTANTS] + [spread(key[i]) for i in range(KEY_WORDS)]
    start += [counters[...], *(spread(jnp.uint32(word)) for word in nonce)]

    def double_round(_: Any, words: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        after = list(words)
        for shift in (0, 1):
            for column in range(4):
                a, b, c, d = (4 * i + (column + i * shift) % 4 for i in range(4))
                after[a], after[b], after[c], after[d] = quarter_rounds((after[a], after[b], after[c], after[d]))
        return tuple(after)

    end = lax.fori_loop(0, 10, double_round, tuple(start))
    for place, (before, after) in enumerate(zip(start, end, strict=True)):
        blocks[place, :] = before + after
