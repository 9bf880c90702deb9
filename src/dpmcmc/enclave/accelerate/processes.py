"""Several processes that execute one program together (`jax.distributed`), each on devices of its own.

All run the same script on the same table. What must not differ between them is made equal or compared before a record
is read: public values, keys and the seed of places are those of the first process, which alone pays; tables and
programs are compared by digests, and where one differs nobody goes on. No rows travel: each process fills its own
slots, and integers are added up across devices as on one machine.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils

from dpmcmc.accounting.adjacency import Adjacency
from dpmcmc.accounting.event import Event
from dpmcmc.accounting.payer import NobodyPays, Payer, Reservation
from dpmcmc.errors import InvalidArgument, LedgerUnavailable

Given = TypeVar("Given")


def is_first() -> bool:
    """Whether this process is the one that pays and whose values count."""
    return jax.process_index() == 0


def of_first(value: Any) -> np.ndarray:
    """Return an array as the first process has it; all have one of its shape."""
    plain = np.asarray(value)
    words = np.frombuffer(np.ascontiguousarray(plain).tobytes(), np.uint8)  # no number is converted on the way
    sent = np.asarray(multihost_utils.broadcast_one_to_all(words), np.uint8)
    return np.frombuffer(sent.tobytes(), plain.dtype).reshape(plain.shape)


def check_same(what: str, *parts: Any) -> None:
    """Refuse to go on unless all processes have the same."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part if isinstance(part, bytes) else np.ascontiguousarray(part).data)
    mine = np.frombuffer(digest.digest(), np.uint8)
    others = np.asarray(multihost_utils.process_allgather(mine), np.uint8).reshape(-1, len(mine))
    if not (others == mine).all():
        raise InvalidArgument(
            f"{what} is not the same in all processes; expected processes that run one script on one table. Nothing of "
            "it was executed"
        )


def by_first(function: Callable[[], Given]) -> Given | None:
    """Have the first process do something, alone; if it fails, all fail."""
    done, problem = None, None
    if is_first():
        try:
            done = function()
        except Exception as error:
            problem = error
    failed = of_first(np.array([problem is not None]))[0]
    if problem is not None:
        raise problem
    if failed:
        raise LedgerUnavailable(
            "the first process, which charges for all, was refused; its message says why. Nothing was executed"
        )
    return done


class PaidByFirst:
    """What pays in all processes: the first one's book, once."""

    def __init__(self, payer: Payer) -> None:
        self._payer = payer

    def reserve(self, dataset: str, event: Event, *, description: str, adjacency: Adjacency) -> Reservation:
        """Set the price aside once, or raise everywhere."""
        return _Standing(
            by_first(lambda: self._payer.reserve(dataset, event, description=description, adjacency=adjacency))
        )

    @property
    def account(self) -> Callable[[str], Any]:
        """How the book tells what a dataset was granted, and its parts; each process reads it without the others."""
        return self._payer.account  # pyright: ignore[reportAttributeAccessIssue]


class _Standing:
    """The one charge, as each process knows it."""

    def __init__(self, held: Reservation | None) -> None:
        self._held = held
        self.entry: Mapping[str, str] = {} if held is None else held.entry

    def check_standing(self) -> None:
        """Raise everywhere unless the charge stands."""
        by_first(lambda: self._held and self._held.check_standing())

    def settle(self, spent: Event | None = None) -> None:
        """Settle it, in the first process."""
        if self._held is not None:
            self._held.settle(spent)


def payer_of_all(payer: Payer) -> Payer:
    """Return what pays once for all processes."""
    return payer if isinstance(payer, NobodyPays) else PaidByFirst(payer)
