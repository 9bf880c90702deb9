"""A certificate compared with the ledger that was charged: is there an entry with exactly its event?"""

from dataclasses import dataclass

from dpmcmc.accounting import Ledger
from dpmcmc.accounting.certificate import Certificate
from dpmcmc.accounting.ledger.account import Entry
from dpmcmc.accounting.ledger.entries import SETTLE
from dpmcmc.errors import InvalidArgument
from dpmcmc.verification.certificate import event_hash

NOT_IN_THE_LEDGER = "delta", "unit", "assumptions", "paths", "device"
"""What a certificate states, and neither its event nor the ledger's entry: epsilon and the curve follow from the event
and delta."""


@dataclass(frozen=True)
class LedgerMatch:
    """The entry that a certificate was found to agree with."""

    entry: Entry
    event_hash: str
    unconfirmed: tuple[str, ...] = NOT_IN_THE_LEDGER
    """The statements of the certificate that the entry says nothing of: with a new digest they may be changed."""


def find_entry(certificate: Certificate, ledger: Ledger, run: str | None = None) -> LedgerMatch:
    """Return the entry of a settled run with the event of a certificate, or raise.

    Args:
        certificate: what is claimed.
        ledger: the ledger.
        run: the name of the run in the ledger, if known; any run unless stated.

    Raises:
        InvalidArgument: no entry agrees, in words.
    """
    hashed = event_hash(certificate.event)
    settled = [entry for entry in ledger.history() if entry.kind == SETTLE and (run is None or entry.run == run)]
    if run is not None and not settled:
        raise InvalidArgument(f"the ledger has no settled run {run!r}: it was never settled, or is in another ledger")
    found = [entry for entry in settled if entry.event is not None and event_hash(entry.event) == hashed]
    if not found:
        among = f"run {run!r} was settled" if run is not None else f"none of {len(settled)} settled runs is"
        raise InvalidArgument(f"the certificate's event has the SHA-256 {hashed}, and {among} with another one")
    agreeing = [entry for entry in found if not _differences(certificate, entry)]
    if not agreeing:
        raise InvalidArgument(f"the ledger's entry {found[-1].number} has {_differences(certificate, found[-1])}")
    return LedgerMatch(agreeing[-1], hashed)


def _differences(certificate: Certificate, entry: Entry) -> str:
    """Say in what a certificate and an entry differ beside the event; nothing if they agree."""
    pairs = {
        "adjacency": (entry.adjacency.value, certificate.adjacency.value),
        "library version": (entry.library_version, certificate.library_version),
    }
    return ", ".join(
        f"the {name} {kept}, and the certificate {stated}" for name, (kept, stated) in pairs.items() if kept != stated
    )
