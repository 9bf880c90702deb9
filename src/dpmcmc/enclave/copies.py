"""Copies of the table in a program, as far as they can be recognised. Privacy does not rest on this file.

No proof covers a copy outside the vault: whoever has one needs no release. But a mistake is worth a message, so a
program is refused that closes over an array which the vault was given, or over one that looks like a table.
"""

import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import prod
from typing import Any, TypeAlias

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.extend.core import JaxprEqn, Literal, jaxprs_in_params

from dpmcmc.enclave.core.metadata import Facts
from dpmcmc.enclave.lines import line_of
from dpmcmc.errors import RecordsRefused, ReleaseRefused

Where: TypeAlias = Callable[[], str]
"""Looks up a line of user code."""

LARGEST_CLOSURE = 100_000
"""A program may close over arrays of so many elements; larger ones must be arguments, which are stated to be public."""


def check_constants(closed: Any, facts: Facts, is_table: Callable[[Any], bool]) -> None:
    """Refuse a jaxpr that closes over the table, or over an array with an axis as long as the table.

    Under add-or-remove-one the number of records is private, so the size stated by the owner takes its place.
    """
    for constant, where in constants(closed):  # lines are looked up where one is told
        shape = getattr(constant, "shape", ())
        if isinstance(constant, jax.core.Tracer):
            raise ReleaseRefused(
                f"a value that the program computes is closed over at {where()} by the function that a release applies "
                "to a record; hand it over as an argument of the question, oracle.sum(mechanism, statistic, value)"
            )
        if is_table(constant):
            raise RecordsRefused(
                f"the table itself is closed over at {where()}: records may be used in a release alone"
            )
        if prod(shape) > 1 and (facts.size in shape or prod(shape) > LARGEST_CLOSURE):
            raise RecordsRefused(
                f"an array of shape {shape} is closed over at {where()}; it looks like a table of records. Records may "
                "be used in a release alone; if the array is public, pass it as an argument of the program"
            )


def constants(closed: Any, where: Where = lambda: "an unknown line") -> Iterator[tuple[Any, Where]]:
    """Yield the arrays that a jaxpr closes over at any depth, with what looks up the first line that uses each."""
    equations = closed.eqns
    for variable, value in zip(closed.constvars, getattr(closed, "consts", ()), strict=False):
        users = (equation for equation in equations if any(atom is variable for atom in equation.invars))
        user = next(users, None)
        yield value, where if user is None else partial(_line_of_use, user, variable)
    for equation in equations:
        for atom in equation.invars:
            if isinstance(atom, Literal):
                yield atom.val, partial(line_of, equation)
        for parameter in equation.params.values():
            for inner in parameter if isinstance(parameter, tuple) else (parameter,):
                if hasattr(inner, "constvars"):
                    yield from constants(inner, partial(line_of, equation))


def _line_of_use(equation: JaxprEqn, variable: Any) -> str:
    """Return the line of the innermost operation that reads a variable handed down through calls and loops."""
    position = next(index for index, atom in enumerate(equation.invars) if atom is variable)
    for inner in jaxprs_in_params(equation.params):
        if len(inner.invars) == len(equation.invars):
            handed = inner.invars[position]
            users = [user for user in inner.eqns if any(atom is handed for atom in user.invars)]
            if users:
                return _line_of_use(users[0], handed)
    return line_of(equation)


def recogniser(leaves: Sequence[Any]) -> Callable[[Any], bool]:
    """Return what says whether an array is, or shares memory with, one of these: by address, not by value.

    The owner's arrays are referred to weakly: they live as long as the owner holds them.
    """
    references = [reference for leaf in leaves if (reference := _reference(leaf))]

    def is_table(array: Any) -> bool:
        sources = [source for reference in references if (source := reference()) is not None]
        if any(source is array for source in sources):
            return True
        if isinstance(array, jax.Array) and not jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
            array = np.asarray(array) if array.devices() == {jax.devices("cpu")[0]} else None
        return isinstance(array, np.ndarray) and any(
            np.may_share_memory(array, source) for source in sources if isinstance(source, np.ndarray)
        )

    return is_table


def lies_in(array: Any, held: Sequence[Any]) -> bool:
    """Say whether an array is one of those that are held, or shares memory with one: by address, not by value."""
    if any(one is array for one in held):
        return True
    mine = _memory(array)
    return any(start < end and first < last for one in held for first, end in _memory(one) for start, last in mine)


def _memory(array: Any) -> list[tuple[int, int]]:
    """Return where in memory an array lies: the first byte of each part of it, and the byte behind it."""
    if isinstance(array, np.ndarray):
        return [np.lib.array_utils.byte_bounds(array)]
    if not isinstance(array, jax.Array) or isinstance(array, jax.core.Tracer) or array.is_deleted():
        return []
    if jnp.issubdtype(array.dtype, jax.dtypes.extended):
        return []
    parts = [shard.data for shard in array.addressable_shards]
    return [(part.unsafe_buffer_pointer(), part.unsafe_buffer_pointer() + part.nbytes) for part in parts]


def _reference(leaf: Any) -> Any:
    """Return a weak reference to an array that the owner still holds, to recognise it in a program."""
    try:
        return weakref.ref(leaf)
    except TypeError:
        return None
