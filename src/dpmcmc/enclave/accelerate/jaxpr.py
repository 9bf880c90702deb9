"""A traced function as a list of equations on numbered arrays, with the calls in it written out.

`linear.form` reads these equations and evaluates some of them; `linear.identities` replaces some by shorter ones.
"""

# jax annotates itself in part only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.extend.core import Literal, primitives

_lax = jax.lax
_CALLS = frozenset({primitives.jit_p, primitives.custom_jvp_call_p, primitives.custom_vjp_call_p})


@dataclass(frozen=True)
class Equation:
    """One operation; arrays are numbered."""

    primitive: Any
    parameters: dict[str, Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    source: Any = None
    """The equation as JAX has it."""


class Equations:
    """The equations of a function, in an order in which they can be evaluated, and what is known about their arrays."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self._read(jax.make_jaxpr(function)(*arguments))

    @classmethod
    def of(cls, traced: Any) -> "Equations":
        """Return the equations of a jaxpr, closed or without constants."""
        equations = cls.__new__(cls)
        equations._read(traced)
        return equations

    def _read(self, traced: Any) -> None:
        self.listed: list[Equation] = []
        self.constants: dict[int, Any] = {}
        self.shapes: list[tuple[int, ...]] = []
        self.types: list[Any] = []
        jaxpr = getattr(traced, "jaxpr", traced)
        self.inputs = tuple(self.number(*_shape(variable)) for variable in jaxpr.invars)
        self.outputs = self._write_out(jaxpr, getattr(traced, "consts", ()), self.inputs)

    @property
    def output(self) -> int:
        """The first of the outputs."""
        return self.outputs[0]

    def number(self, shape: tuple[int, ...], dtype: Any) -> int:
        """Return the number of a new array."""
        self.shapes.append(shape)
        self.types.append(dtype)
        return len(self.shapes) - 1

    def _write_out(self, jaxpr: Any, constants: Sequence[Any], inputs: Sequence[int]) -> list[int]:
        numbers = dict(zip(jaxpr.invars, inputs, strict=True))
        for variable, value in zip(jaxpr.constvars, constants, strict=True):
            numbers[variable] = self.number(*_shape(variable))
            self.constants[numbers[variable]] = (
                np.array(value) if isinstance(value, np.ndarray) else value
            )  # as it is now

        def number(atom: Any) -> int:
            if not isinstance(atom, Literal):
                return numbers[atom]
            literal = self.number(*_shape(atom))
            self.constants[literal] = np.asarray(atom.val, self.types[literal])
            return literal

        for equation in jaxpr.eqns:
            operands = tuple(number(atom) for atom in equation.invars)
            if equation.primitive in _CALLS:
                called = equation.params["jaxpr" if "jaxpr" in equation.params else "call_jaxpr"]
                results = self._write_out(called.jaxpr, called.consts, operands)
            else:
                results = [self.number(*_shape(variable)) for variable in equation.outvars]
                adds = equation.primitive is primitives.add_jaxvals_p
                primitive = _lax.add_p if adds else equation.primitive
                self.listed.append(Equation(primitive, equation.params, operands, tuple(results), equation))
            numbers.update(zip(equation.outvars, results, strict=True))
        return [number(atom) for atom in jaxpr.outvars]

    def reached_from(self, arrays: Sequence[int]) -> set[int]:
        """Return the arrays that depend on some arrays, with these."""
        reached = set(arrays)
        for equation in self.listed:
            if reached.intersection(equation.inputs):
                reached.update(equation.outputs)
        return reached

    def needed(self, arrays: Sequence[int], known: set[int] | None = None) -> list[Equation]:
        """Return the equations that some arrays depend on, as far as they are not known."""
        known = known or set()
        needed, found = set(arrays) - known, []
        for equation in reversed(self.listed):
            if needed.intersection(equation.outputs):
                needed.update(set(equation.inputs) - known)
                found.append(equation)
        return found[::-1]

    def given(self, leaves: Sequence[Any]) -> dict[int, Any]:
        """Return the values of the constants and of the first inputs."""
        return {**self.constants, **dict(zip(self.inputs, leaves, strict=False))}


def _shape(atom: Any) -> tuple[tuple[int, ...], Any]:
    return tuple(atom.aval.shape), atom.aval.dtype
