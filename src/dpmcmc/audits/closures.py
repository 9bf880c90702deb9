"""Tables of numbers that a model closes over: an audit varies the rows that a model is given, and not these."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.enclave.copies import constants


@dataclass(frozen=True)
class Closure:
    """An array of more than one number that a function of a model closes over."""

    function: str
    shape: tuple[int, ...]
    line: str
    """Where it is used, if that is known."""

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return prod(self.shape)

    @property
    def words(self) -> str:
        """What is closed over, by what, and where."""
        at = f", at {self.line}" if self.line else ""
        return f"an array of shape {self.shape} in {self.function}{at}"


def closed_over(model: Any, position: Any, record: Any) -> tuple[Closure, ...]:
    """Return the arrays that the log-prior and the log-likelihood of a model close over, each once.

    A rule of a model's own for its derivatives is traced by these alone, so what only such a rule reads is listed too.
    """
    asked = {"log_prior": (model.log_prior, (position,)), "log_likelihood": (model.log_likelihood, (position, record))}
    found = dict[Closure, None]()
    for name, (function, arguments) in asked.items():
        seen = set[bytes]()
        for words, traced in ((name, function), (f"the gradient of {name}", jax.grad(function))):
            arrays = [
                (_content(constant), Closure(words, tuple(constant.shape), where()))
                for constant, where in constants(jax.make_jaxpr(traced)(*arguments))
                if prod(getattr(constant, "shape", ())) > 1
            ]
            found |= dict.fromkeys(closure for content, closure in arrays if words == name or content not in seen)
            seen.update(content for content, _ in arrays)
    return tuple(found)


def _content(array: Any) -> bytes:
    """Return the numbers of an array, by which it is known again in another trace."""
    is_key = jnp.issubdtype(array.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(array) if is_key else array).tobytes()


def in_words(closures: Sequence[Closure]) -> str:
    """Return how many numbers the audit cannot vary, and where they are; nothing if there are none."""
    if not closures:
        return ""
    where = "; ".join(one.words for one in closures)
    return f"{sum(one.size for one in closures):,} numbers that the audit cannot vary: {where}"
