"""A price that was set aside for several programs: a sampler that runs in segments pays once, before its first one."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any, Never

import jax

from dpmcmc.accounting.event import Event, NonPrivate, compose, genuine
from dpmcmc.accounting.parallel import contains, remove
from dpmcmc.accounting.payer import Reservation, check_standing, settle
from dpmcmc.enclave.noise import chacha20 as rng
from dpmcmc.enclave.oracle import LogDensity
from dpmcmc.enclave.refusals import no_copy, not_reserved, not_this_process


@dataclass(frozen=True)
class Ready:
    """A program that was audited: what it costs, what it is, and how to execute it."""

    event: Event
    arguments: Any
    """Everything that the executable is handed, but the noise: public values, and of records which of their arrays."""
    outputs: Any
    """The structure of what it returns."""
    text: Callable[[], str]
    """The program as XLA is given it, with all its arguments, to recognise it by."""
    paths: Callable[[], tuple[str, ...]]
    """The ways in which it adds records up."""
    compile: Callable[[], Callable[[jax.Array], list[Any]]]
    """Compiles, and returns what executes under a key."""


class Session:
    """Executes audited programs as long as what was set aside lasts; `PrivateData.reserve` hands it out."""

    __slots__ = (
        "_closed",
        "_left",
        "_lock",
        "_paths",
        "_process",
        "_ready",
        "_reservation",
        "_seed",
        "_spent",
        "entry",
    )

    def __init__(
        self,
        reserved: Event,
        ready: Callable[..., Ready],
        insecure_seed: int | None = None,
        *,
        reservation: Reservation,
    ) -> None:
        self.entry = reservation.entry
        """By what the charge is found in the ledger, for whoever reads about the run."""
        self._reservation = reservation
        self._left, self._lock = reserved, Lock()  # of several threads only one checks and takes
        self._ready = ready
        self._seed = insecure_seed
        self._spent: list[Event] = []
        self._paths: set[str] = set()
        self._closed, self._process = False, os.getpid()

    def __reduce_ex__(self, _: Any) -> Never:  # what copies and pickles: a copy would have what is left once more
        raise no_copy()

    @property
    def spent(self) -> Event:
        """Everything that was executed so far, or was begun; also by those who had this run before."""
        insecure = [NonPrivate()] if self._spent and self._seed is not None else []
        return genuine(compose([*self._spent, *insecure]), with_cells=True)  # nobody is shown what is settled

    @jax.transfer_guard("allow")
    def run(self, program: Callable[..., Any], *arguments: Any, model: LogDensity | None = None) -> Any:
        """Audit ``program(oracle, *arguments)``, take its price from what was set aside, and execute it.

        Before that the ledger is read once: if it cannot be, or if somebody has settled the run, nothing is executed.
        """
        ready = self._ready(program, arguments, model)
        with self._lock:
            if os.getpid() != self._process:  # asked here, for a program may copy the process while it is traced
                raise not_this_process()
            if self._closed or not contains(self._left, ready.event):
                raise not_reserved()
            check_standing(self._reservation)
            self._paths.update(ready.paths())
            return jax.tree.unflatten(ready.outputs, self._execute(ready))

    def _execute(self, ready: Ready) -> list[Any]:
        execute = ready.compile()
        key = rng.fresh_key() if self._seed is None else jax.random.fold_in(rng.insecure_key(self._seed), self.count)
        self._take(ready.event)
        return execute(key)

    def _take(self, event: Event) -> None:
        self._left = remove(self._left, event)
        self._spent.append(event)

    @property
    def paths(self) -> tuple[str, ...]:
        """The ways in which records were added up, by name: for certificates."""
        return tuple(sorted(self._paths))

    @property
    def count(self) -> int:
        """How many programs were executed, or begun."""
        return len(self._spent)

    @property
    def is_caught_up(self) -> bool:
        """Whether the run does what it did not do before: always, for a run that is not resumed."""
        return True

    def close(self) -> Event:
        """Execute nothing more, and return what was spent."""
        with self._lock:
            self._closed = True
            return self.spent

    def settle(self) -> bool:
        """Close, and settle at what was spent; return whether it is so. A copy of the process settles nothing."""
        return os.getpid() == self._process and settle(self._reservation, self.close())
