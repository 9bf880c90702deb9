"""Numbers as people write them: two digits that count, commas, no powers of ten."""

import math


def in_words(value: float) -> str:
    """Return a number with two digits that count."""
    return f"{float(f'{value:.2g}'):,.10g}"


def at_least(value: float) -> str:
    """Return a number that is as large, rounded up to two digits that count: what is said to be enough has to be."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return in_words(math.ceil(value / unit - 1e-9) * unit)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, singular or plural."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
