"""Records spread over devices: each adds up the integers of its own slots, and then integers are added up across them.

Sums are exact, so a release is the same, bit for bit, on any number of devices. A whole program runs on all devices
alike, with the same keys and hence the same noise; a device holds its share of the slots, as many as any other, and all
public values.

`shard_map` with its own bookkeeping (`check_vma`) would add up the gradient of one record over the devices before it is
clipped, because the position is the same on all of them: a wrong norm and a wrong sensitivity without an error. So it
is switched off here, and a test keeps it so.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from dpmcmc.enclave.core.places import AXIS, Placement, Slots
from dpmcmc.errors import InvalidArgument

_SPLIT, _EVERYWHERE = PartitionSpec(AXIS), PartitionSpec()


class Shards(Placement):
    """The slots of a vault spread over stated devices, equally many on each."""

    def __init__(self, devices: Any) -> None:
        self.mesh = Mesh(np.array(_distinct(devices), object), (AXIS,))
        self.num_devices, self.words = self.mesh.size, f", devices={self.mesh.size}"

    @property
    def kind(self) -> str:
        """The kind of device, for certificates."""
        device = self.mesh.devices.flat[0]
        return f"{self.mesh.size} x {device.platform}: {device.device_kind}"

    def place(self, slots: Slots) -> Slots:
        """Return host arrays as arrays on the devices, each of which is handed its own slots alone."""
        rows, occupied = jax.device_put((slots.rows, slots.occupied), NamedSharding(self.mesh, _SPLIT))
        return Slots(rows, occupied, self.public(jnp.asarray(slots.once)), is_spread=True)

    def public(self, tree: Any) -> Any:
        """Return public values where a program expects them: on every device."""
        return jax.device_put(tree, NamedSharding(self.mesh, _EVERYWHERE))

    def result(self, tree: Any) -> Any:
        """Return what a program returned on every device, on the first one."""
        return jax.device_put(tree, self.mesh.devices.flat[0])

    def shapes(self, placed: Any) -> Any:
        """Return the shapes of records that were placed, with the devices they lie on."""
        return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding), placed)

    def lower(self, function: Callable[..., Any], slots: Any, key: Any, arguments: Sequence[Any]) -> Any:
        """Translate ``function(slots, key, *arguments)`` for XLA to compile, given the shapes of everything."""
        each = Slots(_SPLIT, _SPLIT, _EVERYWHERE, is_spread=True, numbers=_EVERYWHERE)  # pyright: ignore[reportArgumentType]
        on_each = jax.shard_map(
            lambda slots, public: function(slots, *public),
            mesh=self.mesh,
            in_specs=((each,) * len(slots), _EVERYWHERE),
            out_specs=_EVERYWHERE,
            check_vma=False,
        )
        sharding = NamedSharding(self.mesh, _EVERYWHERE)
        public = [jax.ShapeDtypeStruct(one.shape, one.dtype, sharding=sharding) for one in (key, *arguments)]
        return jax.jit(lambda slots, *public: on_each(slots, public), keep_unused=True).lower(slots, *public)


def _distinct(devices: Any) -> list[Any]:
    """Return the devices that the owner named."""
    listed: list[Any] = list(devices) if isinstance(devices, Sequence | np.ndarray) else [None]
    if not listed or not all(isinstance(device, jax.Device) for device in listed) or len(set(listed)) < len(listed):
        raise InvalidArgument("devices must be a sequence of distinct devices, as jax.devices() returns them, or None")
    default = jax.default_backend()
    if other := sorted({device.platform for device in listed} - {default}):
        raise InvalidArgument(
            f"devices has some of the platform {', '.join(other)}; expected devices of JAX's default backend, "
            f"{default}, on which the self-test ran. Name some of jax.devices(), or make the other the default before "
            f"JAX is used: JAX_PLATFORMS={other[0]}"
        )
    here = jax.process_index()
    if any(device.process_index != here for device in listed):
        raise InvalidArgument("devices must belong to this process; pick some of jax.local_devices()")
    return listed
