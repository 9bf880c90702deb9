"""What a page needs to know of a run: what its folder holds, and nothing more."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import pandas as pd

from dpmcmc.accounting import Certificate
from dpmcmc.diagnostics.quality import Quality
from dpmcmc.model import FormulaModel


class Run(Protocol):
    """A run, as `Posterior` has it."""

    @property
    def draws(self) -> Mapping[str, np.ndarray]:
        """Every step of every chain by parameter, (chain, step, ...)."""
        ...

    @property
    def prior(self) -> Mapping[str, np.ndarray]:
        """Draws from the prior, (1, draw, ...), or nothing."""
        ...

    @property
    def is_accepted(self) -> np.ndarray:
        """Whether each step moved, (chain, step)."""
        ...

    @property
    def num_warmup(self) -> int:
        """How many steps at the beginning are no draws."""
        ...

    @property
    def certificate(self) -> Certificate:
        """What it cost."""
        ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """How it was made."""
        ...

    @property
    def quality(self) -> Quality:
        """How good it is."""
        ...

    @property
    def is_independent(self) -> bool:
        """Whether its draws are independent ones."""
        ...

    @property
    def model(self) -> FormulaModel | None:
        """The model, if it came from a formula."""
        ...

    def summary(self) -> pd.DataFrame:
        """Return a row for each number."""
        ...
