"""Base class of the strategies that `fit` calls ``private_laplace``: released scores, then independent draws."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from dpmcmc.accounting import Event
from dpmcmc.enclave import Session
from dpmcmc.errors import DpmcmcError
from dpmcmc.fitting.strategies.fallback import NUMERICAL, prior_draws_instead
from dpmcmc.fitting.strategies.strategy import Drawn
from dpmcmc.fitting.whitening import Begin
from dpmcmc.run.progress import Watcher

NAME = "private_laplace"


class PrivateLaplace(ABC):
    """A strategy with independent draws from the posterior given a few large releases of scores.

    Attributes:
        model: the fitted model.
        layout: the layout of a position of the model.
        questions: the queries; `event` is their price.
        num_steps: the number of draws per chain.
        num_chains: the number of chains, into which the draws are divided.
    """

    model: Any
    layout: Any
    questions: Any
    num_steps: int
    num_chains: int

    @property
    def name(self) -> str:
        """The name of the sampler in `fit`."""
        return NAME

    @property
    def description(self) -> str:
        """A short description of the run for the ledger."""
        return f"pilot and {NAME}"

    @property
    def dimension(self) -> int:
        """The number of parameters."""
        return self.layout.dimension

    @property
    def event(self) -> Event:
        """The event of everything that the run releases."""
        return self.questions.event

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of chains and of draws per chain."""
        return self.num_chains, self.num_steps

    def draw(self, paid: Session, watcher: Watcher, is_interrupted: Callable[[], bool], seed: int) -> Drawn:
        """Run to the end, since releases take little time. If they cannot be used, draw from the prior."""
        del is_interrupted
        try:
            drawn = self._drawn(paid, seed, watcher)
        except DpmcmcError:
            raise  # the vault's own refusals are not numerical failures
        except NUMERICAL as error:
            begin: Begin | None = getattr(self, "begin", None)
            drawn = prior_draws_instead(self.model, self.shape, self._settings(paid, {}), error, seed, begin)
        watcher.update(self.num_steps, 1.0)
        return drawn

    @abstractmethod
    def _drawn(self, paid: Session, seed: int, watcher: Watcher) -> Drawn:
        """Make the releases, and draw."""

    @abstractmethod
    def _settings(self, paid: Session, found: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of the run as plain values."""
