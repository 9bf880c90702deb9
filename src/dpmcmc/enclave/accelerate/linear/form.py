"""Find out that a record's gradient is a few numbers times rows of the record, by reading the audited jaxpr.

Where the position meets a record in a linear predictor, as in every GLM, the gradient is residual * row: coordinate i
is ``residual[r_i] * feature[f_i]``, with few residuals, which depend on position and record, and features of the record
alone. `factorise` proves such a form by algebra on the equations: multiplications, additions and rearrangements of
arrays are followed symbol by symbol, entry by entry, and every other operation gives new symbols. It never guesses:
what it cannot follow becomes a residual of its own, so the form is true of every function and merely useless for some.

The linear predictors themselves, inner products of features with public coefficients, are found too: whoever holds the
features in another form (`rows` holds them as integers) can hand them in and need not touch the record's
own arrays again.
"""

# jax annotates itself in part only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.enclave.accelerate.jaxpr import Equation, Equations
from dpmcmc.enclave.accelerate.linear.algebra import (
    ARITHMETIC,
    MOST_SYMBOLS,
    MOST_TERMS,
    RULES,
    Entry,
    Polynomial,
    Symbols,
    is_zero,
    own,
    split,
    unchanged,
    zeros,
)
from dpmcmc.enclave.accelerate.linear.identities import shortened
from dpmcmc.enclave.core.mechanism import Contribution

_lax = jax.lax

_NAMES = """
    abs add and broadcast_in_dim clamp convert_element_type div eq exp expm1 ge gt integer_pow is_finite le log log1p
    logistic lt max min mul ne neg not or pow reshape rsqrt select_n sign sqrt square squeeze sub tanh
"""
ELEMENTWISE = frozenset(getattr(_lax, f"{name}_p") for name in _NAMES.split())
"""Operations on single numbers that every compiler of kernels knows."""


@dataclass(frozen=True)
class Predictor:
    """Numbers that are linear in some features: ``(coefficients(queries) @ features).reshape(shape)``."""

    features: tuple[int, ...]
    shape: tuple[int, ...]
    coefficients: Callable[[Sequence[jax.Array]], jax.Array]
    """From the flat queries of one chain, shape (prod(shape), len(features))."""


@dataclass(frozen=True)
class SingleNumbers:
    """How one residual is computed from single numbers alone."""

    leaves: tuple[int, ...]
    """The leaves of a record that are read, single numbers all of them."""
    public: Callable[[Sequence[jax.Array]], list[jax.Array]]
    """Single numbers that depend on the queries alone."""
    residual: Callable[[Sequence[jax.Array], Sequence[jax.Array], Sequence[jax.Array]], jax.Array]
    """The residual, from the leaves, the public numbers and the predictions."""


@dataclass(frozen=True)
class Factors:
    """The form of a contribution: coordinate i is ``residuals()[residual_of[i]] * features()[feature_of[i]]``.

    An index of -1 in `residual_of` means zero, in `feature_of` the number one.
    """

    num_residuals: int
    num_features: int
    residual_of: tuple[int, ...]
    feature_of: tuple[int, ...]
    residuals: Callable[..., jax.Array]
    """The residuals of one record, shape (num_residuals,), from the flat queries of one chain, a record and, if
    somebody has them, the values of the predictors."""
    features: Callable[[Any], jax.Array]
    """The features of one record, shape (num_features,)."""
    predictors: tuple[Predictor, ...]
    single_numbers: SingleNumbers | None
    """Given the predictors, how to compute the only residual; None if there are several, or if it takes arrays."""


def factorise(contribution: Contribution, queries: Sequence[Any], record: Any) -> Factors | None:
    """Return the form of a contribution with fewer residuals than half of its coordinates, or None."""
    program = _Program(contribution, queries, record)
    if program.num_coordinates > MOST_SYMBOLS:
        return None
    features: dict[Entry, int] = {}
    residuals: dict[Polynomial, int] = {}
    residual_of, feature_of = [], []
    for polynomial, feature in split(program.follow(), program.is_fixed):
        feature_of.append(-1 if feature is None else features.setdefault(feature, len(features)))
        residual_of.append(residuals.setdefault(polynomial, len(residuals)) if polynomial else -1)
    if not features or 2 * len(residuals) > program.num_coordinates:
        return None
    shapes = jax.tree.map(lambda query: jnp.zeros(query.shape, query.dtype), list(queries))
    wanted, products = list(residuals), [((1, (entry,)),) for entry in features]
    predictors = program.predictors(wanted, features)

    def of_record(queries: Sequence[jax.Array], record: Any, predictions: Sequence[jax.Array] = ()) -> jax.Array:
        given = zip(predictors, predictions, strict=True) if predictions else ()
        values = {array: value for arrays, value in given for array in arrays}
        return program.evaluate(wanted, queries, record, values)

    return Factors(
        len(residuals),
        len(features),
        tuple(residual_of),
        tuple(feature_of),
        of_record,
        lambda record: program.evaluate(products, shapes, record),
        tuple(predictors.values()),
        program.single_numbers(wanted, list(predictors)) if len(wanted) == 1 else None,
    )


class _Program:
    """A contribution as equations, and what is known about its arrays."""

    def __init__(self, contribution: Contribution, queries: Sequence[Any], record: Any) -> None:
        self.equations = Equations(contribution, list(queries), record)
        self.equations.listed = shortened(self.equations)
        self.constants, self.inputs = self.equations.constants, self.equations.inputs
        self.shapes, self.types, self.output = self.equations.shapes, self.equations.types, self.equations.output
        self.known: dict[int, Symbols] = {}
        self.num_queries = len(jax.tree.leaves(list(queries)))
        self.moving = self.equations.reached_from(self.inputs[: self.num_queries])
        """The arrays that depend on the position."""
        self.private = self.equations.reached_from(self.inputs[self.num_queries :])
        """The arrays that depend on the record."""
        self.num_coordinates = prod(self.shapes[self.output])

    def is_fixed(self, entry: Entry) -> bool:
        return entry[0] not in self.moving

    def symbols(self, array: int) -> Symbols:
        """Return an array, entry by entry, as polynomials in entries of other arrays."""
        if array not in self.known:
            zero = is_zero(self.constants.get(array))
            self.known[array] = zeros(self.shapes[array]) if zero else own(array, self.shapes[array])
        return self.known[array]

    def _has_features(self, symbols: Symbols) -> bool:
        entries = {entry for polynomial in symbols.flat for _, factors in polynomial for entry in factors}
        return sum(entry[0] in self.private and self.is_fixed(entry) for entry in entries) > 1

    def follow(self) -> Symbols:
        """Return the symbols of the output, after those of everything that it depends on."""
        for equation in self.equations.needed([self.output]):
            (output, *more) = equation.outputs
            rule = RULES.get(equation.primitive)
            if equation.primitive is _lax.convert_element_type_p:
                rule = unchanged if self.types[output] == self.types[equation.inputs[0]] else None
            if rule is None or more or prod(self.shapes[output]) > MOST_SYMBOLS:
                continue
            operands = [self.symbols(array) for array in equation.inputs]
            # arithmetic on single numbers, or without several numbers of the record alone, is left to the residuals
            if rule in ARITHMETIC and (prod(self.shapes[output]) == 1 or not any(map(self._has_features, operands))):
                continue
            result = rule(operands, equation.parameters, self.shapes[output])
            if result is not None and all(len(polynomial) <= MOST_TERMS for polynomial in result.flat):
                self.known[output] = result
        return self.symbols(self.output)

    def predictors(
        self, polynomials: Sequence[Polynomial], features: Mapping[Entry, int]
    ) -> dict[tuple[int, ...], Predictor]:
        """Return the inner products of features with public coefficients that polynomials need, by their arrays."""
        together: dict[tuple[int, int, int], list[int]] = {}
        for equation in self.equations.needed(_arrays(polynomials)):
            for row, public, axis in self._inner_product(equation):
                if all(_single_entry(polynomial) in features for polynomial in self.symbols(row).flat):
                    together.setdefault((row, public, axis), []).append(equation.outputs[0])
        return {
            tuple(arrays): Predictor(
                tuple(features[_single_entry(polynomial)] for polynomial in self.symbols(row).flat),
                self.shapes[arrays[0]],
                self._coefficients(public, axis),
            )
            for (row, public, axis), arrays in together.items()
        }

    def _inner_product(self, equation: Equation) -> list[tuple[int, int, int]]:
        """Return row, coefficients and the axis of these that the row is summed over, if the equation is such a sum."""
        operands: tuple[int, ...] = ()
        axes: tuple[int, ...] = (0, 0)
        if equation.primitive is _lax.dot_general_p:
            (contracted, batched) = equation.parameters["dimension_numbers"]
            if batched == ((), ()) and len(contracted[0]) == 1:
                operands, axes = equation.inputs, (contracted[0][0], contracted[1][0])
        elif equation.primitive is _lax.reduce_sum_p and equation.parameters["axes"] == (0,):
            operands = next((e.inputs for e in self.equations.listed if e.outputs == equation.inputs), ())
            if not any(e.primitive is _lax.mul_p and e.outputs == equation.inputs for e in self.equations.listed):
                operands = ()
        if len(operands) < 2 or self.types[equation.outputs[0]] != np.float32:
            return []
        return [
            (row, public, axis)
            for row, public, axis in zip(operands, operands[::-1], axes[::-1], strict=True)
            if len(self.shapes[row]) == 1 and row not in self.moving and public not in self.private
        ]

    def _coefficients(self, array: int, axis: int) -> Callable[[Sequence[jax.Array]], jax.Array]:
        def of_queries(queries: Sequence[jax.Array]) -> jax.Array:
            (value,) = self._values([array], self._given(queries))
            return jnp.moveaxis(value, axis, -1).reshape(-1, self.shapes[array][axis])

        return of_queries

    def single_numbers(
        self, polynomials: Sequence[Polynomial], predictors: Sequence[tuple[int, ...]]
    ) -> SingleNumbers | None:
        """Return how to evaluate one polynomial, given the predictors; None if it takes more than single numbers."""
        predicted = {array for arrays in predictors for array in arrays}
        needed = self.equations.needed(_arrays(polynomials), predicted)
        equations = [equation for equation in needed if self.private.intersection(equation.inputs)]
        made = {output for equation in equations for output in equation.outputs}
        read = {array for equation in equations for array in equation.inputs} | set(_arrays(polynomials))
        records = self.inputs[self.num_queries :]
        leaves = [array for array in records if array in read]
        public = sorted(read - made - predicted - set(records) - set(self.constants))
        if any(equation.primitive not in ELEMENTWISE for equation in equations):
            return None
        if any(prod(self.shapes[array]) != 1 for array in read | made):
            return None

        def residual(leaf_values: Any, public_values: Any, predictions: Any) -> jax.Array:
            values = {**self.constants, **dict(zip(leaves, leaf_values, strict=True))}
            values.update(zip(public, public_values, strict=True))
            values.update({array: v for arrays, v in zip(predictors, predictions, strict=True) for array in arrays})
            values = {array: jnp.reshape(value, self.shapes[array]) for array, value in values.items() if array in read}
            self._run(equations, values)
            return _evaluate(polynomials, values).reshape(())

        return SingleNumbers(
            tuple(records.index(array) for array in leaves),
            lambda queries: [jnp.reshape(value, ()) for value in self._values(public, self._given(queries))],
            residual,
        )

    def evaluate(
        self,
        polynomials: Sequence[Polynomial],
        queries: Sequence[Any],
        record: Any,
        given: Mapping[int, Any] | None = None,
    ) -> jax.Array:
        """Return the polynomials at a position and a record as one vector; only what they need is computed.

        `given` are arrays that somebody knows already.
        """
        values = {**self._given(queries, record), **(given or {})}
        wanted = _arrays(polynomials)
        return _evaluate(polynomials, dict(zip(wanted, self._values(wanted, values), strict=True)))

    def _given(self, queries: Sequence[Any], record: Any = ()) -> dict[int, Any]:
        return self.equations.given(jax.tree.leaves((list(queries), record)))

    def _values(self, arrays: Sequence[int], values: dict[int, Any]) -> list[Any]:
        self._run(self.equations.needed(arrays, set(values)), values)
        return [values[array] for array in arrays]

    def _run(self, equations: Sequence[Equation], values: dict[int, Any]) -> None:
        for equation in equations:
            operands = [values[array] for array in equation.inputs]
            parameters = equation.parameters
            if equation.primitive is _lax.dot_general_p and equation.inputs[0] not in self.moving:
                operands, parameters = _position_first(operands, parameters)
            results = equation.primitive.bind(*operands, **equation.primitive.get_bind_params(parameters))
            results = results if equation.primitive.multiple_results else [results]
            values.update(zip(equation.outputs, results, strict=True))


def _arrays(polynomials: Sequence[Polynomial]) -> list[int]:
    return sorted({array for polynomial in polynomials for _, factors in polynomial for array, _ in factors})


def _single_entry(polynomial: Polynomial) -> Entry:
    """Return the entry that a polynomial consists of, or one that does not exist."""
    if len(polynomial) == 1 and polynomial[0][0] == 1 and len(polynomial[0][1]) == 1:
        return polynomial[0][1][0]
    return (-1, -1)


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
