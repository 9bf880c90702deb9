"""Arithmetic on the columns of one record, with bounds that follow from the bounds of the schema.

The language is small and closed: columns, numbers, + - * / ** and a few functions, each of a single record. Whatever
needs the other records as well (a mean, a range, quantiles) would read the data, and is refused with that reason.
"""

import ast
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from keyword import iskeyword
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

from dpmcmc.errors import InvalidArgument
from dpmcmc.model.formula.columns import Columns, Record

Bounds: TypeAlias = tuple[float, float]

STATEFUL: Mapping[str, str] = {
    **dict.fromkeys(
        ("center", "scale", "standardize"),
        "its mean or spread. Columns are already centred and scaled by the schema's bounds: write just the column",
    ),
    **dict.fromkeys(
        ("s", "t2", "cs", "cc", "ns", "te", "gp"),
        "its quantiles and range. Write bs(x, df=5), cr(x, df=5) or hsgp(x, m=10): their knots follow from the bounds",
    ),
    "monotonic": "its levels. Write mo(x): steps of one sign between the stated levels, or steps(x): of any sign",
    "mo": "its levels, if it stood within an expression. Write mo(x) as a term of its own",
    "lag": "the row before",
}
"""Transforms that would read the data, and what of it."""

ELSEWHERE: Mapping[str, str] = {
    "mi": "missing values are the schema's business: state missing='integrate' for the column",
    "me": "errors in predictors are not modelled here; a NumPyro model can",
    "mvbind": "there is one response; fit each of several by itself",
    "c": "there is one response; successes are written 'successes | trials(number) ~ ...'",
    "cbind": "there is one response; successes are written 'successes | trials(number) ~ ...'",
}
"""What other packages have, and what there is here instead."""

_MOST_EXP = 80

_FUNCTIONS: Mapping[str, tuple[Callable[[Any], jax.Array], Callable[[float], float], float, bool]] = {
    "log": (jnp.log, math.log, 0.0, False),
    "log2": (jnp.log2, math.log2, 0.0, False),
    "log10": (jnp.log10, math.log10, 0.0, False),
    "log1p": (jnp.log1p, math.log1p, -1.0, False),
    "sqrt": (jnp.sqrt, math.sqrt, 0.0, True),
    "exp": (jnp.exp, math.exp, -math.inf, True),
}
"""Increasing functions: of arrays, of a bound, the least argument, and whether that may be reached."""


@dataclass(frozen=True)
class Expression:
    """A number that is computed from one record.

    Attributes:
        bounds: between which numbers it lies, for all records within the schema's bounds.
        columns: the columns that it reads.
        evaluate: computes it.
        powers: the columns that it multiplies, with their powers, if it is nothing but such a product.
        text: how it is written, without blanks.
        is_flag: whether it is a comparison, which is one where it holds and else zero.
    """

    bounds: Bounds
    columns: frozenset[str]
    evaluate: Callable[[Record], jax.Array]
    powers: Mapping[str, int] | None = None
    text: str = ""
    is_flag: bool = False


def read_expression(text: str, columns: Columns) -> Expression:
    """Read an expression such as ``log(income / 1000)`` over the columns of a schema."""
    quoted: dict[str, str] = {}

    def hide(match: re.Match[str]) -> str:
        is_name = match[1].isidentifier() and not iskeyword(match[1])
        return quoted.setdefault(match[1], match[1] if is_name else f"_quoted_{len(quoted)}")

    hidden = re.sub(r"`([^`]+)`", hide, f"`{text.strip()}`" if iskeyword(text.strip()) else text)
    try:
        tree = ast.parse(hidden.strip(), mode="eval").body
    except SyntaxError as error:
        raise InvalidArgument(f"the formula has {text!r}, which cannot be read: {error.msg}") from error
    try:
        expression = _Reader(text, columns, {hidden: name for name, hidden in quoted.items()}).read(tree)
    except OverflowError as error:
        raise InvalidArgument(f"the formula has {text!r}, whose bounds no float can hold") from error
    lower, upper = expression.bounds
    if not (math.isfinite(lower) and math.isfinite(upper) and lower < upper):
        raise InvalidArgument(
            f"the formula has {text!r}, which lies between {lower:g} and {upper:g}; expected something that varies"
        )
    return expression


class _Reader:
    def __init__(self, text: str, columns: Columns, names: Mapping[str, str]) -> None:
        self.text = text
        self.columns = columns
        self.names = names

    def read(self, node: ast.expr) -> Expression:
        expression = self._read(node)
        if isinstance(node, ast.Call) and _function_name(node.func) == "I":
            return expression
        written = re.split(r"('[^']*'|\"[^\"]*\")", ast.unparse(node))  # every second part is in quotes
        text = "".join(part if at % 2 else part.replace(" ", "").replace("np.", "") for at, part in enumerate(written))
        for hidden, name in self.names.items():
            text = text.replace(hidden, name)
        return replace(expression, text=text)

    def _read(self, node: ast.expr) -> Expression:
        match node:
            case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
                number = float(value)
                return Expression((number, number), frozenset(), lambda _: jnp.float32(number))
            case ast.Name(id=name):
                return self._column(self.names.get(name, name))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                inner = self.read(operand)
                lower, upper = inner.bounds
                return Expression((-upper, -lower), inner.columns, lambda record: -inner.evaluate(record))
            case ast.BinOp(left=left, op=ast.Pow(), right=right):
                return self._power(self.read(left), self.read(right))
            case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _ARITHMETIC:
                return self._arithmetic(self.read(left), operator, self.read(right))
            case ast.Compare(left=left, ops=[operator], comparators=[right]) if type(operator) in _COMPARISONS:
                return self._compare(left, operator, right)
            case ast.Call(func=function, args=[argument], keywords=[]):
                return self._call(_function_name(function), argument)
            case ast.Call(func=function):
                self._refuse_stateful(_function_name(function))
            case _:
                pass
        raise InvalidArgument(
            f"the formula has {self.text!r}; expected columns, numbers, + - * / **, comparisons within I(...) and the "
            f"functions {', '.join(_FUNCTIONS)}, abs"
        )

    def _column(self, name: str) -> Expression:
        column = self.columns[name]
        if column.kind == "category":
            raise InvalidArgument(f"the formula has {self.text!r}, but {name} is a category and no number")
        return Expression(column.bounds, frozenset({name}), lambda record: self.columns.number(name, record), {name: 1})

    def _compare(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> Expression:
        """Return whether a comparison holds: of two numbers, or of a category with one of its levels, in quotes."""
        if isinstance(right, ast.Constant) and isinstance(right.value, str):
            return self._is_level(left, operator, right.value)
        first, second, function = self.read(left), self.read(right), _COMPARISONS[type(operator)]
        return Expression(
            (0.0, 1.0),
            first.columns | second.columns,
            lambda record: function(first.evaluate(record), second.evaluate(record)).astype(jnp.float32),
            is_flag=True,
        )

    def _is_level(self, left: ast.expr, operator: ast.cmpop, level: str) -> Expression:
        name = self.names.get(left.id, left.id) if isinstance(left, ast.Name) else ast.unparse(left)
        category = self.columns.category(name)
        if level not in category.levels or not isinstance(operator, ast.Eq | ast.NotEq):
            raise InvalidArgument(
                f"the formula has {self.text!r}; expected {name} == one of {', '.join(map(repr, category.levels))}"
            )
        function, place = _COMPARISONS[type(operator)], category.levels.index(level)
        return Expression(
            (0.0, 1.0),
            frozenset({name}),
            lambda record: function(category.code(record), place).astype(jnp.float32),
            is_flag=True,
        )

    def _arithmetic(self, first: Expression, operator: ast.operator, second: Expression) -> Expression:
        sign, function = _ARITHMETIC[type(operator)]
        if sign == "/" and second.bounds[0] <= 0 <= second.bounds[1]:
            self._refuse_bounds(second, "a divisor must not be zero")
        corners = [function(a, b) for a, b in product(first.bounds, second.bounds)]
        powers = None
        if sign == "*" and first.powers is not None and second.powers is not None:
            names = dict.fromkeys([*first.powers, *second.powers])
            powers = {name: first.powers.get(name, 0) + second.powers.get(name, 0) for name in names}
        return Expression(
            (min(corners), max(corners)),
            first.columns | second.columns,
            lambda record: function(first.evaluate(record), second.evaluate(record)),
            powers,
        )

    def _power(self, base: Expression, exponent: Expression) -> Expression:
        power, (lower, upper) = exponent.bounds[0], base.bounds
        is_real = power.is_integer() or lower >= 0
        is_finite = power > 0 or lower > 0 or upper < 0
        if exponent.columns or not (power and is_real and is_finite):
            raise InvalidArgument(
                f"the formula has {self.text!r}, where {base.text} lies between {lower:g} and {upper:g}; expected a "
                "number as the exponent: positive, or of a base that cannot be zero, and whole unless the base is >= 0"
            )
        ends = [lower**power, upper**power, *([0.0] if lower < 0 < upper else [])]
        whole = int(power) if power.is_integer() else None
        powers = None
        if whole is not None and whole > 0 and base.powers is not None:
            powers = {name: own * whole for name, own in base.powers.items()}
        return Expression(
            (min(ends), max(ends)),
            base.columns,
            lambda record: base.evaluate(record) ** (power if whole is None else whole),
            powers,
        )

    def _call(self, name: str, argument: ast.expr) -> Expression:
        if name == "I":
            return self.read(argument)
        if name == "year":
            return self._year(argument)
        self._refuse_stateful(name)
        inner = self.read(argument)
        lower, upper = inner.bounds
        if name == "abs":
            ends = [abs(lower), abs(upper), *([0.0] if lower < 0 < upper else [])]
            return Expression((min(ends), max(ends)), inner.columns, lambda record: jnp.abs(inner.evaluate(record)))
        array, bound, least, may_be_reached = _FUNCTIONS[name]
        if lower < least or (lower == least and not may_be_reached):
            self._refuse_bounds(inner, f"{name} needs a number {'>=' if may_be_reached else '>'} {least:g}")
        if name == "exp" and upper > _MOST_EXP:
            self._refuse_bounds(inner, f"exp needs a number that is at most {_MOST_EXP}")
        return Expression((bound(lower), bound(upper)), inner.columns, lambda record: array(inner.evaluate(record)))

    def _year(self, argument: ast.expr) -> Expression:
        """Return the year of a date as a number."""
        from dpmcmc.model.formula.dates import days_of  # which reads columns by this module's own

        name = self.names.get(argument.id, argument.id) if isinstance(argument, ast.Name) else ast.unparse(argument)
        years = [float(day.year) for day in days_of("year", name, self.columns)]

        def evaluate(record: Record) -> jax.Array:
            day = jnp.round(self.columns.number(name, record)).astype(jnp.int32)
            return jnp.asarray(years, jnp.float32)[day]

        return Expression((years[0], years[-1]), frozenset({name}), evaluate)

    def _refuse_stateful(self, name: str) -> None:
        if name in STATEFUL:
            raise InvalidArgument(f"the formula has {self.text!r}: {name} would read the data, {STATEFUL[name]}")
        if name in ELSEWHERE:
            raise InvalidArgument(f"the formula has {self.text!r}; {ELSEWHERE[name]}")
        if name not in {*_FUNCTIONS, "abs", "I", "year"}:
            raise InvalidArgument(
                f"the formula has {self.text!r}: {name} is not among the functions of a single record, which are "
                f"{', '.join(_FUNCTIONS)}, abs, and for dates year, quarter, month, weekday"
            )

    def _refuse_bounds(self, inner: Expression, requirement: str) -> None:
        lower, upper = inner.bounds
        raise InvalidArgument(
            f"the formula has {self.text!r}, where {inner.text} lies between {lower:g} and {upper:g} by the schema; "
            f"{requirement}. State other bounds, or another expression"
        )


def _function_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id="np"), attr=name):
            return name
        case _:
            return ast.unparse(node)


_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Gt: lambda first, second: first > second,
    ast.GtE: lambda first, second: first >= second,
    ast.Lt: lambda first, second: first < second,
    ast.LtE: lambda first, second: first <= second,
    ast.Eq: lambda first, second: first == second,
    ast.NotEq: lambda first, second: first != second,
}

_ARITHMETIC: Mapping[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("+", lambda first, second: first + second),
    ast.Sub: ("-", lambda first, second: first - second),
    ast.Mult: ("*", lambda first, second: first * second),
    ast.Div: ("/", lambda first, second: first / second),
}
