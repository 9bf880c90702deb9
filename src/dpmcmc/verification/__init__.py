"""Certificates computed again in ball arithmetic: every number with an interval that is proved to hold it."""

from dpmcmc.verification.certificate import Figure, Verified, verify
from dpmcmc.verification.ledger_match import LedgerMatch, find_entry
from dpmcmc.verification.work import MOST_CHARACTERS

__all__ = ["MOST_CHARACTERS", "Figure", "LedgerMatch", "Verified", "find_entry", "verify"]
