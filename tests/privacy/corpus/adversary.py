"""A test double in place of the floating-point code: what a contribution becomes if nothing of it can be trusted.

The gate's claim is about *integers*: whatever int32 entries the floating-point code hands over for a record, the gate
adds a vector within the bound, or nothing, and it adds the one that it checked. So the double hands over what it likes:

    adversary(record, shape, bound) -> int32 array of `shape`

* `record`: one record, an array or a pytree of arrays, of any type. Nothing else is known to it, in particular not
  where the record stands: what depends on the place breaks add-or-remove-one by itself, whatever the gate does.
* `shape`: of the contribution, a flat vector as a rule.
* `bound`: the largest norm that the gate may let pass; entries around it are what a wrong comparison lets through.

It is a pure function, seeded by the bytes of the record, made of JAX integers alone: it can be put under `vmap`, into
loops and kernels. The digest of the record says which kind of attack it is (`KINDS`), and which entries.

`unsteady(shape, bound)` returns a double that answers differently each time it is asked about the same record: it is a
callback to the host, and a compiler that evaluates it twice, once for the norm and once for the sum, gets two answers.
Its `calls` say what it was asked, so that a test can see whether it was asked twice.

How to wire it: replace the function that turns a contribution into int32 entries before the gate (one record at a time,
under `vmap`) with `adversary`, by monkeypatch, and run any mechanism through the public API. Then one record alone
among empty places adds at most `bound` in norm, and for any two tables that differ in one record the exact sums differ
by at most the sensitivity: `test_adversary.check_gate` takes a gate as an argument.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

INT_MIN, INT_MAX = -(2**31), 2**31 - 1

KINDS = (
    "all INT_MIN",
    "all INT_MAX",
    "one INT_MIN",
    "alternating extremes",
    "all at the bound",
    "one at the bound",
    "one beyond the bound",
    "minus the bound, and one more",
    "squares that wrap to zero",
    "squares that wrap to little",
    "any words",
    "small",
)
"""What a record may be: its digest says which."""


def digest(record: Any) -> jax.Array:
    """One word of the bytes of a record: FNV over 32-bit words, mixed."""
    word = jnp.uint32(2166136261)
    for leaf in jax.tree.leaves(record):
        array = jnp.asarray(leaf)
        if array.dtype == jnp.bool_:
            array = array.astype(jnp.uint8)
        width = array.dtype.itemsize
        unsigned = {1: jnp.uint8, 2: jnp.uint16, 4: jnp.uint32, 8: jnp.uint32}[width]
        words = jax.lax.bitcast_convert_type(array, unsigned).astype(jnp.uint32).reshape(-1)
        for number in range(words.shape[0]):
            word = (word ^ words[number]) * jnp.uint32(16777619)
    return _mix(word)


def _mix(word: jax.Array) -> jax.Array:
    """A permutation of 32-bit words in which every bit depends on every other one."""
    word = (word ^ (word >> 16)) * jnp.uint32(0x7FEB352D)
    word = (word ^ (word >> 15)) * jnp.uint32(0x846CA68B)
    return word ^ (word >> 16)


def kind_of(record: Any) -> jax.Array:
    """Which of `KINDS` a record is."""
    return digest(record) % jnp.uint32(len(KINDS))


def adversary(record: Any, shape: tuple[int, ...], bound: int) -> jax.Array:
    """Return what the double hands over for one record: any int32 entries, the same ones whenever it is asked."""
    word = digest(record)
    size = int(np.prod(shape))
    places = jnp.arange(size, dtype=jnp.uint32)
    noise = _mix(word ^ _mix(places + jnp.uint32(1)))
    chosen = places == _mix(word ^ jnp.uint32(0x9E3779B9)) % jnp.uint32(max(size, 1))
    signs = jnp.where(noise & 1, 1, -1).astype(jnp.int32)
    words = jax.lax.bitcast_convert_type(noise, jnp.int32)
    answers = [
        jnp.full(size, INT_MIN, jnp.int32),
        jnp.full(size, INT_MAX, jnp.int32),
        jnp.where(chosen, INT_MIN, 0),
        jnp.where(places % 2 == 0, INT_MIN, INT_MAX),
        signs * np.int32(bound),
        jnp.where(chosen, signs * np.int32(bound), 0),
        jnp.where(chosen, signs * np.int32(bound + 1), 0),
        jnp.where(chosen, np.int32(-bound), 1),
        signs * np.int32(2**16),  # 2^32 each
        signs * np.int32(46341),  # whose square is just above 2^31
        words,
        words % np.int32(max(2, bound // max(1, size))),
    ]
    stacked = jnp.stack([answer.astype(jnp.int32) for answer in answers])
    return stacked[kind_of(record).astype(jnp.int32)].reshape(shape)


class Unsteady:
    """A double with a memory: its answers to one and the same record differ, and `calls` counts the questions."""

    def __init__(self, shape: tuple[int, ...], bound: int) -> None:
        self.shape, self.bound = shape, bound
        self.calls: dict[bytes, int] = {}

    def answer(self, *leaves: np.ndarray) -> np.ndarray:
        """On the host: nothing on the first question, and then more and more."""
        key = b"".join(np.ascontiguousarray(leaf).tobytes() for leaf in leaves)
        asked = self.calls.get(key, 0)
        self.calls[key] = asked + 1
        answers = (0, self.bound, INT_MAX, INT_MIN, -self.bound, self.bound + 1)
        return np.full(self.shape, answers[asked % len(answers)], np.int32)

    def __call__(self, record: Any) -> jax.Array:
        """Return what the double says of one record this time; under `vmap` it is asked record by record."""
        result = jax.ShapeDtypeStruct(self.shape, jnp.int32)
        return jax.pure_callback(self.answer, result, *jax.tree.leaves(record), vmap_method="sequential")


def unsteady(shape: tuple[int, ...], bound: int) -> Unsteady:
    """Return a double that answers differently each time: for gates that run where a host can be asked."""
    return Unsteady(shape, bound)
