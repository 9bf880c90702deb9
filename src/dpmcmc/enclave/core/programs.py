"""Programs as a vault prepares them, at shapes alone: traced, audited, and compiled when somebody will have paid.

No record is here. What a program may be given is public, and what it closes over is compared with the arrays that the
owner handed to the vault, by address.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from dpmcmc.enclave.core.audit import Audit, audit, executable
from dpmcmc.enclave.core.compiled import check_compiled
from dpmcmc.enclave.core.metadata import Facts
from dpmcmc.enclave.core.places import Placement, Slots
from dpmcmc.enclave.lines import current_line, line_of_error
from dpmcmc.enclave.noise import chacha20 as rng
from dpmcmc.enclave.oracle import LogDensity, Oracle
from dpmcmc.errors import InvalidArgument, RecordsRefused, RunRefused

Program = Callable[..., Any]
"""A pure function ``program(oracle, *arguments)`` of arrays, in JAX."""

PROGRAMS_KEPT = 32
"""How many programs a vault remembers."""

SHARED: "dict[Any, Executable]" = {}
SHARED_KEPT = 64
"""The executables that programs of one form share, in all vaults of a process, and how many of them are kept."""


@dataclass(frozen=True)
class Executable:
    """What was audited, as XLA is given it and as it compiles it; no record, and nothing that was computed of one."""

    lower: Callable[[], Any]
    is_gated: bool

    @cached_property
    def lowered(self) -> Any:
        """The program, translated for XLA."""
        with jax.disable_jit(False):
            return self.lower()

    @cached_property
    def compiled(self) -> Any:
        """The program as it is executed, after a look at what the compiler made of the gate."""
        compiled = self.lowered.compile()
        if self.is_gated:
            check_compiled(compiled.as_text())
        return compiled


@dataclass(frozen=True)
class Prepared:
    """A program that was traced at shapes and audited, and what executes it."""

    audit: Audit
    outputs: Any
    executable: Executable
    constants: tuple[Any, ...] = ()
    """What it is handed in front of its arguments, where it shares the executable,"""
    select: Callable[[Slots], Slots] = lambda slots: slots
    """and what of the records, with the numbers of its own plans: noise, gate and lattice are those of its price."""

    def text(self) -> str:
        """Return the program as XLA is given it."""
        return self.executable.lowered.as_text()

    def compile(self) -> Any:
        """Return the program as XLA compiled it."""
        return self.executable.compiled


@dataclass(frozen=True)
class Programs:
    """The programs that were prepared for one vault, of which it remembers the last ones."""

    facts: Facts
    placement: Placement
    records: Any
    """The shapes of the records, with the devices that they lie on."""
    is_table: Callable[[Any], bool]
    kept: dict[Any, Prepared] = field(default_factory=dict)

    def public(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments of a program as arrays, after refusing records and tracers among them."""
        for leaf in jax.tree.leaves(arguments):
            if isinstance(leaf, jax.core.Tracer):
                raise RunRefused(
                    f"PrivateData.run is called inside jit, vmap or grad at {current_line()}: one run is one charge; "
                    "put the transformation into the program, around the calls of the oracle"
                )
            if self.is_table(leaf):
                raise RecordsRefused(
                    f"an argument of the program at {current_line()} is the table itself: "
                    "arguments are public; ask the oracle instead"
                )
        if _is_tracing():
            raise RunRefused(
                f"PrivateData.run is called inside another program, or inside jit, at {current_line()}: one run is one "
                "charge; ask the oracle that the program was given, or run one program after the other"
            )
        return jax.tree.map(_array, arguments)

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
        oracle = Oracle(self.facts, model)

        def flat_program(*flat: Any) -> Any:
            return program(oracle, *jax.tree.unflatten(structure, flat))

        try:
            traced, outputs = jax.make_jaxpr(flat_program, return_shape=True)(*shapes)
        except TypeError as error:  # JAX refuses what is no array by itself, where it does not ask first
            if "PrivateData" not in str(error):
                raise
            raise RecordsRefused(f"records are used outside a release at {line_of_error(error)}: {error}") from error
        audited = audit(traced, self.facts, self.is_table)
        key = jax.eval_shape(lambda: rng.insecure_key(0))
        shared = None if self.facts.share is None else self.facts.share(traced, audited)
        placement, is_gated, form = self.placement, audited.is_gated, jax.tree.structure(outputs)
        if shared is None:
            function, records = executable(traced, audited), self.records
            lower = Executable(lambda: placement.lower(function, records, key, shapes), is_gated)
            prepared = Prepared(audited, form, lower)
        else:
            function, records, handed = shared.function, shared.select(self.records), [*shared.constants, *shapes]
            whole = (shared.key, signature[1:], _shapes(records), placement.key, is_gated)
            lower = Executable(lambda: placement.lower(function, records, key, handed), is_gated)
            prepared = Prepared(audited, form, SHARED.setdefault(whole, lower), shared.constants, shared.select)
            if len(SHARED) > SHARED_KEPT:
                del SHARED[next(iter(SHARED))]
        with suppress(TypeError):
            self.kept[identity] = prepared
        if len(self.kept) > PROGRAMS_KEPT:
            del self.kept[next(iter(self.kept))]
        return prepared


def _shapes(tree: Any) -> Any:
    leaves, structure = jax.tree.flatten(tree)
    return structure, tuple((leaf.shape, leaf.dtype) for leaf in leaves)


def _array(leaf: Any) -> Any:
    """Return one argument of a program as an array whose type is its own."""
    if isinstance(leaf, np.ndarray | np.generic) and jax.dtypes.canonicalize_dtype(leaf.dtype) == leaf.dtype:
        return leaf  # as it is: to make it JAX's own would compile a program for its shape
    try:
        array = jnp.asarray(leaf)
    except TypeError as error:
        raise InvalidArgument(f"an argument of the program is a {type(leaf).__name__}; expected arrays") from error
    return jnp.asarray(array, dtype=array.dtype)


def _is_tracing() -> bool:
    """Say whether JAX is tracing a function right now: then even a constant is a tracer, once it is put somewhere."""
    return isinstance(jax.device_put(np.float32(0)), jax.core.Tracer)
