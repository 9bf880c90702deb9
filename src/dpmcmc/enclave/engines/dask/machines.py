"""Which workers are let near rows: those that run this code, and are all of one kind."""

import hashlib
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dpmcmc import errors
from dpmcmc.enclave.core.settings import settings
from dpmcmc.enclave.resume.machine import machine
from dpmcmc.errors import EngineUnavailable, InvalidArgument

_ALIKE = ("dpmcmc", "jax", "jaxlib")
"""What must have one version on the workers and here."""

_OWN = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
"""Settings that workers of one kind do not share: which of their machine's devices each has."""

_WAIT = 10
"""Seconds until a scheduler and a first worker must have answered."""


def connect(address: str) -> Any:
    """Return a client of the scheduler at an address; TLS is as Dask's configuration says."""
    distributed = _distributed()
    try:
        return distributed.Client(address, timeout=_WAIT, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        name = type(error).__name__
    raise InvalidArgument(
        f"scheduler={address!r} does not answer ({name}); expected the address of a Dask scheduler that is running, "
        "such as tcp://host:8786, or tls://host:8786 with the certificates that Dask's configuration names. Nothing "
        "was charged"
    )


def check_client(client: Any) -> None:
    """Refuse what is no client of a running scheduler that has workers."""
    if not isinstance(client, _distributed().Client):
        raise InvalidArgument(
            f"client is a {type(client).__name__}; expected a dask.distributed.Client, as Client('tcp://host:8786') is"
        )
    if client.asynchronous:
        raise InvalidArgument("client is asynchronous; expected one without asynchronous=True")
    if client.status != "running":
        raise InvalidArgument(f"client is {client.status}; expected one whose scheduler is running. Connect it again")
    try:
        client.wait_for_workers(1, timeout=_WAIT)
    except TimeoutError:
        there = False
    else:
        there = True
    if not there:
        raise InvalidArgument("client has a scheduler without workers; start some, with `dask worker ADDRESS`")


def kind_of_workers(client: Any) -> dict[str, str]:
    """Return the kind of machine that all workers are; refuse workers with other versions, or of several kinds."""
    for package in _ALIKE:  # functions of Python's own, for workers may have nothing else
        here, there = version(package), set(client.run(version, package, on_error="return").values())
        if other := sorted(found if isinstance(found, str) else "not installed" for found in there - {here}):
            raise InvalidArgument(
                f"client has workers with {package} {', '.join(other)}, and here it is {here}; expected one version "
                f"everywhere. Install {package}=={here} on the workers, with dpmcmc[dask], and start them again"
            )
    kinds = list(client.run(kind, on_error="return").values())
    if failed := next((found for found in kinds if isinstance(found, BaseException)), None):
        raise InvalidArgument(f"client has a worker on which dpmcmc cannot be loaded ({type(failed).__name__})")
    for found in kinds:
        _compare(found, kinds[0], "another")
    _compare({name: kinds[0][name] for name in ("code", "platform")}, kind(), "this process")
    return kinds[0]


def check_like(expected: dict[str, str]) -> None:
    """Refuse to go on where this machine is not of the kind that began: it may have joined later."""
    _compare(kind(), expected, "those that began")


def _compare(found: dict[str, str], expected: dict[str, str], whom: str) -> None:
    other = [name for name in found if found[name] != expected[name]]
    if other:
        words = ", ".join(f"{name}: {found[name][:60]!r} and {expected[name][:60]!r}" for name in other)
        raise EngineUnavailable(
            f"a worker is of another kind than {whom} ({words}); expected workers with one version of dpmcmc and jax, "
            "on machines of one kind, so that a sum has the same bits wherever it is computed. Start workers that are "
            "alike"
        )


def kind() -> dict[str, str]:
    """Return what the bits of a sum, and what is executed, depend on here."""
    held = [each for each in settings() if each[0] not in _OWN]
    settled = hashlib.sha256(repr(held).encode()).hexdigest()[:16]
    platform = machine()["backend"].partition(" ")[0]
    return {**machine(), "code": _code(), "settings": settled, "platform": platform}


@cache
def _code() -> str:
    """Return a digest of this library as it is installed: a version may be that of two different copies."""
    folder = Path(errors.__file__).parent
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*.py")):
        digest.update(file.relative_to(folder).as_posix().encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        distributed = None
    if distributed is None:
        raise InvalidArgument('client= needs Dask, which is not installed: pip install "dpmcmc[dask]"')
    return distributed
