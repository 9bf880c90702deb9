"""Programs of an attacker on sums in blocks: a record names its place itself, so it is the place that they try.

As in `programs`: each is refused before anything is charged, or runs at its price, and then one record moves a release
by no more than two clips, wherever it says that it stands.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from programs import ONE, TWO, Attack

from dpmcmc import errors
from dpmcmc.enclave import BlockSum

BLOCKS = BlockSum(1.0, 5.0, 4, 2)


class OwnBlocks(BlockSum):
    """A class of one's own, with a proven name."""


def entries(place, record):
    """A place, two entries of it and one beside the blocks."""
    return jnp.concatenate([jnp.reshape(place, 1).astype(jnp.float32), record])


def by_sign(theta, record):
    return entries(jnp.where(record[0] > 0, 3.0, 1.0), theta * record)


def asked(oracle, theta, statistic=by_sign, mechanism=BLOCKS):
    return oracle.sum(mechanism, statistic, theta).value


def at(place):
    """A program whose records say by themselves where they stand."""
    return partial(asked, statistic=lambda theta, record: entries(place(theta, record), record))


def with_entries(function):
    """A program whose records add what they like to the block of their sign."""
    return partial(asked, statistic=lambda _, record: entries(jnp.where(record[0] > 0, 3.0, 1.0), function(record)))


def looped(oracle, theta):
    return lax.scan(lambda now, _: (now, asked(oracle, now)), theta, None, length=3)[1]


def chains(oracle, theta):
    return jax.vmap(lambda scale: asked(oracle, theta * scale))(jnp.arange(1.0, 5.0))


def in_a_call(oracle, theta):
    return jax.jit(lambda now: asked(oracle, now))(theta)


def place_from_a_release(oracle, theta):
    first = asked(oracle, theta)

    def follows(now, record):
        return entries(jnp.argmax(now[:4] * record[0]), record)

    return asked(oracle, first, follows)


def two_places(oracle, theta):
    """A record in two blocks is in two releases."""
    places = (0.0, 2.0)
    return jnp.stack([asked(oracle, theta, lambda _, record, own=own: entries(own, record)) for own in places])


def if_released(oracle, theta):
    return lax.cond(jnp.sum(theta) > 0, lambda now: asked(oracle, now), lambda now: jnp.zeros(9) + now[0], theta)


def while_released(oracle, theta):
    return lax.while_loop(lambda now: jnp.sum(now) < 9, lambda now: now + jnp.sum(asked(oracle, now)), theta)


def differentiated(oracle, theta):
    return jax.grad(lambda now: jnp.sum(asked(oracle, now)))(theta)


def forward(oracle, theta):
    return jax.jvp(lambda now: asked(oracle, now), (theta,), (theta,))[1]


def sized(num_blocks, block_length=2):
    """A program that makes a mechanism of its own size."""
    return lambda oracle, theta: asked(oracle, theta, mechanism=BlockSum(1.0, 5.0, num_blocks, block_length))


def place_of_all(oracle, theta):
    """A place that is a sum over the records."""
    return asked(oracle, theta, lambda _, record: entries(lax.psum(record[0], "records"), record))


BLOCK_ATTACKS = {
    # refused
    "blocks behind a condition": Attack(if_released, errors.ReleaseRefused),
    "blocks while something holds": Attack(while_released, errors.ReleaseRefused),
    "a gradient through blocks": Attack(differentiated, errors.ReleaseRefused),
    "a derivative through blocks": Attack(forward, errors.ReleaseRefused),
    "no block": Attack(sized(0), errors.InvalidArgument),
    "less than no block": Attack(sized(-3), errors.InvalidArgument),
    "half a block": Attack(sized(2.5), errors.InvalidArgument),
    "more blocks than there may be": Attack(sized(2**60), errors.InvalidArgument),
    "blocks that are longer than a record": Attack(sized(4, 3), errors.InvalidArgument),
    "blocks of one's own class": Attack(partial(asked, mechanism=OwnBlocks(1.0, 5.0, 4, 2)), errors.ReleaseRefused),
    "a place that is a sum over records": Attack(place_of_all, Exception),
    # what runs, at its price
    "blocks by the sign of a record": Attack(asked, ONE, moves=2),
    "one block": Attack(sized(1), ONE, moves=2),
    "more blocks than records": Attack(sized(2**15), ONE, moves=2),
    "blocks in a loop": Attack(looped, ONE * 3, moves=2),
    "blocks in chains": Attack(chains, ONE * 4, moves=2),
    "blocks in a call": Attack(in_a_call, ONE, moves=2),
    "a record in two blocks": Attack(two_places, TWO, moves=2),
    "a place that follows a release": Attack(place_from_a_release, TWO),
    "a place beyond all blocks": Attack(at(lambda _, record: 1e9 * record[0]), ONE, moves=2),
    "a place below zero": Attack(at(lambda _, record: -jnp.abs(record[0]) - 1), ONE, moves=2),
    "a place that is no number": Attack(at(lambda _, record: jnp.log(record[0])), ONE, moves=2),
    "an infinite place": Attack(at(lambda _, record: record[0] / 0.0), ONE, moves=2),
    "half a place": Attack(at(lambda _, record: 3.999999 + 0 * record[0]), ONE, moves=2),
    "a place that a query moves": Attack(at(lambda theta, record: 1e30 * theta[0] * record[0]), ONE, moves=2),
    "a place of whole numbers": Attack(at(lambda _, record: (record[0] * 2.0**31).astype(jnp.int32)), ONE, moves=2),
    "an entry of a block that is infinite": Attack(
        with_entries(lambda record: record.at[0].set(jnp.inf)), ONE, moves=2
    ),
    "an entry beside the blocks that is no number": Attack(
        with_entries(lambda record: record.at[2].set(jnp.sqrt(record[2]))), ONE, moves=2
    ),
    "entries that overflow": Attack(with_entries(lambda record: record * 3e38), ONE, moves=2),
}
