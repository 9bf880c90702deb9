"""A record's contribution written out in single numbers, from the audited jaxpr.

Every entry of every array that depends on the record becomes a number of its own, and every operation on arrays becomes
operations on such numbers: rearrangements vanish, sums become additions. What depends on the queries alone is left as
it is, to be computed once and not for each record. The numbers may then be vectors, one entry a record: code without
any axis but that of the records, which a compiler of kernels keeps in registers (`column_kernel`).
"""

# jax annotates itself in part only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import Literal, primitives

from dpmcmc.enclave.factors import ELEMENTWISE
from dpmcmc.enclave.mechanisms.base import Contribution

MOST_OPERATIONS = 2**12
"""Longer programs are not written out."""

Numbers = np.ndarray[Any, np.dtype[np.object_]]
"""An array of single numbers: scalars, or vectors with one entry a record."""

_CALLS = frozenset({primitives.jit_p, primitives.custom_jvp_call_p, primitives.custom_vjp_call_p})


@dataclass(frozen=True)
class WrittenOut:
    """How one record's contribution is computed from single numbers."""

    num_coordinates: int
    leaves: tuple[int, ...]
    """The leaves of a record that are read."""
    public: Callable[[Sequence[jax.Array]], jax.Array]
    """What depends on the queries of one chain alone and is needed, one vector."""
    coordinates: Callable[[Sequence[Numbers], Sequence[Any]], list[Any]]
    """The coordinates of the contribution, from the leaves that are read and the public numbers."""


@dataclass(frozen=True)
class Reading:
    """A contribution as equations, and which of its arrays are whose."""

    program: "Program"
    inputs: Sequence[int]
    equations: Sequence["Equation"]
    """Those that depend on the record."""
    public: Sequence[int]
    """The arrays that depend on the queries alone and are needed by these."""
    leaves: Mapping[int, int]
    """The leaves of a record that are read: the array of each of them, by its place."""
    output: int

    def of_queries(self, queries: Sequence[jax.Array]) -> list[Any]:
        """Return the public arrays."""
        values = dict(zip(self.inputs, queries, strict=False)) | self.program.constants
        for equation in self.program.equations:
            if all(array in values for array in equation.inputs):
                results = equation.primitive.bind(
                    *(values[array] for array in equation.inputs),
                    **equation.primitive.get_bind_params(equation.parameters),
                )
                results = results if equation.primitive.multiple_results else [results]
                values.update(zip(equation.outputs, results, strict=True))
        return [values[array] for array in self.public]


def read(contribution: Contribution, queries: Sequence[Any], record: Any) -> Reading | None:
    """Return a contribution as equations; None if it does not depend on the record, or is not made of float32."""
    traced = jax.make_jaxpr(contribution)(list(queries), record)
    program = Program()
    inputs = [program.array(variable.aval) for variable in traced.jaxpr.invars]
    (output,) = program.add(traced.jaxpr, traced.consts, inputs)
    of_record = inputs[len(jax.tree.leaves(list(queries))) :]
    private = program.reached_from(of_record)
    equations = [e for e in program.needed(output) if private.intersection(e.inputs)]
    needed = {array for equation in equations for array in equation.inputs}
    public = sorted(needed - private - set(program.constants))
    leaves = {place: array for place, array in enumerate(of_record) if array in needed}
    single = all(program.avals[array].dtype == np.float32 for array in [*public, output])
    if output not in private or not leaves or not single:
        return None
    return Reading(program, inputs, equations, public, leaves, output)


def write_out(contribution: Contribution, queries: Sequence[Any], record: Any) -> WrittenOut | None:
    """Return a contribution in single numbers; None if it is too long, or takes an operation that is not known here."""
    reading = read(contribution, queries, record)
    if reading is None or not all(_is_known(equation) for equation in reading.equations):
        return None
    program, shapes = reading.program, [aval.shape for aval in reading.program.avals]
    if sum(program.length(equation) for equation in reading.equations) > MOST_OPERATIONS:
        return None

    def of_queries(queries: Sequence[jax.Array]) -> jax.Array:
        found = [jnp.ravel(value) for value in reading.of_queries(queries)]
        return jnp.concatenate(found or [jnp.zeros(0, jnp.float32)])

    def coordinates(leaf_values: Sequence[Numbers], public_values: Sequence[Any]) -> list[Any]:
        values: dict[int, Numbers] = {array: _numbers(np.asarray(v)) for array, v in program.constants.items()}
        values.update(zip(reading.leaves.values(), leaf_values, strict=True))
        start = 0
        for array in reading.public:
            values[array] = _filled(public_values[start : start + prod(shapes[array])], shapes[array])
            start += prod(shapes[array])
        for equation in reading.equations:
            rule = _RULES.get(equation.primitive) or _elementwise
            operands = [values[array] for array in equation.inputs]
            values[equation.outputs[0]] = rule(equation, operands, shapes[equation.outputs[0]])
        return list(values[reading.output].ravel())

    return WrittenOut(prod(shapes[reading.output]), tuple(reading.leaves), of_queries, coordinates)


@dataclass(frozen=True)
class Equation:
    """One operation; arrays are numbered."""

    primitive: Any
    parameters: Mapping[str, Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def _is_known(equation: Equation) -> bool:
    if equation.primitive is lax.pad_p and any(min(edges) < 0 for edges in equation.parameters["padding_config"]):
        return False
    return equation.primitive in _RULES or equation.primitive in ELEMENTWISE


class Program:
    """A jaxpr with its calls written out; arrays are numbered."""

    def __init__(self) -> None:
        self.equations: list[Equation] = []
        self.constants: dict[int, Any] = {}
        self.avals: list[Any] = []

    def array(self, aval: Any) -> int:
        """Return the number of a new array."""
        self.avals.append(aval)
        return len(self.avals) - 1

    def add(self, jaxpr: Any, constants: Sequence[Any], inputs: Sequence[int]) -> list[int]:
        """Add the equations of a jaxpr and return its outputs."""
        numbers = dict(zip(jaxpr.invars, inputs, strict=True))
        for variable, value in zip(jaxpr.constvars, constants, strict=True):
            numbers[variable] = self.array(variable.aval)
            self.constants[numbers[variable]] = value

        def number(atom: Any) -> int:
            if not isinstance(atom, Literal):
                return numbers[atom]
            literal = self.array(atom.aval)
            self.constants[literal] = np.asarray(atom.val, self.avals[literal].dtype)
            return literal

        for equation in jaxpr.eqns:
            operands = tuple(number(atom) for atom in equation.invars)
            if equation.primitive in _CALLS:
                called = equation.params["jaxpr" if "jaxpr" in equation.params else "call_jaxpr"]
                results = self.add(called.jaxpr, called.consts, operands)
            else:
                results = [self.array(variable.aval) for variable in equation.outvars]
                adds = equation.primitive is primitives.add_jaxvals_p
                primitive = lax.add_p if adds else equation.primitive
                self.equations.append(Equation(primitive, equation.params, operands, tuple(results)))
            numbers.update(zip(equation.outvars, results, strict=True))
        return [number(atom) for atom in jaxpr.outvars]

    def reached_from(self, arrays: Sequence[int]) -> set[int]:
        """Return the arrays that depend on some arrays, with these."""
        reached = set(arrays)
        for equation in self.equations:
            if reached.intersection(equation.inputs):
                reached.update(equation.outputs)
        return reached

    def needed(self, array: int) -> list[Equation]:
        """Return the equations that an array depends on."""
        needed, found = {array}, []
        for equation in reversed(self.equations):
            if needed.intersection(equation.outputs):
                needed.update(equation.inputs)
                found.append(equation)
        return found[::-1]

    def length(self, equation: Equation) -> int:
        """Return how many operations on single numbers an equation is, at most."""
        if equation.primitive is lax.dot_general_p:
            (contracted, _), _ = equation.parameters["dimension_numbers"]
            terms = prod(self.avals[equation.inputs[0]].shape[axis] for axis in contracted)
            return 2 * terms * prod(self.avals[equation.outputs[0]].shape)
        return max(prod(self.avals[array].shape) for array in (*equation.inputs, *equation.outputs))


def _filled(values: Sequence[Any], shape: tuple[int, ...]) -> Numbers:
    numbers = np.empty(len(values), object)
    for place, value in enumerate(values):
        numbers[place] = value
    return numbers.reshape(shape)


def _numbers(constant: Any) -> Numbers:
    return _filled([constant.dtype.type(value) for value in constant.ravel()], constant.shape)


def apply(primitive: Any, *operands: Any, **parameters: Any) -> Any:
    """Apply an operation to numbers, the scalars among them spread over the records."""
    shape = jnp.broadcast_shapes(*(jnp.shape(operand) for operand in operands))
    spread = [jnp.broadcast_to(jnp.asarray(operand), shape) for operand in operands]
    return primitive.bind(*spread, **parameters)


def _map(function: Callable[..., Any], operands: Sequence[Numbers], shape: tuple[int, ...]) -> Numbers:
    spread = [np.broadcast_to(operand, shape).ravel() for operand in operands]
    return _filled([function(*entries) for entries in zip(*spread, strict=True)], shape)


def _elementwise(equation: Equation, operands: Sequence[Numbers], shape: tuple[int, ...]) -> Numbers:
    return _map(lambda *entries: apply(equation.primitive, *entries, **equation.parameters), operands, shape)


def _reshaped(_: Equation, operands: Sequence[Numbers], shape: tuple[int, ...]) -> Numbers:
    return operands[0].reshape(shape)


def _spread(equation: Equation, operands: Sequence[Numbers], shape: tuple[int, ...]) -> Numbers:
    kept = [1] * len(shape)
    for axis, length in zip(equation.parameters["broadcast_dimensions"], operands[0].shape, strict=True):
        kept[axis] = length
    return np.broadcast_to(operands[0].reshape(kept), shape)


def _transposed(equation: Equation, operands: Sequence[Numbers], _: tuple[int, ...]) -> Numbers:
    return operands[0].transpose(equation.parameters["permutation"])


def _sliced(equation: Equation, operands: Sequence[Numbers], _: tuple[int, ...]) -> Numbers:
    starts, limits = equation.parameters["start_indices"], equation.parameters["limit_indices"]
    steps = equation.parameters["strides"] or [1] * len(starts)
    return operands[0][tuple(map(slice, starts, limits, steps))]


def _padded(equation: Equation, operands: Sequence[Numbers], shape: tuple[int, ...]) -> Numbers:
    kept, value = operands
    around = equation.parameters["padding_config"]
    places = tuple(
        slice(low, low + (length - 1) * (inside + 1) + 1, inside + 1)
        for length, (low, _, inside) in zip(kept.shape, around, strict=True)
    )
    padded = np.broadcast_to(value, shape).copy()
    padded[places] = kept
    return padded


def _stacked(equation: Equation, operands: Sequence[Numbers], _: tuple[int, ...]) -> Numbers:
    return np.stack(operands, axis=equation.parameters["axis"])


def _joined(equation: Equation, operands: Sequence[Numbers], _: tuple[int, ...]) -> Numbers:
    return np.concatenate(operands, axis=equation.parameters["dimension"])


def _reduced(combine: Any) -> Callable[..., Numbers]:
    def rule(equation: Equation, operands: Sequence[Numbers], shape: tuple[int, ...]) -> Numbers:
        axes = equation.parameters["axes"]
        last = np.moveaxis(operands[0], axes, range(-len(axes), 0)).reshape(*shape, -1)
        return _filled([total(combine, list(entries)) for entries in last.reshape(prod(shape), -1)], shape)

    return rule


def _product(equation: Equation, operands: Sequence[Numbers], shape: tuple[int, ...]) -> Numbers:
    (contracted, batched) = equation.parameters["dimension_numbers"]
    rows = []
    for operand, own, shared in zip(operands, contracted, batched, strict=True):
        free = [axis for axis in range(operand.ndim) if axis not in (*own, *shared)]
        lengths = [prod(operand.shape[axis] for axis in axes) for axes in (shared, free, own)]
        rows.append(operand.transpose(*shared, *free, *own).reshape(lengths))
    entries = [
        total(lax.add_p, [apply(lax.mul_p, a, b) for a, b in zip(first, second, strict=True)])
        for firsts, seconds in zip(*rows, strict=True)
        for first in firsts
        for second in seconds
    ]
    return _filled(entries, shape)


def total(combine: Any, entries: Sequence[Any]) -> Any:
    """Return all entries combined, in four strands: a processor can work on several of them at once."""
    strands = [entries[start::4] for start in range(min(4, len(entries)))]
    return reduce(
        lambda a, b: apply(combine, a, b), [reduce(lambda a, b: apply(combine, a, b), one) for one in strands]
    )


_RULES: dict[Any, Callable[[Equation, Sequence[Numbers], tuple[int, ...]], Numbers]] = {
    lax.broadcast_in_dim_p: _spread,
    lax.concatenate_p: _joined,
    lax.copy_p: _reshaped,
    lax.dot_general_p: _product,
    lax.pad_p: _padded,
    lax.reduce_max_p: _reduced(lax.max_p),
    lax.reduce_min_p: _reduced(lax.min_p),
    lax.reduce_sum_p: _reduced(lax.add_p),
    lax.reshape_p: _reshaped,
    lax.slice_p: _sliced,
    lax.squeeze_p: _reshaped,
    lax.stack_p: _stacked,
    lax.stop_gradient_p: _reshaped,
    lax.transpose_p: _transposed,
}
