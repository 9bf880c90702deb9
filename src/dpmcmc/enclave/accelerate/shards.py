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

from dpmcmc.enclave.accelerate.processes import check_same, of_first, payer_of_all
from dpmcmc.enclave.core.places import AXIS, Placement, Slots
from dpmcmc.errors import InvalidArgument

_SPLIT, _EVERYWHERE = PartitionSpec(AXIS), PartitionSpec()


class Shards(Placement):
    """The slots of a vault spread over stated devices, equally many on each."""

    def __init__(self, devices: Any) -> None:
        self.mesh = Mesh(np.array(_distinct(devices), object), (AXIS,))
        self.num_devices, self.words = self.mesh.size, f", devices={self.mesh.size}"
        self.num_processes = len({device.process_index for device in self.mesh.devices.flat})

    @property
    def kind(self) -> str:
        """The kind of device, for certificates."""
        device = self.mesh.devices.flat[0]
        return f"{self.mesh.size} x {device.platform}: {device.device_kind}"

    def place(self, slots: Slots) -> Slots:
        """Return host arrays as arrays on the devices, each of which is handed its own slots alone."""
        if self.num_processes > 1:
            check_same("the table", *jax.tree.leaves((slots.rows, slots.occupied)))
            rows, occupied = self._made((slots.rows, slots.occupied), _SPLIT)
        else:
            rows, occupied = jax.device_put((slots.rows, slots.occupied), NamedSharding(self.mesh, _SPLIT))
        return Slots(rows, occupied, self.public(jnp.asarray(slots.once)), is_spread=True)

    def public(self, tree: Any) -> Any:
        """Return public values where a program expects them: on every device."""
        if self.num_processes > 1:
            return jax.tree.map(self._of_first, tree)
        return jax.device_put(tree, NamedSharding(self.mesh, _EVERYWHERE))

    def _of_first(self, leaf: Any) -> Any:
        """Return a public value, or a key, of the first process, on every device."""
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.wrap_key_data(self._of_first(jax.random.key_data(leaf)), impl=jax.random.key_impl(leaf))
        return self._made(of_first(leaf), _EVERYWHERE)

    def _made(self, tree: Any, spec: PartitionSpec) -> Any:
        """Return host arrays as arrays over all processes, of which each fills its own part."""

        def made(leaf: np.ndarray) -> jax.Array:
            return jax.make_array_from_callback(leaf.shape, NamedSharding(self.mesh, spec), lambda part: leaf[part])

        return jax.tree.map(made, tree)

    def agreed(self, seed: bytes) -> bytes:
        """Return the seed of places that the first process drew."""
        return of_first(np.frombuffer(seed, np.uint8)).tobytes() if self.num_processes > 1 else seed

    def payer(self, payer: Any) -> Any:
        """Return what pays once, in the first process."""
        return payer_of_all(payer) if self.num_processes > 1 else payer

    def result(self, tree: Any) -> Any:
        """Return what a program returned on every device, on the first one."""
        if self.num_processes > 1:
            return jax.tree.map(_here, tree)
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
        lowered = jax.jit(lambda slots, *public: on_each(slots, public), keep_unused=True).lower(slots, *public)
        if self.num_processes > 1:
            check_same("a program", lowered.as_text().encode())
        return lowered


def _here(leaf: jax.Array) -> Any:
    """Return what all devices have, as one of this process has it."""
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(_here(jax.random.key_data(leaf)), impl=jax.random.key_impl(leaf))
    return leaf.addressable_data(0)


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
    processes = {device.process_index for device in listed}
    if processes != {jax.process_index()} and processes != set(range(jax.process_count())):
        raise InvalidArgument(
            "devices must belong to this process, as jax.local_devices() do, or to all of them, as jax.devices() do"
        )
    return listed
