"""Functions of a record as jaxprs, which are kept. Privacy does not rest on this file.

Whatever jaxpr comes from here is audited, priced, and executed as it is.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import jax

TRACES_KEPT = 64


def traced_at(contribution: Any, queries: Sequence[Any], record: Any) -> Any:
    """Return a contribution at these shapes as a closed jaxpr: its own if it is one, else traced.

    Of functions that are equal the first was traced. A fit asks the same with another noise, and again for its price.
    """
    if hasattr(contribution, "closed"):
        return contribution.closed
    leaves, structure = jax.tree.flatten((list(queries), record))
    shapes = tuple(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves)
    try:
        hash(contribution)
    except TypeError:
        return _trace.__wrapped__(contribution, structure, shapes, None)
    return _trace(contribution, structure, shapes, jax.dtypes.canonicalize_dtype(float))


@lru_cache(maxsize=TRACES_KEPT)
def _trace(contribution: Any, structure: Any, shapes: tuple[Any, ...], _: Any) -> Any:
    def called(*arguments: Any) -> Any:  # it has a name: JAX would write out one that has none, with all that it holds
        return contribution(*arguments)

    return jax.make_jaxpr(called)(*jax.tree.unflatten(structure, shapes))
