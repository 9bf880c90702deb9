"""An audited program as steps of the host: compiled segments of what is public, and releases, as many at once as can.

Releases keep the numbers that they have in the program, and a loop around a release is a loop of Python, whose turns
are numbered as `core.release` numbers them: each release draws the noise that it would draw in one compiled program.
"""

# jax annotates itself in part only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.enclave.compiler import compile_program
from dpmcmc.enclave.core.audit import Audit
from dpmcmc.enclave.core.release import (
    SCAN,
    bind,
    called,
    dp_release,
    is_literal,
    num_releases,
    scan_layout,
)
from dpmcmc.enclave.core.settings import settings

SEGMENTS, MOST_SEGMENTS = dict[Any, Any](), 64
"""What was compiled of programs that is public: another run of the same program need not compile it again."""

Perform = Callable[["Together", list[list[Any]], int], list[list[Any]]]
"""``perform(releases, operands, repetition)``: the results of releases that are asked at once."""


@dataclass(frozen=True, eq=False)
class Together:
    """Releases that are asked of the same cells at once: none needs what another gives."""

    equations: tuple[Any, ...]
    numbers: tuple[int, ...]
    """Which releases of the program they are."""
    repetitions: int
    """How often the loops around them turn, all together."""


class Segment:
    """Operations without a release, compiled."""

    def __init__(self, equations: Sequence[Any], outputs: Sequence[Any]) -> None:
        made = {variable for equation in equations for variable in equation.outvars}
        read = dict.fromkeys(atom for equation in equations for atom in _variables(equation.invars))
        self.inputs = [variable for variable in read if variable not in made]
        self.outputs = [variable for variable in outputs if variable in made]

        def function(*given: Any) -> list[Any]:
            values = dict(zip(self.inputs, given, strict=True))
            for equation in equations:
                operands = [_value(atom, values) for atom in equation.invars]
                values.update(zip(equation.outvars, bind(equation, operands), strict=True))
            return [values[variable] for variable in self.outputs]

        avals: list[Any] = [variable.aval for variable in self.inputs]
        with jax.disable_jit(False):
            shapes = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]
            self.text, self._compiled = _compiled(jax.jit(function).lower(*shapes))

    def __call__(self, values: dict[Any, Any]) -> None:
        """Compute the outputs."""
        avals: list[Any] = [variable.aval for variable in self.inputs]
        given = [_typed(values[variable], aval) for variable, aval in zip(self.inputs, avals, strict=True)]
        values.update(zip(self.outputs, self._compiled(*given), strict=True))


def _compiled(lowered: Any) -> tuple[str, Any]:
    """Return the text of a segment and its executable, which those of one text share if its constants are in it."""
    text, taken = lowered.as_text(), list[Any]()
    if jax.config.values.get("jax_use_simplified_jaxpr_constants"):  # pyright: ignore[reportAttributeAccessIssue]
        compiled = compile_program(lowered, taken=taken)
        return f"{text}{taken}", compiled
    key = text, jax.default_backend(), settings()
    if key not in SEGMENTS:
        SEGMENTS[key] = compile_program(lowered, taken=taken), f"{text}{taken}"
        if len(SEGMENTS) > MOST_SEGMENTS:
            del SEGMENTS[next(iter(SEGMENTS))]
    compiled, text = SEGMENTS[key]
    return text, compiled


@dataclass(frozen=True, eq=False)
class Inner:
    """A call, or a loop, that holds releases."""

    equation: Any
    body: "Steps"

    @property
    def is_loop(self) -> bool:
        """Whether it turns more often than once, or not at all."""
        return self.equation.primitive is SCAN


class Steps:
    """The steps of a closed jaxpr, of which the first release has a number in the program.

    Args:
        closed: the jaxpr, which was audited.
        audited: what was decided of its releases.
        number: the number of its first release.
        repetitions: how often the loops around it turn.
    """

    def __init__(self, closed: Any, audited: Audit, number: int = 0, repetitions: int = 1) -> None:
        self.closed, self._audited = closed, audited
        self.listed: list[Segment | Together | Inner] = []
        self._repetitions = repetitions
        left: list[tuple[Any, int]] = []
        for equation in closed.eqns:
            left.append((equation, number))
            number += num_releases(equation)
        self.num_keys = max(1, number)
        known = {*closed.jaxpr.constvars, *closed.jaxpr.invars}
        while left:
            left = self._divide(left, known)

    def _divide(self, left: list[tuple[Any, int]], known: set[Any]) -> list[tuple[Any, int]]:
        """Take what can be computed now, then what can be asked; return what is left."""
        free = []
        for equation, _ in left:
            if not num_releases(equation) and known.issuperset(_variables(equation.invars)):
                free.append(equation)
                known.update(equation.outvars)
        left = [one for one in left if not any(one[0] is equation for equation in free)]
        needed = dict.fromkeys(atom for equation, _ in left for atom in _variables(equation.invars))  # in their order
        needed.update(dict.fromkeys(_variables(self.closed.jaxpr.outvars)))
        if free:
            self.listed.append(Segment(free, list(needed)))
        ready = [one for one in left if known.issuperset(_variables(one[0].invars))]
        taken = [one for one in ready if one[0].primitive is dp_release] or ready[:1]
        self.listed += self._asked(taken)
        for equation, _ in taken:
            known.update(equation.outvars)
        return [one for one in left if not any(one[0] is equation for equation, _ in taken)]

    def _asked(self, taken: list[tuple[Any, int]]) -> Iterator[Together | Inner]:
        together: dict[Any, list[tuple[Any, int]]] = {}
        for equation, number in taken:
            if equation.primitive is not dp_release:
                is_loop = equation.primitive is SCAN
                inner = equation.params["jaxpr"] if is_loop else called(equation)
                turns = equation.params["length"] if is_loop else 1
                yield Inner(equation, Steps(inner, self._audited, number, self._repetitions * turns))
            else:
                cells = self._audited.plans[self._audited.place(equation)].cells
                together.setdefault(cells, []).append((equation, number))
        for asked in together.values():
            equations, numbers = zip(*asked, strict=True)
            yield Together(equations, numbers, self._repetitions)

    def texts(self) -> Iterator[str]:
        """Yield what is compiled of what is public, at any depth."""
        for step in self.listed:
            if isinstance(step, Segment):
                yield step.text
            elif isinstance(step, Inner):
                yield from step.body.texts()

    def all_together(self) -> Iterator[Together]:
        """Yield everything that is asked, at any depth."""
        for step in self.listed:
            if isinstance(step, Together):
                yield step
            elif isinstance(step, Inner):
                yield from step.body.all_together()

    def run(self, arguments: Sequence[Any], perform: Perform, repetition: int = 0) -> list[Any]:
        """Execute the steps; `repetition` is which turn of the loops around them this is."""
        values: dict[Any, Any] = dict(zip(self.closed.jaxpr.constvars, self.closed.consts, strict=True))
        values.update(zip(self.closed.jaxpr.invars, arguments, strict=True))
        for step in self.listed:
            if isinstance(step, Segment):
                step(values)
            elif isinstance(step, Together):
                operands = [_operands(equation, values) for equation in step.equations]
                for equation, results in zip(step.equations, perform(step, operands, repetition), strict=True):
                    values.update(zip(equation.outvars, results, strict=True))
            else:
                results = _inside(step, _operands(step.equation, values), perform, repetition)
                values.update(zip(step.equation.outvars, results, strict=True))
        return [_typed(_value(atom, values), atom.aval) for atom in self.closed.jaxpr.outvars]


def _inside(step: Inner, operands: list[Any], perform: Perform, repetition: int) -> list[Any]:
    if not step.is_loop:
        return step.body.run(operands, perform, repetition)
    num_constants, num_carry = scan_layout(step.equation)
    length, is_reversed = step.equation.params["length"], step.equation.params["reverse"]
    constants, carry = operands[:num_constants], operands[num_constants : num_constants + num_carry]
    inputs, made = operands[num_constants + num_carry :], {}
    for turn in reversed(range(length)) if is_reversed else range(length):
        given = [*constants, *carry, *(one[turn] for one in inputs)]
        results = step.body.run(given, perform, repetition * length + turn)
        carry, made[turn] = results[:num_carry], results[num_carry:]
    avals: list[Any] = [variable.aval for variable in step.equation.outvars[num_carry:]]
    stacked = [_stack([made[turn][place] for turn in range(length)], aval) for place, aval in enumerate(avals)]
    return [*carry, *stacked]


def _stack(parts: list[Any], aval: Any) -> Any:
    """Return the results of all turns in one array, on the host where it can be: nothing is compiled for it."""
    if jnp.issubdtype(aval.dtype, jax.dtypes.extended):
        return jnp.stack(parts)
    return jnp.asarray(np.stack(parts) if parts else np.zeros(aval.shape, aval.dtype))


def _operands(equation: Any, values: dict[Any, Any]) -> list[Any]:
    return [_typed(_value(atom, values), atom.aval) for atom in equation.invars]


def _value(atom: Any, values: dict[Any, Any]) -> Any:
    return atom.val if is_literal(atom) else values[atom]


def _typed(value: Any, aval: Any) -> Any:
    """Return a value as an array of the type that the program was traced with: literals are plain numbers."""
    return value if isinstance(value, jax.Array) else np.asarray(value, aval.dtype)


def _variables(atoms: Iterable[Any]) -> list[Any]:
    return [atom for atom in atoms if not is_literal(atom)]
