"""A function that was traced once, evaluated again from its jaxpr.

Running a NumPyro model in Python takes tens of milliseconds and leaves operations behind that nothing reads: checks of
supports, priors in a likelihood. A replay evaluates only what the result needs. And it takes axes of length one out of
products: a model is called on tables, so for one record it multiplies a matrix with one row, whose derivative is a
sum of one term; without the axis it is residual * row, which the enclave recognises as a linear predictor. For the same
reason a sum over such an axis, or a repetition along it, is evaluated as the change of shape that it amounts to.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import jax
import jax.numpy as jnp

from dpmcmc.errors import InvalidArgument
from dpmcmc.model.jaxprs import is_literal, through

_COMPOSITE = "call_hi_primitive"
"""Operations of newer versions of JAX that the auditor does not know; on constants they are performed at once."""

_ARITHMETIC = frozenset({"add", "sub", "mul", "div", "max", "min", "pow"})
_UNIT_AXES = frozenset({"broadcast_in_dim", "reduce_sum", "reduce_max", "reduce_min", "reduce_prod"})


def replay(function: Callable[..., Any], **examples: Any) -> Callable[..., Any]:
    """Return a function of the same arguments, traced at the shapes of the examples, ready for jit, grad and vmap.

    `examples` are the arguments in their order, by the names that messages use: pytrees of `jax.ShapeDtypeStruct`.
    """
    traced, outputs = jax.make_jaxpr(function, return_shape=True)(*examples.values())
    structure = jax.tree.structure(outputs)

    def replayed(*arguments: Any) -> Any:
        leaves = [
            leaf
            for (name, example), argument in zip(examples.items(), arguments, strict=True)
            for leaf in _leaves(name, example, argument)
        ]
        return jax.tree.unflatten(structure, _evaluate(traced.jaxpr, traced.consts, leaves))

    return jax.jit(replayed, inline=True)


def _leaves(name: str, example: Any, argument: Any) -> list[jax.Array]:
    """Return the arrays of an argument, after comparing them with what the function was traced at."""
    expected, structure = jax.tree.flatten(example)
    found = jax.tree.structure(argument)
    if found != structure:
        raise InvalidArgument(f"{name} has the structure {found}; expected {structure}")
    shapes = [jnp.shape(leaf) for leaf in jax.tree.leaves(argument)]
    if shapes != [leaf.shape for leaf in expected]:
        raise InvalidArgument(f"{name} has leaves of the shapes {shapes}; expected {[leaf.shape for leaf in expected]}")
    return [
        jnp.asarray(leaf).astype(example.dtype)
        for leaf, example in zip(jax.tree.leaves(argument), expected, strict=True)
    ]


def _evaluate(
    jaxpr: Any, constants: Sequence[Any], arguments: Sequence[Any], results_wanted: Sequence[Any] | None = None
) -> list[Any]:
    wanted = jaxpr.outvars if results_wanted is None else results_wanted

    def perform(equation: Any, operands: list[Any]) -> Sequence[Any]:
        if equation.primitive.name in {"jit", "pjit"}:
            called = equation.params["jaxpr"]
            return _evaluate(called.jaxpr, called.consts, operands)
        if equation.primitive.name == _COMPOSITE and _is_fixed(jaxpr, equation):
            with jax.ensure_compile_time_eval():
                operands = _evaluate(jaxpr, constants, arguments, equation.invars)
                return equation.primitive.bind(*operands, **equation.primitive.get_bind_params(equation.params))
        if equation.primitive is jax.lax.dot_general_p:
            return [_product(equation, *operands)]
        if equation.primitive.name in _UNIT_AXES and _same_size(equation):
            return [jnp.reshape(operands[0], equation.outvars[0].aval.shape)]
        if equation.primitive.name in _ARITHMETIC and prod(equation.outvars[0].aval.shape) == 1:
            operands = [jnp.reshape(operand, equation.outvars[0].aval.shape) for operand in operands]
        results = equation.primitive.bind(*operands, **equation.primitive.get_bind_params(equation.params))
        return results if equation.primitive.multiple_results else [results]

    return through(
        jaxpr,
        arguments,
        constants,
        literal=lambda value: value,
        perform=perform,
        equations=_needed(jaxpr, wanted),
        wanted=wanted,
    )


def _is_fixed(jaxpr: Any, equation: Any) -> bool:
    """Say whether an operation depends on constants alone, such as the places of the entries of a triangle."""
    before = [atom for earlier in _needed(jaxpr, equation.invars) for atom in earlier.invars]
    return not any(atom is variable for atom in [*before, *equation.invars] for variable in jaxpr.invars)


def _needed(jaxpr: Any, results: Sequence[Any]) -> list[Any]:
    """Return the equations that results depend on, and those with effects, which the auditor must see."""
    needed = {atom for atom in results if not is_literal(atom)}
    found: list[Any] = []
    for equation in reversed(jaxpr.eqns):
        if equation.effects or needed.intersection(equation.outvars):
            needed.update(atom for atom in equation.invars if not is_literal(atom))
            found.append(equation)
    return found[::-1]


def _same_size(equation: Any) -> bool:
    """Say whether an operation on one array only adds or removes axes of length one."""
    return prod(equation.invars[0].aval.shape) == prod(equation.outvars[0].aval.shape)


def _product(equation: Any, first: Any, second: Any) -> Any:
    """Return a product with its axes of length one left out and put back into the result."""
    contracted, batched = equation.params["dimension_numbers"]
    sides = [
        _without_unit_axes(operand, summed, shared)
        for operand, summed, shared in zip((first, second), contracted, batched, strict=True)
    ]
    (first, *first_axes), (second, *second_axes) = sides
    numbers = tuple(zip(first_axes, second_axes, strict=True))
    product = jax.lax.dot_general_p.bind(first, second, **{**equation.params, "dimension_numbers": numbers})
    return product.reshape(equation.outvars[0].aval.shape)


def _without_unit_axes(operand: Any, *groups: Sequence[int]) -> tuple[Any, ...]:
    """Return an array without its axes of length one, and where the other axes of each group are then."""
    kept = [axis for axis, size in enumerate(jnp.shape(operand)) if size != 1]
    places = {axis: place for place, axis in enumerate(kept)}
    squeezed = jnp.reshape(operand, [jnp.shape(operand)[axis] for axis in kept])
    return squeezed, *(tuple(places[axis] for axis in group if axis in places) for group in groups)
