"""The exact sum of residual * row as one GPU kernel: a block of rows is read once and serves all chains.

XLA would write the linear predictors, the residuals and their integers to memory between its own kernels, for sixteen
chains several times the bytes of the data. Here they stay in registers. A program of the kernel walks over blocks of
rows and adds up products of digits in int32, which hold them exactly; the digits' sums are put together in 64 bits
outside. linear_predictor.md has the bounds. Where there is no GPU the same kernel can be interpreted: for tests.
"""

# jax annotates itself in part only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportMissingTypeStubs=false, reportPrivateImportUsage=false

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax

from dpmcmc.enclave.factors import SingleNumbers
from dpmcmc.enclave.lattice import Wide, add, shift_left, sum_words, zero

pallas: Any = None
triton: Any = None
with suppress(ImportError):
    from jax.experimental import pallas
    from jax.experimental.pallas import triton

HAS_PALLAS = triton is not None

ROWS_AT_ONCE = 1024
"""The rows of a tile: what a program reads lies close together."""

MOST_ENTRIES = 256
"""Longer rows do not fit into the registers of a program."""

MOST_IN_REGISTERS = 2**13
"""How many sums of digits a program holds at once, of either kind."""

FEW_SUMS = 64
"""So many sums, of several chains, are made place by place; more of them as products of matrices."""

LEAF_TYPES = ("float32", "int32", "int16", "int8", "uint8")
"""What a kernel reads of a record beside its row."""

Steps: TypeAlias = Callable[[Sequence[jax.Array], Callable[[jax.Array], jax.Array]], jax.Array]
"""From the predictions without their unit, and how a public number of all chains becomes one of these."""


@dataclass(frozen=True)
class Problem:
    """What rows are multiplied with."""

    numbers: SingleNumbers
    coefficients: jax.Array
    """Of the linear predictors, shape (predictors, chains, entries)."""
    public: jax.Array
    """Public single numbers, shape (numbers, chains)."""
    per_unit: jax.Array
    """How many steps of the residuals' lattice one is, a single number."""
    bound: int


@dataclass(frozen=True)
class _FewChains:
    """Every place of a block has sums of its own, for each chain, in two digits: nothing is added across threads."""

    chains: int
    entries: int
    rows: int
    programs: int
    blocks: int

    weights: ClassVar = (25, 16, 9, 0)
    """Powers of two: the upper 16 bits of the sums of high digits and of low ones (9 bits), then the lower 16 bits."""
    most_steps: ClassVar = 128  # 2^9 * ROW_BOUND * 128 < 2^31

    @staticmethod
    def of(num_chains: int, num_entries: int, num_rows: int) -> "_FewChains":
        entries = power_of_two(num_entries)
        rows = min(MOST_IN_REGISTERS // (power_of_two(num_chains) * entries), ROWS_AT_ONCE)
        blocks = num_rows // rows
        programs = max(min(1056, blocks), -(-blocks // _FewChains.most_steps))
        return _FewChains(num_chains, entries, rows, programs, blocks)

    def start(self) -> tuple[jax.Array, ...]:
        return tuple(jnp.zeros((self.entries, self.rows), jnp.int32) for _ in range(2 * self.chains))

    def add(self, totals: tuple[jax.Array, ...], row: jax.Array, coefficients: Any, steps: Steps) -> Any:
        exact, more = row.astype(jnp.float32), []
        for chain in range(self.chains):
            predictions = [jnp.sum(weights[chain, :][:, None] * exact, axis=0) for weights in coefficients]
            own = steps(predictions, lambda number, chain=chain: jnp.broadcast_to(number[chain], (self.rows,)))
            more += [(own >> 9)[None] * row, (own & 511)[None] * row]
        return tuple(total + products for total, products in zip(totals, more, strict=True))

    def store(self, totals: tuple[jax.Array, ...], sums: Any) -> None:
        for chain in range(self.chains):
            for digit, total in enumerate(totals[2 * chain : 2 * chain + 2]):
                sums[0, digit, chain] = jnp.sum(total >> 16, axis=1)
                sums[0, digit + 2, chain] = jnp.sum(total & 0xFFFF, axis=1)


@dataclass(frozen=True)
class _ManyChains:
    """Sums over the rows of a block are products of matrices of signed bytes, for sixteen chains at once."""

    chains: int
    entries: int
    rows: int
    programs: int
    blocks: int

    weights: ClassVar = (0, 8, 16, 24)
    most_rows: ClassVar = 2**15  # in a program: two products of bytes for each row and weight, 2 * 2^14 * 2^15 = 2^30

    @staticmethod
    def of(num_chains: int, num_entries: int, num_rows: int) -> "_ManyChains":
        del num_chains
        entries, rows = max(power_of_two(num_entries), 16), 64
        blocks = num_rows // rows
        programs = max(min(528, blocks), -(-num_rows // _ManyChains.most_rows))
        return _ManyChains(16, entries, rows, programs, blocks)

    def start(self) -> tuple[jax.Array, ...]:
        return tuple(jnp.zeros((self.chains, self.entries), jnp.int32) for _ in self.weights)

    def add(self, totals: tuple[jax.Array, ...], row: jax.Array, coefficients: Any, steps: Steps) -> Any:
        digits = _bytes(row, 2)
        predictions = [_predict(weights[...], row, digits) for weights in coefficients]
        shape = (self.chains, self.rows)
        own = steps(predictions, lambda number: jnp.broadcast_to(number[:][:, None], shape))
        sums = list(totals)
        for i, of_steps in enumerate(_bytes(own, 3)):
            for j, of_row in enumerate(digits):
                sums[i + j] = sums[i + j] + _matrix_product(of_steps, of_row, 1, None, jnp.int32)
        return tuple(sums)

    def store(self, totals: tuple[jax.Array, ...], sums: Any) -> None:
        for digit, total in enumerate(totals):
            sums[0, digit] = total


def sum_tiles(problem: Problem, tiles: jax.Array, units: jax.Array, leaves: Sequence[jax.Array]) -> Wide:
    """Return the exact sums over the rows of all tiles, shape (chains, entries).

    `units` has a number for each row; `leaves` may end before the last tile does.
    """
    num_predictors, num_chains, num_entries = problem.coefficients.shape
    few = num_chains == 1 or num_chains * power_of_two(num_entries) <= FEW_SUMS
    plan = (_FewChains if few else _ManyChains).of(num_chains, num_entries, tiles.shape[0] * tiles.shape[2])
    groups = -(-num_chains // plan.chains)
    fill = (0, groups * plan.chains - num_chains)
    coefficients = jnp.pad(problem.coefficients, [(0, 0), fill, (0, plan.entries - num_entries)])
    public = jnp.pad(problem.public, [(0, 0), fill])
    operands = [*coefficients, *public, problem.per_unit.reshape(1), tiles, units, *leaves]
    kernel = partial(_kernel, plan, problem, num_entries)
    specs = [pallas.BlockSpec((plan.chains, plan.entries), lambda _, group: (group, 0))] * num_predictors
    specs += [pallas.BlockSpec((plan.chains,), lambda _, group: (group,))] * len(public)
    specs += [pallas.BlockSpec(o.shape, partial(_whole, o.ndim)) for o in operands[len(specs) :]]
    shape = (plan.programs, len(plan.weights), groups * plan.chains, plan.entries)
    sums = pallas.pallas_call(
        kernel,
        grid=(plan.programs, groups),
        in_specs=specs,
        out_specs=pallas.BlockSpec(
            (1, len(plan.weights), plan.chains, plan.entries), lambda p, group: (p, 0, group, 0)
        ),
        out_shape=jax.ShapeDtypeStruct(shape, jnp.int32),
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=2),
        interpret=jax.default_backend() != "gpu",
    )(*operands)
    total = zero((num_chains, num_entries))
    for piece, bits in enumerate(plan.weights):
        digits = sum_words(sums[:, piece, :num_chains, :num_entries])
        total = add(total, shift_left(digits, bits) if bits else digits)
    return total


def _kernel(plan: _FewChains | _ManyChains, problem: Problem, num_entries: int, *refs: Any) -> None:
    """Walk over every `programs`-th block of rows; sums stay in registers until the end."""
    num_predictors, num_public = len(problem.coefficients), len(problem.public)
    coefficients, refs = refs[:num_predictors], refs[num_predictors:]
    public, (per_unit, tiles, units, *leaves, sums) = refs[:num_public], refs[num_public:]
    program, blocks_in_tile = pallas.program_id(0), tiles.shape[2] // plan.rows
    there = (jnp.arange(plan.entries) < num_entries)[:, None] & jnp.ones((1, plan.rows), bool)
    bound = problem.bound

    def block(step: Any, totals: Any) -> Any:
        number = program + step * plan.programs
        places = pallas.ds((number % blocks_in_tile) * plan.rows, plan.rows)
        own = pallas.ds(number * plan.rows, plan.rows)
        tile = tiles.at[number // blocks_in_tile, pallas.ds(0, plan.entries), places]
        row = triton.load(tile, mask=there, other=0).astype(jnp.int32)
        unit = units[own]

        def of_records(leaf: Any) -> jax.Array:
            inside = number * plan.rows + jnp.arange(plan.rows) < leaf.shape[0]
            return triton.load(leaf.at[own], mask=inside, other=0)

        def steps(predictions: Sequence[jax.Array], spread: Callable[[jax.Array], jax.Array]) -> jax.Array:
            shape, residual = predictions[0].shape, problem.numbers.residual
            for _ in shape:
                residual = jax.vmap(residual)
            values = [jnp.broadcast_to(of_records(leaf), shape) for leaf in leaves]
            worth = residual(values, [spread(one) for one in public], [p * unit for p in predictions])
            worth = worth * unit
            held = jnp.clip(jnp.where(jnp.abs(worth) < jnp.inf, worth, 0.0) * per_unit[0], -float(bound), float(bound))
            return jnp.clip(_nearest(held), -bound, bound)

        return plan.add(totals, row, coefficients, steps)

    num_steps = (plan.blocks - program + plan.programs - 1) // plan.programs
    plan.store(lax.fori_loop(0, num_steps, block, plan.start()), sums)


def _predict(coefficients: jax.Array, row: jax.Array, digits: Sequence[jax.Array]) -> jax.Array:
    """Return coefficients @ row in float32; long rows by way of 8-bit floats' products, which matrix units make.

    Coefficients are three parts of 8 bits each, and a row is its two digits: each product of parts is exact.
    """
    if coefficients.shape[1] < 32:
        return _matrix_product(coefficients, row.astype(jnp.float32), 0, lax.DotAlgorithmPreset.F32_F32_F32)
    low, high = (digit.astype(jnp.float32).astype(jnp.bfloat16) for digit in digits)
    parts, rest = [], coefficients
    for _ in range(3):
        parts.append(rest.astype(jnp.bfloat16))
        rest = rest - parts[-1].astype(jnp.float32)
    of_high = [_matrix_product(part, high, 0, None, jnp.float32) for part in parts]
    of_low = [_matrix_product(part, low, 0, None, jnp.float32) for part in parts[:2]]
    return 256 * (of_high[2] + of_high[1] + of_high[0]) + (of_low[1] + of_low[0])


def _matrix_product(first: jax.Array, second: jax.Array, axis: int, precision: Any, kind: Any = None) -> jax.Array:
    dimensions = (((1,), (axis,)), ((), ()))
    return lax.dot_general(first, second, dimensions, precision=precision, preferred_element_type=kind)


def _nearest(value: jax.Array) -> jax.Array:
    """Return the nearest integers, the even one of two, as `rint` does, which kernels lack."""
    below = jnp.floor(value)
    rest, whole = value - below, below.astype(jnp.int32)
    return whole + ((rest > 0.5) | ((rest == 0.5) & (whole & 1 == 1))).astype(jnp.int32)


def _bytes(value: jax.Array, count: int) -> list[jax.Array]:
    """Return the digits of integers in base 256, from -128 to 127, the lowest first."""
    digits = []
    for _ in range(count):
        digit = ((value + 128) & 255) - 128
        value = (value - digit) >> 8
        digits.append(digit.astype(jnp.int8))
    return digits


def power_of_two(number: int) -> int:
    """Return the smallest power of two that is at least `number`."""
    return 1 << (max(number, 1) - 1).bit_length()


def _whole(num_axes: int, *_: Any) -> tuple[int, ...]:
    return (0,) * num_axes
