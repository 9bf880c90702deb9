"""The operations that audited code may use, written out by name.

`PER_RECORD` is what a likelihood, its gradient or a statistic may apply to records. An operation is on it if

1. it is pure, deterministic and without state: its results follow from its operands and parameters alone;
2. under `vmap`, where each record has a lane, no lane can change the bits of another;
3. it has no loop whose number of turns depends on values, such as one that goes on until something has converged.

The second and third fail together where JAX computes a function by one loop over all lanes that stops when none is
unconverged: one slow record then gives all others another turn, or keeps the run going for ever. So the incomplete
gamma and beta functions are not on the list, nor decompositions that iterate, nor `while`. The test in
tests/privacy/test_allowed.py replaces one lane by extreme values, for each operation here, and compares the bits of the
others; it runs on whichever device JAX has. It is evidence for that device, not a proof.

`PROGRAMS` is what the program around the releases may use: it may also loop on public values and draw random numbers.

Names are those of JAX's primitives, less the ending ``_p``. Operations are told apart by identity: one of another make
does not pass by calling itself `add`. What a new JAX adds is not allowed until somebody writes it down here.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType
from typing import Any

import jax
import jax.lax
import jax.numpy as jnp
from jax.extend.core import Jaxpr, JaxprEqn, jaxprs_in_params, primitives

ENTRY_BY_ENTRY = """
    abs acos acosh add add_jaxvals and asin asinh atan atan2 atanh bessel_i0e bessel_i1e bitcast_convert_type cbrt ceil
    clamp clz complex conj convert_element_type copy cos cosh digamma div eq eq_to erf erf_inv erfc exp exp2 expm1 floor
    ge gt imag integer_pow is_finite le le_to lgamma log log1p logistic lt lt_to max min mul mulhi name ne neg nextafter
    not or polygamma population_count pow real reduce_precision rem round rsqrt select_n shift_left
    shift_right_arithmetic shift_right_logical sign sin sinh sqrt square stop_gradient sub tan tanh xor zeta
"""
"""Functions of one entry of each operand. Special functions among them are polynomials of fixed degree, no loops."""

SHAPES_AND_PLACES = """
    broadcast_in_dim concatenate dynamic_slice dynamic_update_slice gather iota pad reshape rev scatter scatter_add
    scatter_max scatter_min scatter_mul scatter_sub slice split squeeze stack tile transpose unstack
"""
"""Where entries go. A place outside the array is clamped or dropped in each lane by itself. Derivatives of indexes need
the scatters."""

NOT_ON_A_GPU = "scatter scatter_add scatter_mul scatter_sub"
"""On an H200 lanes were seen to change bits of others here: all are scattered at once, in an order that varies."""

ALONG_AN_AXIS = """
    argmax argmin cumlogsumexp cummax cummin cumprod cumsum dot_general reduce_and reduce_max reduce_min
    reduce_or reduce_prod reduce_sum reduce_window_max reduce_window_min reduce_window_sum reduce_xor
    sort top_k
"""
"""Sums, products and orders within a record; `vmap` adds an axis that they do not reduce."""

MATRICES = "cholesky triangular_solve"
"""One call of LAPACK a matrix on a CPU, of a fixed number of steps; on a GPU the vendor's batched routines."""

CARRYING = "cond custom_jvp_call custom_vjp_call jit platform_index remat scan"
"""Operations that carry others, each of which must be on the list too. Under `vmap` a `cond` computes both branches."""

ONLY_IN_PROGRAMS = """
    closed_call conv_general_dilated device_put eig eigh fft hessenberg householder_product igamma igamma_grad_a igammac
    linear_solve lu lu_pivots_to_permutation optimization_barrier qr random_bits random_clone random_fold_in
    random_gamma random_seed random_split random_unwrap random_wrap regularized_incomplete_beta schur
    select_and_gather_add select_and_scatter select_and_scatter_add svd threefry2x32 tridiagonal tridiagonal_solve while
"""
"""What may be applied to public values and not to records."""


def _traced(function: Callable[[], Any]) -> dict[str, Any]:
    """Return the primitives of a function of JAX, by the names that they give themselves."""
    return {equation.primitive.name: equation.primitive for equation in all_equations(jax.make_jaxpr(function)().jaxpr)}


def all_equations(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    """Yield the equations of a jaxpr, at any depth."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in jaxprs_in_params(equation.params):
            yield from all_equations(inner)


_THREEFRY = "threefry2x32"
_KEPT_ELSEWHERE: dict[str, Callable[[], Any]] = {
    "lu_pivots_to_permutation": lambda: jax.lax.linalg.lu_pivots_to_permutation(jnp.zeros(2, jnp.int32), 2),
    "platform_index": lambda: jax.lax.platform_dependent(jnp.float32(0), cpu=jnp.sin, default=jnp.cos),
    "random_clone": lambda: jax.random.clone(jax.random.key(0, impl=_THREEFRY)),
    "random_unwrap": lambda: jax.random.key_data(jax.random.key(0, impl=_THREEFRY)),
    "random_wrap": lambda: jax.random.wrap_key_data(jnp.zeros(2, jnp.uint32), impl=_THREEFRY),
}
"""Primitives that JAX shows nowhere, each by a public function of JAX that is made of it."""


def find(name: str) -> Any:
    """Return JAX's own primitive of that name, or None where the installed JAX has none."""
    for home in (jax.lax, primitives):
        if (found := vars(home).get(f"{name}_p")) is not None:
            return found
    return _traced(_KEPT_ELSEWHERE[name]).get(name) if name in _KEPT_ELSEWHERE else None


def found(*lists: str) -> dict[Any, str]:
    """Return the primitives on some lists that the installed JAX has, with their names."""
    by_name = {name: find(name) for names in lists for name in names.split()}
    return {primitive: name for name, primitive in by_name.items() if primitive is not None}


PER_RECORD = frozenset(found(ENTRY_BY_ENTRY, SHAPES_AND_PLACES, ALONG_AN_AXIS, MATRICES, CARRYING))
"""The operations that a function of one record may use."""

PER_RECORD_ON_GPU = PER_RECORD - frozenset(found(NOT_ON_A_GPU))

PROGRAMS = PER_RECORD | frozenset(found(ONLY_IN_PROGRAMS))
"""The operations that a program may use, beside releases."""


def _expandable() -> list[tuple[Any, type]]:
    """Return the operations by which JAX itself writes functions of jax.numpy as objects, with their classes."""
    functions: list[Callable[[jax.Array], Any]] = [
        lambda x: jnp.searchsorted(x, x),
        lambda x: jnp.einsum("i,i", x, x),
        lambda x: jnp.ldexp(x, jnp.arange(2)),
        jnp.frexp,
        lambda x: jnp.nonzero(x, size=1),
    ]
    traced = [jax.make_jaxpr(function)(jax.ShapeDtypeStruct((2,), jnp.float32)) for function in functions]
    equations = (equation for one in traced for equation in all_equations(one.jaxpr))
    return [
        (equation.primitive, type(equation.params["_prim"])) for equation in equations if "_prim" in equation.params
    ]


EXPANDABLE = _expandable()
"""JAX 0.12 writes some functions of jax.numpy, `searchsorted` in `interp` among them, as an object that expands to
other operations. Objects of these classes may be used, by these operations, if what they expand to may and if they are
as their class makes them. Others may not: their rules for `vmap` and derivatives are code that nobody sees."""


def is_own(made: Any) -> bool:
    """Say whether a class, or a function, is one of JAX's, NumPy's or Python's own, told by identity."""
    module, name = getattr(made, "__module__", None), getattr(made, "__name__", None)  # read once: both may lie
    homes = {"builtins", "jax", "jaxlib", "numpy", "ml_dtypes", "types", "dpmcmc"}
    if type(module) is not str or type(name) is not str or module.partition(".")[0] not in homes:
        return False
    return made is FunctionType or made is type(None) or getattr(sys.modules.get(module), name, None) is made


def is_plain(value: Any) -> bool:
    """Say whether a parameter is what it seems: nothing of one's own make, no jaxpr where none is looked for."""
    if type(value) is tuple:
        return all(map(is_plain, value))
    return is_own(type(value)) and not isinstance(value, list | dict | set)


def is_inert(value: Any) -> bool:
    """Say whether a value is plain at any depth and holds no function, unless it is one of JAX's or NumPy's own."""
    parts = tuple(value.values()) if type(value) is dict else value
    if type(parts) is tuple or type(parts) is list:
        return all(map(is_inert, parts))
    return is_own(parts) if callable(parts) else is_plain(parts)


def counts_from_the_end(parameters: Mapping[str, Any]) -> bool:
    """Say whether an axis is counted from the end: JAX does so before it traces alone, and under vmap it is another."""
    axes = (parameters.get(name, ()) for name in ("axes", "axis", "batch_dims", "dimension", "dimensions"))
    return any(one < 0 for own in axes for one in (own if type(own) is tuple else (own,)) if type(one) is int)


def is_allowed(equation: JaxprEqn, listed: frozenset[Any]) -> bool:
    """Say whether an operation is on a list, plain, and has no effect; what it carries is not looked at."""
    parameters = {name: value for name, value in equation.params.items() if name != "mechanism"}  # which is certified
    if equation.effects or not all(map(is_plain, parameters.values())) or counts_from_the_end(parameters):
        return False
    if id(equation.primitive) in map(id, listed):  # one of another make may say that it equals one of these
        return True
    high: Any = parameters.get("_prim")
    if not any(equation.primitive is operation and type(high) is kind for operation, kind in EXPANDABLE):
        return False
    own = vars(high)  # where a rule of its class must not be written over
    if counts_from_the_end(own) or not is_inert(own) or any(callable(getattr(type(high), name, None)) for name in own):
        return False
    return not first_refused(jax.make_jaxpr(high.expand)(*high.in_avals).jaxpr, listed)


def first_refused(jaxpr: Jaxpr, listed: frozenset[Any]) -> list[JaxprEqn]:
    """Return the first operation that is not on a list, at any depth, and before it those that carry it; or nothing."""
    for equation in jaxpr.eqns:
        if not is_allowed(equation, listed):
            return [equation]
        for inner in jaxprs_in_params(equation.params):
            if path := first_refused(inner, listed):
                return [equation, *path]
    return []
