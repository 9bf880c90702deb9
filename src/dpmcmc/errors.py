"""Every exception that dpmcmc raises on purpose.

    DpmcmcError
    ├── InvalidArgument        an argument is not what it must be (also a ValueError)
    ├── AdjacencyMismatch      events or data of two adjacencies in one sum
    ├── UnsupportedEvent       an accountant was asked about an event it cannot bound
    ├── BudgetUnreachable      no plan fits the budget, however small or noisy
    ├── RankTooLarge           no short sketch of the likelihood exists; the message names what to use instead
    ├── ModelRefused           a model that cannot be sampled privately; the message names the site and the reason
    ├── NotConverged           a long run that was to be a reference did not pass its checks
    ├── RunInterrupted         a run was stopped and can be resumed; its charge stands
    ├── ResumeRefused          a run that was stopped cannot go on: other records, another program, no key
    ├── SourceChanged          files, or the answer to a query, are not what they were when they were opened
    ├── EngineUnavailable      a cluster that holds rows does not answer, or has workers of another kind
    ├── SelectionFailed        no run of a selection gave a result; its charge stands
    ├── AuditError             a program was refused before it read a record; nothing was charged
    │   ├── RecordsRefused     records, or what looks like them, outside a release
    │   ├── OperationRefused   a callback, or an operation that may not be applied to records
    │   ├── ReleaseRefused     a release that cannot be counted, or that is not of this data set
    │   ├── NoiseKeyRefused    a random key was handed to a release; the enclave draws its own noise
    │   └── RunRefused         a run inside jit, vmap or grad, which would escape the count
    └── LedgerError
        ├── UnknownDataset     the ledger has no such dataset
        ├── DatasetExists      the ledger has that dataset already, with other terms
        ├── UnknownRun         the ledger has no such run, or it is settled
        │   └── RunSettled     the run is settled: nothing more is released in its name
        ├── SettlementRefused  a run is settled below its price by its own process, or by its journal, alone
        ├── BudgetExceeded     the charge would break the dataset's budget; nothing was charged
        └── LedgerUnavailable  the ledger cannot be read or written: locked, corrupt, disk full, unreachable

Messages say what was wrong, what was expected and what to do. They never contain a value from private data.
"""

from typing import Any


class DpmcmcError(Exception):
    """Base of all errors that dpmcmc raises on purpose."""


class InvalidArgument(DpmcmcError, ValueError):
    """An argument is outside its domain; the message starts with its name and value."""


class AdjacencyMismatch(DpmcmcError):
    """Guarantees under two adjacencies cannot be added up."""


class UnsupportedEvent(DpmcmcError):
    """The accountant has no bound for this event; the message names both."""


class BudgetUnreachable(DpmcmcError):
    """No plan of the requested kind fits the budget."""


class RankTooLarge(DpmcmcError):
    """The likelihood has no short sketch; the message names the rank, the tolerance and what to use instead."""


class ModelRefused(DpmcmcError):
    """A model that cannot be sampled privately; the message names the site and the reason."""


class NotConverged(DpmcmcError):
    """A long run did not pass its checks: it is no reference."""


class RunInterrupted(DpmcmcError):
    """A run was stopped before its end. Its charge stands, and it can be resumed."""


class ResumeRefused(DpmcmcError):
    """A run that was stopped cannot go on. Its charge stands; nothing further was released."""


class SourceChanged(DpmcmcError):
    """A source gave other rows than before, or in another order. What was charged stands; nothing more is released."""


class EngineUnavailable(DpmcmcError):
    """A cluster that holds rows does not answer, or cannot go on. What was charged stands; nothing more is released."""


class SelectionFailed(DpmcmcError):
    """Every run of a selection failed. Its charge stands, and why is not said: it may tell of what is not released."""


class AuditError(DpmcmcError):
    """Base of the refusals of the enclave; the message names the operation and the line that caused it."""


class RecordsRefused(AuditError):
    """Records, or an array that looks like them, are used outside a release."""


class OperationRefused(AuditError):
    """An operation that may not stand in a program that releases, or may not be applied to records."""


class ReleaseRefused(AuditError):
    """A release that cannot be counted, cannot be trusted, or is not of this data set."""


class NoiseKeyRefused(AuditError):
    """A random key was handed to a release. The enclave draws its own noise."""


class RunRefused(AuditError):
    """A run that would escape the count, inside jit, vmap or grad; or on a machine that is known to add up wrongly."""


class LedgerError(DpmcmcError):
    """Base of the errors of the privacy ledger."""


class UnknownDataset(LedgerError):
    """The ledger has no dataset of that name."""


class DatasetExists(LedgerError):
    """The dataset is registered already, with other terms."""


class UnknownRun(LedgerError):
    """The ledger has no standing reservation for that run."""


class RunSettled(UnknownRun):
    """The run is settled: nothing more is released in its name, and its price is `settled_at`, an event."""

    def __init__(self, message: str, settled_at: Any = None) -> None:
        super().__init__(message)
        self.settled_at = settled_at


class SettlementRefused(LedgerError):
    """Only who holds the secret of a reservation may settle it below its price. Its charge stands."""


class BudgetExceeded(LedgerError):
    """The charge would break the dataset's budget. Nothing was charged."""


class LedgerUnavailable(LedgerError):
    """The book cannot be opened, read or written. Nothing was charged."""
