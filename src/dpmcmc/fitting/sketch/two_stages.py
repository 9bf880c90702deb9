"""The posterior from two releases: a coarse sketch over the whole prior, and a fine one where the posterior is."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.accounting import Event
from dpmcmc.enclave import PaidRun, PrivateData, Sum
from dpmcmc.errors import InvalidArgument, RankTooLarge
from dpmcmc.fitting.facts import Facts
from dpmcmc.fitting.sketch.density import Likelihood
from dpmcmc.fitting.sketch.draws import Points, Sketched
from dpmcmc.fitting.sketch.records import RecordWalk
from dpmcmc.fitting.sketch.sketch import Release, Sketch, make_sketch
from dpmcmc.fitting.sketch.skeleton import Matrix
from dpmcmc.model import Model
from dpmcmc.run.program import Layout

POSITIONS = 1024
RECORDS_EACH = 64
"""How many made-up records each position of the fine sketch gets: what a clip takes off is known from them."""

COVERED = (0.99, 0.995, 0.998, 0.999, 0.9995, 1.0)
"""The shares of the made-up records that a clip may leave alone."""


class Multipliers(NamedTuple):
    """The noise multipliers of the two releases."""

    coarse: float
    fine: float


class Found(NamedTuple):
    """What came out: the fine sketch, and points of the posterior."""

    sketch: Sketch
    points: Points


@dataclass(frozen=True, eq=False)
class TwoStages:
    """A coarse sketch, which is public, and all that is needed to go on from it once that is paid for."""

    model: Model
    data: PrivateData
    layout: Layout
    facts: Facts
    multipliers: Multipliers

    @cached_property
    def coarse(self) -> Sketch:
        """The sketch over the prior, the same every time.

        Raises:
            RankTooLarge: there is none.
        """
        positions = self._prior
        records = self._walk.draw(jax.random.key(1), jnp.asarray(positions))
        sketch = self._sketch(records, positions, (positions[::2], positions[1::2]), self.multipliers.coarse, (1.0,))
        if sketch.error > sketch.tolerance:
            raise RankTooLarge(
                f"{sketch.rank} numbers of a record leave the log-likelihood of all of them off by {sketch.error:.2g} "
                f"nats over the whole prior, and at most {sketch.tolerance:.2g} would do: this likelihood has no short "
                "sketch. Take sampler='private_laplace', or a prior that is narrower; nothing was charged"
            )
        return sketch

    @cached_property
    def event(self) -> Event:
        """What the two releases cost; it does not depend on what is asked."""
        query = self.coarse.query()
        coarse, fine = (self.data.price(self._release(multiplier), *query) for multiplier in self.multipliers)
        return coarse + fine

    def run(self, paid: PaidRun, rng: np.random.Generator) -> Found:
        """Release both sketches, and return points of the posterior."""
        found = self._explored(paid, self.coarse, self.multipliers.coarse, rng, self._prior)  # line 2
        positions = found.draw(rng, POSITIONS)
        key = jax.random.key(int(rng.integers(2**32)))
        records = self._walk.draw(key, jnp.asarray(positions, jnp.float32), RECORDS_EACH)
        fine = self._sketch(records, positions, found.pairs(rng, POSITIONS), self.multipliers.fine, COVERED)  # line 3
        return Found(fine, self._explored(paid, fine, self.multipliers.fine, rng, positions))  # line 4

    def _explored(
        self, paid: PaidRun, sketch: Sketch, multiplier: float, rng: np.random.Generator, positions: Matrix
    ) -> Points:
        noisy = paid.run(self._release(multiplier), *sketch.query())
        total = np.asarray(noisy.value, np.float64)[: sketch.rank]
        known = Sketched(sketch, total, float(np.sqrt(noisy.variance)), self.facts.num_records)
        return known.explore(rng, positions)

    def _sketch(
        self, records: Any, positions: Matrix, pairs: Any, multiplier: float, covered: tuple[float, ...]
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
        )

    def _release(self, multiplier: float) -> Release:
        return Release(self._likelihood.of_record, Sum(1.0, multiplier))

    @cached_property
    def _prior(self) -> Matrix:
        if self.model.sample_prior is None:
            raise InvalidArgument(
                "sampler='sketch' looks for the posterior over the whole prior, and this model's prior cannot be drawn "
                "from; give the model sample_prior=, from where the parameters may be. Nothing was charged"
            )
        draws = jax.vmap(self.model.sample_prior)(jax.random.split(jax.random.key(0), POSITIONS))
        return np.asarray(jax.vmap(self.layout.ravel)(draws), np.float64)

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
