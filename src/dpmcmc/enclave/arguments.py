"""The arguments of programs, which are public. Privacy does not rest on this file.

A copy of the table among them is beyond any proof, and what is called inside a transformation of JAX fails by itself.
But a mistake is worth a message.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from dpmcmc.enclave.lines import current_line
from dpmcmc.errors import InvalidArgument, RecordsRefused, RunRefused


def public(arguments: tuple[Any, ...], is_table: Callable[[Any], bool]) -> tuple[Any, ...]:
    """Return the arguments of a program as arrays, after refusing records and tracers among them."""
    for leaf in jax.tree.leaves(arguments):
        if isinstance(leaf, jax.core.Tracer):
            raise RunRefused(
                f"PrivateData.run is called inside jit, vmap or grad at {current_line()}: one run is one charge; "
                "put the transformation into the program, around the calls of the oracle"
            )
        if is_table(leaf):
            raise RecordsRefused(
                f"an argument of the program at {current_line()} is the table itself: "
                "arguments are public; ask the oracle instead"
            )
    if _is_tracing():
        raise RunRefused(
            f"PrivateData.run is called inside another program, or inside jit, at {current_line()}: one run is one "
            "charge; ask the oracle that the program was given, or run one program after the other"
        )
    return jax.tree.map(_array, arguments)


def _array(leaf: Any) -> Any:
    """Return one argument of a program as an array whose type is its own, and that nobody else can write to.

    JAX's own may lie in the memory of an array of NumPy. To make one of them would compile a program for its shape.
    """
    if isinstance(leaf, np.ndarray | np.generic) and jax.dtypes.canonicalize_dtype(leaf.dtype) == leaf.dtype:
        return np.array(leaf)
    try:
        array = jnp.asarray(leaf)
    except TypeError as error:
        raise InvalidArgument(f"an argument of the program is a {type(leaf).__name__}; expected arrays") from error
    return array if jnp.issubdtype(array.dtype, jax.dtypes.extended) else np.array(array)


def _is_tracing() -> bool:
    """Say whether JAX is tracing a function right now: then even a constant is a tracer, once it is put somewhere."""
    return isinstance(jax.device_put(np.float32(0)), jax.core.Tracer)
