"""How operations on arrays pass marks on (see `dependence`): the rules, one for each kind of operation."""

from collections.abc import Callable
from functools import reduce
from typing import Any, TypeAlias

import numpy as np

Marks: TypeAlias = np.ndarray[Any, Any]
"""The marks of each entry of an array, as the bits of an integer."""

UNKNOWN = 1
POSITION = 2
ROWS = ~np.int64(UNKNOWN | POSITION)
"""All rows together."""

Shapes: TypeAlias = list[tuple[int, ...]]
Rule: TypeAlias = Callable[[list[Marks], dict[str, Any], Shapes], list[Marks] | None]
"""From the marks of the operands, the parameters of the operation and the shapes of its results to their marks."""


def union(marks: Marks, axes: Any = None, keepdims: bool = False) -> Any:
    """Return the union of marks over some axes, or over all of them."""
    axes = tuple(range(marks.ndim)) if axes is None else tuple(axes)
    return np.bitwise_or.reduce(marks, axis=axes, keepdims=keepdims) if axes else marks


def _merged(marks: Marks, axes: Any) -> Marks:
    """Return the union over axes along which one entry is picked; `UNKNOWN` where it matters which one."""
    together = union(marks, axes, keepdims=True)
    differ = union((marks ^ together) & ROWS, axes, keepdims=True) != 0
    return together | np.where(differ, UNKNOWN, 0)


def _entrywise(operands: list[Marks], parameters: dict[str, Any], shapes: Shapes) -> list[Marks]:  # noqa: ARG001
    return [reduce(np.bitwise_or, (np.broadcast_to(operand, shape) for operand in operands)) for shape in shapes]


def _broadcast(operands: list[Marks], parameters: dict[str, Any], shapes: Shapes) -> list[Marks]:
    kept = dict(zip(parameters["broadcast_dimensions"], operands[0].shape, strict=True))
    return [np.broadcast_to(operands[0].reshape([kept.get(axis, 1) for axis in range(len(shapes[0]))]), shapes[0])]


def _reshape(operands: list[Marks], parameters: dict[str, Any], shapes: Shapes) -> list[Marks] | None:
    return None if parameters.get("dimensions") is not None else [operands[0].reshape(shapes[0])]


def _squeeze(operands: list[Marks], parameters: dict[str, Any], shapes: Shapes) -> list[Marks]:  # noqa: ARG001
    return [operands[0].reshape(shapes[0])]


def _transpose(operands: list[Marks], parameters: dict[str, Any], shapes: Shapes) -> list[Marks]:  # noqa: ARG001
    return [operands[0].transpose(parameters["permutation"])]


def _slice(operands: list[Marks], parameters: dict[str, Any], shapes: Shapes) -> list[Marks]:
    strides = parameters["strides"] or [1] * len(shapes[0])
    bounds = zip(parameters["start_indices"], parameters["limit_indices"], strides, strict=True)
    return [operands[0][tuple(slice(*bound) for bound in bounds)]]


def _split(operands: list[Marks], parameters: dict[str, Any], shapes: Shapes) -> list[Marks]:  # noqa: ARG001
    return np.split(operands[0], np.cumsum(parameters["sizes"])[:-1], axis=parameters["axis"])


def _reverse(operands: list[Marks], parameters: dict[str, Any], shapes: Shapes) -> list[Marks]:  # noqa: ARG001
    return [np.flip(operands[0], parameters["dimensions"])]


def _concatenate(operands: list[Marks], parameters: dict[str, Any], shapes: Shapes) -> list[Marks]:  # noqa: ARG001
    return [np.concatenate(operands, axis=parameters["dimension"])]


def _pad(operands: list[Marks], parameters: dict[str, Any], shapes: Shapes) -> list[Marks] | None:
    array, filling = operands
    places: list[slice] = []
    for (low, high, between), size in zip(parameters["padding_config"], array.shape, strict=True):
        if low < 0 or high < 0:
            return None
        places.append(slice(low, low + size * (between + 1) - between, between + 1))
    result = np.full(shapes[0], union(filling))
    result[tuple(places)] = array
    return [result]


def _reduce(operands: list[Marks], parameters: dict[str, Any], shapes: Shapes) -> list[Marks]:  # noqa: ARG001
    return [union(operands[0], parameters["axes"])]


def _along_axis(operands: list[Marks], parameters: dict[str, Any], shapes: Shapes) -> list[Marks]:
    axis = parameters["dimension"] if "dimension" in parameters else parameters["axis"]
    together = union(reduce(np.bitwise_or, operands), [axis], keepdims=True)
    return [np.broadcast_to(together, shape) for shape in shapes]


def _product(operands: list[Marks], parameters: dict[str, Any], shapes: Shapes) -> list[Marks]:  # noqa: ARG001
    contracted, batched = parameters["dimension_numbers"]
    sides: list[Marks] = []
    for operand, summed, shared in zip(operands, contracted, batched, strict=True):
        free = [axis for axis in range(operand.ndim) if axis not in summed and axis not in shared]
        sides.append(union(operand.transpose(*shared, *free, *summed), range(operand.ndim - len(summed), operand.ndim)))
    first, second = sides
    num_shared = len(batched[0])
    first = first.reshape(first.shape + (1,) * (second.ndim - num_shared))
    second = second.reshape(second.shape[:num_shared] + (1,) * (first.ndim - second.ndim) + second.shape[num_shared:])
    return [first | second]


def _gather(operands: list[Marks], parameters: dict[str, Any], shapes: Shapes) -> list[Marks]:
    """Pass on what is picked; which entry that is, in the axes that are indexed, is not followed."""
    array, indices = operands
    numbers, (shape,) = parameters["dimension_numbers"], shapes
    shared = dict(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True))
    whole = iter(numbers.offset_dims)
    looked_up = [axis for axis in range(len(shape)) if axis not in numbers.offset_dims]
    places: dict[int, int] = {}  # from the axes of the array to those of the result
    for axis in range(array.ndim):
        if axis in shared:
            places[axis] = looked_up[shared[axis]]
        elif axis not in numbers.collapsed_slice_dims:
            place = next(whole)
            if parameters["slice_sizes"][axis] == array.shape[axis]:
                places[axis] = place
    picked = _merged(array, [axis for axis in range(array.ndim) if axis not in places])
    order = sorted(places, key=places.__getitem__)
    picked = picked.reshape([array.shape[axis] if axis in places else 1 for axis in range(array.ndim)])
    picked = picked.transpose(*order, *(axis for axis in range(array.ndim) if axis not in places))
    sizes = {places[axis]: array.shape[axis] for axis in order}
    picked = picked.reshape([sizes.get(axis, 1) for axis in range(len(shape))])
    where = union(indices, [indices.ndim - 1])
    own = dict(zip(looked_up, where.shape, strict=True))
    return [np.broadcast_to(picked | where.reshape([own.get(axis, 1) for axis in range(len(shape))]), shape)]


def _dynamic_slice(operands: list[Marks], parameters: dict[str, Any], shapes: Shapes) -> list[Marks]:
    array, *starts = operands
    cut = [axis for axis, size in enumerate(parameters["slice_sizes"]) if size != array.shape[axis]]
    where = reduce(np.bitwise_or, (union(start) for start in starts), np.int64(0))
    return [np.broadcast_to(_merged(array, cut) | where, shapes[0])]


def _triangular_solve(operands: list[Marks], parameters: dict[str, Any], shapes: Shapes) -> list[Marks]:
    matrix, right = operands  # a right-hand side is solved for by itself
    along = right.ndim - (2 if parameters["left_side"] else 1)
    return [np.broadcast_to(union(right, [along], keepdims=True) | _of_matrices(matrix, right.ndim), shapes[0])]


def _factorise(operands: list[Marks], parameters: dict[str, Any], shapes: Shapes) -> list[Marks]:  # noqa: ARG001
    (matrix,) = operands
    stack = union(matrix, [matrix.ndim - 2, matrix.ndim - 1])
    return [np.broadcast_to(stack.reshape(stack.shape + (1,) * (len(s) - stack.ndim)), s) for s in shapes]


def _of_matrices(matrices: Marks, num_axes: int) -> Marks:
    together = union(matrices, [matrices.ndim - 2, matrices.ndim - 1], keepdims=True)
    return together.reshape((1,) * (num_axes - together.ndim) + together.shape)


_ENTRYWISE = """
    abs acos acosh add add_any and asin asinh atan atan2 atanh bessel_i0e bessel_i1e cbrt ceil clamp
    convert_element_type copy copy_p cos cosh digamma div eq erf erf_inv erfc exp exp2 expm1 floor ge gt igamma
    igamma_grad_a igammac integer_pow is_finite le lgamma log log1p logistic lt max min mul ne neg nextafter not or
    polygamma population_count pow random_gamma_grad reduce_precision regularized_incomplete_beta rem round rsqrt
    select_n shift_left shift_right_arithmetic shift_right_logical sign sin sinh sqrt square stop_gradient sub tan
    tanh xor zeta
"""
_REDUCTIONS = "reduce_sum reduce_max reduce_min reduce_prod reduce_and reduce_or argmax argmin"
_CUMULATIVE = "cumsum cumprod cummax cummin cumlogsumexp sort"
_FACTORISATIONS = "cholesky eigh svd lu qr geqrf"

RULES: dict[str, Rule] = {
    "broadcast_in_dim": _broadcast,
    "reshape": _reshape,
    "squeeze": _squeeze,
    "expand_dims": _squeeze,
    "transpose": _transpose,
    "slice": _slice,
    "split": _split,
    "rev": _reverse,
    "concatenate": _concatenate,
    "pad": _pad,
    "dot_general": _product,
    "gather": _gather,
    "dynamic_slice": _dynamic_slice,
    "triangular_solve": _triangular_solve,
    **dict.fromkeys(_ENTRYWISE.split(), _entrywise),
    **dict.fromkeys(_REDUCTIONS.split(), _reduce),
    **dict.fromkeys(_CUMULATIVE.split(), _along_axis),
    **dict.fromkeys(_FACTORISATIONS.split(), _factorise),
}
