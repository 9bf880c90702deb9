"""What it takes to settle a run below its price: 32 random bytes, of which the book keeps a hash alone."""

import hashlib
import hmac
import secrets
from typing import NoReturn

from dpmcmc.errors import InvalidArgument

NUM_BYTES = 32


class Secret:
    """The secret of one reservation. Nothing prints, copies or pickles it."""

    __slots__ = ("_value",)

    def __init__(self, value: bytes | None = None) -> None:
        if value is not None and (not isinstance(value, bytes) or len(value) != NUM_BYTES):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise InvalidArgument(f"secret must be {NUM_BYTES} random bytes, as secrets.token_bytes({NUM_BYTES}) gives")
        self._value = secrets.token_bytes(NUM_BYTES) if value is None else value

    @property
    def hash(self) -> str:
        """SHA-256 of the secret: the secret has 256 random bits, so that nobody finds it from its hash."""
        return hashlib.sha256(self._value).hexdigest()

    def opens(self, kept: str | None) -> bool:
        """Say whether this is the secret of which a book keeps that hash, in time that does not depend on where not."""
        return kept is not None and hmac.compare_digest(self.hash.encode(), kept.encode())

    def __repr__(self) -> str:
        return "Secret(...)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("the secret of a reservation is neither copied nor pickled")
