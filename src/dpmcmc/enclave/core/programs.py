"""Programs as a vault prepares them, at shapes alone: traced, audited, and compiled when somebody will have paid.

No record is here. What a program may be given is public, and what it closes over is compared with the arrays that the
owner handed to the vault, by address.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from dpmcmc.enclave.core.audit import Audit, audit, executable
from dpmcmc.enclave.core.compiled import check_compiled
from dpmcmc.enclave.core.metadata import Facts
from dpmcmc.enclave.core.places import Placement
from dpmcmc.enclave.lines import current_line, line_of_error
from dpmcmc.enclave.noise import chacha20 as rng
from dpmcmc.enclave.oracle import LogDensity, Oracle
from dpmcmc.errors import InvalidArgument, RecordsRefused, RunRefused

Program = Callable[..., Any]
"""A pure function ``program(oracle, *arguments)`` of arrays, in JAX."""

PROGRAMS_KEPT = 32
"""How many compiled programs a vault remembers."""


@dataclass(frozen=True)
class Prepared:
    """A program that was traced at shapes and audited, and how to compile what was audited."""

    audit: Audit
    outputs: Any
    text: Callable[[], str]
    compile: Callable[[], Any]


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
        function = executable(traced, audited)

        @cache
        def lower_once() -> Any:
            with jax.disable_jit(False):
                return self.placement.lower(function, self.records, key, shapes)

        @cache
        def compile_once() -> Any:
            compiled = lower_once().compile()
            if audited.is_gated:
                check_compiled(compiled.as_text())
            return compiled

        text = cache(lambda: lower_once().as_text())
        prepared = Prepared(audited, jax.tree.structure(outputs), text, compile_once)
        with suppress(TypeError):
            self.kept[identity] = prepared
        if len(self.kept) > PROGRAMS_KEPT:
            del self.kept[next(iter(self.kept))]
        return prepared


def _array(leaf: Any) -> jax.Array:
    """Return one argument of a program as an array whose type is its own."""
    try:
        array = jnp.asarray(leaf)
    except TypeError as error:
        raise InvalidArgument(f"an argument of the program is a {type(leaf).__name__}; expected arrays") from error
    return jnp.asarray(array, dtype=array.dtype)


def _is_tracing() -> bool:
    """Say whether JAX is tracing a function right now: then even a sum of constants is a tracer."""
    return isinstance(jax.lax.add(np.float32(0), np.float32(0)), jax.core.Tracer)
