"""Releases that are asked at once: one pass over the chunks for their sums, and a program that makes releases of it."""

# jax annotates itself in part only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.enclave.arithmetic.int64 import Wide
from dpmcmc.enclave.compiler import compile_program
from dpmcmc.enclave.core.audit import Audit
from dpmcmc.enclave.core.metadata import Facts
from dpmcmc.enclave.core.places import Slots
from dpmcmc.enclave.core.release import Place, answers, num_chains, queries_of
from dpmcmc.enclave.core.settings import settings
from dpmcmc.enclave.engines.contract import Engine
from dpmcmc.enclave.engines.partial import ONCE, PartialProgram, as_words
from dpmcmc.enclave.engines.steps import Together
from dpmcmc.enclave.noise import chacha20 as rng
from dpmcmc.errors import ReleaseRefused

KEPT, MOST_KEPT = dict[Any, tuple[PartialProgram, Any, str]](), 64
"""The programs of passes that share an executable (accelerate/sharing.md). No record is here."""


AT_ONCE = 2**13
"""How many records of a chunk are computed at once at most: one thread has one processor's cache."""


@dataclass(frozen=True)
class _Asked:
    """One release of a pass."""

    equation: Any
    draw: Any
    """What adds up, and what makes a release of it: `OfSum`, or what has its methods."""
    prepare: Callable[[Slots], Any]
    reads: tuple[int, ...]
    """The leaves of a record that it reads."""
    rows: Callable[[list[Any]], Any]
    """Puts these leaves together."""
    numbers: Any = None
    """The numbers of its plan, where they are arguments."""
    key: Any = None
    """What programs with equal ones may share; None where nothing is shared."""


def check_sums(audited: Audit) -> None:
    """Refuse a program with a release that cannot be made of sums over chunks."""
    for planned in audited.plans:
        if not hasattr(planned.plan.draw, "finish"):
            raise ReleaseRefused(
                f"{planned.kind} cannot be asked of records that are read chunk by chunk: it is not made "
                "of one sum over them. Ask for a sum (Sum, GradientSum, CurvatureSum, NoisyCount, LogRatio, "
                "PenaltyTest, RemainderTest), or read the table into memory: in_memory=True"
            )


class _Releases:
    """Releases of one pass, as functions of rows, of sums and of public values. No record is here."""

    def __init__(self, asked: Sequence[_Asked], repetitions: int) -> None:
        self.asked, self._repetitions = asked, repetitions
        self.reads = sorted({leaf for one in asked for leaf in one.reads})
        self._numbers = [one.numbers for one in asked]

    @property
    def key(self) -> Any:
        """What equal ones may share an executable by; None where one of the releases shares nothing."""
        own = [(one.key, *map(self.reads.index, one.reads)) for one in self.asked if one.key is not None]
        return tuple(own) if len(own) == len(self.asked) else None

    def public(self, operands: Sequence[Any]) -> list[Any]:
        """Return everything public that the pass is given, in one list."""
        return jax.tree.leaves((self._numbers, list(operands)))

    def _apart(self, public: Sequence[Any]) -> tuple[list[Any], list[list[Any]]]:
        """Return the numbers of the plans, and the operands of the releases, that `public` put together."""
        operands = [[0] * len(one.equation.invars) for one in self.asked]
        return jax.tree.unflatten(jax.tree.structure((self._numbers, operands)), public)

    def sums(self, rows: Sequence[Any], occupied: Any, once: Any, public: Sequence[Any]) -> list[Any]:
        """Return the exact sums over the slots of one chunk, as words."""
        given = dict(zip(self.reads, rows, strict=True))

        def of_release(asked: _Asked, numbers: Any, operands: list[Any]) -> Any:
            slots = Slots(asked.rows([given[leaf] for leaf in asked.reads]), occupied, once, numbers=numbers)
            queries = queries_of(asked.equation, operands)
            return asked.draw.total(asked.prepare(slots), queries, num_chains(asked.equation))

        return [word for one in map(of_release, self.asked, *self._apart(public)) for word in one]

    def finish(self, once: Any, roots: Any, repetition: Any, totals: Any, public: Sequence[Any]) -> list[list[Any]]:
        """Return the results, from the root of each release's keys, the number of the turn, sums and public values."""
        numbers, operands = self._apart(public)

        def of_release(place: int, asked: _Asked) -> list[Any]:
            at = Place(roots, place, repetition, self._repetitions)
            keys = at.chain_keys(asked.equation, num_chains(asked.equation))
            slots = Slots((), (), once, numbers=numbers[place])
            queries = queries_of(asked.equation, operands[place])
            return answers(asked.equation, asked.draw.finish(slots, totals[place], queries, keys))

        return [of_release(place, asked) for place, asked in enumerate(self.asked)]


class Pass:
    """One pass over the records of some cells, for releases that are asked at once."""

    def __init__(self, together: Together, audited: Audit, facts: Facts, engine: Engine) -> None:
        if any(together.repetitions * num_chains(equation) >= 2**32 for equation in together.equations):
            raise ReleaseRefused("a release is repeated too often to number its noise")
        self._engine, self._numbers = engine, np.array(together.numbers)
        self._cells = audited.plans[audited.place(together.equations[0])].cells
        asked = [_asked(equation, audited, facts) for equation in together.equations]
        self._releases = _Releases(asked, together.repetitions)
        self._partial, self._finish, text = _programs(self._releases, engine.rows(self._cells), facts)
        self.text = f"{text}{self._partial.reads}"
        getattr(engine, "prepare", lambda _: None)(self._partial)

    def __call__(self, keys: jax.Array, operands: list[list[Any]], repetition: int) -> list[list[Any]]:
        """Return the results of the releases, given a key for each release of the program."""
        public = self._releases.public(operands)
        totals = self._engine.partial_sum(self._partial, public, self._cells)
        words = list(map(as_words, totals))
        return self._finish(ONCE, keys[self._numbers], np.uint32(repetition), words, public)


def _programs(releases: _Releases, length: int, facts: Facts) -> tuple[PartialProgram, Any, str]:
    """Return what is compiled for a pass over chunks of so many slots, and its texts: as it is kept, or made."""
    leaves = jax.tree.leaves(facts.record)
    shapes = str([(leaves[leaf].shape, leaves[leaf].dtype) for leaf in releases.reads])
    key = shapes, length, jax.default_backend(), settings(), releases.key
    if releases.key is not None and key in KEPT:
        partial, finish, text = KEPT[key]
        return partial.reading(releases.reads), finish, text
    operands = [[_shape(atom) for atom in one.equation.invars] for one in releases.asked]
    partial = PartialProgram.of(releases.sums, releases.reads, leaves, length, releases.public(operands))
    finish = _lower_finish(releases, partial)
    _, taken = partial.compiled, list[Any](partial.taken)  # and read
    compiled = compile_program(finish, taken=taken)
    made = partial, compiled, f"{partial.lowered.as_text()}{finish.as_text()}{taken}"
    if releases.key is not None:
        KEPT[key] = made
        if len(KEPT) > MOST_KEPT:
            del KEPT[next(iter(KEPT))]
    return made


def _lower_finish(releases: _Releases, partial: PartialProgram) -> Any:
    words = iter(jax.eval_shape(partial.function, *partial.shapes))
    totals = [Wide(high, low) for high, low in zip(words, words, strict=True)]
    roots = jax.eval_shape(lambda: jax.random.split(rng.insecure_key(0), len(releases.asked)))
    shapes = (partial.shapes[2], roots, jax.ShapeDtypeStruct((), jnp.uint32), totals, partial.shapes[3])
    with jax.disable_jit(False):
        return jax.jit(releases.finish).lower(*shapes)


def _asked(equation: Any, audited: Audit, facts: Facts) -> _Asked:
    planned, everything = audited.plans[audited.place(equation)], tuple(range(len(jax.tree.leaves(facts.record))))
    if facts.share is not None and (found := _movable()(planned)) is not None:
        form, own = found
        shapes = tuple((atom.aval.shape, str(atom.aval.dtype)) for atom in equation.invars)
        draw = replace(own.draw, chunk_size=min(own.draw.chunk_size, AT_ONCE))
        key = own._replace(draw=draw).key, equation.params["chains"], shapes
        return _Asked(equation, draw, lambda slots: slots, tuple(form.reads), list, own.numbers, key)
    structure = jax.tree.structure(facts.record)
    plan = planned.plan
    return _Asked(equation, plan.draw, plan.prepare, everything, lambda leaves: jax.tree.unflatten(structure, leaves))


@cache
def _movable() -> Any:
    from dpmcmc.enclave.accelerate.sharing import movable

    return movable


def _shape(atom: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(atom.aval.shape, atom.aval.dtype)
