"""Terms of several columns: splines, polynomials and a Gaussian process of a number, steps of ordered levels.

Knots, domains and scales follow from the stated bounds alone: even knots between them unless knots are stated, where
other packages take quantiles of the data.
"""

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import pi, sqrt
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import interpolate

from dpmcmc.errors import InvalidArgument
from dpmcmc.model.bounded_scores.base import Floats
from dpmcmc.model.formula.columns import Columns, Record
from dpmcmc.model.formula.expression import Expression, read_expression
from dpmcmc.model.formula.parse import unquoted
from dpmcmc.schema import MISSING_CATEGORY

POINTS = 4001
"""At so many places the bounds of a column are looked for."""

MOST_COLUMNS = 50


@dataclass(frozen=True)
class Basis:
    """The columns of one such term.

    Attributes:
        columns: the expressions, one a column.
        sds: the default standard deviations of their coefficients, in those of slopes; None where they are slopes.
        levels: those that its steps lead to, where they share one effect of one sign.
    """

    columns: tuple[Expression, ...]
    sds: tuple[float, ...] | None = None
    levels: tuple[str, ...] = ()


def read_basis(text: str, columns: Columns) -> Basis | None:
    """Return the columns of a factor such as ``bs(age, df=5)``; None if it is something else."""
    try:
        call = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        return None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id not in BASES:
        return None
    if call.func.id == MONOTONE:
        return _monotone(text, columns)
    maker, names = _BASES[call.func.id]
    if not call.args:
        raise InvalidArgument(f"the formula has {text!r}; expected a column first, as in {call.func.id}(age, ...)")
    inner = read_expression(ast.unparse(call.args[0]), columns)
    if call.func.id == "steps" and any(columns[name].kind != "integer" for name in inner.columns):
        raise InvalidArgument(f"the formula has {text!r}; expected an integer column, each value of which is a step")
    made = maker(text, inner, _options(text, call, names), _inner_knots(text, call, inner) if "df" in names else None)
    label = text.translate(str.maketrans("[]", "()", " "))  # brackets are for which column it is
    named = tuple(
        Expression(bounds, inner.columns, evaluate, None, f"{label}[{place}]")
        for place, (bounds, evaluate) in enumerate(made.parts)
    )
    return Basis(named, made.sds)


def _monotone(text: str, columns: Columns) -> Basis:
    """Return a column for each level but the first: whether it is reached."""
    label = text.replace(" ", "")
    name = unquoted(label.removeprefix(f"{MONOTONE}(").removesuffix(")"))
    if name not in columns.known:
        raise InvalidArgument(f"the formula has {text!r}; expected one column of the schema in it, as in mo(grade)")
    levels = columns.category(name).levels
    if MISSING_CATEGORY in levels or not 1 < len(levels) <= MOST_COLUMNS + 1:
        raise InvalidArgument(
            f"the formula has {text!r}, where {name} has {len(levels)} levels"
            f"{', one of them for missing values' if MISSING_CATEGORY in levels else ''}; expected a category with its "
            f"levels in order, or an integer, and at most {MOST_COLUMNS} steps"
        )

    def column(step: int) -> Callable[[Record], jax.Array]:
        return lambda record: (columns.category(name).code(record) >= step).astype(jnp.float32)

    steps = tuple(
        Expression((0.0, 1.0), frozenset({name}), column(step), None, f"{label}[{level}]")
        for step, level in enumerate(levels[1:], start=1)
    )
    return Basis(steps, levels=levels[1:])


@dataclass(frozen=True)
class _Made:
    parts: list[tuple[tuple[float, float], Callable[[Record], jax.Array]]]
    sds: tuple[float, ...] | None = None


KNOTS = "knots"
"""What may be stated in the place of a number of even ones."""


def _options(text: str, call: ast.Call, names: Mapping[str, float | None]) -> dict[str, float]:
    """Return the numbers that a call states, in order or by name, with those that it need not state."""
    stated = dict(zip(names, call.args[1:], strict=False)) | {str(each.arg): each.value for each in call.keywords}
    is_free = "df" in names and stated.pop(KNOTS, None) is not None
    if len(call.args) - 1 > len(names) or set(stated) - set(names):
        known = ", ".join([*names, *([KNOTS] if "df" in names else [])])
        raise InvalidArgument(f"the formula has {text!r}; expected of {ast.unparse(call.func)} only {known}")
    if is_free and "df" in stated:
        raise InvalidArgument(f"the formula has {text!r}; expected df or {KNOTS}, not both: each knot makes a column")
    found: dict[str, float] = {}
    for name, usual in names.items():
        if is_free and name == "df":
            continue
        value: Any = ast.literal_eval(stated[name]) if isinstance(stated.get(name), ast.Constant) else usual
        if name in stated and not isinstance(stated[name], ast.Constant):
            value = None
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise InvalidArgument(f"the formula has {text!r}; expected a number > 0 for {name}, as in {name}=5")
        found[name] = float(value)
    return found


def _count(text: str, options: Mapping[str, float], name: str, least: int) -> int:
    value = options[name]
    if not value.is_integer() or not least <= value <= MOST_COLUMNS:
        raise InvalidArgument(f"the formula has {text!r}; expected {name} to be whole, from {least} to {MOST_COLUMNS}")
    return int(value)


def _unit(inner: Expression) -> Callable[[Record], jax.Array]:
    """Return a number as a share of the way from its lower bound to its upper one."""
    low, high = inner.bounds
    return lambda record: jnp.clip((inner.evaluate(record) - low) / (high - low), 0.0, 1.0)


def _inner_knots(text: str, call: ast.Call, inner: Expression) -> Floats | None:
    """Return the knots that a call states, as shares of the way between the bounds; None if it states none."""
    stated = next((each.value for each in call.keywords if each.arg == KNOTS), None)
    if stated is None:
        return None
    low, high = inner.bounds
    try:
        knots = (np.asarray(ast.literal_eval(stated), np.float64) - low) / (high - low)
    except (ValueError, TypeError, SyntaxError):
        knots = np.zeros(0)
    if knots.ndim != 1 or not 1 <= len(knots) <= MOST_COLUMNS or not np.all(np.diff([0.0, *knots, 1.0]) > 0):
        raise InvalidArgument(
            f"the formula has {text!r}; expected {KNOTS} to be numbers in ascending order between {low:g} and "
            f"{high:g}, as in {KNOTS}=[{low + (high - low) / 3:.3g}, {low + (high - low) / 1.5:.3g}]"
        )
    return knots


def _piecewise(inner: Expression, functions: interpolate.PPoly) -> _Made:
    """Return functions that are polynomials between knots from 0 to 1."""
    coefficients = np.asarray(functions.c, np.float64)  # (powers, pieces, columns), highest first
    knots = np.asarray(functions.x, np.float64)
    widths = np.diff(knots)
    powers = np.arange(len(coefficients))[::-1]
    local = np.asarray(coefficients * widths[:, None] ** powers[:, None, None], np.float32)
    unit, starts, scales = _unit(inner), np.asarray(knots[:-1], np.float32), np.asarray(1 / widths, np.float32)

    def column(place: int) -> Callable[[Record], jax.Array]:
        def evaluate(record: Record) -> jax.Array:
            at = unit(record)
            piece = jnp.sum(at >= starts[1:], dtype=jnp.int32)
            rest = (at - jnp.asarray(starts)[piece]) * jnp.asarray(scales)[piece]
            own = jnp.asarray(local[:, :, place].T)[piece]
            value = own[0]
            for power in range(1, len(local)):
                value = value * rest + own[power]
            return value

        return evaluate

    values = functions(np.linspace(0.0, 1.0, POINTS))
    bounds = [(float(low), float(high)) for low, high in zip(values.min(axis=0), values.max(axis=0), strict=True)]
    return _Made([(bounds[place], column(place)) for place in range(coefficients.shape[2])])


def _with_ends(inner: Floats) -> Floats:
    """Return inner knots with the bounds around them."""
    return np.concatenate([[0.0], inner, [1.0]])


def _bs(text: str, inner: Expression, options: Mapping[str, float], stated: Floats | None) -> _Made:
    """B-splines without the first one, as R, patsy and formulaic have them, with even inner knots unless stated."""
    degree = _count(text, options, "degree", 1)
    if stated is None:
        knots = np.linspace(0.0, 1.0, _count(text, options, "df", degree) - degree + 2)
    else:
        knots = _with_ends(stated)
    whole = np.concatenate([np.zeros(degree), knots, np.ones(degree)])
    parts = [interpolate.PPoly.from_spline((whole, row, degree)) for row in np.eye(len(knots) + degree - 1)[1:]]
    return _piecewise(inner, _joined(parts, degree, knots))


def _joined(parts: list[interpolate.PPoly], degree: int, knots: Floats) -> interpolate.PPoly:
    """Return polynomials between the same knots as one, the pieces without length left out."""
    coefficients = np.stack([part.c[:, degree : degree + len(knots) - 1] for part in parts], axis=-1)
    return interpolate.PPoly(coefficients, knots)


def _cr(text: str, inner: Expression, options: Mapping[str, float], stated: Floats | None) -> _Made:
    """Natural cubic splines, each one at its own knot and zero at the others, without that of the first knot."""
    knots = np.linspace(0.0, 1.0, _count(text, options, "df", 2) + 1) if stated is None else _with_ends(stated)
    spline = interpolate.CubicSpline(knots, np.eye(len(knots))[:, 1:], bc_type="natural")
    return _piecewise(inner, interpolate.PPoly(spline.c, knots))


def _poly(text: str, inner: Expression, options: Mapping[str, float], _: Floats | None) -> _Made:
    """Legendre's polynomials on the bounds: orthogonal where values are even between them."""
    degree = _count(text, options, "degree", 1)
    unit = _unit(inner)

    def column(power: int) -> Callable[[Record], jax.Array]:
        def evaluate(record: Record) -> jax.Array:
            u = 2 * unit(record) - 1
            before, value = jnp.ones_like(u), u
            for order in range(1, power):
                before, value = value, ((2 * order + 1) * u * value - order * before) / (order + 1)
            return value

        return evaluate

    return _Made([(_range(np.polynomial.Legendre.basis(power)), column(power)) for power in range(1, degree + 1)])


def _range(function: Callable[[Floats], Floats]) -> tuple[float, float]:
    values = function(np.linspace(-1.0, 1.0, POINTS))
    return float(values.min()), float(values.max())


def _hsgp(text: str, inner: Expression, options: Mapping[str, float], _: Floats | None) -> _Made:
    """A Gaussian process with a squared-exponential kernel, by the sines of a wider interval.

    With u from -1 to 1 between the bounds, L = c, and w_j = j pi / 2L, the functions are sin(w_j (u + L)), and the
    coefficients have the variances S(w_j) / L, S the kernel's spectral density (Solin and Särkkä 2020).
    """
    number, wide, length = _count(text, options, "m", 1), options["c"], options["length"]
    if wide < 1:
        raise InvalidArgument(f"the formula has {text!r}; expected c >= 1, the domain in half-widths of the bounds")
    unit = _unit(inner)
    frequencies = [place * pi / (2 * wide) for place in range(1, number + 1)]

    def column(frequency: float) -> Callable[[Record], jax.Array]:
        return lambda record: jnp.sin(frequency * (2 * unit(record) - 1 + wide))

    sds = [sqrt(sqrt(2 * pi) * length * np.exp(-((length * each) ** 2) / 2) / wide) for each in frequencies]
    least = 1e-3 * max(sds)  # a coefficient with no prior width at all cannot be whitened
    return _Made([((-1.0, 1.0), column(each)) for each in frequencies], tuple(max(sd, least) for sd in sds))


def _steps(text: str, inner: Expression, options: Mapping[str, float], _: Floats | None) -> _Made:
    """One column for each value but the first: whether it is reached."""
    del options
    low, high = inner.bounds
    if not (low.is_integer() and high.is_integer() and 1 <= high - low <= MOST_COLUMNS) or inner.powers is None:
        raise InvalidArgument(f"the formula has {text!r}; expected an integer column with at most {MOST_COLUMNS} steps")

    def column(value: float) -> Callable[[Record], jax.Array]:
        return lambda record: (inner.evaluate(record) > value - 0.5).astype(jnp.float32)

    return _Made([((0.0, 1.0), column(low + step)) for step in range(1, int(high - low) + 1)])


_Maker = Callable[[str, Expression, Mapping[str, float], Floats | None], _Made]

_BASES: Mapping[str, tuple[_Maker, Mapping[str, float | None]]] = {
    "bs": (_bs, {"df": None, "degree": 3.0}),
    "cr": (_cr, {"df": None}),
    "poly": (_poly, {"degree": None}),
    "hsgp": (_hsgp, {"m": None, "c": 1.5, "length": 0.5}),
    "steps": (_steps, {}),
}
"""The calls that make several columns, with what they may be told and what is taken otherwise."""

MONOTONE = "mo"
"""The call that makes steps of one sign."""

BASES = (*_BASES, MONOTONE)
