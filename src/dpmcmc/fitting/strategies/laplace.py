"""What the strategies share that `fit` calls ``private_laplace``: scores are released, and independent draws follow."""

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
    """A strategy whose draws are independent, from what a few large releases of scores tell.

    Attributes:
        model: what is fitted.
        layout: how a position of the model is laid out.
        questions: the releases; their `event` is what they cost.
        num_steps: draws of each chain.
        num_chains: chains, which are parts of the same draws.
    """

    model: Any
    layout: Any
    questions: Any
    num_steps: int
    num_chains: int

    @property
    def name(self) -> str:
        """What `fit` calls it."""
        return NAME

    @property
    def what(self) -> str:
        """The run in a few words, for the ledger."""
        return f"pilot and {NAME}"

    @property
    def dimension(self) -> int:
        """How many parameters there are."""
        return self.layout.dimension

    @property
    def event(self) -> Event:
        """Everything that the run releases."""
        return self.questions.event

    @property
    def shape(self) -> tuple[int, int]:
        """Chains, and draws of each."""
        return self.num_chains, self.num_steps

    def draw(self, paid: Session, watcher: Watcher, is_interrupted: Callable[[], bool], seed: int) -> Drawn:
        """Run, to the end: what costs is over in a moment. If the releases cannot be used, draws are from the prior."""
        del is_interrupted
        try:
            drawn = self._drawn(paid, seed, watcher)
        except DpmcmcError:
            raise  # the vault's own refusals are no matter of numbers
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
        """Return how the run was made, in plain values."""
