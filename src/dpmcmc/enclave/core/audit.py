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
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, cast

import jax
from jax.extend.core import Jaxpr, JaxprEqn, jaxpr_as_fun

from dpmcmc.accounting.event import Event, NonPrivate, compose, genuine
from dpmcmc.enclave.copies import check_constants
from dpmcmc.enclave.core.allowed import PER_RECORD, PER_RECORD_ON_GPU, PROGRAMS, all_equations, first_refused
from dpmcmc.enclave.core.cells import Cells, facts_of
from dpmcmc.enclave.core.mechanism import ReleasePlan, contribution_of, is_certified, plan_of
from dpmcmc.enclave.core.metadata import Facts
from dpmcmc.enclave.core.release import (
    CALLS,
    SCAN,
    cells_of,
    dp_release,
    execute,
    inner_jaxprs,
    num_releases,
    outputs_of,
    queries_of_one_chain,
)
from dpmcmc.enclave.lines import line_of
from dpmcmc.enclave.noise.modes import MODES, Claim
from dpmcmc.enclave.refusals import calls_back, not_certified, not_counted, not_in_programs, not_on_records
from dpmcmc.enclave.traces import traced_at
from dpmcmc.errors import OperationRefused, ReleaseRefused

_IN_PROGRAMS = PROGRAMS | {dp_release}


@dataclass(frozen=True)
class Charge:
    """One release in the source of a program: its event, how often it happens and where it stands."""

    event: Event
    count: int
    line: str


@dataclass(frozen=True)
class Audit:
    """A program that may run: its price, what the price is made of, and what each release computes."""

    charges: tuple[Charge, ...]
    plans: dict[Any, ReleasePlan] = field(repr=False)
    """The plan of each release, by `identity`: made once, of an audited function, and priced and drawn as it is."""

    @property
    def event(self) -> Event:
        """The composition of every release: the price."""
        return compose(charge.event * charge.count for charge in self.charges)

    @property
    def cells(self) -> tuple[Cells | None, ...]:
        """The cells that releases are asked of, in the order of the tables that the program is given; None for all."""
        return tuple(dict.fromkeys(release[0] for release in self.plans)) or (None,)

    @property
    def is_gated(self) -> bool:
        """Whether any record passes the gate."""
        return any(plan.is_gated for plan in self.plans.values())

    @property
    def paths(self) -> tuple[str, ...]:
        """The ways in which records are added up, by name, for certificates."""
        return tuple(sorted({plan.path() for plan in self.plans.values()}))


def identity(equation: JaxprEqn) -> Any:
    """Return what decides the plan of a release: its cells, its mechanism, its term, the shapes of its queries."""
    shapes = tuple((query.shape, query.dtype) for query in queries_of_one_chain(equation))
    return cells_of(equation), equation.params["mechanism"], equation.params["term"], shapes


def audit(program: Any, facts: Facts, is_table: Callable[[Any], bool] = lambda _: False) -> Audit:
    """Price a closed jaxpr, or refuse it. Reads no record; `is_table` recognises arrays that the vault was given."""
    check_constants(program, facts, is_table)
    for equation in all_equations(program.jaxpr):
        if _is_callback(equation):
            raise calls_back(equation)
    if program.effects:
        raise OperationRefused("the program has side effects; return values from it instead of writing them")
    plans: dict[Any, ReleasePlan] = {}
    charges: list[Charge] = []
    for equation, count in _releases(program.jaxpr, 1):
        _check_release(equation, facts)
        if identity(equation) not in plans:
            contribution = _contribution(equation, facts, is_table)
            queries = queries_of_one_chain(equation)
            asked = facts_of(facts, cells_of(equation))
            plans[identity(equation)] = plan_of(equation.params["mechanism"], asked, contribution, queries)
        plan, chains, cells = plans[identity(equation)], equation.params["chains"], cells_of(equation)
        if plan.outputs != outputs_of(equation, len(chains)):
            raise ReleaseRefused(
                f"dp_release at {line_of(equation)} would give other shapes than the program was traced with"
            )
        event = genuine(plan.event)
        if MODES[facts.noise].claim is Claim.NONE:
            event = event + NonPrivate()
        event = event if cells is None else cells.price(event)
        charges.append(Charge(event, count * prod(chains), line_of(equation)))
    if path := first_refused(program.jaxpr, _IN_PROGRAMS):
        raise not_in_programs(path)
    return Audit(tuple(charges), plans)


def executable(program: Any, audited: Audit) -> Callable[..., list[Any]]:
    """Return ``function(tables, key, *arguments)``: the audited program with each release performed, ready for jit.

    There is a table of slots for each of `Audit.cells`.
    """

    def function(tables: Sequence[Any], key: jax.Array, *arguments: Any) -> list[Any]:
        slots = dict(zip(audited.cells, tables, strict=True))
        prepared = {release: plan.prepare(slots[release[0]]) for release, plan in audited.plans.items()}

        def perform(equation: JaxprEqn, queries: list[Any], keys: Any) -> Sequence[Any]:
            release = identity(equation)
            return audited.plans[release].draw(prepared[release], queries, keys)

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


def _check_release(equation: JaxprEqn, facts: Facts) -> None:
    mechanism = equation.params["mechanism"]
    if not is_certified(mechanism, facts.extra_mechanisms):
        raise not_certified(mechanism, line_of(equation))
    if any(type(size) is not int for size in equation.params["chains"]) or equation.params["facts"] is not facts:
        raise ReleaseRefused(
            f"dp_release at {line_of(equation)} asks another data set than the one that runs the program; "
            "use the oracle that the program was given"
        )


@dataclass(frozen=True, eq=False)
class _Audited:
    """The function of one record that was audited, as the jaxpr that it is."""

    closed: Any

    def __call__(self, queries: Sequence[jax.Array], record: Any) -> jax.Array:
        return cast(jax.Array, jaxpr_as_fun(self.closed)(*jax.tree.leaves((queries, record)))[0])


def _contribution(equation: JaxprEqn, facts: Facts, is_table: Callable[[Any], bool]) -> _Audited:
    """Trace the per-record function of a release at shapes, audit it, and return it as a function of that jaxpr."""
    function = contribution_of(equation.params["mechanism"], equation.params["term"])
    traced = traced_at(function, queries_of_one_chain(equation), facts.record)
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
