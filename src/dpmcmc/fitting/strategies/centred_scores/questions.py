"""The queries of a fit by centred scores; for distributions that can be summed over, scores and slopes together."""

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
"""Share of the budget for the pilot."""

PILOT_STEPS, LAST = 12, 3

SPREAD = 0.6
"""Typical standard deviation of the log-norms of scores."""

Ask = Callable[[Asked], Answer]


class Questions(Protocol):
    """The queries of a fit by centred scores, and the division of its budget."""

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
        """Shares of the budget for scores and for slopes, in the pilot and in the last releases."""
        ...

    @property
    def slope_noise(self) -> float:
        """The noise of the last slopes, in radii of slopes."""
        ...

    @property
    def error(self) -> float:
        """A lower bound on the error for usual records, in posterior standard deviations."""
        ...

    @property
    def remedy(self) -> str:
        """What would help if the expected error is too large."""
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
        """Return the information of all records at the start."""
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


@dataclass(frozen=True)
class SplitOfPersons(Split):
    """How the budget is divided where a record is a person with effects of its own.

    There are few of them: in a step of the pilot noise may hide the slope. A step divides by the slope, and noise of
    it lengthens the way in the mean by its square. The factor of two was chosen by hand, from a few runs at epsilon 1
    and 2 with 6,700 persons.
    """

    def error(self, budget: Budget, size: float) -> float:
        """Return by how many of its own standard deviations noise moves a posterior of usual records, at best."""
        hidden = self.slope_noise(budget, size, self.pilot(budget, size)[1], PILOT_STEPS)
        return super().error(budget, size) * (1 + 2 * hidden**2)


def split_of_records(dimension: int, clips_moved: int, *, is_of_persons: bool) -> Split:
    """Return how a fit by centred scores divides its budget."""
    kind = SplitOfPersons if is_of_persons else Split
    return kind(dimension, clips_moved, True, usual_variance, has_other=False, pilot_share=PILOT_SHARE)


@dataclass(frozen=True, eq=False)
class SummedLaws:
    """Means of scores are sums over the distribution of each response, given the rest of the record."""

    observed: Observed
    data: PrivateData
    budget: Budget
    layout: Layout

    @cached_property
    def split(self) -> Split:
        """The division of the budget."""
        facts = self.data.facts
        return split_of_records(self.layout.dimension, facts.clips_moved, is_of_persons=self.observed.is_drawn)

    @cached_property
    def first(self) -> InformationShape:
        """The first release."""
        return InformationShape(self.observed, self.layout, Sum(1.0, noise_of_share(FIRST_SHARE, 1, self.budget)))

    @cached_property
    def pilot(self) -> CentredSums:
        """The query of a pilot step."""
        return self._program(self.shares[0], PILOT_STEPS)

    @cached_property
    def final(self) -> CentredSums:
        """The query of the last releases."""
        return self._program(self.shares[1], LAST)

    @cached_property
    def places(self) -> Places:
        """The check of the distribution of the responses."""
        return Places(self.observed, self.layout, Sum(1.0, noise_of_share(RESIDUALS_SHARE, 1, self.budget)))

    def _program(self, shares: tuple[float, float], times: int) -> CentredSums:
        return CentredSums(self.observed, self.layout, Sum(1.0, noise_of_share(sum(shares), times, self.budget)))

    @property
    def shares(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Shares of the budget for scores and for slopes, in the pilot and in the last releases."""
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
        """A lower bound on the error for usual records, in posterior standard deviations."""
        return self.split.error(self.budget, self.data.facts.size)

    @property
    def remedy(self) -> str:
        """What would help if the expected error is too large."""
        return self.split.remedy(self.budget, self.data.facts.size)

    @property
    def words(self) -> str:
        """How the means of scores are known."""
        return "Scores are bounded and their mean under the model is subtracted"

    @property
    def settings(self) -> dict[str, Any]:
        """The releases, in plain values."""
        asked = {"first": self.first, "pilot": self.pilot, "final": self.final, "residuals": self.places}
        return {f"{name}_release": repr(each.sums) for name, each in asked.items()}

    def begin(self, paid: Session, start: Floats, prior: Prior) -> Floats:
        """Return the information of all records at the start."""
        found = paid.run(self.first, *single(start, np.diag(prior.scales)))
        return begin(found, prior.scales, self.data.facts.size)

    def ask(self, paid: Session, *, is_last: bool) -> Ask:
        """Return how scores are asked for."""
        program = self.final if is_last else self.pilot
        return lambda asked: paid.run(program, asked)

    def fits(self, paid: Session, point: Floats) -> float:
        """Return how probable places of the responses in their distributions like these are."""
        return fit_of_places(paid, self.places, point, self.data.facts.size)


def fit_of_places(paid: Session, places: Places, point: Floats, size: float) -> float:
    """Return how probable places of so many responses in their distributions like these are."""
    excess, sd, expected = (np.asarray(each, float) for each in paid.run(places, *single(point)))
    usual = np.clip(expected / size, 1 / size, 1.0)
    seen = usual * size > 10 * float(sd)
    return p_value(excess[seen], float(sd), size, usual[seen]) if seen.any() else 1.0


def single(*values: Any) -> tuple[Any, ...]:
    """Return numbers in single precision."""
    return tuple(np.asarray(value, np.float32) for value in values)
