"""A record's contribution as operations on whole rows, from the audited jaxpr.

Where every array of a contribution is one number or one row of the same length, as for a mean of many coordinates or a
mixture of such, its operations are those on numbers, entry by entry, and sums over a row. Then many records are handled
at once as matrices, one row a record, filled up to a power of two: code that a compiler of kernels knows, whatever the
length of the rows (`block_kernel`).
"""

# jax annotates itself in part only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dpmcmc.enclave.factors import ELEMENTWISE
from dpmcmc.enclave.mechanisms.base import Contribution
from dpmcmc.enclave.written_out import Equation, apply, read

_UNCHANGED = frozenset(
    {
        lax.broadcast_in_dim_p,
        lax.concatenate_p,
        lax.copy_p,
        lax.reshape_p,
        lax.squeeze_p,
        lax.stop_gradient_p,
        lax.transpose_p,
    }
)
"""Of one operand. A number that is spread over a row stays a number, which spreads itself when it meets a row."""

_REDUCTIONS: dict[Any, tuple[Callable[..., jax.Array], float]] = {
    lax.reduce_sum_p: (jnp.sum, 0.0),
    lax.reduce_max_p: (jnp.max, -np.inf),
    lax.reduce_min_p: (jnp.min, np.inf),
}
"""How a row becomes a number, and what does not count."""


@dataclass(frozen=True)
class RowByRow:
    """How contributions of many records are computed as matrices of one row a record."""

    length: int
    leaves: tuple[int, ...]
    """The leaves of a record that are read, each a number or a row."""
    public: Callable[[Sequence[jax.Array]], jax.Array]
    """What depends on the queries of one chain alone and is needed, shape (things, length)."""
    contributions: Callable[[Sequence[Any], Sequence[Any], Any], Any]
    """The contributions, shape (records, places): from the leaves, shape (records, 1 or places), from the public
    things, each of the shape (1, places), and from where there is a place."""


def row_by_row(contribution: Contribution, queries: Sequence[Any], record: Any) -> RowByRow | None:
    """Return a contribution as operations on rows; None if it takes another operation or another shape."""
    reading = read(contribution, queries, record)
    if reading is None:
        return None
    shapes = [tuple(aval.shape) for aval in reading.program.avals]
    length, constants = prod(shapes[reading.output]), reading.program.constants
    touched = {array for equation in reading.equations for array in (*equation.inputs, *equation.outputs)}
    of_rows = all(prod(shapes[array]) in {1, max(shapes[array], default=1)} & {1, length} for array in touched)
    if length < 2 or not of_rows or not all(_is_known(equation, shapes, length) for equation in reading.equations):
        return None
    rows = [array for array in touched if array in constants and shapes[array] != ()]
    if any(np.asarray(constants[array]).dtype != np.float32 for array in rows):
        return None

    def of_queries(queries: Sequence[jax.Array]) -> jax.Array:
        found = [*reading.of_queries(queries), *(jnp.asarray(constants[array]) for array in rows)]
        return jnp.stack([jnp.broadcast_to(jnp.ravel(value), (length,)) for value in found])

    def contributions(leaves: Sequence[Any], public: Sequence[Any], there: Any) -> Any:
        values: dict[int, Any] = {array: np.asarray(v)[()] for array, v in constants.items() if np.ndim(v) == 0}
        values.update(zip(reading.leaves.values(), leaves, strict=True))
        values.update(zip([*reading.public, *rows], public, strict=True))
        for equation in reading.equations:
            operands = [values[array] for array in equation.inputs]
            values[equation.outputs[0]] = _perform(equation, operands, shapes, length, there)
        return jnp.where(there, values[reading.output], 0)

    return RowByRow(length, tuple(reading.leaves), of_queries, contributions)


def _is_known(equation: Equation, shapes: Sequence[tuple[int, ...]], length: int) -> bool:
    sizes = [prod(shapes[array]) for array in equation.inputs]
    if equation.primitive is lax.dot_general_p:
        _, batched = equation.parameters["dimension_numbers"]
        return batched == ((), ()) and (sizes == [length, length]) == (prod(shapes[equation.outputs[0]]) == 1)
    if equation.primitive in _UNCHANGED:
        return len(equation.inputs) == 1
    return equation.primitive in _REDUCTIONS or equation.primitive in ELEMENTWISE


def _perform(
    equation: Equation, operands: Sequence[Any], shapes: Sequence[tuple[int, ...]], length: int, there: Any
) -> Any:
    made, primitive = prod(shapes[equation.outputs[0]]), equation.primitive
    if primitive in _UNCHANGED:
        return operands[0]
    if primitive in _REDUCTIONS:
        return operands[0] if prod(shapes[equation.inputs[0]]) == made else _reduced(primitive, operands[0], there)
    if primitive is lax.dot_general_p:
        product = apply(lax.mul_p, *operands)
        both = all(prod(shapes[array]) == length for array in equation.inputs)
        return _reduced(lax.reduce_sum_p, product, there) if both else product
    return apply(primitive, *operands, **equation.parameters)


def _reduced(primitive: Any, row: Any, there: Any) -> Any:
    reduce, nothing = _REDUCTIONS[primitive]
    filled = jnp.where(there, row, np.float32(nothing))
    return jnp.expand_dims(reduce(filled, axis=1), 1)
