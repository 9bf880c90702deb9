"""Certificates computed again in ball arithmetic: every number with an interval that is proved to hold it."""

from dpmcmc.verification.book import Booked, hold_against
from dpmcmc.verification.certificate import Figure, Verified, verify
from dpmcmc.verification.work import MOST_CHARACTERS

__all__ = ["MOST_CHARACTERS", "Booked", "Figure", "Verified", "hold_against", "verify"]
