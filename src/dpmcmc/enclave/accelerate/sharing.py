"""One compiled program for all that differ in numbers alone: another noise, other bounds of a column, other names.

A traced program is written out as equations on numbered arrays. Its floating-point constants, the numbers of its
releases and the leaves of a record that it reads become arguments, numbered as they are met; what is left is the
*form*. Programs of one form share an executable, and each hands over its own numbers, those of the plans that it was
priced by. sharing.md says why that is the program that was audited. Whatever is not understood here is compared by
identity: then nothing is shared.
"""

# jax annotates itself in part only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AbstractMesh, NamedSharding

from dpmcmc.enclave.accelerate.jaxpr import Equation, Equations
from dpmcmc.enclave.core.audit import Audit, Planned
from dpmcmc.enclave.core.places import Slots
from dpmcmc.enclave.core.release import Place, dp_release, num_releases, perform_at

_PLAIN = (bool, int, str, bytes, type(None), NamedSharding, AbstractMesh)
"""What is compared by its type and its value; floats are by their bits."""


class _Same:
    """Something that is equal to itself alone."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


class Form:
    """Equations whose numbers are arguments. Two of one `key` compute the same of the same arguments."""

    def __init__(
        self,
        equations: Equations,
        num_given: int,
        describe: Callable[[Equation], Hashable | None] = lambda _: None,
        *,
        moves: bool = True,
    ) -> None:
        self.equations, self._moves = equations, moves
        self.listed = _as_needed(equations)
        self.given, further = equations.inputs[:num_given], equations.inputs[num_given:]
        self.reads: list[int] = []
        """Which of the inputs after the given ones are read, in the order in which they are."""
        self.scalars: list[int] = []
        self.arrays: list[int] = []
        self._further = {number: place for place, number in enumerate(further)}
        self._seen = {number: place for place, number in enumerate(self.given)}
        self.key = tuple(self._describe(describe))
        self._hash = hash(self.key)
        values = equations.constants
        self.constants = (
            np.array([values[number] for number in self.scalars], np.float32),
            *(np.array(values[number]) for number in self.arrays),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Form) and self._hash == other._hash and self.key == other.key

    def __hash__(self) -> int:
        return self._hash

    def _describe(self, describe: Callable[[Equation], Hashable | None]) -> Iterator[Hashable]:
        yield tuple(map(self._shape, self.given))
        for equation in self.listed:
            operands = tuple(self._operand(number, equation) for number in equation.inputs)
            for number in equation.outputs:
                self._seen[number] = len(self._seen)
            what = describe(equation) or _frozen(equation.parameters)
            yield _Same(equation.primitive), what, operands, tuple(map(self._shape, equation.outputs))
        yield tuple(self._operand(number, None) for number in self.equations.outputs)

    def _operand(self, number: int, equation: Equation | None) -> Hashable:
        if number in self._seen:
            return self._seen[number]
        self._seen[number] = len(self._seen)
        if number in self._further:
            self.reads.append(self._further[number])
            return "read", self._shape(number)
        value, kind = self.equations.constants[number], self.equations.types[number]
        # a mask names a column; other integers are places, and what is known of them makes programs faster
        is_mask = equation is not None and equation.primitive is lax.and_p and kind == np.int32
        if self._moves and (kind == np.float32 or is_mask):
            (self.arrays if self.equations.shapes[number] or is_mask else self.scalars).append(number)
            return "number", self._shape(number)
        return "constant", self._shape(number), _array(value)

    def _shape(self, number: int) -> Hashable:
        return self.equations.shapes[number], _frozen(self.equations.types[number])

    def evaluate(
        self,
        constants: Sequence[Any],
        given: Sequence[Any],
        read: Sequence[Any] = (),
        perform: Callable[[Equation, list[Any]], Sequence[Any]] | None = None,
    ) -> list[Any]:
        """Return the outputs, with `perform` in place of releases."""
        values: dict[int, Any] = {**self.equations.constants, **dict(zip(self.given, given, strict=True))}
        further = self.equations.inputs[len(self.given) :]
        values.update({further[place]: leaf for place, leaf in zip(self.reads, read, strict=True)})
        values.update(zip(self.arrays, constants[1:], strict=True))
        for place, number in enumerate(self.scalars):
            values[number] = lax.squeeze(lax.slice(jnp.asarray(constants[0]), (place,), (place + 1,)), (0,))
        for equation in self.listed:
            operands = [values[number] for number in equation.inputs]
            if perform is not None and equation.primitive is dp_release:
                results = perform(equation, operands)
            else:
                parameters = equation.primitive.get_bind_params(equation.parameters)
                results = equation.primitive.bind(*operands, **parameters)
                results = results if equation.primitive.multiple_results else [results]
            values.update(zip(equation.outputs, results, strict=True))
        return [values[number] for number in self.equations.outputs]


@dataclass(frozen=True)
class Contribution:
    """What one record adds, with its constants as arguments: ``contribution(constants, queries, leaves)``."""

    form: Form

    def __call__(self, constants: Any, queries: Sequence[jax.Array], leaves: Any) -> jax.Array:
        """Evaluate it, given the leaves that it reads of one record."""
        return self.form.evaluate(constants, list(queries), leaves)[0]


@dataclass(frozen=True)
class Shared:
    """A program whose numbers are arguments: as the vault compiles and calls it."""

    key: Hashable
    function: Callable[..., list[Any]]
    """``function(slots, key, *constants, *arguments)``."""
    constants: tuple[Any, ...]
    select: Callable[[tuple[Slots, ...]], tuple[Slots, ...]]
    """What the program is handed of the records: what each release reads, with the numbers of its plan."""


class Moved(NamedTuple):
    """A release with its numbers as arguments."""

    draw: Any
    numbers: Any

    @property
    def key(self) -> Hashable:
        """What releases with equal ones may share."""
        return self.draw, jax.tree.structure(self.numbers)


def movable(planned: Planned) -> tuple[Form, Moved] | None:
    """Return the form of what a record adds to a release, and the release with its numbers as arguments, if it can."""
    forms: list[Form] = []

    def flatten(contribution: Any) -> tuple[Contribution, Any]:
        forms.append(Form(Equations.of(contribution.closed), planned.num_queries))
        return Contribution(forms[-1]), forms[-1].constants

    if planned.plan.with_arguments is None:
        return None
    own = Moved(*planned.plan.with_arguments(flatten))
    return forms[-1], own


def share(program: Any, audited: Audit) -> Shared | None:
    """Return an audited program with its numbers as arguments; None where a release or a loop does not allow it."""
    found = [movable(planned) for planned in audited.plans]
    if any(one is None for one in found):
        return None
    forms, moved = [one[0] for one in found if one], [one[1] for one in found if one]
    equations = Equations.of(program)
    asked = [equation for equation in equations.listed if equation.primitive is dp_release]
    if any(num_releases(one.source) for one in equations.listed if one.primitive is not dp_release):
        return None
    numbered = {id(equation): number for number, equation in enumerate(asked)}
    places = {id(equation): audited.place(equation.source) for equation in asked}

    def describe(equation: Equation) -> Hashable | None:
        if equation.primitive is not dp_release:
            return None
        place = places[id(equation)]
        return numbered[id(equation)], len(asked), place, equation.parameters["chains"], moved[place].key

    whole = Form(equations, len(equations.inputs), describe)
    num_constants = len(whole.constants)

    def function(slots: tuple[Slots, ...], key: jax.Array, *arguments: Any) -> list[Any]:
        keys = jax.random.split(key, max(1, len(asked)))

        def perform(equation: Equation, operands: list[Any]) -> Sequence[Any]:
            def draw(_: Any, queries: list[Any], keys: jax.Array) -> Sequence[Any]:
                place = places[id(equation)]
                return moved[place].draw(slots[place], queries, keys)

            place = Place(keys, numbered[id(equation)], jnp.uint32(0), 1)
            return perform_at(equation.source, operands, place, draw)

        return whole.evaluate(arguments[:num_constants], arguments[num_constants:], perform=perform)

    def select(tables: tuple[Slots, ...]) -> tuple[Slots, ...]:
        asked = dict(zip(audited.cells, tables, strict=True))

        def of_release(slots: Slots, form: Form, own: Moved) -> Slots:
            leaves = jax.tree.leaves(slots.rows)
            return replace(slots, rows=[leaves[place] for place in form.reads], numbers=own.numbers)

        read = [asked[planned.cells] for planned in audited.plans]
        return tuple(map(of_release, read, forms, moved))

    return Shared((whole, tuple(one.key for one in moved)), function, whole.constants, select)


def _as_needed(equations: Equations) -> list[Equation]:
    """Return the equations that the outputs need, each as late as another asks for it: not in the order of names."""
    made = {number: equation for equation in equations.listed for number in equation.outputs}
    order: dict[int, Equation] = {}
    left = [made[number] for number in reversed(equations.outputs) if number in made]
    while left:
        equation = left[-1]
        before = [made[number] for number in equation.inputs if number in made and id(made[number]) not in order]
        if before and id(equation) not in order:
            left += before[::-1]
        else:
            order.setdefault(id(left.pop()), equation)
    return list(order.values())


def _frozen(value: Any) -> Hashable:
    """Return what is equal for equal values alone; of what is not known, for the very same alone."""
    if type(value) is float:
        return float, value.hex()
    if isinstance(value, np.ndarray | np.generic):
        return _array(value)
    if isinstance(value, tuple | list):
        return _Same(type(value)), tuple(map(_frozen, value))
    if type(value) is dict:
        return dict, tuple((name, _frozen(value[name])) for name in sorted(value))
    if type(value) in _PLAIN or isinstance(value, np.dtype):
        return _Same(type(value)), value
    if hasattr(value, "eqns"):
        equations = Equations.of(value)
        return "jaxpr", Form(equations, len(equations.inputs), moves=False).key
    return _Same(value)


def _array(value: Any) -> Hashable:
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.extended):
        return _Same(value)
    array = np.asarray(value)
    return array.dtype, array.shape, array.tobytes()
