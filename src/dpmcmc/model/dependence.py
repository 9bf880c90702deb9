"""Which rows of a table each entry of a result depends on, read from the jaxpr and not from values.

Every entry of every array carries a set of marks: one for each row, one for the position, and `UNKNOWN`. Operations
pass the marks on: entry by entry where they work so, along an axis where they add up along it, from everything to
everything where nobody wrote a rule; then `UNKNOWN` is added, which says that the marks are an upper bound. Without
it, a mark stands for a path through operations whose rules are exact: the entry is computed from that row.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from dpmcmc.model.dependence_rules import POSITION, ROWS, RULES, UNKNOWN, Marks, Shapes, union
from dpmcmc.model.jaxprs import through

MOST_STEPS = 256
"""Longer loops are not followed step by step."""

CALLS = frozenset({"jit", "pjit", "closed_call", "remat", "remat2", "checkpoint", "custom_jvp_call", "custom_vjp_call"})
"""Operations that perform the one jaxpr they carry exactly once."""


def row(number: int) -> int:
    """Return the mark of one row."""
    return 4 << number


def of_position(leaf: Any) -> Marks:
    """Return the marks of an array of the position."""
    return np.full(leaf.shape, POSITION, np.int64)


def of_rows(leaf: Any) -> Marks:
    """Return the marks of an array with one entry, or block of entries, a row."""
    marks = np.array([row(number) for number in range(leaf.shape[0])], np.int64)
    return np.broadcast_to(marks.reshape(-1, *(1,) * (len(leaf.shape) - 1)), leaf.shape)


def follow(closed: Any, inputs: Sequence[Marks]) -> list[Marks]:
    """Return the marks of the results of a closed jaxpr, given those of its inputs."""
    jaxpr = getattr(closed, "jaxpr", closed)
    constants = [np.zeros(variable.aval.shape, np.int64) for variable in jaxpr.constvars]
    return through(
        jaxpr, inputs, constants, literal=lambda value: np.zeros(np.shape(value), np.int64), perform=_results
    )


def _results(equation: Any, operands: list[Marks]) -> list[Marks]:
    shapes = [tuple(variable.aval.shape) for variable in equation.outvars]
    marks = reduce(np.bitwise_or, (union(operand) for operand in operands), np.int64(0))
    if not marks & ROWS:  # no rule is needed where no row is
        return [np.full(shape, marks) for shape in shapes]
    name, parameters = equation.primitive.name, equation.params
    called = parameters.get("jaxpr", parameters.get("call_jaxpr")) if name in CALLS else None
    if called is not None:
        return follow(called, operands)
    rule = {"cond": _cond, "scan": _scan}.get(name, RULES.get(name))
    results = None if rule is None else rule(operands, parameters, shapes)
    return [np.full(shape, marks | UNKNOWN) for shape in shapes] if results is None else results


def _cond(operands: list[Marks], parameters: dict[str, Any], shapes: Shapes) -> list[Marks]:  # noqa: ARG001
    index, *rest = operands
    branches = [follow(branch, rest) for branch in parameters["branches"]]
    return [reduce(np.bitwise_or, results) | union(index) for results in zip(*branches, strict=True)]


def _scan(operands: list[Marks], parameters: dict[str, Any], shapes: Shapes) -> list[Marks] | None:  # noqa: ARG001
    length = parameters["length"]
    if not 0 < length <= MOST_STEPS:
        return None
    if "num_carry" in parameters:
        num_constants, num_carried = parameters["num_consts"], parameters["num_carry"]
    else:  # jax 0.12 and later
        num_constants, num_carried, _ = (len(part) for part in parameters["ft_in"].unpack())
    constants, carried = operands[:num_constants], operands[num_constants : num_constants + num_carried]
    steps = range(length - 1, -1, -1) if parameters["reverse"] else range(length)
    stacked: dict[int, list[Marks]] = {}
    for step in steps:
        own = [operand[step] for operand in operands[num_constants + num_carried :]]
        results = follow(parameters["jaxpr"], [*constants, *carried, *own])
        carried, stacked[step] = results[:num_carried], results[num_carried:]
    outputs = [stacked[step] for step in range(length)]
    return [*carried, *(np.stack(parts) for parts in zip(*outputs, strict=True))]
