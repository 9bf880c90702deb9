"""Settings that reach the compiler, and so the last bits of a result: those of JAX, and some of the environment.

Programs are written by others, and their code runs while they are traced and translated. So what a program is known by
has the settings in it that held at that moment, and when it was compiled; one that changes them meanwhile is refused.
"""

import os
from collections.abc import Callable
from typing import Any

import jax

from dpmcmc.enclave.refusals import changed_settings

_UNHEARD = ("jax_transfer_guard", "jax_log", "jax_traceback", "jax_explain", "jax_dump", "jax_pprint")
_DEVICES = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
"""Of what is said while something is computed, of who may move arrays, and of which devices: not of what comes out."""

_HEARD = ("XLA_", "TF_XLA_", "LIBTPU_", "NVIDIA_", "CUDA_", "CUBLAS_", "CUDNN_", "LLVM_", "HIP_", "ROCM_")
"""How variables begin that XLA, or what it calls, reads. Those of JAX are among its settings."""


def settings() -> tuple[tuple[str, str], ...]:
    """Return all settings that hold here and now, by name."""
    of_jax: dict[str, Any] = jax.config.values  # pyright: ignore[reportAttributeAccessIssue]
    held = {name: repr(value) for name, value in of_jax.items() if not name.startswith(_UNHEARD)}
    heard = [name for name in os.environ if name.startswith(_HEARD) and name not in _DEVICES]
    return tuple(sorted({**held, **{name: os.environ[name] for name in heard}}.items()))


def unchanged(function: Callable[[], Any]) -> Any:
    """Return what a function returns in which code of others runs; refuse it if it changes a setting."""
    before = settings()
    result = function()
    if changed := dict(set(settings()) ^ set(before)):
        raise changed_settings(sorted(changed))
    return result
