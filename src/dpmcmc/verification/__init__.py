"""Certificates computed again in ball arithmetic: every number with an interval that is proved to hold it."""

from dpmcmc.verification.book import Booked, hold_against
from dpmcmc.verification.certificate import Figure, Verified, verify

__all__ = ["Booked", "Figure", "Verified", "hold_against", "verify"]
