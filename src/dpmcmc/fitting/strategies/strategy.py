"""How a fit gets to its posterior: a pilot and chains, or a sketch. A `PreparedFit` knows no more of it than this."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from dpmcmc.accounting import Event
from dpmcmc.diagnostics.quality import Quality
from dpmcmc.enclave import Session
from dpmcmc.run.progress import Watcher


class Drawn(NamedTuple):
    """Draws of a posterior.

    Attributes:
        draws: by parameter, (chain, step, ...).
        is_accepted: whether each step moved.
        num_warmup: how many steps are warm-up.
        settings: how they were made.
        quality: what they are worth.
        told: what else the steps of a chain tell, under ArviZ's names for ``sample_stats``.
    """

    draws: Mapping[str, np.ndarray]
    is_accepted: np.ndarray
    num_warmup: int
    settings: Mapping[str, Any]
    quality: Quality = Quality()
    told: Mapping[str, np.ndarray] = {}


class Strategy(Protocol):
    """What can be said of a run before it starts, and the run."""

    @property
    def name(self) -> str:
        """What `fit` calls it."""
        ...

    @property
    def what(self) -> str:
        """The run in a few words, for the ledger."""
        ...

    @property
    def dimension(self) -> int:
        """How many parameters there are."""
        ...

    @property
    def num_steps(self) -> int:
        """How many steps each chain takes."""
        ...

    @property
    def expected_error(self) -> float:
        """By how many of its own standard deviations the noise moves the posterior, about."""
        ...

    @property
    def event(self) -> Event:
        """Everything that the run releases."""
        ...

    @property
    def course(self) -> str:
        """What the run does, in words."""
        ...

    @property
    def reason(self) -> str:
        """Why this strategy was chosen, in words."""
        ...

    @property
    def remedy(self) -> str:
        """What would make a useless run useful, in words."""
        ...

    def draw(self, paid: Session, watcher: Watcher, is_interrupted: Callable[[], bool], seed: int) -> Drawn:
        """Run, or as much of it as there is time for; `seed` is of what costs nothing, such as proposals."""
        ...
