"""Centred scores of records without covariates, for any distribution: means of bounded scores by public draws.

Without covariates all records have one distribution, and the mean subtracted from every score is one vector, a function
of the public point of the query. It is simulated, as are slope and variance, which need no release. The mean must be
much more accurate than an average over the records, since its error times the number of records is a bias. With S draws
this is sqrt(records / S) standard deviations, reduced by control variates: scores have mean zero under the model, and
bounded scores differ from them only where they are long. The remaining error is added to the variance of the score.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.accounting import Budget, Event
from dpmcmc.enclave import Oracle, PrivateData, Session, Sum
from dpmcmc.fitting.budget_split import noise_of_share
from dpmcmc.fitting.in_words import at_least
from dpmcmc.fitting.strategies.centred_scores.questions import LAST, PILOT_SHARE, PILOT_STEPS, single, usual_variance
from dpmcmc.fitting.strategies.centred_scores.releases import PLACES, RADII, Answer, Asked
from dpmcmc.fitting.strategies.centred_scores.simulator import (
    BATCH,
    MOST_DRAWS,
    Simulator,
    moved,
    score_of,
)
from dpmcmc.fitting.strategies.centred_scores.steps import Prior
from dpmcmc.fitting.strategies.centred_scores.terms import share_kept
from dpmcmc.fitting.strategies.weighted_scores.budget import RESIDUALS_SHARE
from dpmcmc.fitting.strategies.weighted_scores.residuals import p_value
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.missing_cells import is_hidden
from dpmcmc.model.observed import Observed
from dpmcmc.run.program import Layout

DRAWS_A_RECORD = 25
"""Minimum number of draws per record for the last releases."""

TOLERANCE = 0.1
"""Bias from the simulated mean, in posterior standard deviations, below which more draws are not needed."""

COUNT_SHARE = 0.02
"""Share of a release for the number of records."""

LEAST_SLOPE_SD = 0.02
"""Directions with less information than this, relative to the prior, count as not identified."""

SURE = 6.0
"""Standard errors by which a mean score may be off zero where the distribution of the draws is the density's."""


class Point(NamedTuple):
    """The point at which scores are queried."""

    centre: Any
    factor: Any
    radius: Any
    mean: Any
    """Of bounded scores under the model."""


@dataclass(frozen=True)
class ScoreSums:
    """The centred scores of records without covariates, and the number of records: ``ask(oracle, point)``."""

    observed: Observed
    layout: Layout
    sums: Sum

    def __call__(self, oracle: Oracle, point: Point) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        """Return the sum of scores with the sd of its noise, and the number of records with that of its own."""
        found = oracle.sum(self.sums, _Score(self.observed, self.layout), point)
        unit, sd = point.radius / np.sqrt(1 - COUNT_SHARE), jnp.sqrt(found.variance)
        count = np.float32(np.sqrt(COUNT_SHARE))
        return found.value[:-1] * unit, sd * unit, found.value[-1] / count, sd / count


@dataclass(frozen=True)
class _Score:
    """What one record adds: the same for every noise, so that it is traced once."""

    observed: Observed
    layout: Layout

    def __call__(self, point: Point, record: Any) -> jax.Array:
        found, moves = moved(self.observed, self.layout, point.centre, point.factor, record)
        own = score_of(self.observed, found, moves, [law.response for law in found])
        kept = own.score * share_kept(jnp.sum(own.score**2), point.radius)
        weight = point.radius / (point.radius + jnp.linalg.norm(point.mean))
        score = weight * (kept - point.mean) / point.radius * np.float32(np.sqrt(1 - COUNT_SHARE))
        return jnp.where(own.is_there, jnp.append(score, np.float32(np.sqrt(COUNT_SHARE))), 0.0)


@dataclass(frozen=True)
class LengthCounts:
    """Counts of records by the norm of their score, to check the model: ``ask(oracle, centre, factor, edges)``."""

    observed: Observed
    layout: Layout
    sums: Sum

    def __call__(self, oracle: Oracle, centre: Any, factor: Any, edges: Any) -> tuple[jax.Array, jax.Array]:
        """Return the counts between the edges, with the sd of their noise."""
        found = oracle.sum(self.sums, _Length(self.observed, self.layout), centre, factor, edges)
        return found.value, jnp.sqrt(found.variance)


@dataclass(frozen=True)
class _Length:
    observed: Observed
    layout: Layout

    def __call__(self, centre: Any, factor: Any, edges: Any, record: Any) -> jax.Array:
        found, moves = moved(self.observed, self.layout, centre, factor, record)
        own = score_of(self.observed, found, moves, [law.response for law in found])
        length = jnp.linalg.norm(own.score)
        bins = (jnp.sum(length > edges) == jnp.arange(len(PLACES) + 1)).astype(jnp.float32)
        return jnp.where(own.is_there, bins, 0.0)


@dataclass(frozen=True, eq=False)
class Simulated:
    """Questions whose means are simulated: scores alone are released."""

    simulator: Simulator
    data: PrivateData
    budget: Budget

    @property
    def shares(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Shares of the budget for scores and for slopes, in the pilot and in the last releases."""
        return (PILOT_SHARE, 0.0), (1 - PILOT_SHARE - RESIDUALS_SHARE, 0.0)

    @property
    def slope_noise(self) -> float:
        """Slopes have none."""
        return 0.0

    @cached_property
    def pilot(self) -> ScoreSums:
        """The query of a pilot step."""
        return self._program(self.shares[0][0], PILOT_STEPS)

    @cached_property
    def final(self) -> ScoreSums:
        """The query of the last releases."""
        return self._program(self.shares[1][0], LAST)

    @cached_property
    def lengths(self) -> LengthCounts:
        """The check of the distribution of the records."""
        noise = noise_of_share(RESIDUALS_SHARE, 1, self.budget)
        return LengthCounts(self.simulator.observed, self.simulator.layout, Sum(1.0, noise))

    def _program(self, share: float, times: int) -> ScoreSums:
        noise = noise_of_share(share, times, self.budget)
        return ScoreSums(self.simulator.observed, self.simulator.layout, Sum(1.0, noise))

    @property
    def event(self) -> Event:
        """Everything that is released."""
        size = self.simulator.layout.dimension
        point, factor = np.ones(size, np.float32), np.eye(size, dtype=np.float32)
        somewhere = Point(point, factor, np.float32(1), point)
        pilot, final = (self.data.price(one, somewhere) for one in (self.pilot, self.final))
        return self._price_of_check(point, factor) + pilot * PILOT_STEPS + final * LAST

    def _price_of_check(self, point: Any, factor: Any) -> Event:
        return self.data.price(self.lengths, point, factor, np.ones(len(PLACES), np.float32))

    @property
    def error(self) -> float:
        """A lower bound on the error for usual records, in posterior standard deviations."""
        return self._error(self.budget, self.data.facts.size)

    def _error(self, budget: Budget, size: float) -> float:
        noise = self.data.facts.clips_moved * noise_of_share(self.shares[1][0], 1, budget)
        unit = float(np.sqrt(self.simulator.layout.dimension / size))
        return float(np.sqrt(max(usual_variance(noise, unit) - 1.0, 0.0)))

    @property
    def remedy(self) -> str:
        """What would help if the expected error is too large."""
        budget, size = self.budget, self.data.facts.size
        epsilons = budget.epsilon * 1.05 ** np.arange(1.0, 150.0)
        enough = next((each for each in epsilons if self._error(Budget(each, budget.delta), size) <= 1), None)
        records = next(each for each in size * 1.05 ** np.arange(1.0, 500.0) if self._error(budget, each) <= 1)
        of_records = f"{at_least(records)} records would do"
        return f"About {of_records}" if enough is None else f"About epsilon = {at_least(enough)} or {of_records}"

    @property
    def words(self) -> str:
        """How the means of scores are known."""
        return "All records have the same distribution: scores are bounded, and their simulated mean is subtracted"

    @property
    def settings(self) -> dict[str, Any]:
        """The releases, in plain values."""
        draws = {"draws_a_record": DRAWS_A_RECORD, "most_draws": MOST_DRAWS}
        asked = {"pilot": self.pilot, "final": self.final, "residuals": self.lengths}
        return {**{f"{name}_release": repr(each.sums) for name, each in asked.items()}, **draws}

    def begin(self, paid: Session, start: Floats, prior: Prior) -> Floats:
        """Return the information of all records at the start: public."""
        del paid
        size = self.data.facts.size
        asked = Asked(*single(start, np.diag(prior.scales), 1.0, 1.0, np.ones(2), RADII))
        means = self.simulator.means(asked, BATCH, np.inf, size)
        return size * means.information / np.outer(prior.scales, prior.scales)

    def ask(self, paid: Session, *, is_last: bool) -> Callable[[Asked], Answer]:
        """Return how scores are asked for: released, with simulated means and slopes."""
        size = self.data.facts.size
        program = self.final if is_last else self.pilot
        least = DRAWS_A_RECORD * size if is_last else min(size, MOST_DRAWS // 8)

        def ask(asked: Asked) -> Answer:
            means = self.simulator.means(asked, int(least), TOLERANCE if is_last else np.inf, size)
            point = Point(*single(asked.centre, asked.factor, asked.radius, means.mean))
            score, sd, count, count_sd = (np.asarray(each, float) for each in paid.run(program, point))
            number = float(np.clip(count, 1.0, size))
            weight = float(asked.radius) / (float(asked.radius) + float(np.linalg.norm(means.mean)))
            of_draws = (number * weight) ** 2 * np.trace(means.mean_error) / len(score)
            slope = number * means.slope
            per_draw = np.sqrt(3 / means.number) * np.trace(slope) / len(slope)
            slope_sd = max(per_draw, float(count_sd) / size, LEAST_SLOPE_SD)
            noise = np.sqrt(float(sd) ** 2 + max(of_draws, 0.0))
            return Answer(score, noise, slope, slope_sd, number * means.variance, number * means.traces)

        return ask

    def fits(self, paid: Session, point: Floats) -> float:
        """Return how probable lengths of scores like these are."""
        size = self.data.facts.size
        factor = np.eye(len(point))
        keys = jax.random.split(jax.random.key(1), max(1, min(size * DRAWS_A_RECORD, MOST_DRAWS) // BATCH // 4))
        drawn = np.concatenate([np.asarray(self.simulator.lengths(*single(point, factor), key)) for key in keys])
        edges = np.quantile(drawn, PLACES) * (1 + 1e-4)  # away from where many of them may be
        expected = np.histogram(drawn, np.concatenate([[-1.0], np.maximum.accumulate(edges), [np.inf]]))[0] / len(drawn)
        counts, sd = (np.asarray(each, float) for each in paid.run(self.lengths, *single(point, factor, edges)))
        number = max(float(counts.sum()), 1.0)
        seen = expected * size > 10 * float(sd)
        noise = float(np.sqrt(float(sd) ** 2 + number**2 * np.max(expected * (1 - expected)) / len(drawn)))
        return p_value((counts - number * expected)[seen], noise, number, expected[seen]) if seen.any() else 1.0


def is_one_term(observed: Observed, layout: Layout, record: Any) -> bool:
    """Say whether one number, or one vector, is observed of a record."""
    centre = jax.ShapeDtypeStruct((layout.dimension,), jnp.float32)
    found = jax.eval_shape(lambda vector, record: observed.at(layout.unravel(vector), record), centre, record)
    return sum(law.is_there.shape[0] for law in found) == 1


def _may_lack_cells(record: Any) -> bool:
    return isinstance(record, Mapping) and any(is_hidden(str(name)) for name in cast(Mapping[Any, Any], record))


def simulated(observed: Observed, data: PrivateData, budget: Budget, layout: Layout, start: Floats) -> Simulated | None:
    """Return the questions of a model without covariates, or None where simulation is not accurate enough.

    It is not where there are too many records, or the distribution cannot be drawn from, or scores do not have mean
    zero under it, as where its support depends on the parameters. Nor is it where some of several responses may be
    missing: such records would have to be left out as a whole, though which are missing may depend on the others. Reads
        no record.
    """
    if observed.has_covariates or observed.is_chained or observed.is_of_persons:
        return None
    if _may_lack_cells(data.facts.record) and not is_one_term(observed, layout, data.facts.record):
        return None
    if DRAWS_A_RECORD * data.facts.size > MOST_DRAWS:
        return None
    record = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), data.facts.record)
    simulator = Simulator(observed, layout, record)
    asked = Asked(*single(start, np.eye(len(start)), 1.0, 1.0, np.ones(2), RADII))
    try:
        means = simulator.means(asked, 4 * BATCH, np.inf, data.facts.size)
    except (NotImplementedError, TypeError, ValueError, AttributeError):
        return None
    is_sound = all(np.isfinite(each).all() for each in means[1:]) and np.all(means.off <= SURE)
    return Simulated(simulator, data, budget) if is_sound and np.trace(means.information) > 0 else None
