"""The law of a whole record, of which one can draw: where its mean cannot be summed over, each record has own draws.

The uniform numbers behind the draws are a fixed function of the record's seed, which follows from no value of it. So
the mean over the draws is off by something that is zero in the mean, and that records do not share: no bias, and little
variance beside that of the responses.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import constraints

NUM_DRAWS = 32
"""How many draws there are of each record; they add as much to the variance of a score as a 32nd of it."""

Responses = Any
Others = tuple[jax.Array, ...]


@dataclass(frozen=True, eq=False)
class Rules:
    """What the law of a record is.

    Attributes:
        log_density: ``log_density(parameters, others, responses)``, up to what depends on the record alone.
        draw: ``draw(parameters, others, uniforms)``: responses, by uniform numbers.
        num_uniforms: how many these are, by what else the law depends on.
    """

    log_density: Callable[[jax.Array, Others, Responses], jax.Array]
    draw: Callable[[jax.Array, Others, jax.Array], Responses]
    num_uniforms: Callable[[Others], int]


@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True)
class DrawnLaw:
    """The law of a record.

    Attributes:
        rules: what it is.
        parameters: real numbers.
        others: what else it depends on; the first is the seed of its draws.
    """

    rules: Rules
    parameters: Any
    others: Any

    arg_constraints: ClassVar = {"parameters": constraints.real_vector}
    event_shape: ClassVar = ()

    def tree_flatten(self) -> tuple[Any, Rules]:
        """Return its arrays, and the rest."""
        return (self.parameters, self.others), self.rules

    @classmethod
    def tree_unflatten(cls, rules: Rules, arrays: Any) -> "DrawnLaw":
        """Return the law of such arrays."""
        return cls(rules, *arrays)

    def log_density(self, parameters: jax.Array, responses: Responses) -> jax.Array:
        """Return the log-density of responses at parameters."""
        return self.rules.log_density(parameters, self.others, responses)

    def drawn(self, number: Any) -> tuple[Responses, jax.Array]:
        """Return a draw by its number, and a uniform number that it does not depend on."""
        own = uniforms(self.others[0], number, self.rules.num_uniforms(self.others) + 1)
        return self.rules.draw(self.parameters, self.others, own[1:]), own[0]


def uniforms(seed: Any, number: Any, size: int) -> jax.Array:
    """Return uniform numbers, strictly between zero and one: a hash of a seed, a number and their places."""
    start = _mixed(jnp.asarray(seed).astype(jnp.uint32) + np.uint32(0x9E3779B9))
    row = _mixed(start ^ (jnp.asarray(number).astype(jnp.uint32) * np.uint32(0x85EBCA6B)))
    bits = _mixed(row + jnp.arange(1, size + 1, dtype=jnp.uint32) * np.uint32(0x9E3779B1))
    return ((bits >> np.uint32(9)).astype(jnp.float32) + 0.5) * np.float32(2.0**-23)


def _mixed(bits: jax.Array) -> jax.Array:
    """Return bits each of which depends on all of those that are given, by the last steps of MurmurHash3, twice."""
    for first, second in ((0x85EBCA6B, 0xC2B2AE35), (0x7FEB352D, 0x846CA68B)):
        bits = (bits ^ (bits >> np.uint32(16))) * np.uint32(first)
        bits = (bits ^ (bits >> np.uint32(13))) * np.uint32(second)
        bits = bits ^ (bits >> np.uint32(16))
    return bits


def normal(uniform: jax.Array) -> jax.Array:
    """Return standard normal numbers, given uniform ones."""
    return np.float32(np.sqrt(2.0)) * jax.lax.erf_inv(2 * uniform - 1)
