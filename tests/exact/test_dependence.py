"""Marks read from a jaxpr hold every dependence that values show, and no other where the rules are exact."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpmcmc.model import dependence

ROWS = 3
RANDOM = np.random.default_rng(0)
TABLE = RANDOM.uniform(0.2, 1, (ROWS, 4)).astype(np.float32)
MATRIX = jnp.asarray(np.eye(4) + 0.1 * RANDOM.normal(size=(4, 4)), jnp.float32)
INDEX = jnp.asarray([2, 0, 1, 3])

EXACT = {
    "entrywise": lambda x: jnp.where(x > 0.5, jnp.exp(x), jax.nn.softplus(x)),
    "product with a matrix": lambda x: x @ MATRIX,
    "product of rows": lambda x: x @ x.T,
    "products by row": lambda x: jnp.einsum("ij,ij->i", x, x),
    "sum over columns": lambda x: x.sum(1),
    "sum over rows": lambda x: x.sum(0),
    "cumulative sum": lambda x: jnp.cumsum(x, 1),
    "shift": lambda x: jnp.concatenate([jnp.zeros((1, 4)), x[:-1]]),
    "pad": lambda x: jnp.pad(x, ((1, 0), (0, 2))),
    "reversed": lambda x: x[::-1],
    "transposed and reshaped": lambda x: x.T.reshape(2, 2, ROWS),
    "columns by index": lambda x: x[:, INDEX],
    "column by its own index": lambda x: jnp.take_along_axis(x, (3 * x[:, :1]).astype(int), axis=1),
    "logsumexp": lambda x: jax.nn.logsumexp(x, axis=1),
    "solve": lambda x: jax.scipy.linalg.solve_triangular(jnp.tril(MATRIX), x.T, lower=True),
    "factor of each": lambda x: jnp.linalg.cholesky(x[:, :1, None] * jnp.eye(2) + 1),
    "scan over columns": lambda x: jax.lax.scan(lambda c, v: (c + v, c * v), jnp.ones(ROWS), x.T),
    "scan over rows": lambda x: jax.lax.scan(lambda c, v: (c + v.sum(), c + v), 1.0, x)[0],
    "branches": lambda x: jax.lax.cond(MATRIX[0, 0] > 0, lambda y: y * 2, lambda y: y + 1, x),
    "stack of vmap": jax.vmap(lambda row: jnp.outer(row, row)),
}
BOUNDED = {
    "sort of each row": lambda x: jnp.sort(x, axis=1),
    "rows by index": lambda x: x[jnp.asarray([1, 0, 2])],
    "while": lambda x: jax.lax.while_loop(lambda c: c[0, 0] < 3, lambda c: c + 1, x),
    "scatter": lambda x: jnp.zeros((ROWS, 4)).at[:, 1].set(x[:, 0]),
}


def observed(function):
    """Return the marks that changing one row after the other shows."""
    before = jax.tree.leaves(function(jnp.asarray(TABLE)))
    marks = [np.zeros(leaf.shape, np.int64) for leaf in before]
    for number in range(ROWS):
        for _ in range(8):
            changed = TABLE.copy()
            changed[number] = RANDOM.uniform(0.2, 1, 4)
            for mark, old, new in zip(marks, before, jax.tree.leaves(function(jnp.asarray(changed))), strict=True):
                mark |= np.where(np.asarray(old != new), dependence.row(number), 0)
    return marks


def marked(function):
    table = jax.ShapeDtypeStruct(TABLE.shape, TABLE.dtype)
    return dependence.follow(jax.make_jaxpr(function)(table), [dependence.of_rows(table)])


@pytest.mark.parametrize("name", [*EXACT, *BOUNDED])
def test_marks_hold_what_values_show(name):
    function = {**EXACT, **BOUNDED}[name]
    for seen, found in zip(observed(jax.jit(function)), marked(function), strict=True):
        assert seen.shape == found.shape
        assert not np.any(seen & ~found), "a dependence was overlooked"
        if name in EXACT:
            assert not np.any(found & dependence.UNKNOWN)
