"""How programs of the enclave are compiled. Privacy does not rest on this file: `core.compiled` reads what comes out.

Everything goes through here, so that the same program has the same bits on every road: in memory, in streams, on
workers, and in the self-test.
"""

from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import jax

from dpmcmc.errors import RunRefused

_QUICK: dict[str, Any] = {
    "xla_cpu_use_fusion_emitters": False,
    "xla_backend_optimization_level": 1,
    "xla_cpu_parallel_codegen_split_count": 2,
}
"""Of two ways to write code for CPUs the older, with what LLVM does for a quick build, in two parts and not in 32: its
programs run as fast or faster, and take half the time to compile. Newer versions of XLA have one way only, and refuse
the first option."""

_ONE_THREAD: dict[str, Any] = {"xla_cpu_multi_thread_eigen": False}


_is_other: ContextVar[bool] = ContextVar("is_other", default=False)


def other_way(function: Callable[[], bool]) -> bool:
    """Call a function with programs compiled the other way, which some need: the self-test looks at both."""
    token = _is_other.set(True)
    try:
        return function()
    finally:
        _is_other.reset(token)


def compile_program(
    lowered: Any,
    check: Callable[[str], None] | None = None,
    taken: list[Any] | None = None,
    *,
    one_thread: bool = False,
) -> Any:
    """Return the executable of a lowered program, on a CPU the quickly made one if a check of its text lets it pass.

    Args:
        lowered: the program.
        check: what the caller will ask of the text of the executable: the two ways put operations together differently.
        taken: what was compiled with is added to it. The two ways round differently, so it is part of what a run that
            is resumed is known by.
        one_thread: hold it to one thread, on a CPU.
    """
    taken = [] if taken is None else taken
    if jax.default_backend() != "cpu":
        return lowered.compile()
    more = _ONE_THREAD if one_thread else {}
    if not _is_other.get():
        with suppress(jax.errors.JaxRuntimeError, RunRefused):
            compiled = lowered.compile(compiler_options=_QUICK | more)
            if check is not None:
                check(compiled.as_text())
            taken.append(_QUICK | more)
            return compiled
    taken.append(more)
    return lowered.compile(compiler_options=more)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of arrays as `jax.jit` does, compiled so, for the shapes of its first call."""
    made: list[Any] = []

    def call(*given: Any) -> Any:
        if not made:
            made.append(compile_program(jax.jit(function).lower(*given)))
        return made[0](*given)

    return call
