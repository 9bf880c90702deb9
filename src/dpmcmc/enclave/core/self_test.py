"""Does this machine add up? Integers through the compiled gate, and noise, against exact arithmetic on the host.

The proofs assume that integer arithmetic is exact, that a compiled gate does what it says, and that sums are sums: one
version of jaxlib mixed up arrays of some shapes (github.com/jax-ml/jax/issues/39103). So nothing is read from a table
of bad versions: a few hundred sums, products and draws are compared once for each version of the libraries, kind of
processor and device, which is stamped in the user's cache folder, and a few in every process. A vault does not open
where one of them differs.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from fractions import Fraction
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.enclave.arithmetic.int64 import Wide
from dpmcmc.enclave.core.gate import Ball, Gate, Interval, gated_sum
from dpmcmc.enclave.core.machine import machine
from dpmcmc.enclave.noise.chacha20 import chacha20_blocks
from dpmcmc.enclave.noise.discrete_gaussian import BASE_SCALE, TABLE_BITS, lookup, table
from dpmcmc.errors import RunRefused

Check = Callable[[], bool]
"""Says whether the machine agrees with exact arithmetic."""

REPEATS = 12
"""How many tables are added up in each shape."""

_SHAPES = [(1, 512, 3, 200), (2, 1024, 1, 512), (3, 2048, 10, 2048), (16, 512, 32, 384), (1, 4608, 100, 1024)]
_ALSO_ODD = [(3, 1536, 5, 700), (16, 1024, 5, 1024), (4, 3072, 10, 1500)]


def check_machine() -> None:
    """Refuse a machine that does not add up; quick, after the first time."""
    _check(jax.default_backend())


@cache
def _check(backend: str) -> None:  # once for each process and backend
    if not all(check() for check in quick_checks()):
        _refuse(backend)
    stamp = _stamp()
    if stamp is not None and stamp.exists():
        return
    if not all(check() for check in all_checks()):
        _refuse(backend)
    if stamp is not None:
        with suppress(OSError):
            stamp.parent.mkdir(parents=True, exist_ok=True)
            stamp.touch()


def quick_checks() -> Iterator[Check]:
    """Yield what every process checks."""
    yield lambda: gate_adds_up(Ball(2**20 - 3, 3), 2, 1024, 3, 700, seed=0)
    yield chacha20_is_right


def all_checks() -> Iterator[Check]:
    """Yield all checks, those of the accelerators with them."""
    for number, (chains, rows, entries, chunk) in enumerate([*_SHAPES, *_ALSO_ODD]):
        bounds = (2**20 - 3, 2**10, 2**24 - 1) if entries > 1 else (2**20, 2**12)
        gate: Gate = Ball(bounds[number % len(bounds)], entries) if entries > 1 else Interval(-bounds[0], bounds[0])
        yield lambda case=(gate, chains, rows, entries, chunk, number): gate_adds_up(*case)
    for variance in (Fraction(1), Fraction(BASE_SCALE**2), Fraction(7, 3), Fraction(300**2)):
        yield lambda variance=variance: table_is_right(variance)
    yield from import_module("dpmcmc.enclave.accelerate.self_test").checks()
    for records, dimension, chains in ((1000, 5, 3), (3000, 5, 16), (20_000, 10, 3), (2000, 32, 16)):
        yield lambda case=(records, dimension, chains): sums_are_sums(*case)


def gate_adds_up(gate: Gate, chains: int, rows: int, entries: int, chunk: int, seed: int) -> bool:
    """Compare sums through the gate with Python's integers, for hostile int32 entries."""

    def compute(integers: jax.Array, occupied: jax.Array, once: jax.Array) -> Wide:
        return gated_sum(gate, lambda at: at.of(integers, 1), lambda at: at.of(occupied), rows, chunk, once)

    compiled = jax.jit(compute)
    rng = np.random.default_rng(seed)
    for _ in range(REPEATS):
        integers = hostile_integers(rng, (chains, rows, entries), gate.largest)
        occupied = rng.random(rows) < rng.choice([0.5, 1.0])
        found = compiled(integers, occupied, np.int32(1))
        words = (np.asarray(found.high).astype(object) << 32) + np.asarray(found.low).astype(object)
        if not np.array_equal(words, exact_sum(gate, integers, occupied)):
            return False
    return True


def exact_sum(gate: Gate, integers: np.ndarray, occupied: np.ndarray) -> np.ndarray:
    """Return what a gate leaves of integers, added up by Python; the gate's own arithmetic is done in big integers."""
    wide = integers.astype(object)
    if isinstance(gate, Interval):
        held = np.clip(wide, gate.low, gate.high)
    else:
        square = np.sum(wide * wide, axis=-1, keepdims=True)
        # between reach and bound the gate may round a norm up: that is its own business, checked by `passes`
        near = (square > int(gate.reach) ** 2 - 1) & (square <= gate.largest**2)  # pyright: ignore[reportAttributeAccessIssue]
        held = np.where((square <= gate.largest**2) & ~near, wide, 0)
        passes = np.asarray(gate.passes(jnp.asarray(integers)))  # pyright: ignore[reportAttributeAccessIssue]
        held = np.where(near & passes, wide, held)
    return np.sum(np.where(occupied[:, None], held, 0), axis=1)


def hostile_integers(rng: np.random.Generator, shape: tuple[int, ...], largest: int) -> np.ndarray:
    """Return int32 entries, some vectors inside the bound and some far beyond, with the extremes of the type."""
    inside = rng.integers(-largest, largest + 1, shape) // int(np.sqrt(shape[-1]) * 2)
    wild = rng.integers(-(2**31), 2**31, shape)
    extreme = rng.choice([-(2**31), 2**31 - 1, largest, -largest, largest + 1, 0], shape)
    kind = rng.choice(4, (*shape[:-1], 1), p=[0.7, 0.1, 0.1, 0.1])
    return np.select([kind == 0, kind == 1, kind == 2], [inside, wild, extreme], 0).astype(np.int32)


def chacha20_is_right() -> bool:
    """Compare a block with the vector of RFC 8439, Section 2.3.2."""
    key = np.frombuffer(bytes(range(32)), np.uint32)
    block = chacha20_blocks(jnp.asarray(key), jnp.ones(1, jnp.uint32), (0x09000000, 0x4A000000, 0))
    expected = [0xE4E7F110, 0x15593BD1, 0x1FDD0F50, 0xC47120A3, 0xC7F4D1C7, 0x0368C033, 0x9AAA2204, 0x4E6CD4C3]
    expected += [0x466482D2, 0x09AA9F07, 0x05D7C214, 0xA2028BD9, 0xD19C12B5, 0xB94E16DE, 0xE883D0CB, 0x4E3C50A2]
    return np.array_equal(np.asarray(block)[0], np.array(expected, np.uint32))


def table_is_right(variance: Fraction) -> bool:
    """Compare draws by a noise table with what the table says, in Python's integers."""
    rng, source = np.random.default_rng(0), table(variance)
    words = rng.integers(0, 2**32, (3, 512), dtype=np.uint32)
    words[1:, :64] = [[threshold >> 32 & 0xFFFFFFFF for threshold in source.thresholds[:64]]] * 2  # near the thresholds
    found = np.asarray(jax.jit(lambda words: lookup(source, words))(words))
    expected: list[int] = []
    for first, second, third in words.T.tolist():
        index, negative = first >> (32 - TABLE_BITS), first >> 19 & 1
        size = index if ((first & 0x7FFFF) << 64 | second << 32 | third) < source.thresholds[index] else None
        size = source.aliases[index] if size is None else size
        expected.append(-size if negative else size)
    return np.array_equal(found, np.array(expected))


def sums_are_sums(num_records: int, dimension: int, chains: int) -> bool:
    """Compare sums of floating-point arrays with NumPy's, roughly: one jaxlib took the numbers of another chain."""

    def many_sums(x: jax.Array, y: jax.Array, positions: jax.Array) -> jax.Array:
        def of_chain(position: jax.Array) -> jax.Array:
            rows = (y - jnp.sum(x * position, axis=1))[:, None] * x
            return jnp.sum(jnp.where(jnp.all(jnp.isfinite(rows), axis=1, keepdims=True), rows, 0), axis=0)

        return jax.vmap(of_chain)(positions)

    rng = np.random.default_rng(num_records + dimension)
    shapes = ((num_records, dimension), (num_records,), (chains, dimension))
    x, y, positions = (rng.normal(size=shape).astype(np.float32) for shape in shapes)
    expected = np.stack([(y - x.astype(np.float64) @ position) @ x.astype(np.float64) for position in positions])
    found = np.asarray(jax.jit(many_sums)(x, y, positions))
    return bool(np.all(np.abs(found - expected) < 1e-3 * np.sqrt(num_records)))


def _refuse(backend: str) -> None:
    raise RunRefused(
        f"this machine does not add up: integers or noise that jaxlib computes on {backend} differ from exact "
        "arithmetic, so that no bound on what one record adds would hold. Install another jaxlib; "
        "dpmcmc.enclave.core.self_test has the sums"
    )


def _stamp() -> Path | None:
    """Return the file that says that this machine was checked, if there is a place for it."""
    described: Iterable[tuple[str, Any]] = sorted(machine().items())
    name = hashlib.sha256(repr(list(described)).encode()).hexdigest()[:32]
    stated = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    with suppress(RuntimeError):
        home = Path(stated) if stated else Path.home() / ".cache"
        return home / "dpmcmc" / "self-test" / name
    return None
