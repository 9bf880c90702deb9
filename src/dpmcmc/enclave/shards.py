"""Records spread over devices: each adds up the integers of its own rows, and then integers are added up across them.

Sums are exact, so a release is the same, bit for bit, on any number of devices. A whole program runs on all devices
alike, with the same keys and hence the same noise; a device holds its share of the rows and all public values. A number
of rows that the number of devices does not divide leaves a rest of fewer rows than devices: every device holds it, and
it is added once, after the sum across devices.

`shard_map` with its own bookkeeping (`check_vma`) would add up the gradient of one record over the devices before it is
clipped, because the position is the same on all of them: a wrong norm and a wrong sensitivity without an error. So it
is switched off here, and a test keeps it so.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.typing import ArrayLike

from dpmcmc.enclave.lattice import Wide, add, sum_across
from dpmcmc.errors import InvalidArgument

AXIS = "shards"


@partial(jax.tree_util.register_dataclass, data_fields=["own", "rest"], meta_fields=[])
@dataclass(frozen=True)
class Shards:
    """The records as one device sees them."""

    own: Any
    """The rows that no other device has, equally many on each; or what a mechanism made of them."""
    rest: Any
    """The last rows, fewer than there are devices, which every device has."""


def num_rows(records: Any) -> int:
    """Return how many records there are, on all devices together."""
    if isinstance(records, Shards):
        return num_rows(records.own) * lax.axis_size(AXIS) + num_rows(records.rest)
    return jax.tree.leaves(records)[0].shape[0]


def sum_parts(of_part: Callable[[Any, ArrayLike], Any], records: Any) -> Any:
    """Return the sum over all records of what ``of_part(rows, first)`` sums over consecutive rows, `first` on.

    Of integers, `Wide`, the sum is exact; of an array it is as good as floating point, and depends on the devices.
    """
    if not isinstance(records, Shards):
        return of_part(records, 0)
    rows = num_rows(records.own)
    total = of_part(records.own, lax.axis_index(AXIS) * rows)
    total = sum_across(total, AXIS) if isinstance(total, Wide) else lax.psum(total, AXIS)
    if not num_rows(records.rest):
        return total
    more = of_part(records.rest, rows * lax.axis_size(AXIS))
    return add(total, more) if isinstance(total, Wide) else total + more


def map_parts(function: Callable[[Any], Any], records: Any) -> Any:
    """Return what a function makes of the rows of each part, or None if it makes nothing of them."""
    if not isinstance(records, Shards):
        return function(records)
    own = function(records.own)
    return None if own is None else Shards(own, function(records.rest) if num_rows(records.rest) else records.rest)


def consists_of(records: Any, kind: type[Any]) -> bool:
    """Say whether `map_parts` made objects of that kind of the records."""
    return isinstance(records.own if isinstance(records, Shards) else records, kind)


class Placement:
    """Where the records of a vault lie, and where its programs run: where JAX puts them, or on stated devices."""

    __slots__ = ("mesh", "stated")

    def __init__(self, devices: Any, rows: int) -> None:
        listed = [] if devices is None else _distinct(devices)
        self.stated = len(listed)  # public; how many of them there are rows for may not be
        self.mesh = Mesh(np.array(listed[:rows], object), (AXIS,)) if listed else None

    def place(self, records: Any) -> Any:
        """Return host arrays as arrays on the devices, each of which is handed its own rows alone."""
        if self.mesh is None:
            return jax.tree.map(jnp.asarray, records)
        whole = num_rows(records) // self.mesh.size * self.mesh.size
        own = jax.tree.map(lambda leaf: jax.device_put(leaf[:whole], NamedSharding(self._mesh, _SPLIT)), records)
        return Shards(own, self.public(jax.tree.map(lambda leaf: leaf[whole:], records)))

    def public(self, tree: Any) -> Any:
        """Return public values where a program expects them: on every device."""
        return tree if self.mesh is None else jax.device_put(tree, NamedSharding(self.mesh, PartitionSpec()))

    def result(self, tree: Any) -> Any:
        """Return what a program returned on every device, on the first one."""
        return tree if self.mesh is None else jax.device_put(tree, self.mesh.devices.flat[0])

    def shapes(self, placed: Any) -> Any:
        """Return the shapes of records that were placed, with the devices they lie on."""
        return jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=self.mesh and leaf.sharding), placed
        )

    def lower(self, function: Callable[..., Any], records: Any, key: Any, arguments: Sequence[Any]) -> Any:
        """Translate ``function(records, key, *arguments)`` for XLA to compile, given the shapes of everything."""
        if self.mesh is None:
            return jax.jit(function).lower(records, key, *arguments)
        everywhere = PartitionSpec()
        on_each = jax.shard_map(
            lambda records, public: function(records, *public),
            mesh=self.mesh,
            in_specs=(Shards(_SPLIT, everywhere), everywhere),
            out_specs=everywhere,
            check_vma=False,
        )
        sharding = NamedSharding(self.mesh, everywhere)
        public = [jax.ShapeDtypeStruct(one.shape, one.dtype, sharding=sharding) for one in (key, *arguments)]
        return jax.jit(lambda records, *public: on_each(records, public)).lower(records, *public)

    @property
    def _mesh(self) -> Mesh:
        return cast(Mesh, self.mesh)

    def __repr__(self) -> str:
        return f", devices={self.stated}" if self.stated else ""


_SPLIT = PartitionSpec(AXIS)


def _distinct(devices: Any) -> list[Any]:
    """Return the devices that the owner named."""
    listed: list[Any] = list(devices) if isinstance(devices, Sequence | np.ndarray) else [None]
    if not listed or not all(isinstance(device, jax.Device) for device in listed) or len(set(listed)) < len(listed):
        raise InvalidArgument("devices must be a sequence of distinct devices, as jax.devices() returns them, or None")
    here = jax.process_index()
    if len({device.platform for device in listed}) > 1 or any(device.process_index != here for device in listed):
        raise InvalidArgument(
            "devices must be of one kind and belong to this process; pick some of jax.local_devices()"
        )
    return listed
