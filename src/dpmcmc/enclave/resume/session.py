"""A price that was set aside for a run that may be resumed: every program of it gives one result, made once."""

from collections.abc import Callable
from typing import Any

from dpmcmc.accounting.event import Event
from dpmcmc.accounting.parallel import contains
from dpmcmc.accounting.payer import Reservation
from dpmcmc.enclave.core.session import Ready, Session
from dpmcmc.enclave.noise import chacha20 as rng
from dpmcmc.enclave.resume.journal import Journal


class ResumableRun(Session):
    """Executes audited programs, each once: one that was executed before the run was resumed gives its result again."""

    __slots__ = ("_journal", "_records")

    def __init__(
        self,
        reserved: Event,
        ready: Callable[..., Ready],
        journal: Journal,
        records: bytes,
        *,
        reservation: Reservation,
    ) -> None:
        super().__init__(reserved, ready, reservation=reservation)
        self._journal, self._records = journal, records

    @property
    def spent(self) -> Event:
        """Everything that was executed so far, or was begun; also by those who had this run before."""
        begun, own = self._journal.spent, super().spent
        return begun if contains(begun, own) else own  # whatever the journal says

    def _execute(self, ready: Ready) -> list[Any]:
        """Return the one result that the program at this place of the run can have: as it is kept, or made again."""
        journal = self._journal
        identity = journal.identify(self.count, ready.text(), ready.arguments, self._records)
        results = journal.kept(self.count, identity)
        if results is not None:
            self._take(ready.event)
            return results
        execute = ready.compile()
        place, key = self.count, journal.begin(self.count, identity, ready.event)
        self._take(ready.event)
        results = execute(rng.key_of(key))
        journal.keep(place, identity, results)
        return results

    @property
    def is_caught_up(self) -> bool:
        """Whether all programs that were begun before the run was resumed have given their results again."""
        return self.count >= self._journal.num_begun
