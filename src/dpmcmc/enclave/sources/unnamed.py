"""A file without a name: only this process can reach it, and it vanishes with it."""

import os
import shutil
import tempfile
import weakref
from threading import Lock
from typing import Any

import numpy as np

from dpmcmc.enclave.sources.contract import changed
from dpmcmc.enclave.tables.guard import without_values
from dpmcmc.errors import InvalidArgument


class UnnamedFile:
    """Bytes on a disk, written one after the other and read from anywhere.

    The file is opened for this user alone and has no name from then on: no folder lists it, nobody else opens it, and a
    crash leaves nothing behind.

    Args:
        folder: a folder on the disk that is to hold it; if None, where the system has temporary files, which on some
            machines is memory.
        size: how many bytes there must be on the disk.
    """

    def __init__(self, folder: str | os.PathLike[str] | None, size: int) -> None:
        where = tempfile.gettempdir() if folder is None else os.fspath(folder)
        self._problem = f"scratch={where!r} cannot hold a scratch file of all prepared rows"
        self._lock = Lock()
        self._file: Any = without_values(self._problem, lambda: tempfile.TemporaryFile(buffering=0, dir=where))  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        if shutil.disk_usage(where).free < size:
            self.close()
            raise self._full("there is not enough space")

    @property
    def is_closed(self) -> bool:
        """Whether its space was given back."""
        return self._file.closed

    def fileno(self) -> int:
        """Return the number by which the system knows it."""
        return self._file.fileno()

    def close(self) -> None:
        """Give the space back."""
        with self._lock:
            self._file.close()

    def append(self, values: np.ndarray) -> None:
        """Write an array behind what was written before."""
        reason = ""
        try:
            left = memoryview(values.view(np.uint8).reshape(-1).data) if values.size else memoryview(b"")
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            reason = os.strerror(error.errno or 0)
        if reason:  # outside, so that the error leads to no other
            raise self._full(reason)

    def read_into(self, values: np.ndarray, at: int) -> None:
        """Fill an array with what was written from one byte on."""
        left = memoryview(values.view(np.uint8).reshape(-1).data) if values.size else memoryview(b"")
        with self._lock:  # another pass reads elsewhere in the file
            self._file.seek(at)
            while left:
                count = self._file.readinto(left)
                if not count:
                    raise changed("the scratch file")
                left = left[count:]

    def _full(self, reason: str) -> InvalidArgument:
        return InvalidArgument(
            f"{self._problem}: {reason}. Make space there, or state scratch= with a folder on a larger disk"
        )
