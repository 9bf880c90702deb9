"""The settings between which a planner's page can move, and the library's answer to each."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

from dpmcmc.fitting import RECIPES
from dpmcmc.planner.answer import plan_fit


@dataclass(frozen=True)
class Grid:
    """The values of each setting.

    `minibatch_barker` is left out unless stated: its price depends on the number of records, and takes seconds to find.
    """

    epsilon: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0, 8.0)
    delta: tuple[float, ...] = (1e-5, 1e-6, 1e-8)
    num_records: tuple[int, ...] = (1000, 10_000, 100_000, 1_000_000)
    num_parameters: tuple[int, ...] = (2, 5, 10, 30, 100)
    num_chains: tuple[int, ...] = (2, 4)
    sampler: tuple[str, ...] = tuple(name for name in sorted(RECIPES) if RECIPES[name].is_quickly_priced)

    @property
    def axes(self) -> dict[str, tuple[Any, ...]]:
        """The values by the name of the setting, in the order of `answers`."""
        return {
            "sampler": self.sampler,
            "delta": self.delta,
            "num_chains": self.num_chains,
            "epsilon": self.epsilon,
            "num_records": self.num_records,
            "num_parameters": self.num_parameters,
        }

    def answers(self, tick: Callable[[float], None] = lambda _: None) -> list[dict[str, Any] | None]:
        """Return the answer to every combination of the values, the last axis running fastest.

        Args:
            tick: called with the share that is done.
        """
        settings = list(product(*self.axes.values()))
        found: list[dict[str, Any] | None] = []
        for done, values in enumerate(settings, start=1):
            named = dict(zip(self.axes, values, strict=True))
            answer = plan_fit(named.pop("sampler"), **named)
            found.append(None if answer is None else answer.to_dict())
            tick(done / len(settings))
        return found


GRID = Grid()
"""What the page offers: from a small survey to a register, from a mean to a hundred coefficients."""
