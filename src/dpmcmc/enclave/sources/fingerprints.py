"""What tells a file from what it was: its size, its times and place, and a digest of its beginning and its end."""

import hashlib
from pathlib import Path
from typing import NamedTuple

from dpmcmc.enclave.sources.places import Place

_ENDS = 2**16
"""How many bytes of the beginning, and at least of the end, are looked at."""


class Fingerprint(NamedTuple):
    """A file as it is at one moment. Private: it is made of rows too."""

    size: int
    changed_at: int
    """When its contents changed last, in nanoseconds; 0 where nobody knows."""
    lies_at: tuple[int, ...]
    """On a local disk: the device, the number of the file on it, and when that entry changed last."""
    digest: bytes
    """Of its beginning and its end; of Parquet and Arrow all that the end says of the row groups."""

    @property
    def content(self) -> bytes:
        """What is the same of a file wherever it is seen from, if it kept its time."""
        return b"%d:%d:%b" % (self.size, self.changed_at, self.digest)


def fingerprint(place: Place) -> Fingerprint:
    """Return the fingerprint of a file as it is now."""
    info = place.filesystem.get_file_info(place.path)
    lies_at: tuple[int, ...] = ()
    changed_at = info.mtime_ns or 0
    if place.is_local:
        status = Path(place.path).stat()
        changed_at = status.st_mtime_ns
        lies_at = status.st_dev, status.st_ino, status.st_ctime_ns
    with place.filesystem.open_input_file(place.path) as file:
        size = file.size()
        digest = hashlib.sha256(file.read_at(min(_ENDS, size), 0))
        length = min(_ENDS, size)
        end = file.read_at(length, size - length)
        length = min(max(length, _footer(end)), size)
        digest.update(file.read_at(length, size - length))
    return Fingerprint(size, changed_at, lies_at, digest.digest())


def _footer(end: bytes) -> int:
    """Return how many bytes at the end of a file say what is in it; 0 where the format has none."""
    if end.endswith(b"PAR1"):
        return int.from_bytes(end[-8:-4], "little") + 8
    if end.endswith(b"ARROW1"):
        return int.from_bytes(end[-10:-6], "little") + 10
    return 0
