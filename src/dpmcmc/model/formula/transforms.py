"""Functions of the response, such as ``log(cost)``: of one column, increasing or decreasing, with their inverses."""

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from dpmcmc.errors import InvalidArgument
from dpmcmc.model.formula.columns import Columns
from dpmcmc.model.formula.expression import read_expression
from dpmcmc.model.formula.parse import unquoted

Function = Callable[[Any], Any]

_INVERSES: dict[str, tuple[Function, Function]] = {
    "log": (jnp.log, jnp.exp),
    "log2": (jnp.log2, jnp.exp2),
    "log10": (jnp.log10, lambda value: 10.0**value),
    "log1p": (jnp.log1p, jnp.expm1),
    "sqrt": (jnp.sqrt, jnp.square),
    "exp": (jnp.exp, jnp.log),
}
"""Functions that a response may have around it, each with its inverse."""


@dataclass(frozen=True)
class Transform:
    """A response: a column, or a function of it.

    Attributes:
        text: how it is written.
        column: the column.
        column_bounds: its bounds.
        bounds: those of the function.
        forward: the function.
        inverse: its inverse.
        is_plain: whether it is the column itself.
    """

    text: str
    column: str
    column_bounds: tuple[float, float]
    bounds: tuple[float, float]
    forward: Function
    inverse: Function
    is_plain: bool


def read_transform(text: str, columns: Columns) -> Transform:
    """Read the left side of a formula."""
    name = unquoted(text)
    if name in columns.known or re.fullmatch(r"[^\W\d]\w*|`[^`]+`", text.strip()):
        bounds = columns[name].bounds
        return Transform(name, name, bounds, bounds, lambda value: value, lambda value: value, is_plain=True)
    expression = read_expression(text, columns)
    if len(expression.columns) != 1:
        raise InvalidArgument(f"the response is {text!r}; expected a function of one column of the schema")
    column = next(iter(expression.columns))
    hidden = re.sub(r"`[^`]+`", "_response", text)
    forward, inverse = _functions(ast.parse(hidden.strip(), mode="eval").body, text)
    return Transform(
        expression.text, column, columns[column].bounds, expression.bounds, forward, inverse, is_plain=False
    )


def _functions(node: ast.expr, text: str) -> tuple[Function, Function]:
    """Return a function of the column and its inverse."""
    match node:
        case ast.Name():
            return (lambda value: value), (lambda value: value)
        case ast.Call(func=ast.Name(id="I"), args=[inner]):
            return _functions(inner, text)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[inner]) if name in _INVERSES:
            forward, inverse = _functions(inner, text)
            own, back = _INVERSES[name]
            return (lambda value: own(forward(value))), (lambda value: inverse(back(value)))
        case ast.BinOp(left=inner, op=operator, right=ast.Constant(value=int() | float() as number)):
            forward, inverse = _functions(inner, text)
            match operator:
                case ast.Add():
                    return (lambda value: forward(value) + number), (lambda value: inverse(value - number))
                case ast.Sub():
                    return (lambda value: forward(value) - number), (lambda value: inverse(value + number))
                case ast.Mult() if number:
                    return (lambda value: forward(value) * number), (lambda value: inverse(value / number))
                case ast.Div() if number:
                    return (lambda value: forward(value) / number), (lambda value: inverse(value * number))
                case _:
                    pass
        case _:
            pass
    raise InvalidArgument(
        f"the response is {text!r}; expected a column, or a function of one that can be undone: "
        f"{', '.join(_INVERSES)}, and + - * / with a number on the right"
    )
