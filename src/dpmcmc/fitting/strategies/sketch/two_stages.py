"""The posterior from two releases: a coarse sketch over the whole prior, and a fine one around the posterior."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import numpy as np

from dpmcmc.accounting import Budget, Event, noise_for
from dpmcmc.enclave import Noisy, PrivateData, Session, Sum
from dpmcmc.enclave.core.metadata import Facts
from dpmcmc.enclave.core.sums import lattice_event, vector_lattice
from dpmcmc.errors import InvalidArgument, RankTooLarge
from dpmcmc.fitting.budget_split import MARGIN, noise_of_share
from dpmcmc.fitting.problem_size import ProblemSize
from dpmcmc.fitting.strategies.sketch.density import Likelihood
from dpmcmc.fitting.strategies.sketch.draws import Points, Sketched
from dpmcmc.fitting.strategies.sketch.records import RecordWalk
from dpmcmc.fitting.strategies.sketch.skeleton import Matrix
from dpmcmc.fitting.strategies.sketch.sketch import CUT_SHARE, CheckedRelease, Release, Sketch, make_sketch
from dpmcmc.model import Model
from dpmcmc.run.program import Layout

COARSE_SHARE = 0.1
"""Share of the budget (mean privacy loss) of the coarse sketch."""

MOST = 48
"""Largest number of coefficients of the coarse sketch."""

ROOM = 8
"""Largest number of coefficients of the fine sketch, unless the coarse one has more."""

POSITIONS = 1024
RECORDS_EACH = 128
"""Number of synthetic records per position of the fine sketch; they determine the correction for clipping."""

COVERED = (0.99, 0.995, 0.998, 0.999, 0.9995, 1.0)
"""Candidate shares of the synthetic records that are not clipped."""


class Multipliers(NamedTuple):
    """The noise multipliers of the two releases."""

    coarse: float
    fine: float


class Found(NamedTuple):
    """The result: the posterior given the fine sketch, and a weighted sample from it."""

    posterior: Sketched
    points: Points
    surprise: float = 0.0
    """Number of standard deviations by which the clipped share exceeds that of synthetic records."""


@dataclass(frozen=True, eq=False)
class TwoStages:
    """A public coarse sketch, and the settings for the fine one, which follows from its release."""

    model: Model
    data: PrivateData
    layout: Layout
    facts: ProblemSize
    budget: Budget

    @cached_property
    def coarse(self) -> Sketch:
        """The sketch over the prior, the same every time.

        Raises:
            RankTooLarge: there is none.
        """
        positions, noise = self._prior, noise_of_share(COARSE_SHARE, 1, self.budget)
        records = self._walk.draw(np.random.default_rng(0), positions)
        pairs = positions[::2], positions[1::2]
        sketch = self._sketch(records, positions, pairs, noise, (1.0,), MOST)  # line 1
        if sketch.error > sketch.tolerance:
            raise RankTooLarge(
                f"with {sketch.rank} numbers per record the log-likelihood of all records is off by {sketch.error:.2g} "
                f"nats over the whole prior, and at most {sketch.tolerance:.2g} is allowed: this likelihood has no "
                "short sketch. Take sampler='private_laplace', or a prior that is narrower; nothing was charged"
            )
        return sketch

    @property
    def room(self) -> int:
        """The largest number of coefficients of the fine sketch."""
        return max(ROOM, self.coarse.rank)

    @cached_property
    def multipliers(self) -> Multipliers:
        """The noise multipliers at which both releases spend the budget."""

        def both(fine: float) -> Multipliers:
            return Multipliers(fine * math.sqrt((1 - COARSE_SHARE) / COARSE_SHARE), fine)

        def event(fine: float) -> Event:
            sizes = (self.coarse.rank, self.room + 1)  # one more for the number of records that are cut
            first, second = (_event(self.data.facts, *one) for one in zip(both(fine), sizes, strict=True))
            return first + second

        return both(noise_for(event, self.budget.epsilon * (1 - MARGIN), self.budget.delta))

    @cached_property
    def event(self) -> Event:
        """The event of the two releases; that of the fine one does not depend on its query."""
        coarse = self.data.price(self._release(self.multipliers.coarse), *self.coarse.query(self.coarse.rank))
        return coarse + self.data.price(self._checked, *self.coarse.query(self.room))

    def run(self, paid: Session, rng: np.random.Generator) -> Found:
        """Release both sketches, and return a weighted sample from the posterior."""
        noisy = paid.run(self._release(self.multipliers.coarse), *self.coarse.query(self.coarse.rank))
        found = self._explored(self.coarse, noisy, rng, self._prior).points  # line 2
        positions = found.draw(rng, POSITIONS)
        records = self._walk.draw(rng, positions, RECORDS_EACH)
        pairs = found.pairs(rng, POSITIONS)
        noise = self.multipliers.fine / math.sqrt(1 - CUT_SHARE)
        fine = self._sketch(records, positions, pairs, noise, COVERED, self.room)  # line 3
        total, cut = paid.run(self._checked, *fine.query(self.room))
        return self._explored(fine, total, rng, positions)._replace(surprise=self._surprise(fine, cut))  # line 4

    def _surprise(self, fine: Sketch, cut: Noisy) -> float:
        """Return by how many standard deviations the clipped share of records exceeds that of synthetic records."""
        size, share = self.facts.num_records, 1 - fine.covered
        made_up = POSITIONS * RECORDS_EACH
        spread = float(cut.variance) + (size + size**2 / made_up) * max(share, 1 / made_up)
        return (float(cut.value) - size * share) / math.sqrt(spread)

    def _explored(self, sketch: Sketch, noisy: Noisy, rng: np.random.Generator, positions: Matrix) -> Found:
        total = np.asarray(noisy.value, np.float64)[: sketch.rank]
        known = Sketched(sketch, total, float(np.sqrt(noisy.variance)), self.facts.num_records)
        return Found(known, known.explore(rng, positions))

    def _sketch(
        self, records: Any, positions: Matrix, pairs: Any, multiplier: float, covered: tuple[float, ...], most: int
    ) -> Sketch:
        return make_sketch(
            self._likelihood,
            records,
            positions,
            pairs,
            num_records=self.facts.num_records,
            noise=self.facts.clips_moved * multiplier,
            covered=covered,
            centred=self.facts.clips_moved == 2,
            most=most,
        )

    @cached_property
    def _checked(self) -> CheckedRelease:
        return CheckedRelease(self._release(self.multipliers.fine))

    def _release(self, multiplier: float) -> Release:
        return Release(self._likelihood.of_record, Sum(1.0, multiplier))

    @cached_property
    def _prior(self) -> Matrix:
        if self.model.sample_prior is None:
            raise InvalidArgument(
                "sampler='sketch' searches the whole prior for the posterior, but this model's prior cannot be drawn; "
                "give the model sample_prior=, a function that draws positions. Nothing was charged"
            )
        sample_prior = self.model.sample_prior
        draw = jax.jit(jax.vmap(lambda key: self.layout.ravel(sample_prior(key))))
        return np.asarray(draw(jax.random.split(jax.random.key(0), POSITIONS)), np.float64)

    @cached_property
    def _likelihood(self) -> Likelihood:
        def of_record(vector: jax.Array, record: Any) -> jax.Array:
            return self.model.temperature * self.model.log_likelihood(self.layout.unravel(vector), record)

        return Likelihood(lambda vector: self.model.log_prior(self.layout.unravel(vector)), of_record)

    @cached_property
    def _walk(self) -> RecordWalk:
        return RecordWalk(
            self.data, lambda vector, record: self.model.log_likelihood(self.layout.unravel(vector), record)
        )


def _event(facts: Facts, noise_multiplier: float, num_coordinates: int) -> Event:
    """Return the event of `mechanisms.Sum`, which does not depend on the clip: to plan with."""
    return lattice_event(noise_multiplier, num_coordinates, vector_lattice(1.0, noise_multiplier, facts))
