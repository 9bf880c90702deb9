"""Fixtures that tests of several folders share."""

import gc
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import NullPool, create_engine

from servers import NoServerError, PostgresServer

# Most of the time goes into compilation, often of the same program again: each process keeps what it compiled. Workers
# do not share it: of 6,600 programs only some 400 small ones are alike, and JAX writes entries in place, so that one
# might read what another has written in part.
COMPILED = tempfile.TemporaryDirectory(prefix="dpmcmc-compiled-")
os.environ |= {
    "JAX_COMPILATION_CACHE_DIR": COMPILED.name,
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}


LONG = Path(__file__).with_name("long.txt")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that long.txt names as slow: they run in `make test-slow` alone.

    Long files come first, so that no worker has one left when the others are done.
    """
    long = set(LONG.read_text().splitlines())
    items.sort(key=lambda item: "/statistical/" not in item.nodeid)
    for item in items:
        if item.nodeid in long:
            item.add_marker(pytest.mark.slow)


PATCHING = {"faults", "privacy", "statistical"}
"""Folders with tests that replace what programs are made of: there every test compiles its own."""


@pytest.fixture(autouse=True)
def own_executables(request: pytest.FixtureRequest) -> Iterator[None]:
    """Share no executable with tests that replace what programs are made of."""
    from dpmcmc.enclave.core import programs

    is_patching = not PATCHING.isdisjoint(request.path.parts)
    if is_patching:
        programs.SHARED.clear()
    yield
    if is_patching:
        programs.SHARED.clear()


MOST_MAPS, LONG_TEST = 20_000, 1.0
"""Pieces of memory that a process may have mapped before what it compiled is let go: Linux allows some 65,000, every
executable takes dozens, and beyond XLA crashes. And after how many seconds of a test they are counted."""


@pytest.fixture(autouse=True)
def few_executables() -> Iterator[None]:
    """Let go what was compiled before there is too much of it; only long tests compile much."""
    start = time.perf_counter()
    yield
    maps = Path("/proc/self/maps")
    if time.perf_counter() - start > LONG_TEST and maps.exists() and maps.read_bytes().count(b"\n") > MOST_MAPS:
        import jax

        jax.clear_caches()
        if (reference := sys.modules.get("experiments.stress.reference")) is not None:
            reference._sampler.cache_clear()  # NumPyro's MCMC cannot trace its steps a second time
        gc.collect()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server. In CI it is an error to have none; elsewhere the tests that need it skip."""
    try:
        server = PostgresServer()
    except NoServerError as error:
        message = f"ledgers on PostgreSQL were NOT tested: {error}"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    yield server
    server.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database that holds nothing yet, on either engine."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.db'}"
    return request.getfixturevalue("postgres").new_url()


@pytest.fixture
def execute() -> Callable[[str, str], list]:
    """Run a statement on a database behind the ledger's back."""

    def run(url: str, statement: str) -> list:
        engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"), poolclass=NullPool)
        with engine.begin() as connection:
            result = connection.exec_driver_sql(statement)
            return list(result) if result.returns_rows else []

    return run


@pytest.fixture(autouse=True)
def private_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the private files of runs out of the user's own folder."""
    monkeypatch.setenv("DPMCMC_STATE", str(tmp_path / "state"))
