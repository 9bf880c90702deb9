"""The ledger of privacy budgets: the budget of each dataset, the reservations of runs, and what they have spent."""

from dpmcmc.accounting.ledger.account import DatasetAccount, Entry
from dpmcmc.accounting.ledger.ledger import Ledger, Reservation

__all__ = ["DatasetAccount", "Entry", "Ledger", "Reservation"]
