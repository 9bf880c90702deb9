"""Equations that are replaced by shorter ones, equal over the real numbers.

There is one so far. JAX differentiates log(e^a + e^b), which is what log-sigmoid, softplus and a mixture of two are
made of, to exp(a - log(e^a + e^b)), with selections around it for infinities. That is the logistic function of a - b,
and it needs no logarithm: a compiler does not see that, and spends most of a logistic regression's time on it.

The form is recognised by its equations, not by a name. Privacy does not rest on it: what is replaced is a function of
the queries and of one record, before and after.
"""

# jax annotates itself in part only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import jax
import numpy as np

from dpmcmc.enclave.accelerate.jaxpr import Equation, Equations

_lax = jax.lax

Pattern: TypeAlias = Any
"""What an array may be: any array that has this name, a constant of this value, or an operation on patterns."""

_DIFFERENCE = (_lax.sub_p, "a", "b")
_LOG_OF_SUM = (
    _lax.select_n_p,
    (_lax.ne_p, _DIFFERENCE, _DIFFERENCE),
    (_lax.add_p, (_lax.max_p, "a", "b"), (_lax.log1p_p, (_lax.exp_p, (_lax.neg_p, (_lax.abs_p, _DIFFERENCE))))),
    (_lax.add_p, "a", "b"),
)


def _unless_infinite(pattern: Pattern) -> Pattern:
    return (_lax.select_n_p, (_lax.eq_p, pattern, np.inf), pattern, 0.0)


_SHARES = {
    name: (_lax.exp_p, (_lax.sub_p, _unless_infinite(name), _unless_infinite(_LOG_OF_SUM))) for name in ("a", "b")
}
"""e^a / (e^a + e^b) and e^b / (e^a + e^b), as JAX writes them."""


def shortened(equations: Equations) -> list[Equation]:
    """Return the equations with every share of a sum of two exponentials as a logistic function."""
    made_by = {output: equation for equation in equations.listed for output in equation.outputs}
    return [short for equation in equations.listed for short in _shorter(equation, equations, made_by)]


def _shorter(equation: Equation, equations: Equations, made_by: dict[int, Equation]) -> Sequence[Equation]:
    if equation.primitive is not _lax.exp_p:
        return [equation]
    for name, pattern in _SHARES.items():
        found: dict[Pattern, int] = {}
        if _matches(pattern, equation.outputs[0], equations, made_by, found):
            difference = found[_DIFFERENCE]
            logistic = replace(equation, primitive=_lax.logistic_p, inputs=(difference,))
            if name == "a":
                return [logistic]
            opposite = equations.number(equations.shapes[difference], equations.types[difference])
            return [Equation(_lax.neg_p, {}, (difference,), (opposite,)), replace(logistic, inputs=(opposite,))]
    return [equation]


def _matches(
    pattern: Pattern, array: int, equations: Equations, made_by: dict[int, Equation], found: dict[Pattern, int]
) -> bool:
    """Say whether an array is what a pattern says; equal patterns must be equal arrays. `found` collects them."""
    if pattern in found:
        return _same(found[pattern], array, equations, made_by)
    if isinstance(pattern, float):
        return _constant(array, equations, made_by) == pattern
    found[pattern] = array
    if isinstance(pattern, str):
        return True
    primitive, *operands = pattern
    equation = made_by.get(array)
    return (
        equation is not None
        and equation.primitive is primitive
        and all(
            _matches(operand, own, equations, made_by, found)
            for operand, own in zip(operands, equation.inputs, strict=True)
        )
    )


def _same(first: int, second: int, equations: Equations, made_by: dict[int, Equation]) -> bool:
    constant = _constant(first, equations, made_by)
    return first == second or (constant is not None and constant == _constant(second, equations, made_by))


def _constant(array: int, equations: Equations, made_by: dict[int, Equation]) -> float | None:
    """Return the number that an array is filled with, if that is known."""
    if array in made_by and made_by[array].primitive is _lax.broadcast_in_dim_p:
        return _constant(made_by[array].inputs[0], equations, made_by)
    value = equations.constants.get(array)
    return float(value) if value is not None and np.ndim(value) == 0 else None
