"""Programs as a vault prepares them, at shapes alone: traced, audited, and compiled when somebody will have paid.

No record is here. What a program may be given is public; `enclave.arguments` looks at it.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import jax

from dpmcmc.enclave.compiler import compile_program
from dpmcmc.enclave.core.audit import Audit, audit, executable, own_copy
from dpmcmc.enclave.core.cells import shapes_of
from dpmcmc.enclave.core.compiled import check_compiled
from dpmcmc.enclave.core.metadata import Facts
from dpmcmc.enclave.core.places import Placement, Slots
from dpmcmc.enclave.core.settings import settings, unchanged
from dpmcmc.enclave.lines import line_of_error
from dpmcmc.enclave.noise import chacha20 as rng
from dpmcmc.enclave.oracle import LogDensity, Oracle
from dpmcmc.errors import RecordsRefused

Program = Callable[..., Any]
"""A pure function ``program(oracle, *arguments)`` of arrays, in JAX."""

PROGRAMS_KEPT = 32
"""How many programs a vault remembers."""

Compiler = tuple[Callable[[], Any], Callable[[], str], Callable[[], Any]]
"""What translates a program, says what it is, and compiles it."""

SHARED, SHARED_KEPT = dict[Any, Compiler](), 64
"""What programs of one form share, in all vaults of a process: their text and their executable. No record is here."""


@dataclass(frozen=True)
class Prepared:
    """A program that was traced at shapes and audited, and how to compile what was audited."""

    audit: Audit
    outputs: Any
    lower: Callable[[], Any]
    """Translates it for XLA, where the caller's settings hold."""
    text: Callable[[], str]
    """What is executed, as XLA is given it, and the settings that it was compiled under: to recognise it by."""
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
    table: Callable[[Any], Slots]
    """The slots that a release of some cells reads, or of all, where the records stood when this was made."""
    kept: dict[Any, Prepared] = field(default_factory=dict)

    def prepare(self, program: Program, arguments: tuple[Any, ...], model: LogDensity | None) -> Prepared:
        """Return a program, prepared for public arguments of these shapes; or raise `AuditError`."""
        leaves, structure = jax.tree.flatten(arguments)
        shapes = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves]
        signature = structure, tuple((shape.shape, shape.dtype) for shape in shapes), settings()
        identity = (program, model, signature)
        with suppress(TypeError):  # a program that cannot be hashed is traced every time
            if identity in self.kept:
                return self.kept[identity]
        oracle = Oracle(self.shown, model)

        def flat_program(*flat: Any) -> Any:
            return program(oracle, *jax.tree.unflatten(structure, flat))

        try:
            traced, outputs = unchanged(lambda: jax.make_jaxpr(flat_program, return_shape=True)(*shapes))
        except TypeError as error:  # JAX refuses what is no array by itself, where it does not ask first
            if "PrivateData" not in str(error):
                raise
            raise RecordsRefused(f"records are used outside a release at {line_of_error(error)}: {error}") from error
        traced = own_copy(traced)
        audited = unchanged(lambda: audit(traced, self.facts, self.is_table, shown=self.shown))
        key = jax.eval_shape(lambda: rng.insecure_key(0))
        share = self.facts.share if self.placement.stepwise is None else None
        shared = share(traced, audited) if share else None
        lower, devices, outputs = self.placement.lower, self.placement.num_devices, jax.tree.structure(outputs)
        tables = tuple(shapes_of(self.facts, cells, self.records, devices) for cells in audited.cells)
        if self.placement.stepwise is not None:
            whole, _, _ = _compiler(partial(lower, executable(traced, audited), tables, key, shapes), audited)
            stepwise = self.placement.stepwise(traced, audited, self.facts)
            steps = cache(lambda: (settings(), unchanged(stepwise)))

            def text() -> str:  # how steps hang together, each of them, and what they were compiled under
                return f"{whole().as_text()}{steps()[1].text}{steps()[0]}"

            prepared = Prepared(audited, outputs, steps, cache(text), lambda: steps()[1])
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


def _compiler(lower: Callable[[], Any], audited: Audit) -> Compiler:
    """Return what translates a program for XLA, what says which it is, and what compiles it and reads it; each once."""
    held = list[Any]()

    @cache
    def lower_once() -> Any:
        with jax.disable_jit(False):
            held.append(settings())
            return unchanged(lower)

    @cache
    def compile_once() -> Any:
        lowered = lower_once()
        held.append(settings())
        check = check_compiled if audited.is_gated else None
        compiled = unchanged(partial(compile_program, lowered, check, held))
        if audited.is_gated:
            check_compiled(compiled.as_text())
        return compiled

    def text() -> str:
        compile_once()
        return f"{lower_once().as_text()}{held}"

    return lower_once, cache(text), compile_once
