"""Going through a jaxpr, equation by equation: what is known of its inputs becomes known of its results."""

from collections.abc import Callable, Sequence
from typing import Any


def is_literal(atom: Any) -> bool:
    """Say whether an operand is a number that stands in the jaxpr itself."""
    return hasattr(atom, "val")


def through(
    jaxpr: Any,
    inputs: Sequence[Any],
    constants: Sequence[Any],
    *,
    literal: Callable[[Any], Any],
    perform: Callable[[Any, list[Any]], Sequence[Any]],
    equations: Sequence[Any] | None = None,
    wanted: Sequence[Any] | None = None,
) -> list[Any]:
    """Return what is known of the results of a jaxpr: their values, or where they come from.

    Args:
        jaxpr: the equations, which are not closed.
        inputs: what is known of its inputs, in their order.
        constants: what is known of its constants, in their order.
        literal: ``literal(value)``: what is known of a number that stands in the jaxpr.
        perform: ``perform(equation, operands)``: what is known of the results of one equation, given its operands.
        equations: those to go through, all unless stated.
        wanted: instead of the results of the jaxpr, other variables of it.
    """
    known: dict[Any, Any] = dict(zip(jaxpr.invars, inputs, strict=True))
    known.update(zip(jaxpr.constvars, constants, strict=True))

    def read(atom: Any) -> Any:
        return literal(atom.val) if is_literal(atom) else known[atom]

    for equation in jaxpr.eqns if equations is None else equations:
        operands = [read(atom) for atom in equation.invars]
        known.update(zip(equation.outvars, perform(equation, operands), strict=True))
    return [read(atom) for atom in (jaxpr.outvars if wanted is None else wanted)]
