"""Validation: every message starts with the argument's name and value; every check returns the converted value."""

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmcmc import validation
from dpmcmc.accounting import Adjacency
from dpmcmc.errors import DpmcmcError, InvalidArgument

Check = Callable[[str, object], object]


def at_least_three(name: str, value: object) -> int:
    return validation.integer(name, value, at_least=3)


def red_or_blue(name: str, value: object) -> str:
    return validation.choice(name, value, ["red", "blue"])


NUMBERS: list[Check] = [
    validation.number,
    validation.positive,
    validation.non_negative,
    validation.fraction,
    validation.probability,
]
ALL: list[Check] = [*NUMBERS, at_least_three, red_or_blue, validation.text, Adjacency.parse]


@pytest.mark.parametrize("check", ALL)
@pytest.mark.parametrize("value", [None, [], {}, object, 1j, b"red", Decimal("0.5"), np.array([0.5, 0.5])], ids=repr)
def test_messages_start_with_name_and_value(check: Check, value: object) -> None:
    with pytest.raises(InvalidArgument) as raised:
        check("step_size", value)
    assert str(raised.value).startswith(f"step_size={value!r} must be ")


@pytest.mark.parametrize("check", [*NUMBERS, at_least_three])
@pytest.mark.parametrize("value", [True, False, np.True_, "1", math.nan, np.float64("nan")], ids=repr)
def test_booleans_texts_and_nan_are_no_numbers(check: Check, value: object) -> None:
    with pytest.raises(InvalidArgument) as raised:
        check("size", value)
    assert str(raised.value).startswith(f"size={value!r} must be ")


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (validation.number, [-math.inf, -1, 0, 2.5, math.inf], []),
        (validation.positive, [5e-324, 1, 1e308], [0, -0.0, -1, math.inf, -math.inf]),
        (validation.non_negative, [0, -0.0, 5e-324, 1e308], [-5e-324, math.inf, -math.inf]),
        (validation.fraction, [5e-324, 0.5, 1], [0, 1.0000000001, -1, math.inf]),
        (validation.probability, [5e-324, 0.5, 1 - 2**-53], [0, 1, -1, math.inf]),
        (at_least_three, [3, 10**30, np.int32(7)], [2, -3, 3.0, np.float64(3.0)]),
        (red_or_blue, ["red", "blue"], ["", "Red", "green", 1]),
        (validation.text, ["a", " a "], ["", " ", "\t\n", 1]),
        (Adjacency.parse, ["replace_one", "replace-one", Adjacency.ADD_OR_REMOVE_ONE], ["", "replace", 0]),
    ],
)
def test_domains(check: Check, good: list[object], bad: list[object]) -> None:
    for value in good:
        assert check("x", value) == (Adjacency(str(value).replace("-", "_")) if check == Adjacency.parse else value)
    for value in bad:
        with pytest.raises(InvalidArgument) as raised:
            check("x", value)
        assert str(raised.value).startswith(f"x={value!r} must be ")


@pytest.mark.parametrize("check", NUMBERS)
def test_numbers_become_floats(check: Check) -> None:
    for value in (Fraction(1, 2), np.float32(0.5), np.float64(0.5)):
        assert type(check("x", value)) is float
        assert check("x", value) == 0.5


def test_integers_become_ints() -> None:
    assert type(at_least_three("x", np.uint8(5))) is int


@pytest.mark.parametrize("check", NUMBERS)
def test_integers_beyond_the_floats_are_refused(check: Check) -> None:
    with pytest.raises(InvalidArgument, match=r"^x=1000"):
        check("x", 10**400)


@given(st.text(), st.one_of(st.none(), st.text(), st.floats(max_value=0.0), st.booleans()))
def test_any_name_and_value(name: str, value: object) -> None:
    with pytest.raises(InvalidArgument) as raised:
        validation.positive(name, value)
    assert str(raised.value).startswith(f"{name}={value!r} ")


def test_choices_are_listed_in_order() -> None:
    with pytest.raises(InvalidArgument, match=r"^colour='green' must be one of blue, red$"):
        red_or_blue("colour", "green")


def test_an_invalid_argument_is_a_value_error_and_ours() -> None:
    assert issubclass(InvalidArgument, ValueError)
    assert issubclass(InvalidArgument, DpmcmcError)
    with pytest.raises(ValueError, match="must be"):
        validation.positive("x", -1)
