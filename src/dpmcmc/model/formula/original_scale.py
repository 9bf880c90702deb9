"""Priors that are stated on the scale of the results: ``"normal(0, 0.1) per year"``, ``"half_normal(500) original"``.

A model moves in the coefficients of scaled columns, and takes its priors there. One number takes each of them to the
original scale, unless a power or an interaction is made of centred columns: then the original coefficient of a lower
term is its effect where the other column is zero, a combination of several scaled ones, and no prior of one of them.
"""

import re
from collections.abc import Mapping
from math import log

import numpy as np

from dpmcmc import validation
from dpmcmc.errors import InvalidArgument
from dpmcmc.model.formula.columns import Columns
from dpmcmc.model.formula.design import Design
from dpmcmc.model.formula.response import Response

_STATED = re.compile(
    r"(?P<prior>.*\))\s+(?:(?P<original>original)|per\s+(?P<number>[\d.]+(?:e-?\d+)?\s*)?(?P<unit>.*))"
)

_SCALES = {
    "normal": ("mean", "sd"),
    "student_t": ("", "mean", "sd"),
    "laplace": ("mean", "sd"),
    "half_normal": ("sd",),
    "half_student_t": ("", "sd"),
    "half_cauchy": ("sd",),
    "exponential": ("rate",),
    "gamma": ("", "rate"),
    "lognormal": ("log", ""),
    "fixed": ("sd",),
}
"""What becomes of the arguments of a prior when its number is multiplied: nothing where the name is empty."""


def to_scaled(
    stated: Mapping[str, str],
    design: Design,
    response: Response,
    columns: Columns,
    halves: Mapping[str, float],
) -> dict[str, str]:
    """Return priors on the scaled columns; those that are stated there already are left as they are.

    Args:
        stated: priors by the name of a coefficient, a term, or another parameter.
        design: the columns.
        response: the response, whose scale coefficients have as well.
        columns: what is known of the columns, for their units.
        halves: half the range of the column that a slope of groups is of, by the name of its parameter.
    """
    asked = {key: found for key, text in stated.items() if (found := _STATED.fullmatch(str(text).strip()))}
    if not asked:
        return dict(stated)
    made = {key: text for key, text in stated.items() if key not in asked}
    known: set[str] = {"slopes"}
    for name, terms in zip(design.names, design.terms, strict=True):
        keys = [name, *terms, *(["slopes"] if name != "intercept" else [])]  # the nearest one counts, as for all priors
        known.update(keys)
        key = next((key for key in keys if key in stated), None)
        if key in asked:
            steps = next((len(own) for own in design.steps.values() if name in own), 1)  # their average is stated
            factor = steps * _factor(name, design, response) / _units(key, asked[key], columns)
            made[name] = _times(key, asked[key]["prior"], factor)
    for key in sorted(set(asked) - known):
        made[key] = _times(key, asked[key]["prior"], _other_factor(key, response) * halves.get(key, 1.0))
    return made


def _other_factor(key: str, response: Response) -> float:
    """Return what takes a parameter that is no coefficient to the scale of the model: 1 but for standard deviations."""
    if key == "cutpoints":
        raise InvalidArgument("priors['cutpoints'] are stated on the scaled columns; leave out 'original'")
    return 1 / response.half if key == "sigma" or "|" in key else 1.0


def _factor(name: str, design: Design, response: Response) -> float:
    """Return the scaled coefficient in units of the original one."""
    matrix = design.to_unscaled * response.half
    place = design.names.index(name)
    row = matrix[place]
    others = [other for column, other in enumerate(design.names) if column != place and row[column] != 0]
    moved = design.constant is not None and response.centre * design.constant[place] != 0
    if others or moved or name == "intercept":
        raise InvalidArgument(
            f"priors[{name!r}] cannot be stated on the original scale: there it is the value where all other columns "
            f"are zero, which depends on {', '.join(others) or 'the bounds'} as well. State it as a text, without "
            "'per' or 'original': on the scaled columns it speaks of the middle of their bounds"
        )
    return float(1 / row[place])


def _units(key: str, asked: re.Match[str], columns: Columns) -> float:
    """Return how many units of its column a prior speaks of."""
    if asked["original"]:
        return 1.0
    number = float(asked["number"]) if asked["number"] else 1.0
    validation.positive(f"priors[{key!r}] per", number)
    unit = columns.known[key].unit if key in columns.known else ""
    written = asked["unit"].strip()
    if _singular(written) not in {"", "unit", _singular(unit)}:
        known = f"its unit is {unit!r}" if unit else "the schema states no unit of it"
        raise InvalidArgument(
            f"priors[{key!r}] is stated per {written!r}, and {known}; write 'per unit', or 'per 10 units', or state "
            "unit= in the schema"
        )
    return number


def _singular(unit: str) -> str:
    return unit.strip().lower().removesuffix("s")


def _times(key: str, prior: str, factor: float) -> str:
    """Return the prior of a number times `factor`, given that of the number."""
    call = re.fullmatch(r"\s*(\w+)\s*\(([^()]*)\)", prior)
    kind = call[1] if call else ""
    try:
        arguments = [float(argument) for argument in call[2].split(",")] if call else []
    except ValueError:
        arguments = []
    if kind not in _SCALES or len(arguments) != len(_SCALES[kind]):
        return prior  # is refused in the words of `read_prior`
    if factor <= 0 or not np.isfinite(factor):
        raise InvalidArgument(f"priors[{key!r}] cannot be stated on the original scale; leave out 'per'")
    changed = {"": lambda x: x, "rate": lambda x: x / factor, "log": lambda x: x + log(factor)}
    values = [
        changed.get(how, lambda x: x * factor)(value) for how, value in zip(_SCALES[kind], arguments, strict=True)
    ]
    return f"{kind}({', '.join(repr(float(f'{value:.12g}')) for value in values)})"
