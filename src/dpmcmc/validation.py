"""Checks of arguments at the public boundary.

One way to say what was wrong: every message starts with the argument's own name and value,
``step_size=-1.0 must be > 0``. Each check returns the value, converted, so that it can be used in an assignment.
"""

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import NoReturn

from dpmcmc.errors import InvalidArgument


def refuse(name: str, value: object, requirement: str) -> NoReturn:
    """Raise `InvalidArgument` with the message ``name=value requirement``."""
    raise InvalidArgument(f"{name}={value!r} {requirement}")


def number(name: str, value: object) -> float:
    """Return a real number; infinities pass, NaN and booleans do not."""
    if isinstance(value, bool) or not isinstance(value, Real):
        refuse(name, value, "must be a number")
    try:
        converted = float(value)
    except OverflowError:
        refuse(name, value, "must be a number that a float can hold")
    if math.isnan(converted):
        refuse(name, value, "must be a number, not NaN")
    return converted


def positive(name: str, value: object) -> float:
    """Return a finite number above zero."""
    converted = number(name, value)
    if not 0 < converted < math.inf:
        refuse(name, value, "must be > 0 and finite")
    return converted


def non_negative(name: str, value: object) -> float:
    """Return a finite number of at least zero."""
    converted = number(name, value)
    if not 0 <= converted < math.inf:
        refuse(name, value, "must be >= 0 and finite")
    return converted


def fraction(name: str, value: object) -> float:
    """Return a number in the half-open interval (0, 1]."""
    converted = number(name, value)
    if not 0 < converted <= 1:
        refuse(name, value, "must be > 0 and <= 1")
    return converted


def probability(name: str, value: object) -> float:
    """Return a number strictly between zero and one."""
    converted = number(name, value)
    if not 0 < converted < 1:
        refuse(name, value, "must be strictly between 0 and 1")
    return converted


def integer(name: str, value: object, at_least: int) -> int:
    """Return an integer that is not below `at_least`."""
    if type(value) is int and value >= at_least:  # of which cuts have thousands; what follows takes ten times as long
        return value
    if isinstance(value, bool) or not isinstance(value, Integral):
        refuse(name, value, "must be an integer")
    converted = int(value)
    if converted < at_least:
        refuse(name, value, f"must be >= {at_least}")
    return converted


def text(name: str, value: object) -> str:
    """Return a string that is not blank."""
    if not isinstance(value, str) or not value.strip():
        refuse(name, value, "must be a text that is not blank")
    return value


def choice(name: str, value: object, choices: Iterable[str]) -> str:
    """Return one of the strings in `choices`."""
    known = sorted(choices)
    if not isinstance(value, str) or value not in known:
        refuse(name, value, f"must be one of {', '.join(known)}")
    return value
