"""Synthetic records from the model, within the stated bounds: public, since model and bounds are."""

from collections.abc import Callable
from typing import Any

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np

from dpmcmc.enclave import PrivateData
from dpmcmc.enclave.bounds import leaf_names
from dpmcmc.errors import InvalidArgument
from dpmcmc.fitting.scales import synthetic_records
from dpmcmc.fitting.strategies.sketch.skeleton import Matrix
from dpmcmc.missing_cells import is_hidden

MOVES = 8
"""Average number of moves of each value between two records of a chain."""

FIRST = 8
"""Factor by which there are more moves before the first record."""

SHORTEST = 8
"""Before the first record proposal scales range from the distance of the bounds down to 2 to minus this times it."""

TIMES = 2.4
"""After it the proposal scale is this factor times the spread of the records of all chains."""


class RecordWalk:
    """Records from the model's distribution of x given theta, by a random-walk Metropolis sampler, one value at a time.

    The target density is the likelihood as a function of the record. Covariates, to which the model gives no density,
    are uniform within their bounds.
    """

    def __init__(self, data: PrivateData, log_likelihood: Callable[[jax.Array, Any], jax.Array]) -> None:
        facts = data.facts
        leaves = jax.tree.leaves(facts.record)
        names = leaf_names(facts.record)
        limits = [(0.0, 0.0) if is_hidden(name) else facts.bounds.get(name, (0.0, 0.0)) for name in names]
        sides = [
            np.concatenate([np.full(leaf.size, limit[side]) for leaf, limit in zip(leaves, limits, strict=True)])
            for side in (0, 1)
        ]
        is_whole = np.concatenate([np.full(leaf.size, not jnp.issubdtype(leaf.dtype, jnp.floating)) for leaf in leaves])
        self._data, self._size = data, len(is_whole)
        self._lower, self._upper, self._is_whole = jnp.asarray(sides[0]), jnp.asarray(sides[1]), jnp.asarray(is_whole)
        self._log_likelihood = log_likelihood
        self._unravel = jax.flatten_util.ravel_pytree(
            jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), facts.record)
        )[1]
        self._start = jax.jit(jax.vmap(self._value))
        self._advance = jax.jit(jax.vmap(self._walk, in_axes=(0, 0, None, 0)))
        self._records = jax.jit(jax.vmap(self._unravel))

    def draw(self, rng: np.random.Generator, positions: Matrix, each: int = 1) -> Any:
        """Return records for each position: the first one of all positions, then the second one of all, and so on."""
        at = jnp.asarray(positions, jnp.float32)
        key = jax.random.key(int(rng.integers(2**32)))
        for whole in (False, True):  # what is stored as a number may be a count or a yes, and half of one impossible
            starts = synthetic_records(self._data, key, len(at), whole=whole)
            flat = jax.vmap(lambda record: jax.flatten_util.ravel_pytree(record)[0])(starts).astype(jnp.float32)
            state = flat, self._start(flat, at)
            for _ in range(FIRST):
                state = self._advance(state, at, self._upper - self._lower, self._chances(rng, len(at), SHORTEST))
            if bool(jnp.all(jnp.isfinite(state[1]))):
                break
        else:
            raise InvalidArgument(
                "the log-likelihood is not finite for synthetic records anywhere in the stated bounds, at positions "
                "from the prior: check the model and the bounds; nothing was charged"
            )
        kept, width = [state[0]], TIMES * jnp.std(state[0], axis=0)
        for _ in range(each - 1):
            state = self._advance(state, at, width, self._chances(rng, len(at), 0))
            kept.append(state[0])
        return jax.tree.map(np.asarray, self._records(jnp.concatenate(kept)))

    def _value(self, flat: jax.Array, position: jax.Array) -> jax.Array:
        return self._log_likelihood(position, self._unravel(flat))

    def _walk(self, state: tuple[jax.Array, jax.Array], position: jax.Array, width: jax.Array, chances: Any) -> Any:
        """Return where one walker goes, and the log-likelihood there."""

        def step(state: tuple[jax.Array, jax.Array], chance: Any) -> tuple[tuple[jax.Array, jax.Array], None]:
            (flat, now), (place, length, level) = state, chance
            move = width[place] * length
            away = jnp.sign(move) * jnp.ceil(jnp.abs(move))
            moved = flat.at[place].add(jnp.where(self._is_whole[place], away, move))
            then = self._value(moved, position)
            is_inside = (moved[place] >= self._lower[place]) & (moved[place] <= self._upper[place])
            is_taken = is_inside & (level < then - now)
            return (jnp.where(is_taken, moved, flat), jnp.where(is_taken, then, now)), None

        return jax.lax.scan(step, state, chances)[0]

    def _chances(self, rng: np.random.Generator, walkers: int, shortest: int) -> Any:
        """Return which number to move and how far, in widths, and how much worse it may become."""
        shape = walkers, MOVES * self._size
        lengths = 2.0 ** -rng.uniform(0, shortest, shape) * rng.standard_normal(shape)
        drawn = rng.integers(0, self._size, shape), lengths, -rng.exponential(size=shape)
        return tuple(jnp.asarray(part, kind) for part, kind in zip(drawn, ("int32", "float32", "float32"), strict=True))
