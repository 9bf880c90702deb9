"""Made-up records as the model would make them, within the stated bounds: public, as the model and the bounds are."""

from typing import Any

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np

from dpmcmc.enclave import PrivateData
from dpmcmc.enclave.schema import leaf_names
from dpmcmc.errors import InvalidArgument
from dpmcmc.fitting.scales import made_up_records

MOVES, MOVES_BETWEEN = 60, 8
"""How often each number of a record is moved, on average: before the first record of a walk, and before the next one."""

SHORTEST = 8
"""The shortest moves are the bounds' distance over two to this power."""


class RecordWalk:
    """Records from the model's law of x given theta: a random walk, Metropolis's, one number of the record at a time.

    The likelihood as a function of the record is the density to walk on; what the model conditions on, and so gives no
    density to, spreads out evenly.
    """

    def __init__(self, data: PrivateData, log_likelihood: Any) -> None:
        self._data = data
        self._log_likelihood = log_likelihood
        self._walks = jax.jit(jax.vmap(self._walk, in_axes=(0, 0, 0, None)), static_argnums=3)

    def draw(self, key: jax.Array, positions: jax.Array, each: int = 1) -> Any:
        """Return some records for each position: first one for all, then the next one for all."""
        of_start, of_walk = jax.random.split(key)
        for whole in (False, True):  # what is stored as a number may be a count or a yes, and half of one impossible
            starts = made_up_records(self._data, of_start, len(positions), whole=whole)
            records, is_finite = self._walks(starts, positions, jax.random.split(of_walk, len(positions)), each)
            if bool(jnp.all(is_finite)):
                return jax.tree.map(lambda leaf: np.concatenate(np.swapaxes(np.asarray(leaf), 0, 1)), records)
        raise InvalidArgument(
            "the log-likelihood is not finite for made-up records anywhere in the stated bounds, at positions from the "
            "prior: check the model and the bounds; nothing was charged"
        )

    def _walk(self, start: Any, position: jax.Array, key: jax.Array, each: int) -> tuple[Any, jax.Array]:
        names = leaf_names(self._data.facts.record)
        leaves = jax.tree.leaves(start)
        limits = [self._data.facts.bounds[name] for name in names]
        lower, upper = (
            jnp.concatenate([jnp.full(jnp.size(leaf), limit[side]) for leaf, limit in zip(leaves, limits, strict=True)])
            for side in (0, 1)
        )
        is_whole = jnp.concatenate(
            [jnp.full(jnp.size(leaf), not jnp.issubdtype(leaf.dtype, jnp.floating)) for leaf in leaves]
        )
        first, unravel = jax.flatten_util.ravel_pytree(start)
        first = first.astype(jnp.result_type(float))

        def value(flat: jax.Array) -> jax.Array:
            return self._log_likelihood(position, unravel(flat))

        def step(state: tuple[jax.Array, jax.Array], key: jax.Array) -> tuple[tuple[jax.Array, jax.Array], None]:
            flat, now = state
            of_place, of_length, of_move, of_test = jax.random.split(key, 4)
            place = jax.random.randint(of_place, (), 0, flat.size)
            length = (upper - lower)[place] * 2.0 ** -jax.random.uniform(of_length, maxval=SHORTEST)
            move = length * jax.random.normal(of_move)
            away = jnp.sign(move) * jnp.ceil(jnp.abs(move))
            moved = flat.at[place].add(jnp.where(is_whole[place], away, move))
            then = value(moved)
            is_inside = (moved[place] >= lower[place]) & (moved[place] <= upper[place])
            accepted = is_inside & (-jax.random.exponential(of_test) < then - now)
            return (jnp.where(accepted, moved, flat), jnp.where(accepted, then, now)), None

        def walk(state: Any, key: jax.Array, moves: int) -> Any:
            return jax.lax.scan(step, state, jax.random.split(key, moves * first.size))[0]

        def next_record(state: Any, key: jax.Array) -> tuple[Any, Any]:
            return walk(state, key, MOVES_BETWEEN), (unravel(state[0]), jnp.isfinite(state[1]))

        of_first, of_next = jax.random.split(key)
        state = walk((first, value(first)), of_first, MOVES)
        return jax.lax.scan(next_record, state, jax.random.split(of_next, each))[1]
