"""A price that was set aside for several programs: a sampler that runs in segments pays once, before its first one."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import jax

from dpmcmc.accounting.event import Event, NonPrivate, compose, counts
from dpmcmc.enclave import rng
from dpmcmc.enclave.oracle import LogDensity
from dpmcmc.errors import BudgetExceeded

Ready = Callable[..., tuple[Event, Callable[[jax.Array], Any]]]
"""``ready(program, arguments, model)``: audits and compiles, and returns the price and what executes under a key."""


class PaidRun:
    """Executes audited programs as long as what was set aside lasts; `PrivateData.reserve` hands it out."""

    __slots__ = ("_closed", "_left", "_ready", "_seed", "_spent")

    def __init__(self, reserved: Event, ready: Ready, insecure_seed: int | None) -> None:
        self._left = Counter(counts(reserved))
        self._ready = ready
        self._seed = insecure_seed
        self._spent: list[Event] = []
        self._closed = False

    @property
    def spent(self) -> Event:
        """Everything that was executed so far, or was begun."""
        insecure = [NonPrivate()] if self._spent and self._seed is not None else []
        return compose([*self._spent, *insecure])

    def run(self, program: Callable[..., Any], *arguments: Any, model: LogDensity | None = None) -> Any:
        """Audit ``program(oracle, *arguments)``, take its price from what was set aside, and execute it."""
        event, execute = self._ready(program, arguments, model)
        price = Counter(counts(event))
        if self._closed or any(times > self._left[part] for part, times in price.items()):
            raise BudgetExceeded(
                "the program costs more than what is left of the reservation, which was refused and not charged; "
                "reserve the price of everything that is to run"
            )
        key = rng.fresh_key() if self._seed is None else jax.random.fold_in(rng.insecure_key(self._seed), self.count)
        self._left.subtract(price)
        self._spent.append(event)
        return execute(key)

    @property
    def count(self) -> int:
        """How many programs were executed, or begun."""
        return len(self._spent)

    def close(self) -> Event:
        """Execute nothing more, and return what was spent."""
        self._closed = True
        return self.spent
