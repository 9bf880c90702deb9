"""The auditor: what a traced program costs, and whether it may run at all.

The program is public code on public values: it never holds a record, because a release takes none (see `release`). So
the auditor has four things to prove before anything runs:

1. Every release can be counted: it stands in plain sight, in calls and in scans, whose lengths are known; not in
   `while`, `cond`, `checkpoint` or an operation that the auditor does not know. The price is the sum of the events,
   times the lengths of the scans and the number of chains.
2. The function that a release applies to each record (a likelihood, its gradient, a statistic) is pure: it is traced
   once, at shapes alone, to a jaxpr in which every operation is on a list (see `allowed`): none of them can let one
   record change what another contributes, or keep the run going. The vault executes that very jaxpr.
3. The program around the releases uses listed operations alone, too: nothing in it calls back to Python.
4. No array that looks like a copy of the table is closed over. Copies outside the vault are beyond any proof; the
   auditor refuses what it can recognise without looking at a value.

What is priced is what is executed: a release is resolved once, here, to a plan that is priced and drawn as it is, of a
mechanism made anew, cells made anew and facts that no program is given. From then on it is known by the identity of its
equation, which is held; jaxprs are copies that nobody else holds, and whoever asks for a price or a report gets objects
of their own. So it does not matter what is changed afterwards, or what says that it is equal.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, cast

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, jaxpr_as_fun

from dpmcmc.accounting.event import Event, NonPrivate, compose, genuine
from dpmcmc.enclave.copies import check_constants
from dpmcmc.enclave.core.allowed import PER_RECORD, PER_RECORD_ON_GPU, PROGRAMS, all_equations, first_refused
from dpmcmc.enclave.core.cells import Cells, facts_of, genuine_cells
from dpmcmc.enclave.core.mechanism import ReleasePlan, contribution_of, is_certified, plan_of, rebuilt
from dpmcmc.enclave.core.metadata import Facts
from dpmcmc.enclave.core.release import (
    CALLS,
    SCAN,
    dp_release,
    execute,
    inner_jaxprs,
    num_releases,
    outputs_of,
    queries_of_one_chain,
)
from dpmcmc.enclave.lines import line_of
from dpmcmc.enclave.noise.modes import MODES, Claim
from dpmcmc.enclave.refusals import (
    calls_back,
    not_audited,
    not_certified,
    not_counted,
    not_in_programs,
    not_on_records,
    other_data,
    other_shapes,
)
from dpmcmc.enclave.traces import traced_at
from dpmcmc.errors import OperationRefused

_IN_PROGRAMS = PROGRAMS | {dp_release}


@dataclass(frozen=True)
class Charge:
    """One release in the source of a program: its event, how often it happens and where it stands."""

    event: Event
    count: int
    line: str


@dataclass(frozen=True, eq=False)
class Planned:
    """What was decided of a release, once: nothing of it is looked up in the program again."""

    plan: ReleasePlan
    """Made of an audited function, and priced and drawn as it is."""
    cells: Cells | None
    """The cells that it is asked of; None for all places."""
    kind: str
    """The name of the mechanism, for messages."""
    num_queries: int


@dataclass(frozen=True)
class Audit:
    """A program that may run: its price, what the price is made of, and what each release computes."""

    charges: tuple[Charge, ...]
    plans: tuple[Planned, ...] = field(repr=False)
    """Equal releases have one."""
    places: dict[int, tuple[JaxprEqn, int]] = field(repr=False)
    """Which plan a release has: by the identity of its equation, which is held here and so is nobody else's."""

    @property
    def event(self) -> Event:
        """The composition of every release: the price."""
        return compose(charge.event * charge.count for charge in self.charges)

    @property
    def cells(self) -> tuple[Cells | None, ...]:
        """The cells that releases are asked of, in the order of the tables that the program is given; None for all."""
        return tuple(dict.fromkeys(planned.cells for planned in self.plans)) or (None,)

    @property
    def is_gated(self) -> bool:
        """Whether any record passes the gate."""
        return any(planned.plan.is_gated for planned in self.plans)

    @property
    def paths(self) -> tuple[str, ...]:
        """The ways in which records are added up, by name, for certificates."""
        return tuple(sorted({planned.plan.path() for planned in self.plans}))

    @property
    def shown(self) -> "Audit":
        """The same for whoever asks: of objects of its own, which may be written to, and with nothing to draw by."""
        charges = [replace(one, event=genuine(one.event, with_cells=True)) for one in self.charges]
        return Audit(tuple(charges), tuple(replace(one, plan=_shown(one.plan), cells=None) for one in self.plans), {})

    def place(self, equation: JaxprEqn) -> int:
        """Return which of the plans a release has."""
        if id(equation) not in self.places:
            raise not_audited(equation)
        return self.places[id(equation)][1]


def audit(
    program: Any, facts: Facts, is_table: Callable[[Any], bool] = lambda _: False, *, shown: Facts | None = None
) -> Audit:
    """Price a closed jaxpr, or refuse it. Reads no record; `is_table` recognises arrays that the vault was given.

    `shown` are the facts that the program was given: it could write to them, so they say whom it asks and no more.
    """
    check_constants(program, facts, is_table)
    for equation in all_equations(program.jaxpr):
        if _is_callback(equation):
            raise calls_back(equation)
    if program.effects:
        raise OperationRefused("the program has side effects; return values from it instead of writing them")
    numbers: dict[Any, int] = {}
    plans: list[Planned] = []
    places: dict[int, tuple[JaxprEqn, int]] = {}
    charges: list[Charge] = []
    for equation, count in _releases(program.jaxpr, 1):
        _check_release(equation, facts, shown or facts)
        mechanism, cells = rebuilt(equation.params["mechanism"]), genuine_cells(facts, equation.params.get("cells"))
        queries, chains = queries_of_one_chain(equation), equation.params["chains"]
        shapes = tuple((query.shape, query.dtype) for query in queries)
        number = numbers.setdefault((cells, mechanism, equation.params["term"], shapes), len(plans))
        if number == len(plans):
            contribution = _contribution(equation, mechanism, facts, is_table)
            plan = plan_of(mechanism, facts_of(facts, cells), contribution, queries)
            plans.append(Planned(plan, cells, type(mechanism).__name__, len(queries)))
        if plans[number].plan.outputs != outputs_of(equation, len(chains)):
            raise other_shapes(equation)
        places[id(equation)] = equation, number
        charges.append(Charge(_price(plans[number], facts), count * prod(chains), line_of(equation)))
    if path := first_refused(program.jaxpr, _IN_PROGRAMS):
        raise not_in_programs(path)
    return Audit(tuple(charges), tuple(plans), places)


def _shown(plan: ReleasePlan) -> ReleasePlan:
    return ReleasePlan(plan.outputs, genuine(plan.event), lambda *_: (), path=plan.path, is_gated=plan.is_gated)


def _price(planned: Planned, facts: Facts) -> Event:
    event = genuine(planned.plan.event)
    if MODES[facts.noise].claim is Claim.NONE:
        event = event + NonPrivate()
    return event if planned.cells is None else planned.cells.price(event)


def own_copy(closed: Any) -> Any:
    """Return a closed jaxpr that nobody else holds, at any depth; its constants are those of the other.

    JAX hands the jaxpr of a jitted function to all who trace it: its list of equations, and their parameters, could be
    changed after they were audited. Each is copied once, for XLA is given it once.
    """
    made: dict[int, Any] = {}

    def copied(value: Any) -> Any:
        if type(value) is tuple or type(value) is list:
            return type(value)(map(copied, value))
        if type(value) is dict:
            return {name: deepcopy(one) if name == "_prim" else copied(one) for name, one in value.items()}
        if id(value) not in made:
            if isinstance(value, Jaxpr):  # from JAX 0.11 on a closed one is one as well
                eqns = [equation.replace(params=copied(equation.params)) for equation in value.eqns]
                made[id(value)] = value.replace(eqns=eqns)
            elif isinstance(value, ClosedJaxpr):
                made[id(value)] = value.replace(jaxpr=copied(value.jaxpr))
        return made.get(id(value), value)

    return copied(closed)


def executable(program: Any, audited: Audit) -> Callable[..., list[Any]]:
    """Return ``function(tables, key, *arguments)``: the audited program with each release performed, ready for jit.

    There is a table of slots for each of `Audit.cells`.
    """

    def function(tables: Sequence[Any], key: jax.Array, *arguments: Any) -> list[Any]:
        slots = dict(zip(audited.cells, tables, strict=True))
        prepared = [planned.plan.prepare(slots[planned.cells]) for planned in audited.plans]

        def perform(equation: JaxprEqn, queries: list[Any], keys: Any) -> Sequence[Any]:
            place = audited.place(equation)
            return audited.plans[place].plan.draw(prepared[place], queries, keys)

        return execute(program, arguments, key, perform)

    return function


def _releases(jaxpr: Jaxpr, times: int) -> Iterator[tuple[JaxprEqn, int]]:
    """Yield every release with the number of times that it happens, chains not counted."""
    for equation in jaxpr.eqns:
        if equation.primitive is dp_release:
            yield equation, times
        elif not num_releases(equation):
            continue
        elif equation.primitive is SCAN or equation.primitive in CALLS:
            repeats = equation.params["length"] if equation.primitive is SCAN else 1
            for inner in inner_jaxprs(equation):
                yield from _releases(inner, times * repeats)
        else:
            culprit = next(release for inner in inner_jaxprs(equation) for release in _all_releases(inner))
            raise not_counted(culprit, equation)


def _check_release(equation: JaxprEqn, facts: Facts, shown: Facts) -> None:
    mechanism, chains = equation.params["mechanism"], equation.params["chains"]
    if not is_certified(mechanism, facts.extra_mechanisms):
        raise not_certified(mechanism, line_of(equation))
    is_plain = type(chains) is tuple and all(type(size) is int for size in chains)
    if not is_plain or equation.params["facts"] is not shown:
        raise other_data(equation)


@dataclass(frozen=True, eq=False)
class _Audited:
    """The function of one record that was audited, as the jaxpr that it is."""

    closed: Any

    def __call__(self, queries: Sequence[jax.Array], record: Any) -> jax.Array:
        return cast(jax.Array, jaxpr_as_fun(self.closed)(*jax.tree.leaves((queries, record)))[0])


def _contribution(equation: JaxprEqn, mechanism: Any, facts: Facts, is_table: Callable[[Any], bool]) -> _Audited:
    """Trace the per-record function of a release at shapes, audit it, and return it as a function of that jaxpr."""
    function = contribution_of(mechanism, equation.params["term"])
    traced = own_copy(traced_at(function, queries_of_one_chain(equation), facts.record))
    check_constants(traced, facts, is_table)
    if path := first_refused(traced.jaxpr, PER_RECORD_ON_GPU if jax.default_backend() == "gpu" else PER_RECORD):
        raise not_on_records([equation, *path])
    return _Audited(traced)


def _all_releases(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    return (equation for equation in all_equations(jaxpr) if equation.primitive is dp_release)


def _is_callback(equation: JaxprEqn) -> bool:
    """Recognise what reaches beyond the program: by its effect, or by its name where it claims to have none."""
    name = equation.primitive.name
    own_effects = equation.effects and not list(inner_jaxprs(equation))
    return bool(own_effects) or "callback" in name or name in {"debug_print", "ffi_call", "infeed", "outfeed"}
