"""What public functions answer: a model's densities, a statistic of a record. Privacy does not rest on this file.

Whatever they return is audited, clipped and gated elsewhere. Here a mistake gets a message, before anything is charged.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from dpmcmc.errors import InvalidArgument


@dataclass(frozen=True)
class Statistic:
    """A statistic of a record, ``function(*arguments, record)``, that must return real numbers in one array."""

    function: Callable[..., Any]

    def __call__(self, *arguments: Any) -> jax.Array:
        """Return the numbers of one record."""
        takes = "the arguments of the question, in their order, and the record"
        return _real_numbers(called("statistic", takes, self.function, *arguments))


def called(name: str, takes: str, function: Any, *arguments: Any) -> Any:
    """Return what a function returns, or say that it is none or takes other arguments; `takes` are these in words."""
    if not callable(function):
        raise InvalidArgument(f"{name} is a {type(function).__name__}; expected a function that takes {takes}")
    try:
        return function(*arguments)
    except TypeError as error:
        if _takes(function, arguments):  # a mistake inside it, which its own line explains
            raise
        raise InvalidArgument(
            f"{name} takes other arguments, {error}; expected a function that takes {takes}"
        ) from error


def real_number(name: str, value: Any) -> jax.Array:
    """Return what a model returned, if it is one real number: by shape and type, and by its value if it is constant."""
    expected = "expected one real number, a scalar of a floating type"
    try:
        number = jnp.asarray(value)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"{name} of the model returned a {type(value).__name__}; {expected}") from error
    if number.shape or not jnp.issubdtype(number.dtype, jnp.floating):
        raise InvalidArgument(
            f"{name} of the model returned an array of shape {number.shape} and type {number.dtype}; {expected}"
        )
    if not isinstance(value, jax.core.Tracer) and not np.isfinite(value):
        raise InvalidArgument(f"{name} of the model is not finite at any position; {expected} where it has support")
    return number


def _real_numbers(value: Any) -> jax.Array:
    """Return what a statistic returned, if it is one array of real numbers: booleans and integers count as such."""
    expected = f"statistic returned a {type(value).__name__}; expected real numbers in one array"
    if isinstance(value, tuple | list | dict):
        raise InvalidArgument(f"{expected}: put the parts together, as in jnp.concatenate or jnp.stack")
    if value is None or isinstance(value, str | bytes):
        raise InvalidArgument(expected)
    try:
        numbers = jnp.asarray(value)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(expected) from error
    if any(jnp.issubdtype(numbers.dtype, kind) for kind in (jnp.floating, jnp.integer, jnp.bool_)):
        return numbers
    raise InvalidArgument(
        f"statistic returned an array of the type {numbers.dtype}; expected real numbers: of complex ones return both "
        "parts, as in jnp.stack([jnp.real(z), jnp.imag(z)])"
    )


def _takes(function: Callable[..., Any], arguments: tuple[Any, ...]) -> bool:
    """Say whether a function takes the given number of arguments, as far as its signature shows."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(*arguments)
    except TypeError:
        return False
    return True
