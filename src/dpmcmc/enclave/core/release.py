"""The JAX primitive `dp_release`: the one way in which records influence a program.

A program asks for a release by binding the primitive to *public* arrays, the queries. The records are no operand: while
a program is traced they do not exist for it, so no operation of the program can touch them and none can be captured as
a constant. The primitive has no implementation either. Only `execute`, which the vault calls on a program that was
audited, knows how to perform it; everywhere else (eagerly, under `jit`, hidden in a foreign operation) it raises.

A release takes no random key. `execute` numbers the releases that stand in the program, and for each of them the
occurrences that the auditor charges: repetition of the loops around it times number of chains, plus chain. Occurrence o
of release r draws from ``fold_in(split(root, num_releases)[r], o)``, where the root is the run's own secret. Two
performed releases differ in r or in o, so no two share noise, whatever the program does.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NoReturn, cast

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.extend import source_info_util
from jax.extend.core import Jaxpr, JaxprEqn, Literal, Primitive, jaxprs_in_params, primitives
from jax.interpreters import ad, batching, mlir

from dpmcmc.enclave.core.cells import Cells, facts_of, genuine_cells
from dpmcmc.enclave.core.mechanism import Mechanism, Term, contribution_of, is_certified, plan_of
from dpmcmc.enclave.core.metadata import Facts
from dpmcmc.enclave.lines import current_line, line_of
from dpmcmc.enclave.refusals import differentiated, not_certified, other_shapes, performed_outside
from dpmcmc.errors import ReleaseRefused

dp_release = Primitive("dp_release")
dp_release.multiple_results = True

SCAN = jax.lax.scan_p
"""The only loop that may hold a release: its length is known."""

CALLS = frozenset({primitives.jit_p, primitives.custom_jvp_call_p, primitives.custom_vjp_call_p})
"""Operations that perform the one jaxpr they carry exactly once."""


def release(
    facts: Facts, mechanism: Mechanism, term: Term, queries: Sequence[Any], cells: Cells | None = None
) -> list[Any]:
    """Ask the data described by `facts`, or some cells of it, for one release at the public `queries`."""
    what = {"facts": facts, "mechanism": mechanism, "term": term, "cells": cells}
    return cast(list[Any], dp_release.bind(*queries, **what, chains=()))


def queries_of_one_chain(equation: JaxprEqn) -> tuple[jax.ShapeDtypeStruct, ...]:
    """Return the shapes of a release's queries without the axes that `vmap` put in front."""
    return _without_chains([variable.aval for variable in equation.invars], equation.params["chains"])


def outputs_of(equation: JaxprEqn, num_chain_axes: int = 0) -> tuple[jax.ShapeDtypeStruct, ...]:
    """Return the shapes of an equation's results, without so many leading axes."""
    avals: list[Any] = [variable.aval for variable in equation.outvars]
    return tuple(jax.ShapeDtypeStruct(aval.shape[num_chain_axes:], aval.dtype) for aval in avals)


def inner_jaxprs(equation: JaxprEqn) -> Iterator[Jaxpr]:
    """Yield the jaxprs that an operation carries, whatever it does with them."""
    yield from jaxprs_in_params(equation.params)


def is_literal(atom: Any) -> bool:
    """Say whether an operand is a number that stands in the jaxpr itself."""
    return isinstance(atom, Literal)


def num_releases(equation: JaxprEqn) -> int:
    """Return how many releases an equation is or carries, at any depth; repetitions are not counted."""
    if equation.primitive is dp_release:
        return 1
    return sum(num_releases(inner) for jaxpr in inner_jaxprs(equation) for inner in jaxpr.eqns)


Perform = Callable[[JaxprEqn, list[Any], jax.Array], Sequence[Any]]
"""``perform(equation, queries, keys)``: every query has one leading axis, the chains; there is a key for each chain."""


def execute(program: Any, arguments: Sequence[Any], key: jax.Array, perform: Perform) -> list[Any]:
    """Evaluate a closed jaxpr, equation by equation as it stands, with `perform` in place of each release."""
    keys = jax.random.split(key, max(1, sum(num_releases(equation) for equation in program.eqns)))
    return _execute(program, arguments, Place(keys, 0, jnp.uint32(0), 1), perform)


@dataclass(frozen=True)
class Place:
    """Where the execution of a program stands: enough to number every release that is performed."""

    keys: jax.Array
    """One key for each release in the program, in the order in which they stand."""
    number: int
    """The number of the first release of the jaxpr at hand."""
    repetition: jax.Array
    """Which repetition of the loops around it this is, and"""
    repetitions: int
    """how many there are."""

    def inside(self, iteration: jax.Array, length: int) -> "Place":
        """Return the place inside one iteration of a loop."""
        repetition = self.repetition * np.uint32(length) + iteration
        return replace(self, repetition=repetition, repetitions=self.repetitions * length)

    def chain_keys(self, equation: JaxprEqn, num_chains: int) -> jax.Array:
        """Return a key for each chain of a release: the release's own key, folded with the number of the occurrence."""
        if self.repetitions * num_chains >= 2**32 or self.number >= len(self.keys):
            raise ReleaseRefused(f"dp_release at {line_of(equation)} is repeated too often to number its noise")
        occurrences = self.repetition * np.uint32(num_chains) + jnp.arange(num_chains, dtype=jnp.uint32)
        own, fold = self.keys[self.number], jax.random.fold_in
        return fold(own, occurrences[0])[None] if num_chains == 1 else jax.vmap(fold, (None, 0))(own, occurrences)


def _execute(jaxpr: Any, arguments: Sequence[Any], place: Place, perform: Perform) -> list[Any]:
    values: dict[Any, Any] = dict(zip(jaxpr.constvars, jaxpr.consts, strict=True))
    values.update(zip(jaxpr.invars, arguments, strict=True))

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else values[atom]

    for equation in jaxpr.eqns:
        operands = [read(atom) for atom in equation.invars]
        releases = num_releases(equation)
        if not releases:
            results = bind(equation, operands)
        elif equation.primitive is dp_release:
            results = perform_at(equation, operands, place, perform)
        elif equation.primitive is SCAN:
            results = _scan(equation, operands, place, perform)
        elif equation.primitive in CALLS:
            results = _execute(called(equation), operands, place, perform)
        else:
            raise ReleaseRefused(f"a release inside {equation.primitive.name} cannot be executed")
        place = replace(place, number=place.number + releases)
        values.update(zip(equation.outvars, results, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def bind(equation: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Perform an operation that is no release."""
    parameters = equation.primitive.get_bind_params(equation.params)
    with source_info_util.user_context(equation.source_info.traceback), equation.ctx.manager:
        results = equation.primitive.bind(*operands, **parameters)
    return results if equation.primitive.multiple_results else [results]


def perform_at(equation: JaxprEqn, operands: list[Any], place: Place, perform: Perform) -> list[Any]:
    """Perform a release, with a key for each of its chains."""
    keys = place.chain_keys(equation, num_chains(equation))
    return answers(equation, perform(equation, queries_of(equation, operands), keys))


def num_chains(equation: JaxprEqn) -> int:
    """Return how many chains a release is asked for at once."""
    return prod(equation.params["chains"])


def queries_of(equation: JaxprEqn, operands: Sequence[Any]) -> list[Any]:
    """Return the queries of a release, each with one leading axis, the chains."""
    avals: list[Any] = [variable.aval for variable in equation.invars]
    arrays = [jnp.asarray(operand, aval.dtype) for operand, aval in zip(operands, avals, strict=True)]  # or literals
    axes = len(equation.params["chains"])
    return [array.reshape((num_chains(equation), *array.shape[axes:])) for array in arrays]


def answers(equation: JaxprEqn, drawn: Sequence[Any]) -> list[Any]:
    """Return what was drawn, one leading axis for the chains, as the results of a release."""
    results = [result.reshape((*equation.params["chains"], *result.shape[1:])) for result in drawn]
    if [(result.shape, result.dtype) for result in results] != [(o.shape, o.dtype) for o in outputs_of(equation)]:
        raise other_shapes(equation)
    return results


def _scan(equation: JaxprEqn, operands: list[Any], place: Place, perform: Perform) -> list[Any]:
    num_constants, num_carry = scan_layout(equation)
    constants, variables = operands[:num_constants], operands[num_constants:]
    length = equation.params["length"]

    def step(carry: list[Any], slices: tuple[jax.Array, list[Any]]) -> tuple[list[Any], list[Any]]:
        iteration, inputs = slices
        own_place = place.inside(iteration, length)
        results = _execute(equation.params["jaxpr"], [*constants, *carry, *inputs], own_place, perform)
        return results[:num_carry], results[num_carry:]

    carry, stacked = jax.lax.scan(
        step,
        variables[:num_carry],
        (jnp.arange(length, dtype=jnp.uint32), variables[num_carry:]),
        length=length,
        reverse=equation.params["reverse"],
        unroll=equation.params["unroll"],
    )
    return [*carry, *stacked]


def scan_layout(equation: JaxprEqn) -> tuple[int, int]:
    """Return how many operands of a scan are constants and how many are the carry."""
    parameters = equation.params
    if "num_carry" in parameters:
        return parameters["num_consts"], parameters["num_carry"]
    constants, carry, _ = parameters["ft_in"].unpack()  # jax 0.12 and later
    return len(constants), len(carry)


def called(equation: JaxprEqn) -> Any:
    """Return the closed jaxpr of a call; jit names it differently from the custom rules."""
    return equation.params["jaxpr" if "jaxpr" in equation.params else "call_jaxpr"]


def _without_chains(avals: Sequence[Any], chains: tuple[int, ...]) -> tuple[jax.ShapeDtypeStruct, ...]:
    return tuple(jax.ShapeDtypeStruct(aval.shape[len(chains) :], aval.dtype) for aval in avals)


def _abstract(
    *avals: Any, facts: Facts, mechanism: Mechanism, term: Term, chains: tuple[int, ...], cells: Any = None
) -> list[Any]:
    if not is_certified(mechanism, facts.extra_mechanisms):
        raise not_certified(mechanism, current_line())
    queries = _without_chains(avals, chains)
    asked = facts_of(facts, genuine_cells(facts, cells))
    outputs = plan_of(mechanism, asked, contribution_of(mechanism, term), queries).outputs
    return [jax.core.ShapedArray((*chains, *output.shape), output.dtype) for output in outputs]


def _batch(operands: Sequence[Any], axes: Sequence[Any], *, chains: tuple[int, ...], **parameters: Any) -> Any:
    """One release for all chains: stack the queries in front, so that one pass over the records serves them all."""
    size = next(operand.shape[axis] for operand, axis in zip(operands, axes, strict=True) if axis is not None)
    stacked = [
        jnp.broadcast_to(operand, (size, *operand.shape)) if axis is None else jnp.moveaxis(operand, axis, 0)
        for operand, axis in zip(operands, axes, strict=True)
    ]
    results = cast(list[Any], dp_release.bind(*stacked, chains=(size, *chains), **parameters))
    return results, [0] * len(results)


def _differentiate(*_: Any, **__: Any) -> NoReturn:
    raise differentiated()


def _outside(*_: Any, **__: Any) -> NoReturn:
    raise performed_outside()


dp_release.def_impl(_outside)
dp_release.def_abstract_eval(_abstract)
batching.primitive_batchers[dp_release] = _batch
ad.primitive_jvps[dp_release] = _differentiate
mlir.register_lowering(dp_release, _outside)
