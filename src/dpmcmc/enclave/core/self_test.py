"""Does this machine add up? Integers through the compiled gate, and noise, against exact arithmetic on the host.

The proofs assume that integer arithmetic is exact and that a compiled gate does what it says; one version of jaxlib
mixed up arrays of some shapes (github.com/jax-ml/jax/issues/39103). So a few hundred sums, products and draws are
compared once for each version of the libraries, kind of processor and device, which is stamped in the user's cache
folder, and a few in every process. A vault does not open where one of them differs.
"""

import hashlib
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import suppress
from fractions import Fraction
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np

from dpmcmc.enclave.compiler import compiled, other_way
from dpmcmc.enclave.core.gate import Ball, Gate, Interval, gated_sum
from dpmcmc.enclave.noise.chacha20 import chacha20_blocks
from dpmcmc.enclave.noise.discrete_gaussian import BASE_SCALE, TABLE_BITS, lookup, table
from dpmcmc.errors import RunRefused

REPEATS = 12  # tables in each shape
_SHAPES = np.array(
    [[1, 2, 3, 16, 1, 3, 16, 4], [512, 1024, 2048, 512, 4608, 1536, 1024, 3072], [3, 1, 10, 32, 100, 5, 5, 10]]
).T  # chains, rows, entries
_BOUNDS = (2**20 - 3, 2**10, 2**24 - 1)


@cache
def check_machine() -> None:
    """Refuse a machine that does not add up: in every process, and at length the first time."""
    if all(check() for check in quick_checks()):
        stamp = _stamp()
        if stamp is not None and stamp.exists():
            return
        if all(check() and other_way(check) for check in all_checks()):
            with suppress(OSError):
                if stamp is not None:
                    stamp.parent.mkdir(parents=True, exist_ok=True)
                    stamp.touch()
            return
    raise RunRefused(
        "this machine does not add up: integers or noise that jaxlib computes differ from exact arithmetic, so that no "
        "bound on what one record adds would hold. Install another jaxlib; dpmcmc.enclave.core.self_test has the sums"
    )


def quick_checks() -> Iterator[Callable[[], bool]]:
    """Yield what every process checks."""
    yield lambda: gate_adds_up(Ball(_BOUNDS[0], 3), 2, 1024, 3, 700)
    yield chacha20_is_right


def all_checks() -> Iterator[Callable[[], bool]]:
    """Yield all checks, those of the accelerators and of sums in blocks with them."""
    for number, (chains, rows, entries) in enumerate(_SHAPES.tolist()):
        bound = _BOUNDS[number % len(_BOUNDS)]
        gate = Ball(bound, entries) if entries > 1 else Interval(-bound, bound)
        yield lambda case=(gate, chains, rows, entries, 300 + 400 * number): gate_adds_up(*case)
    for variance in (Fraction(1), Fraction(BASE_SCALE**2), Fraction(7, 3), Fraction(300**2)):
        yield lambda variance=variance: table_is_right(variance)
    yield from import_module("dpmcmc.enclave.accelerate.self_test").checks()


def gate_adds_up(gate: Gate, chains: int, rows: int, entries: int, chunk: int) -> bool:
    """Compare sums through the gate with Python's integers, for hostile int32 entries."""

    @compiled
    def total(integers: jax.Array, occupied: jax.Array, once: jax.Array, moved: Any) -> tuple[jax.Array, jax.Array]:
        return gated_sum(moved or gate, lambda at: at.of(integers, 1), lambda at: at.of(occupied), rows, chunk, once)

    rng = np.random.default_rng(rows + entries)
    moved = gate.movable if isinstance(gate, Ball) and chains != 3 else None  # with its numbers as arguments, or not
    for _ in range(REPEATS):
        integers = hostile_integers(rng, (chains, rows, entries), gate.largest)
        occupied = rng.random(rows) < rng.choice([0.5, 1.0])
        high, low = total(integers, occupied, np.int32(1), moved)
        held = np.where(occupied[:, None], held_exactly(gate, integers.astype(object)), 0)
        if not np.array_equal((np.asarray(high).astype(object) << 32) + np.asarray(low), np.sum(held, axis=1)):
            return False
    return True


def held_exactly(gate: Gate, integers: np.ndarray) -> np.ndarray:
    """Return what a gate should leave of integers, in Python's own."""
    if not isinstance(gate, Ball):
        return np.clip(integers, -gate.largest, gate.largest)
    coarse = -(-np.minimum(abs(integers), gate.bound + 1) // 2**gate.coarse)
    energy = np.sum(coarse * coarse // 2**gate.drop, axis=-1, keepdims=True)
    return np.where(energy <= gate.limit - gate.offset, integers, 0)


def hostile_integers(rng: np.random.Generator, shape: tuple[int, ...], largest: int) -> np.ndarray:
    """Return int32 entries, some vectors inside the bound and some far beyond, with the extremes of the type."""
    inside = rng.integers(-largest, largest + 1, shape) // int(np.sqrt(shape[-1]) * 2)
    wild = rng.integers(-(2**31), 2**31, shape)
    extreme = rng.choice([-(2**31), 2**31 - 1, largest, -largest, largest + 1, 0], shape)
    kind = rng.choice(4, (*shape[:-1], 1), p=[0.7, 0.1, 0.1, 0.1])
    return np.select([kind == 0, kind == 1, kind == 2], [inside, wild, extreme], 0).astype(np.int32)


def chacha20_is_right() -> bool:
    """Compare a block with the vector of RFC 8439, Section 2.3.2."""
    key, first, nonce = np.frombuffer(bytes(range(32)), np.uint32), np.ones(1, np.uint32), (0x09000000, 0x4A000000, 0)
    block = compiled(lambda key, counters: chacha20_blocks(key, counters, nonce))(key, first)
    expected = "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
    expected += "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
    return np.asarray(block)[0].astype("<u4").tobytes().hex() == expected


def table_is_right(variance: Fraction) -> bool:
    """Compare draws by a noise table with what the table says, in Python's integers."""
    rng, source = np.random.default_rng(0), table(variance)
    words = rng.integers(0, 2**32, (3, 512), dtype=np.uint32)
    expected: list[int] = []
    for first, second, third in words.T.tolist():
        index, value = first >> (32 - TABLE_BITS), (first & 0x7FFFF) << 64 | second << 32 | third
        size = index if value < source.thresholds[index] else source.aliases[index]
        expected.append(-size if first >> 19 & 1 else size)
    return np.array_equal(np.asarray(compiled(lookup)(source.words(), words)), np.array(expected))


def _stamp() -> Path | None:
    """Return the file that says that this machine was checked, if there is a place for it."""
    device = jax.devices()[0]
    described = [version("jax"), version("jaxlib"), device.platform, device.device_kind, platform.machine()]
    described += [platform.processor(), hashlib.sha256(Path(__file__).read_bytes()).hexdigest()]
    described += [device.client.platform_version, os.environ.get("XLA_FLAGS", "")]
    stated = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    with suppress(RuntimeError):
        home = Path(stated) if stated else Path.home() / ".cache"
        return home / "dpmcmc" / "self-test" / hashlib.sha256(repr(described).encode()).hexdigest()[:32]
    return None
