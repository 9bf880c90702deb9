"""Real numbers as balls (Arb, by python-flint): a midpoint and a radius that holds all rounding there was.

Whatever is computed of balls is a ball that holds the true value. A comparison of two balls is true only if it is so of
all numbers in them.
"""

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from flint import arb, ctx

BITS = 160
"""The precision that computations start with."""

Ball = Any  # flint.arb, which is annotated in part


@contextmanager
def precision(bits: int) -> Generator[None]:
    """Compute with the given number of bits."""
    before = ctx.prec
    ctx.prec = bits
    try:
        yield
    finally:
        ctx.prec = before


def ball(number: float | int | Ball) -> Ball:
    """Return a number exactly as a ball."""
    return arb(number)


def ends(value: Ball) -> tuple[float, float]:
    """Return floats below and above all numbers in a ball."""
    return _below(value.lower()), 0.0 - _below(-value.upper())


def _below(value: Ball) -> float:
    found = float(value)
    while not math.isinf(found) and not bool(arb(found) <= value):
        found = math.nextafter(found, -math.inf)
    return found


def least(values: list[Ball]) -> Ball:
    """Return the ball of the smallest of several numbers."""
    found = values[0]
    for value in values[1:]:
        found = found.min(value)
    return found


def largest(values: list[Ball]) -> Ball:
    """Return the ball of the largest of several numbers."""
    found = values[0]
    for value in values[1:]:
        found = found.max(value)
    return found


def sharp(compute: Callable[[], Ball], bits: int = 60) -> Ball:
    """Compute with more and more precision until the result has the given number of good bits."""
    working = BITS
    while True:
        with precision(working):
            value = compute()
        if value.rel_accuracy_bits() >= bits or working > 4000:
            return value
        working *= 2


def upper_tail(point: Ball) -> Ball:
    """Return the chance that a standard normal draw lies above a point."""
    return (point / arb(2).sqrt()).erfc() / 2
