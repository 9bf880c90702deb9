"""The interface of strategies, through which a `PreparedFit` prices and runs a fit."""

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
        is_accepted: whether each step was accepted.
        num_warmup: the number of warm-up steps.
        settings: the settings of the run, as plain values.
        quality: the verdict with its reasons.
        sample_stats: other statistics of the steps, under ArviZ's names for ``sample_stats``.
    """

    draws: Mapping[str, np.ndarray]
    is_accepted: np.ndarray
    num_warmup: int
    settings: Mapping[str, Any]
    quality: Quality = Quality()
    sample_stats: Mapping[str, np.ndarray] = {}


class Strategy(Protocol):
    """A strategy: the description and the price of a run, and the run itself."""

    @property
    def name(self) -> str:
        """The name of the sampler in `fit`."""
        ...

    @property
    def description(self) -> str:
        """A short description of the run for the ledger."""
        ...

    @property
    def dimension(self) -> int:
        """The number of parameters."""
        ...

    @property
    def num_steps(self) -> int:
        """The number of steps of each chain."""
        ...

    @property
    def expected_error(self) -> float:
        """The expected error from the privacy noise, in posterior standard deviations."""
        ...

    @property
    def event(self) -> Event:
        """The event of everything that the run releases."""
        ...

    @property
    def course(self) -> str:
        """A description of the run."""
        ...

    @property
    def reason(self) -> str:
        """The reason for choosing this strategy."""
        ...

    @property
    def remedy(self) -> str:
        """What would help if the expected error is too large."""
        ...

    def draw(self, paid: Session, watcher: Watcher, is_interrupted: Callable[[], bool], seed: int) -> Drawn:
        """Run until the end or an interrupt; `seed` fixes the randomness without privacy cost, such as proposals."""
        ...
