"""Find out that a record's gradient is a few numbers times rows of the record, by reading the audited jaxpr.

Where the position meets a record in a linear predictor, as in every GLM, the gradient is residual * row: coordinate i
is ``residual[r_i] * feature[f_i]``, with few residuals, which depend on position and record, and features of the record
alone. `factorise` proves such a form by algebra on the equations: multiplications, additions and rearrangements of
arrays are followed symbol by symbol, entry by entry, and every other operation gives new symbols. It never guesses:
what it cannot follow becomes a residual of its own, so the form is true of every function and merely useless for some.
"""

# jax annotates itself in part only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal, primitives

from dpmcmc.enclave.mechanisms.base import Contribution

MOST_SYMBOLS = 2**16
"""Larger arrays are not followed."""

MOST_TERMS, MOST_FACTORS = 8, 3
"""Larger polynomials are not followed."""

Entry: TypeAlias = tuple[int, int]
"""One entry of one array of the jaxpr: the number of the array and the place in it."""

Polynomial: TypeAlias = tuple[tuple[int, tuple[Entry, ...]], ...]
"""A sum of signed products of entries, in a fixed order."""

Symbols: TypeAlias = np.ndarray[Any, Any]
"""An array of polynomials."""

_CALLS = frozenset({primitives.jit_p, primitives.custom_jvp_call_p, primitives.custom_vjp_call_p})


@dataclass(frozen=True)
class Factors:
    """The form of a contribution: coordinate i is ``residuals()[residual_of[i]] * features()[feature_of[i]]``.

    An index of -1 in `residual_of` means zero, in `feature_of` the number one.
    """

    num_residuals: int
    num_features: int
    residual_of: tuple[int, ...]
    feature_of: tuple[int, ...]
    residuals: Callable[[Sequence[jax.Array], Any], jax.Array]
    """The residuals of one record, shape (num_residuals,), from the flat queries of one chain and a record."""
    features: Callable[[Any], jax.Array]
    """The features of one record, shape (num_features,)."""


def factorise(contribution: Contribution, queries: Sequence[Any], record: Any) -> Factors | None:
    """Return the form of a contribution with fewer residuals than half of its coordinates, or None."""
    program = _Program(contribution, queries, record)
    if program.num_coordinates > MOST_SYMBOLS:
        return None
    features: dict[Entry, int] = {}
    residuals: dict[Polynomial, int] = {}
    residual_of, feature_of = [], []
    for polynomial, feature in _split(program.follow(), program.is_fixed):
        feature_of.append(-1 if feature is None else features.setdefault(feature, len(features)))
        residual_of.append(residuals.setdefault(polynomial, len(residuals)) if polynomial else -1)
    if not features or 2 * len(residuals) > program.num_coordinates:
        return None
    shapes = jax.tree.map(lambda query: jnp.zeros(query.shape, query.dtype), list(queries))
    products = [((1, (entry,)),) for entry in features]
    return Factors(
        len(residuals),
        len(features),
        tuple(residual_of),
        tuple(feature_of),
        lambda queries, record: program.evaluate(list(residuals), queries, record),
        lambda record: program.evaluate(products, shapes, record),
    )


def _split(symbols: Symbols, is_fixed: Callable[[Entry], bool]) -> Iterator[tuple[Polynomial, Entry | None]]:
    """Take one factor that depends on the record alone out of each polynomial: the one that the fewest others have."""
    shared = [_common_factors(polynomial, is_fixed) for polynomial in symbols.ravel()]
    occurrences = Counter(entry for common in shared for entry in common)
    for polynomial, common in zip(symbols.ravel(), shared, strict=True):
        feature = min(common, key=lambda entry: (occurrences[entry], entry), default=None)
        yield (polynomial if feature is None else _divide(polynomial, feature)), feature


def _common_factors(polynomial: Polynomial, is_fixed: Callable[[Entry], bool]) -> set[Entry]:
    sets = [{entry for entry in factors if is_fixed(entry)} for _, factors in polynomial]
    return set.intersection(*sets) if sets else set()


def _divide(polynomial: Polynomial, entry: Entry) -> Polynomial:
    def without(factors: tuple[Entry, ...]) -> tuple[Entry, ...]:
        place = factors.index(entry)
        return factors[:place] + factors[place + 1 :]

    return tuple((sign, without(factors)) for sign, factors in polynomial)


@dataclass(frozen=True)
class _Equation:
    """An equation of the jaxpr with the calls around it written out; arrays are numbered."""

    primitive: Any
    parameters: dict[str, Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class _Program:
    """A jaxpr with its calls written out, and what is known about its arrays."""

    def __init__(self, contribution: Contribution, queries: Sequence[Any], record: Any) -> None:
        traced = jax.make_jaxpr(contribution)(list(queries), record)
        self.equations: list[_Equation] = []
        self.constants: dict[int, Any] = {}
        self.shapes: list[tuple[int, ...]] = []
        self.types: list[Any] = []
        self.inputs = tuple(self._number(variable) for variable in traced.jaxpr.invars)
        self.output = self._write_out(traced.jaxpr, traced.consts, self.inputs)[0]
        self.moving = set(self.inputs[: len(jax.tree.leaves(list(queries)))])
        """The arrays that depend on the position."""
        for equation in self.equations:
            if self.moving.intersection(equation.inputs):
                self.moving.update(equation.outputs)
        self.num_coordinates = prod(self.shapes[self.output])

    def is_fixed(self, entry: Entry) -> bool:
        return entry[0] not in self.moving

    def _number(self, variable: Any) -> int:
        self.shapes.append(tuple(variable.aval.shape))
        self.types.append(variable.aval.dtype)
        return len(self.shapes) - 1

    def _write_out(self, jaxpr: Any, constants: Sequence[Any], inputs: Sequence[int]) -> list[int]:
        numbers = dict(zip(jaxpr.invars, inputs, strict=True))
        for variable, value in zip(jaxpr.constvars, constants, strict=True):
            numbers[variable] = self._number(variable)
            self.constants[numbers[variable]] = value

        def number(atom: Any) -> int:
            if not isinstance(atom, Literal):
                return numbers[atom]
            literal = self._number(atom)
            self.constants[literal] = np.asarray(atom.val, self.types[literal])
            return literal

        for equation in jaxpr.eqns:
            operands = tuple(number(atom) for atom in equation.invars)
            if equation.primitive in _CALLS:
                called = equation.params["jaxpr" if "jaxpr" in equation.params else "call_jaxpr"]
                results = self._write_out(called.jaxpr, called.consts, operands)
            else:
                results = [self._number(variable) for variable in equation.outvars]
                self.equations.append(_Equation(equation.primitive, equation.params, operands, tuple(results)))
            numbers.update(zip(equation.outvars, results, strict=True))
        return [number(atom) for atom in jaxpr.outvars]

    def follow(self) -> Symbols:
        """Return the output, entry by entry, as polynomials in entries of other arrays."""
        known: dict[int, Symbols] = {}

        def symbols(array: int) -> Symbols:
            if array not in known:
                value = self.constants.get(array)
                known[array] = _zeros(self.shapes[array]) if _is_zero(value) else _own(array, self.shapes[array])
            return known[array]

        for equation in self._needed([self.output]):
            (output, *more) = equation.outputs
            rule = _RULES.get(equation.primitive)
            if equation.primitive is _lax.convert_element_type_p:
                rule = _unchanged if self.types[output] == self.types[equation.inputs[0]] else None
            # arithmetic on single numbers is left to the residuals
            too_small = prod(self.shapes[output]) == 1 and rule in _ARITHMETIC
            if rule is None or more or too_small or prod(self.shapes[output]) > MOST_SYMBOLS:
                continue
            result = rule([symbols(array) for array in equation.inputs], equation.parameters, self.shapes[output])
            if result is not None and all(len(polynomial) <= MOST_TERMS for polynomial in result.flat):
                known[output] = result
        return symbols(self.output)

    def evaluate(self, polynomials: Sequence[Polynomial], queries: Sequence[Any], record: Any) -> jax.Array:
        """Return the polynomials at a position and a record as one vector; only what they need is computed."""
        wanted = sorted({array for polynomial in polynomials for _, factors in polynomial for array, _ in factors})
        values: dict[int, Any] = dict(self.constants)
        values.update(zip(self.inputs, jax.tree.leaves((list(queries), record)), strict=True))
        for equation in self._needed(wanted):
            operands = [values[array] for array in equation.inputs]
            parameters = equation.parameters
            if equation.primitive is _lax.dot_general_p and equation.inputs[0] not in self.moving:
                operands, parameters = _position_first(operands, parameters)
            results = equation.primitive.bind(*operands, **equation.primitive.get_bind_params(parameters))
            results = results if equation.primitive.multiple_results else [results]
            values.update(zip(equation.outputs, results, strict=True))
        return _evaluate(polynomials, values)

    def _needed(self, arrays: Sequence[int]) -> list[_Equation]:
        """Return the equations that some arrays depend on."""
        needed, found = set(arrays), []
        for equation in reversed(self.equations):
            if needed.intersection(equation.outputs):
                needed.update(equation.inputs)
                found.append(equation)
        return found[::-1]


def _position_first(operands: list[Any], parameters: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return a product of record and position the other way round, where that changes nothing.

    Mapped over chains and records it then has the shape (chains, ..., records), the one in which loops over records
    are fast.
    """
    first, second = operands
    (contracted, others), (batched, _) = parameters["dimension_numbers"]
    if batched or len(contracted) < jnp.ndim(first):
        return operands, parameters
    return [second, first], {**parameters, "dimension_numbers": ((others, contracted), ((), ()))}


def _evaluate(polynomials: Sequence[Polynomial], values: dict[int, Any]) -> jax.Array:
    """Return polynomials as one vector; those of the same form, which differ in entries alone, are computed at once."""
    forms: dict[Any, list[int]] = {}
    for place, polynomial in enumerate(polynomials):
        form = tuple((sign, tuple(array for array, _ in factors)) for sign, factors in polynomial)
        forms.setdefault(form, []).append(place)
    parts: list[Any] = []
    for form, places in forms.items():
        total: Any = 0.0
        for term, (sign, arrays) in enumerate(form):
            product: Any = np.float32(sign)
            for factor, array in enumerate(arrays):
                entries = [polynomials[place][term][1][factor][1] for place in places]
                product = product * _take(values[array], entries)
            total = total + product
        parts.append(jnp.broadcast_to(jnp.asarray(total, jnp.float32), (len(places),)))
    order = [place for places in forms.values() for place in places]
    vector = jnp.concatenate(parts)
    return vector if order == sorted(order) else vector[np.argsort(order)]


def _take(array: Any, entries: list[int]) -> jax.Array:
    flat = jnp.ravel(jnp.asarray(array))
    if entries == list(range(flat.shape[0])):
        return flat
    return flat[np.array(entries)] if len(set(entries)) > 1 else flat[entries[0]]


# --- how operations act on symbols -----------------------------------------------------------------------------------

_Rule: TypeAlias = Callable[[list[Symbols], dict[str, Any], tuple[int, ...]], Symbols | None]


def _own(array: int, shape: tuple[int, ...]) -> Symbols:
    symbols = np.empty(shape, object)
    for place in range(symbols.size):
        symbols.flat[place] = ((1, ((array, place),)),)
    return symbols


def _zeros(shape: tuple[int, ...]) -> Symbols:
    symbols = np.empty(shape, object)
    symbols.fill(())
    return symbols


def _is_zero(value: Any) -> bool:
    return value is not None and bool(np.all(np.asarray(value) == 0))


def _add(first: Polynomial, second: Polynomial) -> Polynomial:
    counts = Counter[tuple[Entry, ...]]()
    for sign, factors in (*first, *second):
        counts[factors] += sign
    return tuple((sign, factors) for factors, sign in sorted(counts.items()) if sign)


def _negate(polynomial: Polynomial) -> Polynomial:
    return tuple((-sign, factors) for sign, factors in polynomial)


def _multiply(first: Polynomial, second: Polynomial) -> Polynomial:
    product: Polynomial = ()
    for sign, factors in first:
        product = _add(product, tuple((sign * other, tuple(sorted(factors + more))) for other, more in second))
    return product


def _entrywise(function: Callable[..., Polynomial], *arrays: Symbols, shape: tuple[int, ...]) -> Symbols:
    result = np.empty(shape, object)
    spread = [np.broadcast_to(array, shape).ravel() for array in arrays]
    for place, polynomials in enumerate(zip(*spread, strict=True)):
        result.flat[place] = function(*polynomials)
    return result


def _product(operands: list[Symbols], parameters: dict[str, Any], shape: tuple[int, ...]) -> Symbols | None:  # noqa: ARG001
    degrees = [max((len(factors) for p in operand.flat for _, factors in p), default=0) for operand in operands]
    if sum(degrees) > MOST_FACTORS:
        return None
    return _entrywise(_multiply, *operands, shape=shape)


def _outer(operands: list[Symbols], parameters: dict[str, Any], shape: tuple[int, ...]) -> Symbols | None:
    """Follow a product without a sum in it: what a linear predictor's derivative is."""
    (contracted, _), (batched, _) = parameters["dimension_numbers"]
    if contracted or batched:
        return None
    first, second = operands
    first = first.reshape(first.shape + (1,) * second.ndim)
    return _product([first, second.reshape((1,) * (first.ndim - second.ndim) + second.shape)], {}, shape)


def _pad(operands: list[Symbols], parameters: dict[str, Any], shape: tuple[int, ...]) -> Symbols | None:
    array, filling = operands
    if any(polynomial for polynomial in filling.flat):
        return None
    result, places = _zeros(shape), []
    for (low, high, between), size in zip(parameters["padding_config"], array.shape, strict=True):
        if low < 0 or high < 0:
            return None
        places.append(slice(int(low), int(low) + size * (int(between) + 1) - int(between), int(between) + 1))
    result[tuple(places)] = array
    return result


def _broadcast(operands: list[Symbols], parameters: dict[str, Any], shape: tuple[int, ...]) -> Symbols:
    (array, *_) = operands
    kept = dict(zip(parameters["broadcast_dimensions"], array.shape, strict=True))
    return np.broadcast_to(array.reshape([kept.get(axis, 1) for axis in range(len(shape))]), shape)


def _slice(operands: list[Symbols], parameters: dict[str, Any], shape: tuple[int, ...]) -> Symbols:
    bounds = (parameters["start_indices"], parameters["limit_indices"], parameters["strides"] or [1] * len(shape))
    return operands[0][tuple(slice(*bound) for bound in zip(*bounds, strict=True))]


def _unchanged(operands: list[Symbols], parameters: dict[str, Any], shape: tuple[int, ...]) -> Symbols:  # noqa: ARG001
    return operands[0].reshape(shape)


def _transpose(operands: list[Symbols], parameters: dict[str, Any], shape: tuple[int, ...]) -> Symbols:  # noqa: ARG001
    return operands[0].transpose(parameters["permutation"])


def _concatenate(operands: list[Symbols], parameters: dict[str, Any], shape: tuple[int, ...]) -> Symbols:  # noqa: ARG001
    return np.concatenate(operands, axis=parameters["dimension"])


def _opposite(operands: list[Symbols], parameters: dict[str, Any], shape: tuple[int, ...]) -> Symbols:  # noqa: ARG001
    return _entrywise(_negate, *operands, shape=shape)


def _sum(operands: list[Symbols], parameters: dict[str, Any], shape: tuple[int, ...]) -> Symbols:  # noqa: ARG001
    return _entrywise(_add, *operands, shape=shape)


def _difference(operands: list[Symbols], parameters: dict[str, Any], shape: tuple[int, ...]) -> Symbols:  # noqa: ARG001
    return _entrywise(lambda first, second: _add(first, _negate(second)), *operands, shape=shape)


_lax = jax.lax
_ARITHMETIC = (_product, _outer, _sum, _difference)
_RULES: dict[Any, _Rule] = {
    _lax.mul_p: _product,
    _lax.dot_general_p: _outer,
    _lax.neg_p: _opposite,
    _lax.add_p: _sum,
    primitives.add_jaxvals_p: _sum,
    _lax.sub_p: _difference,
    _lax.pad_p: _pad,
    _lax.slice_p: _slice,
    _lax.broadcast_in_dim_p: _broadcast,
    _lax.reshape_p: _unchanged,
    _lax.squeeze_p: _unchanged,
    _lax.transpose_p: _transpose,
    _lax.concatenate_p: _concatenate,
}
