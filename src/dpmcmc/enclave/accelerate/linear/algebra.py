"""Entries of arrays as polynomials in entries of other arrays, and how the operations of a jaxpr act on them.

`form` follows a traced gradient with these rules. Multiplications, additions and rearrangements are followed; what
has no rule here gives new symbols.
"""

# jax annotates itself in part only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import jax
import numpy as np

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


def split(symbols: Symbols, is_fixed: Callable[[Entry], bool]) -> Iterator[tuple[Polynomial, Entry | None]]:
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


# --- how operations act on symbols -----------------------------------------------------------------------------------

Rule: TypeAlias = Callable[[list[Symbols], dict[str, Any], tuple[int, ...]], Symbols | None]


def own(array: int, shape: tuple[int, ...]) -> Symbols:
    """Return the entries of an array as symbols of their own."""
    symbols = np.empty(shape, object)
    for place in range(symbols.size):
        symbols.flat[place] = ((1, ((array, place),)),)
    return symbols


def zeros(shape: tuple[int, ...]) -> Symbols:
    """Return empty sums."""
    symbols = np.empty(shape, object)
    symbols.fill(())
    return symbols


def is_zero(value: Any) -> bool:
    """Say whether a constant is known and zero."""
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
    result, places = zeros(shape), []
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


def unchanged(operands: list[Symbols], parameters: dict[str, Any], shape: tuple[int, ...]) -> Symbols:  # noqa: ARG001
    """Follow what keeps the entries and their order."""
    return operands[0].reshape(shape)


def _transpose(operands: list[Symbols], parameters: dict[str, Any], shape: tuple[int, ...]) -> Symbols:  # noqa: ARG001
    return operands[0].transpose(parameters["permutation"])


def _concatenate(operands: list[Symbols], parameters: dict[str, Any], shape: tuple[int, ...]) -> Symbols:  # noqa: ARG001
    return np.concatenate(operands, axis=parameters["dimension"])


def _opposite(operands: list[Symbols], parameters: dict[str, Any], shape: tuple[int, ...]) -> Symbols:  # noqa: ARG001
    return _entrywise(_negate, *operands, shape=shape)


def _sum(operands: list[Symbols], parameters: dict[str, Any], shape: tuple[int, ...]) -> Symbols:  # noqa: ARG001
    """Follow a sum of two arrays."""
    return _entrywise(_add, *operands, shape=shape)


def _difference(operands: list[Symbols], parameters: dict[str, Any], shape: tuple[int, ...]) -> Symbols:  # noqa: ARG001
    return _entrywise(lambda first, second: _add(first, _negate(second)), *operands, shape=shape)


_lax = jax.lax
ARITHMETIC = (_product, _outer, _sum, _difference)
RULES: dict[Any, Rule] = {
    _lax.mul_p: _product,
    _lax.dot_general_p: _outer,
    _lax.neg_p: _opposite,
    _lax.add_p: _sum,
    _lax.sub_p: _difference,
    _lax.pad_p: _pad,
    _lax.slice_p: _slice,
    _lax.broadcast_in_dim_p: _broadcast,
    _lax.reshape_p: unchanged,
    _lax.squeeze_p: unchanged,
    _lax.transpose_p: _transpose,
    _lax.concatenate_p: _concatenate,
}
