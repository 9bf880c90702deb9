"""The vault: private records that can only be queried by audited programs.

A vault is not a pytree, has no attribute, method or operator that gives a record back, and executes only what
the auditor priced and the ledger paid for. The order inside `run` is the guarantee: trace, audit and compile at shapes
alone; reserve the price; and only then hand the records to the compiled program. A failure before that last step costs
nothing; once records were read the charge stays, whatever happens after.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any, Self

import jax
import numpy as np

from dpmcmc import validation
from dpmcmc.accounting.adjacency import Adjacency
from dpmcmc.accounting.budget import Budget
from dpmcmc.accounting.event import Event, NonPrivate, genuine
from dpmcmc.accounting.payer import NobodyPays, Payer, choose_payer
from dpmcmc.enclave.arguments import public
from dpmcmc.enclave.bounds import as_tree, leaf_names, parse_bounds
from dpmcmc.enclave.copies import lies_in, recogniser
from dpmcmc.enclave.core.audit import Audit
from dpmcmc.enclave.core.cells import Cells, intervals_of, slots_of
from dpmcmc.enclave.core.metadata import Facts, admit
from dpmcmc.enclave.core.places import Placement, Slots, draw_places, fill, id_of, new_seed, num_slots, numbered
from dpmcmc.enclave.core.programs import Program, Programs
from dpmcmc.enclave.core.sealed import sealed
from dpmcmc.enclave.core.self_test import check_machine
from dpmcmc.enclave.core.session import Ready, Session
from dpmcmc.enclave.noise.modes import MODES, Claim
from dpmcmc.enclave.oracle import LogDensity
from dpmcmc.enclave.refusals import no_capacity, small_capacity
from dpmcmc.errors import InvalidArgument
from dpmcmc.schema import Schema

_ACCELERATORS, _SHARDS = "dpmcmc.enclave.accelerate", "dpmcmc.enclave.accelerate.shards"
_ENGINES = "dpmcmc.enclave.engines"
"""By name, and only where they are wanted: nothing of the core imports them."""

CHUNK_SIZE = 65_536
"""Shorter loops keep one core of a processor busy and not the others."""


@sealed
class Vault:
    """Records, their public metadata and what pays; `PrivateData` says what the arguments are."""

    __slots__ = (
        "__weakref__",
        "_dataset",
        "_facts",
        "_is_given",
        "_num_records",
        "_payer",
        "_placement",
        "_places",
        "_programs",
        "_rows_keep_place",
        "_schema",
        "_seed",
        "_shown",
        "_slots",
        "_structure",
        "_unit",
    )

    def __init__(
        self,
        records: Any,
        *,
        bounds: Mapping[str, Any] | None = None,
        adjacency: Adjacency | str = Adjacency.REPLACE_ONE,
        capacity: int | None = None,
        ledger: Payer | None = None,
        dataset: str | None = None,
        budget: Budget | None = None,
        chunk_size: int = CHUNK_SIZE,
        noise: str = "exact",
        devices: Sequence[Any] | None = None,
        accelerate: bool = True,
        extra_mechanisms: Iterable[type] = (),
        schema: Schema | None = None,
        rows_keep_place: bool = False,
    ) -> None:
        check_machine()
        relation = Adjacency.parse("adjacency", adjacency)
        self._schema, self._unit = schema, "record" if schema is None else schema.unit
        may_stream = hasattr(type(records), "chunks") or hasattr(type(records), "partial_sum")
        streamed = import_module(_ENGINES).streamed(records) if may_stream else None
        if streamed is None:
            admitted, limits, self._structure, self._is_given = _admitted(records, bounds)
            shapes = [jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype) for leaf in admitted]
            self._num_records, record = len(admitted[0]), jax.tree.unflatten(self._structure, shapes)
            self._placement = Placement() if devices is None else import_module(_SHARDS).Shards(devices)
        else:
            streamed.check(relation, self.unit, capacity, devices, bounds)
            admitted, limits, self._structure, self._is_given = [], streamed.engine.bounds, None, lambda _: False
            self._num_records, record, self._placement = streamed.engine.num_records, streamed.engine.record, streamed
        self._facts = Facts(
            adjacency=relation,
            size=_public_size(relation, capacity, self._num_records),
            record=record,
            bounds=limits,
            chunk_size=validation.integer("chunk_size", chunk_size, at_least=1),
            noise=validation.choice("noise", noise, MODES),
            paths=import_module(_ACCELERATORS).PATHS if accelerate else (),
            share=import_module(_ACCELERATORS).share if accelerate else None,
            extra_mechanisms=frozenset(extra_mechanisms),
        )
        self._payer, self._dataset = choose_payer(ledger, dataset, budget, relation)
        if MODES[noise].claim is Claim.NONE and not isinstance(self._payer, NobodyPays):
            validation.refuse("noise", noise, "has no guarantee; use PrivateData.without_guarantee, or noise='exact'")
        self._rows_keep_place, self._payer = rows_keep_place, self._placement.payer(self._payer)
        self._stand(admitted, self._placement.seed or (None if self._is_as_given else new_seed()))

    @property
    def unit(self) -> str:
        """What neighbouring data sets differ in, in words: a record, or a person with all rows; for certificates."""
        return self._unit

    @property
    def is_in_memory(self) -> bool:
        """Whether the records lie in memory; else every pass reads them again."""
        return self._placement.stepwise is None

    @property
    def _is_as_given(self) -> bool:
        """Whether records stand as they came, under no name of their own: where nobody pays and nothing is claimed."""
        is_plain = self._facts.adjacency is Adjacency.REPLACE_ONE and self.unit == "record"
        return is_plain and isinstance(self._payer, NobodyPays)

    def _stand(self, leaves: list[Any], seed: bytes | None) -> None:
        """Put the records into their slots."""
        seed = None if seed is None else self._placement.agreed(seed)
        self._seed, self._places, self._placement = seed, None, self._placement.standing(seed)
        if self._placement.stepwise is None:
            length = num_slots(self._facts.size, self._placement.num_devices)
            self._places = None if seed is None else draw_places(seed, self._num_records, self._facts.size)
            filled, occupied = fill(leaves, self._places, length)
            rows = jax.tree.unflatten(self._structure, filled)
            self._slots = self._placement.place(Slots(rows, occupied, np.int32(1)))
        else:
            self._slots = self._placement.slots  # of one chunk, and their shapes alone
        is_in_order = self._placement.stepwise is not None and self._placement.seed is None and seed is not None
        may_move = is_in_order and not self._rows_keep_place
        may_move = may_move or self._placement.num_processes > 1  # each has some of the slots
        self._facts, is_given = replace(self._facts, places=None if may_move else id_of(seed)), self._is_given
        facts, place, slots, cells = self._facts, self._placement, self._slots, dict[Cells, Slots]()

        def is_table(leaf: Any) -> bool:
            held = jax.tree.leaves([(one.rows, one.occupied) for one in (slots, *cells.values())])
            return isinstance(leaf, Vault) or is_given(leaf) or lies_in(leaf, held)

        self._shown, table = facts.shown, partial(_table, facts, place, slots, cells)
        self._programs = Programs(facts, self._shown, place, place.shapes(slots), is_table, table)

    def _in_order(self) -> list[Any]:
        """Return the records in the order in which they came; of those that are streamed, what they are known by."""
        if self._placement.stepwise is not None:
            return [np.frombuffer(self._placement.engine.identity, np.uint8)]
        order: Any = slice(0, self._num_records) if self._places is None else self._places
        return [np.asarray(leaf)[order] for leaf in jax.tree.leaves(self._slots.rows)]

    @classmethod
    def without_guarantee(cls, records: Any, **facts: Any) -> Self:
        """Build a vault of `records` without budget or guarantee, for simulated data; `facts`: as for `PrivateData`."""
        return cls(records, ledger=NobodyPays(), dataset="without guarantee", **facts)

    @property
    def facts(self) -> Facts:
        """The public metadata of the records: size, adjacency, bounds, shapes."""
        return self._shown

    def price(self, program: Program, *arguments: Any, model: LogDensity | None = None) -> Event:
        """Return the price of `run` for `program`, its `arguments` and `model`. Reads no record, charges nothing."""
        return self.audit(program, *arguments, model=model).event

    @jax.transfer_guard("allow")
    def audit(self, program: Program, *arguments: Any, model: LogDensity | None = None) -> Audit:
        """Return the price of `program` with its `arguments` and `model`, release by release, or raise `AuditError`."""
        return self._programs.prepare(program, public(arguments, self._programs.is_table), model).audit.shown

    def run(
        self,
        program: Program,
        *arguments: Any,
        model: LogDensity | None = None,
        description: str = "run",
        insecure_seed: int | None = None,
    ) -> Any:
        """Audit ``program(oracle, *arguments)``, charge its price, execute it, and return its result.

        The oracle queries `model`; `description` is the run in a few words, for the ledger. `insecure_seed` fixes the
        noise, for tests: such a run is `NonPrivate`, and needs a vault `without_guarantee`.
        """
        ready = self._ready(program, arguments, model)
        ready.compile()
        with self.reserve(ready.event, description=description, insecure_seed=insecure_seed) as paid:
            return paid.run(program, *arguments, model=model)

    @contextmanager
    def reserve(
        self, event: Event, *, description: str = "run", insecure_seed: int | None = None
    ) -> Generator[Session]:
        """Reserve the price of `event`, and yield a session that runs programs up to it; the unused part is refunded.

        If the process dies, the whole charge stays. `description` and `insecure_seed` are as for `run`.
        """
        event = genuine(event, with_cells=True)
        price = event if insecure_seed is None else event + NonPrivate()
        charge = self._payer.reserve(self._dataset, price, description=description, adjacency=self._facts.adjacency)
        paid = Session(event, self._ready, insecure_seed, reservation=charge)
        try:
            yield paid
        finally:
            paid.settle()

    @jax.transfer_guard("allow")
    def _ready(self, program: Program, arguments: tuple[Any, ...], model: LogDensity | None) -> Ready:
        """Audit a program; return its price, and what compiles it and executes it under a key once that is paid."""
        programs, place = self._programs, self._placement  # once: records may stand anew before this is executed
        handed = public(arguments, programs.is_table)
        prepared = programs.prepare(program, handed, model)
        asked = prepared.audit.cells
        read = prepared.select(tuple(numbered(programs.table(None), table) for table in range(len(asked))))

        def execute(compiled: Any, key: jax.Array) -> Any:
            with jax.disable_jit(False), jax.debug_nans(False), jax.debug_infs(False):
                tables = prepared.select(tuple(map(programs.table, asked)))
                tables = tuple(replace(slots, numbers=place.public(slots.numbers)) for slots in tables)
                results = compiled(tables, *place.public([key, *prepared.constants, *jax.tree.leaves(handed)]))
                return place.result(jax.block_until_ready(results))

        return Ready(
            event=prepared.audit.event,
            arguments=(handed, prepared.constants, read, [intervals_of(cells) for cells in asked]),
            outputs=prepared.outputs,
            text=prepared.text,
            paths=lambda: (*prepared.audit.paths, *place.paths),
            compile=lambda: partial(execute, prepared.compile()),
        )


def _table(facts: Facts, place: Placement, slots: Slots, kept: dict[Cells, Slots], cells: Cells | None) -> Slots:
    """Return the slots that a release of cells reads, of records as they stand; those of the last cells are kept."""
    if cells is None or place.stepwise is not None:
        return slots
    found = kept.get(cells)
    if found is None:
        while kept and sum(one.length for one in [*kept.values()]) > slots.length // 2:
            kept.pop(next(iter([*kept])), None)
        found = kept[cells] = place.place(slots_of(facts, cells, slots, place.num_devices))
    return found


def _admitted(records: Any, bounds: Mapping[str, Any] | None) -> tuple[list[Any], Any, Any, Any]:
    """Return private copies of the leaves, their bounds, how they nest, and what recognises the owner's arrays."""
    records = as_tree(records)
    names = leaf_names(records)
    if not names:
        raise InvalidArgument("records holds no array; expected at least one, with one row per record")
    limits = parse_bounds(bounds, names)
    leaves, structure = jax.tree.flatten(records)
    admitted = [admit(name, leaf, limits) for name, leaf in zip(names, leaves, strict=True)]
    if len({len(leaf) for leaf in admitted}) > 1:
        raise InvalidArgument(f"records has leaves with different numbers of rows: {', '.join(names)}")
    return admitted, limits, structure, recogniser(leaves)


def _public_size(adjacency: Adjacency, stated: int | None, counted: int) -> int:
    """Return the size that the public may know: the true one under replace-one, else the stated capacity."""
    if adjacency is Adjacency.REPLACE_ONE:
        if stated is not None:
            raise InvalidArgument("capacity must be left out under replace_one, where the true size is public")
        if not counted:
            raise InvalidArgument("records has no row; expected at least one record")
        return counted
    if stated is None:
        raise no_capacity()
    if counted > validation.integer("capacity", stated, at_least=1):
        raise small_capacity(stated)
    return stated
