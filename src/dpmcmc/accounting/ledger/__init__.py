"""The book of privacy budgets: what each dataset may spend, what runs have reserved, and what they have spent."""

from dpmcmc.accounting.ledger.account import DatasetAccount, Entry
from dpmcmc.accounting.ledger.ledger import Ledger, Reservation

__all__ = ["DatasetAccount", "Entry", "Ledger", "Reservation"]
