"""A vault whose records are read chunk by chunk: programs are executed release by release, on the host."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np

from dpmcmc.accounting.adjacency import Adjacency
from dpmcmc.enclave.core.audit import Audit
from dpmcmc.enclave.core.metadata import Facts
from dpmcmc.enclave.core.places import Placement, Slots
from dpmcmc.enclave.engines.contract import Engine
from dpmcmc.enclave.engines.local import LocalEngine
from dpmcmc.enclave.engines.passes import Pass, check_sums
from dpmcmc.enclave.engines.steps import Steps, Together
from dpmcmc.enclave.sources.scattered import Scattered
from dpmcmc.errors import InvalidArgument


@dataclass(frozen=True)
class Executed:
    """What executes a program release by release, and the texts of everything that it executes."""

    execute: Callable[..., list[Any]]
    text: str

    def __call__(self, *given: Any) -> list[Any]:
        """Execute it."""
        return self.execute(*given)


class Streamed(Placement):
    """Where the records of a streamed vault lie: with an engine, which gives exact sums of them.

    Args:
        records: a `Source`, or an `Engine`.
    """

    paths = ("streamed",)

    def __init__(self, records: Any) -> None:
        self.engine: Engine = records if hasattr(type(records), "partial_sum") else LocalEngine(records)
        self._scattered: Scattered | None = getattr(self.engine, "scattered", None)
        self.seed = None if self._scattered is None else self._scattered.seed
        own: tuple[str, ...] = getattr(self.engine, "paths", () if self._scattered is None else ("scattered",))
        self.words, self.paths = "".join(f", {name}" for name in own), (*own, "streamed")
        self.words += f", streamed={self.engine.rows(None)}"

    @property
    def machines(self) -> str:
        """Where sums are computed, in words by which a resumed run knows it again."""
        return f"{self.words}{getattr(self.engine, 'where', '')}"

    def standing(self, seed: bytes | None) -> "Streamed":
        """Return the same records as they stand by a seed: in another file, where they stand in secret slots."""
        if self._scattered is None or seed == self.seed:
            return self
        return Streamed(self.engine.standing(seed))  # pyright: ignore[reportAttributeAccessIssue]  # it has slots

    def check(self, adjacency: Adjacency, unit: str, capacity: int | None, devices: Any, bounds: Any) -> None:
        """Refuse what cannot be read chunk by chunk, before anything is charged."""
        if self._scattered is not None:
            if (self._scattered.unit, self._scattered.capacity) != (unit, capacity):
                raise InvalidArgument(
                    "capacity and schema must be those with which the records were scattered; leave it to "
                    "PrivateData.from_table"
                )
        elif adjacency is not Adjacency.REPLACE_ONE or unit != "record":
            raise InvalidArgument(
                "records that are read chunk by chunk stand at their positions in the table, which mean something "
                "under adjacency='replace_one' without persons alone: elsewhere a record that is added, or a person of "
                "another name, would move others. Have them put into secret slots on a disk, with "
                "PrivateData.from_table(..., scratch=), or read the table into memory, with in_memory=True"
            )
        if bounds is not None:
            raise InvalidArgument("bounds must be left out: the schema of the source states them")
        if devices is not None:
            raise InvalidArgument("devices= spreads records that are in memory; leave it out, or say in_memory=True")
        if not self.engine.num_records:
            raise InvalidArgument("source has no row; expected at least one record")

    @property
    def slots(self) -> Slots:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The shapes of one chunk."""
        length = self.engine.rows(None)
        rows = {
            name: jax.ShapeDtypeStruct((length, *leaf.shape), leaf.dtype) for name, leaf in self.engine.record.items()
        }
        return Slots(rows, jax.ShapeDtypeStruct((length,), np.bool_), jax.ShapeDtypeStruct((), np.int32))

    def stepwise(self, traced: Any, audited: Audit, facts: Facts) -> Callable[[], "Executed"]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Return what compiles an audited program; one that cannot be executed so is refused here."""
        check_sums(audited)
        return partial(self._compile, traced, audited, facts)

    def _compile(self, traced: Any, audited: Audit, facts: Facts) -> "Executed":
        steps = Steps(traced, audited)
        passes = {together: Pass(together, audited, facts, self.engine) for together in steps.all_together()}

        def execute(_: Any, key: jax.Array, *arguments: Any) -> list[Any]:
            keys = _keys(key, steps.num_keys)

            def perform(together: Together, operands: list[list[Any]], repetition: int) -> list[list[Any]]:
                return passes[together](keys, operands, repetition)

            return [jax.numpy.asarray(one) for one in steps.run(arguments, perform)]

        return Executed(execute, "".join([*steps.texts(), *(one.text for one in passes.values())]))


@partial(jax.jit, static_argnums=1)
def _keys(key: jax.Array, number: int) -> jax.Array:
    """Return so many keys of one; by itself `jax.random.split` would compile its loop anew each time."""
    return jax.random.split(key, number)


def streamed(records: Any) -> Streamed | None:
    """Return where records lie that are read chunk by chunk; None for tables in memory."""
    methods = [getattr(type(records), name, None) for name in ("chunks", "partial_sum")]
    return Streamed(records) if any(map(callable, methods)) and hasattr(records, "num_records") else None
