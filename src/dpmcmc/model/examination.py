"""What is computed of a NumPyro model before a record is read: all of it in one program, which is compiled for one use.

Compiled one by one, or operation by operation, these small programs would take longer than the sums over records.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

PRIOR_POSITIONS = 4096
PRIOR_DRAWS = 1000
"""How many draws from the prior there are as positions, and of these as people read them."""


class Question(NamedTuple):
    """A function of arrays, and the public arrays that it is asked at."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


class PriorSample(NamedTuple):
    """Draws from a prior, the same whenever it is asked: each array has an axis of draws in front."""

    positions: Any
    parameters: Any
    """What the first of them are as people read them."""
    made_by: tuple[Any, Any] = (None, None)
    """The model's `sample_prior` and `constrain`."""


def answers(*questions: Question) -> list[Any]:
    """Return what each function gives, as arrays on the host."""

    def all_of(arguments: list[Any]) -> list[Any]:
        return [one.function(*own) for one, own in zip(questions, arguments, strict=True)]

    once = jax.jit(all_of, compiler_options={"xla_backend_optimization_level": 0})
    return jax.tree.map(np.asarray, once([one.arguments for one in questions]))


def prior_question(draw: Callable[[jax.Array], Any], read: Callable[[Any], Any]) -> Question:
    """Return what asks for draws from a prior: `draw` gives a position for a key, `read` what it is to people."""

    def sample(seed: jax.Array) -> tuple[Any, Any]:
        positions = jax.vmap(draw)(jax.random.split(jax.random.key(seed), PRIOR_POSITIONS))
        return positions, jax.vmap(read)(jax.tree.map(lambda leaf: leaf[:PRIOR_DRAWS], positions))

    return Question(sample, (np.uint32(0),))  # an argument: XLA would work out constants slowly
