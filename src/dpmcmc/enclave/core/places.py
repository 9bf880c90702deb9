"""Where records stand: a public number of slots, of which a secret random choice is occupied. Proof: places.md.

A record that leaves may move others, and so may one that is replaced where a table is sorted. So the slots are drawn:
with the seed as its key a pseudo-random function gives every slot a number of 128 bits, and the records stand, in their
order, in the slots with the smallest numbers. All injections of the records into the slots are equally likely. Rows
that are read chunk by chunk stand at their positions, of which the owner states that they depend on no value.
"""

import hashlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from dpmcmc.enclave.arithmetic.int64 import Wide, sum_across
from dpmcmc.errors import InvalidArgument

ROWS_IN_TILE, ROWS_IN_TILE_ON_GPU = 512, 2**14
"""The number of slots is a multiple of this: loops then have one body for all of them."""

_KEY_BYTES = 32


@partial(
    jax.tree_util.register_dataclass, data_fields=["rows", "occupied", "once", "numbers"], meta_fields=["is_spread"]
)
@dataclass(frozen=True)
class Slots:
    """Records in their slots, as a program is given them."""

    rows: Any
    """The records: a pytree of arrays with one row a slot; zeros where there is none."""
    occupied: Any
    """Which slots hold a record."""
    once: Any
    """The number one, as an argument that no compiler knows: see `gate.seal`."""
    is_spread: bool = False
    """Whether other devices hold other slots."""
    numbers: Any = None
    """The public numbers of the release that reads them, where they are arguments of the program."""

    @property
    def length(self) -> int:
        """The number of slots, on this device: public."""
        return self.occupied.shape[0]


def numbered(slots: Slots, table: int) -> Slots:
    """Return slots that hold, in the place of each array, which table it is of and which of its arrays it is."""
    leaves, structure = jax.tree.flatten(slots)
    return jax.tree.unflatten(structure, [np.array([table, place]) for place in range(len(leaves))])


def new_seed() -> bytes:
    """Return a secret from which places are drawn."""
    return secrets.token_bytes(_KEY_BYTES)


def draw_places(seed: bytes, num_records: int, capacity: int) -> np.ndarray:
    """Return the slot of each record: a uniform injection into `capacity` slots, as far as SHAKE-256 is random.

    The first n of the slots in the order of their numbers: given the seed, taking the last record away leaves all
    others where they are.
    """
    numbers = np.frombuffer(hashlib.shake_256(seed).digest(16 * capacity), np.uint64).reshape(capacity, 2)
    order = np.argsort(numbers[:, 0])
    is_tied = bool(np.any(np.diff(numbers[order, 0]) == 0))  # then the second half decides; else it is faster so
    return (np.lexsort((numbers[:, 1], numbers[:, 0])) if is_tied else order)[:num_records]


def id_of(seed: bytes | None) -> str:
    """Return the public name of a placement, by which cells of it are known; it tells nothing of the seed."""
    return "" if seed is None else hashlib.shake_256(b"the public name of places" + seed).hexdigest(16)


def tile_rows() -> int:
    """Return what the number of slots on each device is a multiple of."""
    return ROWS_IN_TILE_ON_GPU if jax.default_backend() == "gpu" else ROWS_IN_TILE


def num_slots(capacity: int, num_devices: int) -> int:
    """Return the number of slots, which is public: as many as may be needed, and equally many on each device."""
    tile = tile_rows() * num_devices
    length = -(-capacity // tile) * tile
    if length > 2**30:
        raise InvalidArgument(f"{capacity} slots are too many: a vault holds 2^30, since rows are numbered in 32 bits")
    return length


def fill(leaves: list[np.ndarray], places: np.ndarray | None, length: int) -> tuple[Any, Any]:
    """Return the leaves with records in their places, so many rows each, and which slots are occupied."""
    order: Any = slice(0, len(leaves[0])) if places is None else places

    def filled(leaf: np.ndarray) -> np.ndarray:
        slots = np.zeros((length, *leaf.shape[1:]), leaf.dtype)
        slots[order] = leaf
        return slots

    return [filled(leaf) for leaf in leaves], filled(np.ones(len(leaves[0]), np.bool_))


AXIS = "shards"  # over devices


def sum_parts(of_part: Callable[[Any, ArrayLike], Any], slots: Any) -> Any:
    """Return the sum over all devices of what ``of_part(slots, first)`` sums over its own, `first` the first of them.

    Of integers, `Wide`, the sum is exact; of an array it is as good as floating point, and depends on the devices.
    """
    if not slots.is_spread:
        return of_part(slots, 0)
    total = of_part(slots, lax.axis_index(AXIS) * slots.length)
    return sum_across(total, AXIS) if isinstance(total, Wide) else lax.psum(total, AXIS)


class Placement:
    """Where the records of a vault lie, and where its programs run: where JAX puts them."""

    seed: bytes | None = None  # by which records stand that came in their slots
    num_devices: int = 1
    num_processes: int = 1
    """How many processes execute every program together."""
    words: str = ""
    mesh: Any = None
    paths: tuple[str, ...] = ()
    engine: Any = None
    slots: Any = None
    stepwise: Any = None
    """``stepwise(traced, audited, facts)`` returns what compiles a program that is executed release by release."""

    @property
    def kind(self) -> str:
        """The kind of device, for certificates."""
        device = jax.devices()[0]
        return f"{device.platform}: {device.device_kind}"

    def standing(self, seed: bytes | None) -> "Placement":  # noqa: ARG002
        """Return where records lie that stand by this seed."""
        return self

    def agreed(self, seed: bytes) -> bytes:
        """Return the seed of places that all processes have."""
        return seed

    def payer(self, payer: Any) -> Any:
        """Return what pays once, however many processes there are."""
        return payer

    def place(self, slots: Slots) -> Slots:
        """Return host arrays as arrays on the device."""
        return jax.device_put(slots)

    def public(self, tree: Any) -> Any:
        """Return public values where a program expects them."""
        return tree

    def result(self, tree: Any) -> Any:
        """Return what a program returned, on one device."""
        return tree

    def shapes(self, placed: Any) -> Any:
        """Return the shapes of records that were placed, and where they lie."""
        return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), placed)

    def lower(self, function: Callable[..., Any], slots: Any, key: Any, arguments: Sequence[Any]) -> Any:
        """Translate ``function(slots, key, *arguments)`` for XLA to compile, given the shapes of everything."""
        # all arguments are kept, so that the text of what is executed says which of them it reads
        return jax.jit(function, keep_unused=True).lower(slots, key, *arguments)
