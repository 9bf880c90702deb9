"""Releases that are asked at once: one pass over the chunks for their sums, and a program that makes releases of it."""

# jax annotates itself in part only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.enclave.arithmetic.int64 import Wide
from dpmcmc.enclave.core.audit import Audit
from dpmcmc.enclave.core.metadata import Facts
from dpmcmc.enclave.core.places import Slots
from dpmcmc.enclave.core.release import Place, answers, num_chains, queries_of
from dpmcmc.enclave.engines.contract import Engine
from dpmcmc.enclave.engines.partial import ONCE, PartialProgram, as_words
from dpmcmc.enclave.engines.steps import Together
from dpmcmc.enclave.noise import chacha20 as rng
from dpmcmc.errors import ReleaseRefused

KEPT, MOST_KEPT = dict[Any, tuple[PartialProgram, Any]](), 64
"""The programs of passes that share an executable (accelerate/sharing.md). No record is here."""


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


class Pass:
    """One pass over the records of some cells, for releases that are asked at once."""

    def __init__(self, together: Together, audited: Audit, facts: Facts, engine: Engine) -> None:
        self._engine, self._together = engine, together
        self._cells = audited.plans[audited.place(together.equations[0])].cells
        self._asked = [_asked(equation, audited, facts) for equation in together.equations]
        reads = sorted({leaf for asked in self._asked for leaf in asked.reads})
        key = jax.eval_shape(lambda: rng.insecure_key(0))
        Place(key, 0, 0, together.repetitions)  # pyright: ignore[reportArgumentType]
        self._partial, self._finish = self._programs(reads, engine.rows(self._cells), facts)

    def _programs(self, reads: Sequence[int], length: int, facts: Facts) -> tuple[PartialProgram, Any]:
        leaves = jax.tree.leaves(facts.record)
        shapes = tuple((leaves[leaf].shape, leaves[leaf].dtype) for leaf in reads)
        keys = tuple(asked.key and (asked.key, [reads.index(one) for one in asked.reads]) for asked in self._asked)
        whole = None if None in keys else (str(shapes), length, tuple((key[0], *key[1]) for key in keys if key))
        if whole is not None and whole in KEPT:
            partial, finish = KEPT[whole]
            return partial.reading(reads), finish
        public = self._public([[_shape(atom) for atom in one.equation.invars] for one in self._asked])
        partial = PartialProgram.of(self._sums, reads, leaves, length, public)
        made = partial, self._compile_finish(partial)
        _ = partial.compiled
        if whole is not None:
            KEPT[whole] = made
            if len(KEPT) > MOST_KEPT:
                del KEPT[next(iter(KEPT))]
        return made

    def _public(self, operands: Sequence[Any]) -> list[Any]:
        """Return everything public that the pass is given, in one list."""
        return jax.tree.leaves(([asked.numbers for asked in self._asked], list(operands)))

    def _apart(self, public: Sequence[Any]) -> tuple[list[Any], list[list[Any]]]:
        """Return the numbers of the plans, and the operands of the releases, that `_public` put together."""
        numbers = [asked.numbers for asked in self._asked]
        operands = [[0] * len(asked.equation.invars) for asked in self._asked]
        return jax.tree.unflatten(jax.tree.structure((numbers, operands)), public)

    def _sums(self, rows: Sequence[Any], occupied: Any, once: Any, public: Sequence[Any]) -> list[Any]:
        reads = sorted({leaf for asked in self._asked for leaf in asked.reads})
        given = dict(zip(reads, rows, strict=True))

        def of_release(asked: _Asked, numbers: Any, operands: list[Any]) -> Any:
            slots = Slots(asked.rows([given[leaf] for leaf in asked.reads]), occupied, once, numbers=numbers)
            queries = queries_of(asked.equation, operands)
            return asked.draw.total(asked.prepare(slots), queries, num_chains(asked.equation))

        return [word for one in map(of_release, self._asked, *self._apart(public)) for word in one]

    def _compile_finish(self, partial: PartialProgram) -> Any:
        """Compile what makes releases of sums: once, roots of keys, the number of the turn, sums, public values."""

        def finish(once: Any, roots: Any, repetition: Any, totals: Any, public: Sequence[Any]) -> list[list[Any]]:
            numbers, operands = self._apart(public)

            def of_release(place: int, asked: _Asked) -> list[Any]:
                at = Place(roots, place, repetition, self._together.repetitions)
                keys = at.chain_keys(asked.equation, num_chains(asked.equation))
                slots = Slots((), (), once, numbers=numbers[place])
                queries = queries_of(asked.equation, operands[place])
                return answers(asked.equation, asked.draw.finish(slots, totals[place], queries, keys))

            return [of_release(place, asked) for place, asked in enumerate(self._asked)]

        words = iter(jax.eval_shape(partial.function, *partial.shapes))
        totals = [Wide(high, low) for high, low in zip(words, words, strict=True)]
        roots = jax.eval_shape(lambda: jax.random.split(rng.insecure_key(0), len(self._asked)))
        shapes = (partial.shapes[2], roots, jax.ShapeDtypeStruct((), jnp.uint32), totals, partial.shapes[3])
        with jax.disable_jit(False):
            return jax.jit(finish).lower(*shapes).compile()

    def __call__(self, keys: jax.Array, operands: list[list[Any]], repetition: int) -> list[list[Any]]:
        """Return the results of the releases, given a key for each release of the program."""
        public = self._public(operands)
        totals = self._engine.partial_sum(self._partial, public, self._cells)
        roots = keys[np.array(self._together.numbers)]
        return self._finish(ONCE, roots, np.uint32(repetition), list(map(as_words, totals)), public)


def _asked(equation: Any, audited: Audit, facts: Facts) -> _Asked:
    planned, everything = audited.plans[audited.place(equation)], tuple(range(len(jax.tree.leaves(facts.record))))
    if facts.share is not None and (found := _movable()(planned)) is not None:
        form, own = found
        shapes = tuple((atom.aval.shape, str(atom.aval.dtype)) for atom in equation.invars)
        key = own.key, equation.params["chains"], shapes
        return _Asked(equation, own.draw, lambda slots: slots, tuple(form.reads), list, own.numbers, key)
    structure = jax.tree.structure(facts.record)
    plan = planned.plan
    return _Asked(equation, plan.draw, plan.prepare, everything, lambda leaves: jax.tree.unflatten(structure, leaves))


@cache
def _movable() -> Any:
    from dpmcmc.enclave.accelerate.sharing import movable

    return movable


def _shape(atom: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(atom.aval.shape, atom.aval.dtype)
