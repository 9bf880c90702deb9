"""How a fit by centred scores asks: of records whose laws are summed over, score and slope in every release."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from dpmcmc.accounting import Budget, Event
from dpmcmc.enclave import PrivateData, Session, Sum
from dpmcmc.fitting.budget_split import noise_of_share
from dpmcmc.fitting.strategies.centred_scores.releases import (
    LENGTH,
    RADII,
    Answer,
    Asked,
    CentredSums,
    InformationShape,
    Places,
)
from dpmcmc.fitting.strategies.centred_scores.steps import Lengths, Prior, begin
from dpmcmc.fitting.strategies.weighted_scores.budget import RESIDUALS_SHARE, Split
from dpmcmc.fitting.strategies.weighted_scores.residuals import p_value
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.model.observed import Observed
from dpmcmc.run.program import Layout

FIRST_SHARE = 0.03
PILOT_SHARE = 0.18
"""What of the budget goes into the pilot."""

PILOT_STEPS, LAST = 12, 3

SPREAD = 0.6
"""How much the logarithms of the lengths of scores vary, usually."""

Ask = Callable[[Asked], Answer]


class Questions(Protocol):
    """What a fit by centred scores asks of the records, and how its budget is divided."""

    @property
    def budget(self) -> Budget:
        """What all of it may cost."""
        ...

    @property
    def event(self) -> Event:
        """Everything that is released."""
        ...

    @property
    def shares(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """What of the budget goes to scores and to slopes, in the pilot and in the last releases."""
        ...

    @property
    def slope_noise(self) -> float:
        """The noise of the last slopes, in radii of slopes."""
        ...

    @property
    def error(self) -> float:
        """By how many of its standard deviations noise moves a posterior of usual records, at best."""
        ...

    @property
    def remedy(self) -> str:
        """What would make a useless run useful, in words."""
        ...

    @property
    def words(self) -> str:
        """How the means of scores are known."""
        ...

    @property
    def settings(self) -> dict[str, Any]:
        """The releases, in plain values."""
        ...

    def begin(self, paid: Session, start: Floats, prior: Prior) -> Floats:
        """Return what all records know at the start."""
        ...

    def ask(self, paid: Session, *, is_last: bool) -> Ask:
        """Return how scores are asked for."""
        ...

    def fits(self, paid: Session, point: Floats) -> float:
        """Return how probable responses like these are under the model."""
        ...


def usual_variance(noise: float, unit: float) -> float:
    """Return the variance of an estimate from usual records at the best radius, in units of the smallest."""
    radii = RADII * unit
    held = np.exp(-0.5 * (np.log(RADII) / SPREAD) ** 2)
    lengths = Lengths(radii, held / held.sum())
    slopes = lengths.slope(radii)
    return float(np.min((lengths.variance(radii) + (noise * radii) ** 2) / slopes**2))


@dataclass(frozen=True, eq=False)
class SummedLaws:
    """Means of scores are sums over the law of each response, given the rest of the record."""

    observed: Observed
    data: PrivateData
    budget: Budget
    layout: Layout

    @cached_property
    def split(self) -> Split:
        """How the budget is divided."""
        return Split(
            self.layout.dimension,
            self.data.facts.clips_moved,
            True,
            usual_variance,
            has_other=False,
            pilot_share=PILOT_SHARE,
        )

    @cached_property
    def first(self) -> InformationShape:
        """The first release."""
        return InformationShape(self.observed, self.layout, Sum(1.0, noise_of_share(FIRST_SHARE, 1, self.budget)))

    @cached_property
    def pilot(self) -> CentredSums:
        """What a step of the pilot asks."""
        return self._program(self.shares[0], PILOT_STEPS)

    @cached_property
    def final(self) -> CentredSums:
        """What the last releases ask."""
        return self._program(self.shares[1], LAST)

    @cached_property
    def places(self) -> Places:
        """The check of the law of the responses."""
        return Places(self.observed, self.layout, Sum(1.0, noise_of_share(RESIDUALS_SHARE, 1, self.budget)))

    def _program(self, shares: tuple[float, float], times: int) -> CentredSums:
        return CentredSums(self.observed, self.layout, Sum(1.0, noise_of_share(sum(shares), times, self.budget)))

    @property
    def shares(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """What of the budget goes to scores and to slopes, in the pilot and in the last releases."""
        size = self.data.facts.size
        return self.split.pilot(self.budget, size), self.split.final(self.budget, size)

    @property
    def slope_noise(self) -> float:
        """The noise of the last slopes, in radii of slopes."""
        return self.data.facts.clips_moved * noise_of_share(self.shares[1][1], 1, self.budget) * LENGTH

    @property
    def event(self) -> Event:
        """Everything that is released."""
        size = self.layout.dimension
        point, factor = np.ones(size, np.float32), np.eye(size, dtype=np.float32)
        somewhere = Asked(point, factor, *(np.ones(shape, np.float32) for shape in ((), (), (2,), RADII.shape)))
        pilot, final = (self.data.price(one, somewhere) for one in (self.pilot, self.final))
        ends = self.data.price(self.first, point, factor) + self.data.price(self.places, point)
        return ends + pilot * PILOT_STEPS + final * LAST

    @property
    def error(self) -> float:
        """By how many of its standard deviations noise moves a posterior of usual records, at best."""
        return self.split.error(self.budget, self.data.facts.size)

    @property
    def remedy(self) -> str:
        """What would make a useless run useful, in words."""
        return self.split.remedy(self.budget, self.data.facts.size)

    @property
    def words(self) -> str:
        """How the means of scores are known."""
        return "Scores are bounded and their mean under the model is subtracted"

    @property
    def settings(self) -> dict[str, Any]:
        """The releases, in plain values."""
        return {"pilot_release": repr(self.pilot.sums), "final_release": repr(self.final.sums)}

    def begin(self, paid: Session, start: Floats, prior: Prior) -> Floats:
        """Return what all records know at the start."""
        found = paid.run(self.first, *single(start, np.diag(prior.scales)))
        return begin(found, prior.scales, self.data.facts.size)

    def ask(self, paid: Session, *, is_last: bool) -> Ask:
        """Return how scores are asked for."""
        program = self.final if is_last else self.pilot
        return lambda asked: paid.run(program, asked)

    def fits(self, paid: Session, point: Floats) -> float:
        """Return how probable places of the responses in their laws like these are."""
        return fit_of_places(paid, self.places, point, self.data.facts.size)


def fit_of_places(paid: Session, places: Places, point: Floats, size: float) -> float:
    """Return how probable places of so many responses in their laws like these are."""
    excess, sd, expected = (np.asarray(each, float) for each in paid.run(places, *single(point)))
    usual = np.clip(expected / size, 1 / size, 1.0)
    seen = usual * size > 10 * float(sd)
    return p_value(excess[seen], float(sd), size, usual[seen]) if seen.any() else 1.0


def single(*values: Any) -> tuple[Any, ...]:
    """Return numbers in single precision."""
    return tuple(np.asarray(value, np.float32) for value in values)
