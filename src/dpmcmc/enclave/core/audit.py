"""The auditor: what a traced program costs, and whether it may run at all.

The program is public code on public values: it never holds a record, because a release takes none (see `release`). So
the auditor has three things to prove before anything runs:

1. Every release can be counted: it stands in plain sight, in calls and in scans, whose lengths are known; not in
   `while`, `cond`, `checkpoint` or an operation that the auditor does not know. The price is the sum of the events,
   times the lengths of the scans and the number of chains.
2. The function that a release applies to each record (a likelihood, its gradient, a statistic) is pure: it is traced
   once, at shapes alone, to a jaxpr in which every operation is on a list. The vault executes that very jaxpr.
3. No array that looks like a copy of the table is closed over. Copies outside the vault are beyond any proof; the
   auditor refuses what it can recognise without looking at a value.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, cast

import jax
import jax.core
import jax.numpy as jnp
from jax.extend.core import Jaxpr, JaxprEqn, Literal, jaxpr_as_fun, primitives

from dpmcmc.accounting.event import Event, NonPrivate, compose
from dpmcmc.enclave.core.mechanism import Contribution, ReleasePlan, contribution_of, is_certified, plan_of
from dpmcmc.enclave.core.metadata import Facts
from dpmcmc.enclave.core.release import (
    CALLS,
    SCAN,
    dp_release,
    execute,
    inner_jaxprs,
    line_of,
    num_releases,
    outputs_of,
    queries_of_one_chain,
)
from dpmcmc.enclave.noise.modes import MODES, Claim
from dpmcmc.errors import OperationRefused, RecordsRefused, ReleaseRefused

LARGEST_CLOSURE = 100_000
"""A program may close over arrays of so many elements; larger ones must be arguments, which are stated to be public."""


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
    def is_gated(self) -> bool:
        """Whether any record passes the gate."""
        return any(plan.is_gated for plan in self.plans.values())

    @property
    def paths(self) -> tuple[str, ...]:
        """The ways in which records are added up, by name, for certificates."""
        return tuple(sorted({plan.path() for plan in self.plans.values()}))


def identity(equation: JaxprEqn) -> Any:
    """Return what decides the plan of a release: its mechanism, its term, the shapes of its queries."""
    shapes = tuple((query.shape, query.dtype) for query in queries_of_one_chain(equation))
    return equation.params["mechanism"], equation.params["term"], shapes


def audit(program: Any, facts: Facts, is_table: Callable[[Any], bool] = lambda _: False) -> Audit:
    """Price a closed jaxpr, or refuse it. Reads no record; `is_table` recognises arrays that the vault was given."""
    check_constants(program, facts, is_table)
    for equation in _all_equations(program.jaxpr):
        if _is_callback(equation):
            raise OperationRefused(
                f"{equation.primitive.name} at {line_of(equation)}: a program of the enclave may have no callback "
                "and no other side effect; return the value from the program and look at it after the run"
            )
    if program.effects:
        raise OperationRefused("the program has side effects; return values from it instead of writing them")
    plans: dict[Any, ReleasePlan] = {}
    charges: list[Charge] = []
    for equation, count in _releases(program.jaxpr, 1):
        _check_release(equation, facts)
        if identity(equation) not in plans:
            contribution = _contribution(equation, facts, is_table)
            queries = queries_of_one_chain(equation)
            plans[identity(equation)] = plan_of(equation.params["mechanism"], facts, contribution, queries)
        plan, chains = plans[identity(equation)], equation.params["chains"]
        if plan.outputs != outputs_of(equation, len(chains)):
            raise ReleaseRefused(
                f"dp_release at {line_of(equation)} would give other shapes than the program was traced with"
            )
        event = plan.event
        if MODES[facts.noise].claim is Claim.NONE:
            event = event + NonPrivate()
        charges.append(Charge(event, count * prod(chains), line_of(equation)))
    return Audit(tuple(charges), plans)


def executable(program: Any, audited: Audit) -> Callable[..., list[Any]]:
    """Return ``function(slots, key, *arguments)``: the audited program with each release performed, ready for jit."""

    def function(slots: Any, key: jax.Array, *arguments: Any) -> list[Any]:
        prepared = {release: plan.prepare(slots) for release, plan in audited.plans.items()}

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
            raise ReleaseRefused(
                f"dp_release at {line_of(culprit)} stands inside {equation.primitive.name} at {line_of(equation)}, "
                "which does not say how often it happens; use jax.lax.scan to a fixed length and mask what is not used"
            )


def _check_release(equation: JaxprEqn, facts: Facts) -> None:
    mechanism = equation.params["mechanism"]
    if not is_certified(mechanism, facts.extra_mechanisms):
        raise ReleaseRefused(
            f"dp_release at {line_of(equation)} uses {type(mechanism).__name__}, which is no certified mechanism: "
            "nobody proved what it says of itself; use one of dpmcmc.enclave.mechanisms"
        )
    if equation.params["facts"] is not facts:
        raise ReleaseRefused(
            f"dp_release at {line_of(equation)} asks another data set than the one that runs the program; "
            "use the oracle that the program was given"
        )


def _contribution(equation: JaxprEqn, facts: Facts, is_table: Callable[[Any], bool]) -> Contribution:
    """Trace the per-record function of a release at shapes, audit it, and return it as a function of that jaxpr."""
    function = contribution_of(equation.params["mechanism"], equation.params["term"])
    queries = list(queries_of_one_chain(equation))
    traced = jax.make_jaxpr(function)(queries, facts.record)
    check_constants(traced, facts, is_table)
    for inner in _all_equations(traced.jaxpr):
        if not _is_pure(inner):
            raise OperationRefused(
                f"{inner.primitive.name} at {line_of(inner)} is applied to records: a likelihood or statistic may use "
                "pure operations of jax.numpy, jax.scipy and jax.lax alone, no callbacks, prints or foreign code"
            )
    evaluate = jaxpr_as_fun(traced)
    return lambda queries, record: cast(jax.Array, evaluate(*jax.tree.leaves((queries, record)))[0])


def check_constants(closed: Any, facts: Facts, is_table: Callable[[Any], bool]) -> None:
    """Refuse a jaxpr that closes over the table, or over an array with an axis as long as the table.

    Under add-or-remove-one the number of records is private, so the size stated by the owner takes its place.
    """
    for constant, line in _constants(closed, "an unknown line"):
        shape = getattr(constant, "shape", ())
        if isinstance(constant, jax.core.Tracer):
            raise ReleaseRefused(
                f"a value that the program computes is closed over at {line} by the function that a release applies to "
                "a record; hand it over as an argument of the question, oracle.sum(mechanism, statistic, value)"
            )
        if is_table(constant):
            raise RecordsRefused(f"the table itself is closed over at {line}: records may be used in a release alone")
        if prod(shape) > 1 and (facts.size in shape or prod(shape) > LARGEST_CLOSURE):
            raise RecordsRefused(
                f"an array of shape {shape} is closed over at {line}; it looks like a table of records. Records may be "
                "used in a release alone; if the array is public, pass it as an argument of the program"
            )


def _constants(closed: Any, line: str) -> Iterator[tuple[Any, str]]:
    """Yield the arrays that a jaxpr closes over at any depth, with the first line that uses each."""
    equations = closed.eqns
    for variable, value in zip(closed.constvars, getattr(closed, "consts", ()), strict=False):
        users = (equation for equation in equations if any(atom is variable for atom in equation.invars))
        user = next(users, None)
        yield value, line if user is None else _line_of_use(user, variable)
    for equation in equations:
        for atom in equation.invars:
            if isinstance(atom, Literal):
                yield atom.val, line_of(equation)
        for parameter in equation.params.values():
            for inner in parameter if isinstance(parameter, tuple) else (parameter,):
                if hasattr(inner, "constvars"):
                    yield from _constants(inner, line_of(equation))


def _line_of_use(equation: JaxprEqn, variable: Any) -> str:
    """Return the line of the innermost operation that reads a variable handed down through calls and loops."""
    position = next(index for index, atom in enumerate(equation.invars) if atom is variable)
    for inner in inner_jaxprs(equation):
        if len(inner.invars) == len(equation.invars):
            handed = inner.invars[position]
            users = [user for user in inner.eqns if any(atom is handed for atom in user.invars)]
            if users:
                return _line_of_use(users[0], handed)
    return line_of(equation)


def _all_equations(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    for equation in jaxpr.eqns:
        yield equation
        for inner in inner_jaxprs(equation):
            yield from _all_equations(inner)


def _all_releases(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    return (equation for equation in _all_equations(jaxpr) if equation.primitive is dp_release)


def _is_callback(equation: JaxprEqn) -> bool:
    """Recognise what reaches beyond the program: by its effect, or by its name where it claims to have none."""
    name = equation.primitive.name
    own_effects = equation.effects and not list(inner_jaxprs(equation))
    return bool(own_effects) or "callback" in name or name in {"debug_print", "ffi_call", "infeed", "outfeed"}


def _is_pure(equation: JaxprEqn) -> bool:
    """Say whether a per-record function may use an operation.

    JAX 0.12 writes some functions of jax.numpy, `searchsorted` in `interp` among them, as an object that expands to
    other operations. Objects of JAX's own classes may be used if what they expand to may. Others may not: their rules
    for `vmap` and derivatives are code that nobody sees.
    """
    if equation.effects:
        return False
    if equation.primitive in _PURE:
        return True
    high: Any = equation.params.get("_prim")
    if type(high) not in _EXPANDABLE:
        return False
    expanded = jax.make_jaxpr(high.expand)(*high.in_avals)
    return not expanded.effects and all(_is_pure(inner) for inner in _all_equations(expanded.jaxpr))


def _pure_primitives() -> frozenset[Any]:
    """Return the operations that a per-record function may use: JAX's own and pure, told by identity, not by name."""
    listed = {value for module in (jax.lax, primitives) for name, value in vars(module).items() if name.endswith("_p")}
    one = jax.ShapeDtypeStruct((), jnp.float32)
    by_platform = jax.make_jaxpr(lambda x: jax.lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos))(one)
    listed.update(equation.primitive for equation in _all_equations(by_platform.jaxpr))
    impure = {name for name in ("infeed_p", "outfeed_p", "create_token_p", "after_all_p") if hasattr(jax.lax, name)}
    return frozenset(
        listed - {getattr(jax.lax, name) for name in impure} - {primitives.call_p, primitives.closed_call_p}
    )


def _expandable() -> frozenset[type]:
    """Return the classes of the objects that JAX itself writes for functions of jax.numpy, told by identity."""
    functions: list[Callable[[jax.Array], Any]] = [
        lambda x: jnp.searchsorted(x, x),
        lambda x: jnp.einsum("i,i", x, x),
        lambda x: jnp.ldexp(x, jnp.arange(2)),
        jnp.frexp,
        lambda x: jnp.nonzero(x, size=1),
    ]
    traced = [jax.make_jaxpr(function)(jax.ShapeDtypeStruct((2,), jnp.float32)) for function in functions]
    equations = (equation for one in traced for equation in _all_equations(one.jaxpr))
    return frozenset(type(equation.params["_prim"]) for equation in equations if "_prim" in equation.params)


_PURE = _pure_primitives()
_EXPANDABLE = _expandable()
