"""What one chunk adds to releases: a program that ends in the gate, and gives exact integers.

It is public: it closes over no record, was traced at shapes, and is given rows where they are. `to_bytes` writes it as
StableHLO, with how often loops turn as an argument, as ever; whoever reads it compiles it and looks what became of the
gate (`core.compiled`) before it is given a row.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jax import export

from dpmcmc.enclave.arithmetic.int64 import Wide
from dpmcmc.enclave.compiler import compile_program
from dpmcmc.enclave.core.compiled import check_compiled
from dpmcmc.errors import DpmcmcError, RunRefused

ONCE = np.int32(1)
"""See `core.gate.seal`."""

Function = Callable[[Sequence[Any], Any, Any, Sequence[Any]], list[Any]]
"""``function(rows, occupied, once, public)``: the sums of one chunk, for each release the high words, then the low."""


@dataclass(frozen=True)
class PartialProgram:
    """The sums of one chunk as a compiled program; made by `of`, or read by `from_bytes`."""

    reads: tuple[int, ...]
    """Which leaves of a record it reads, by their number."""
    function: Any = field(repr=False)
    shapes: tuple[Any, ...] = field(repr=False)

    @classmethod
    def of(cls, function: Function, reads: Sequence[int], rows: Sequence[Any], length: int, public: Any) -> Any:
        """Return the program of a function, given the shapes of the leaves of a record and of public arguments."""
        whole = [jax.ShapeDtypeStruct((length, *rows[leaf].shape), rows[leaf].dtype) for leaf in reads]
        occupied, once = jax.ShapeDtypeStruct((length,), np.bool_), jax.ShapeDtypeStruct((), np.int32)
        shapes = (whole, occupied, once, [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in public])
        return cls(tuple(reads), jax.jit(function), shapes)

    @cached_property
    def taken(self) -> list[Any]:
        """What the program was compiled with, once it was."""
        return []

    @cached_property
    def lowered(self) -> Any:
        """The program as XLA is given it."""
        with jax.disable_jit(False):
            return self.function.lower(*self.shapes)

    @cached_property
    def compiled(self) -> Any:
        """The executable, in which the gate was found as it was meant."""
        # engines compute chunks side by side, so that one thread is enough for each
        compiled = compile_program(self.lowered, check_compiled, self.taken, one_thread=True)
        check_compiled(compiled.as_text())
        return compiled

    def reading(self, reads: Sequence[int]) -> "PartialProgram":
        """Return the same executable for other leaves of the same shapes."""
        made = PartialProgram(tuple(reads), self.function, self.shapes)
        made.__dict__.update({name: self.__dict__[name] for name in ("compiled", "written") if name in self.__dict__})
        return made

    def __call__(self, leaves: Sequence[Any], occupied: np.ndarray, public: Sequence[Any]) -> list[Any]:
        """Return the sums of a chunk, as words, given all leaves of its rows and which slots count; maybe under way."""
        return self.compiled([leaves[place] for place in self.reads], occupied, ONCE, list(public))

    @cached_property
    def written(self) -> bytes:
        """The program as public bytes."""
        with jax.disable_jit(False):
            return bytes(export.export(self.function)(*self.shapes).serialize())

    def to_bytes(self) -> bytes:
        """Return the program as public bytes, for another process on a machine of the same kind."""
        return self.written

    @classmethod
    def from_bytes(cls, written: bytes, reads: Sequence[int]) -> "PartialProgram":
        """Return a program that `to_bytes` wrote, compiled and looked at.

        That finds a compiler that took the gate apart. Whoever may send bytes is trusted: one that writes a program of
        its own can put a gate into it that guards nothing.
        """
        try:
            read = export.deserialize(bytearray(written))
            shapes = jax.tree.map(lambda one: jax.ShapeDtypeStruct(one.shape, one.dtype), read.in_avals)
            made = cls(tuple(reads), jax.jit(read.call), tuple(jax.tree.unflatten(read.in_tree, shapes)[0]))
            _ = made.compiled
        except DpmcmcError:
            raise
        except Exception as error:  # of libraries that read whatever they are given
            raise RunRefused("the bytes were not written by PartialProgram.to_bytes; send the program again") from error
        return made


def as_integers(words: Sequence[Any]) -> list[np.ndarray]:
    """Return sums as 64-bit integers of the host, which add up exactly in any order."""
    wide = [np.asarray(word).astype(np.int64) for word in words]
    return [(high << 32) + low for high, low in zip(wide[::2], wide[1::2], strict=True)]


def as_words(total: np.ndarray) -> Wide:
    """Return 64-bit integers of the host as a program takes them."""
    return Wide((total >> 32).astype(np.int32), (total & 0xFFFFFFFF).astype(np.uint32))  # pyright: ignore[reportArgumentType]
