"""Programs as a vault prepares them, at shapes alone: traced, audited, and compiled when somebody will have paid.

No record is here. What a program may be given is public; `enclave.arguments` looks at it.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import jax
import numpy as np

from dpmcmc.enclave.core.audit import Audit, audit, executable, own_copy
from dpmcmc.enclave.core.cells import shapes_of
from dpmcmc.enclave.core.compiled import check_compiled
from dpmcmc.enclave.core.metadata import Facts
from dpmcmc.enclave.core.places import Placement, Slots
from dpmcmc.enclave.lines import line_of_error
from dpmcmc.enclave.noise import chacha20 as rng
from dpmcmc.enclave.oracle import LogDensity, Oracle
from dpmcmc.errors import RecordsRefused

Program = Callable[..., Any]
"""A pure function ``program(oracle, *arguments)`` of arrays, in JAX."""

PROGRAMS_KEPT = 32
"""How many programs a vault remembers."""

SHARED, SHARED_KEPT = dict[Any, tuple[Callable[[], str], Callable[[], Any]]](), 64
"""What programs of one form share, in all vaults of a process: their text and their executable. No record is here."""


@dataclass(frozen=True)
class Prepared:
    """A program that was traced at shapes and audited, and how to compile what was audited."""

    audit: Audit
    outputs: Any
    text: Callable[[], str]
    compile: Callable[[], Any]
    constants: tuple[Any, ...] = ()
    """What it is handed in front of its arguments, where it shares the executable,"""
    select: Callable[[tuple[Slots, ...]], tuple[Slots, ...]] = lambda tables: tables
    """and what of the records, with the numbers of its own plans: noise, gate and lattice are those of its price."""


@dataclass(frozen=True)
class Programs:
    """The programs that were prepared for one vault, of which it remembers the last ones."""

    facts: Facts
    shown: Facts
    """The same, as programs are given them."""
    placement: Placement
    records: Slots
    """The shapes of the records, with the devices that they lie on."""
    is_table: Callable[[Any], bool]
    kept: dict[Any, Prepared] = field(default_factory=dict)

    def prepare(self, program: Program, arguments: tuple[Any, ...], model: LogDensity | None) -> Prepared:
        """Return a program, prepared for public arguments of these shapes; or raise `AuditError`."""
        leaves, structure = jax.tree.flatten(arguments)
        shapes = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves]
        signature = (
            structure,
            tuple((shape.shape, shape.dtype) for shape in shapes),
            jax.dtypes.canonicalize_dtype(np.float64),
        )
        identity = (program, model, signature)
        with suppress(TypeError):  # a program that cannot be hashed is traced every time
            if identity in self.kept:
                return self.kept[identity]
        oracle = Oracle(self.shown, model)

        def flat_program(*flat: Any) -> Any:
            return program(oracle, *jax.tree.unflatten(structure, flat))

        try:
            traced, outputs = jax.make_jaxpr(flat_program, return_shape=True)(*shapes)
        except TypeError as error:  # JAX refuses what is no array by itself, where it does not ask first
            if "PrivateData" not in str(error):
                raise
            raise RecordsRefused(f"records are used outside a release at {line_of_error(error)}: {error}") from error
        traced = own_copy(traced)
        audited = audit(traced, self.facts, self.is_table, shown=self.shown)
        key = jax.eval_shape(lambda: rng.insecure_key(0))
        share = self.facts.share if self.placement.stepwise is None else None
        shared = share(traced, audited) if share else None
        lower, outputs = self.placement.lower, jax.tree.structure(outputs)
        devices = self.placement.num_devices
        tables = tuple(shapes_of(self.facts, cells, self.records, devices) for cells in audited.cells)
        if self.placement.stepwise is not None:
            text, _ = _compiler(partial(lower, executable(traced, audited), tables, key, shapes), audited)
            prepared = Prepared(audited, outputs, text, cache(self.placement.stepwise(traced, audited, self.facts)))
        elif shared is None:
            made = _compiler(partial(lower, executable(traced, audited), tables, key, shapes), audited)
            prepared = Prepared(audited, outputs, *made)
        else:
            records, handed = shared.select(tables), [*shared.constants, *shapes]
            leaves, nested = jax.tree.flatten(records)
            where = self.placement.mesh, jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
            whole = shared.key, signature[1:], nested, tuple((leaf.shape, leaf.dtype) for leaf in leaves), *where
            made = _compiler(partial(lower, shared.function, records, key, handed), audited)
            prepared = Prepared(audited, outputs, *SHARED.setdefault(whole, made), shared.constants, shared.select)
            if len(SHARED) > SHARED_KEPT:
                del SHARED[next(iter(SHARED))]
        with suppress(TypeError):
            self.kept[identity] = prepared
        if len(self.kept) > PROGRAMS_KEPT:
            del self.kept[next(iter(self.kept))]
        return prepared


def _compiler(lower: Callable[[], Any], audited: Audit) -> tuple[Callable[[], str], Callable[[], Any]]:
    """Return what translates a program for XLA, and what compiles it and looks what became of the gate; each once."""
    is_gated = audited.is_gated

    @cache
    def lower_once() -> Any:
        with jax.disable_jit(False):
            return lower()

    @cache
    def compile_once() -> Any:
        compiled = lower_once().compile()
        if is_gated:
            check_compiled(compiled.as_text())
        return compiled

    return cache(lambda: lower_once().as_text()), compile_once
