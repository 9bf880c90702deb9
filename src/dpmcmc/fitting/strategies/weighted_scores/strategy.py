"""Regressions by weighted scores, as a strategy of `fit`: histograms, a pilot, a few large releases, draws."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from dpmcmc.accounting import Budget, Event
from dpmcmc.enclave import PrivateData, Session, Sum
from dpmcmc.errors import DpmcmcError
from dpmcmc.fitting.budget_split import noise_of_share
from dpmcmc.fitting.strategies.fallback import NUMERICAL, prior_draws_instead
from dpmcmc.fitting.strategies.strategy import Drawn
from dpmcmc.fitting.strategies.weighted_scores import draws, verdict
from dpmcmc.fitting.strategies.weighted_scores.beside_prior import decided_by_prior
from dpmcmc.fitting.strategies.weighted_scores.bounds import Bounds, best_bounds, tails
from dpmcmc.fitting.strategies.weighted_scores.budget import (
    HISTOGRAM_SHARES,
    LAST,
    PILOT_STEPS,
    RESIDUALS_SHARE,
    USUAL_SLOPE,
    Split,
    usual_variance,
)
from dpmcmc.fitting.strategies.weighted_scores.histograms import Histograms, Moments
from dpmcmc.fitting.strategies.weighted_scores.newton import Steps, usual_predictors, with_known_shapes
from dpmcmc.fitting.strategies.weighted_scores.nonlinearity import at_result
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.release import Release
from dpmcmc.fitting.strategies.weighted_scores.releases import LENGTH, LENGTHS, Asked, ScoreAndSlope
from dpmcmc.fitting.strategies.weighted_scores.residuals import Point, Residuals, far_and_bins, p_value_of_looks
from dpmcmc.fitting.strategies.weighted_scores.scores import MIDDLES, Floats
from dpmcmc.fitting.strategies.weighted_scores.spreads import Spreads
from dpmcmc.fitting.strategies.weighted_scores.start import information, start
from dpmcmc.fitting.strategies.weighted_scores.whitening import whiten
from dpmcmc.model import FormulaModel
from dpmcmc.run.plan import parameters, surroundings
from dpmcmc.run.program import Layout
from dpmcmc.run.progress import Watcher

NAME = "private_laplace"
DRAWS = 1000
"""Draws of each chain unless stated."""

SLOPE_NOISE = 0.07
"""How large the noise of the slope's eigenvalues may become for longer slopes to be let in."""


@dataclass(frozen=True, eq=False)
class WeightedScores:
    """A weighted fit of a formula."""

    model: FormulaModel
    data: PrivateData
    budget: Budget
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

    @cached_property
    def layout(self) -> Layout:
        """How a position of the model is laid out."""
        return Layout.of(self.model.position)

    @property
    def dimension(self) -> int:
        """How many parameters there are."""
        return self.layout.dimension

    @cached_property
    def regression(self) -> Regression:
        """The model, taken apart."""
        return Regression.of(self.model)

    @cached_property
    def histograms(self) -> Histograms:
        """The first release."""
        whole = sum(HISTOGRAM_SHARES)
        shares = (HISTOGRAM_SHARES[0] / whole, HISTOGRAM_SHARES[1] / whole)
        return Histograms(self.regression, Sum(1.0, noise_of_share(whole, 1, self.budget)), shares)

    @cached_property
    def pilot(self) -> ScoreAndSlope:
        """What a step of the pilot asks."""
        return self._program(self._pilot_shares, PILOT_STEPS)

    @cached_property
    def final(self) -> ScoreAndSlope:
        """What the last releases ask."""
        return self._program(self._final_shares, LAST)

    @cached_property
    def split(self) -> Split:
        """How the budget is divided."""
        has_residuals = self.regression.scores.residual_table(self._some_shapes) is not None
        variance = partial(usual_variance, self.regression)
        return Split(self.regression.dimension, self.data.facts.clips_moved, has_residuals, variance)

    @property
    def _pilot_shares(self) -> tuple[float, float]:
        return self.split.pilot(self.budget, self.data.facts.size)

    @property
    def _final_shares(self) -> tuple[float, float]:
        return self.split.final(self.budget, self.data.facts.size)

    @cached_property
    def residuals(self) -> Residuals | None:
        """The check of the residuals, where there can be any that are far out."""
        if not self.split.has_residuals:
            return None
        return Residuals(self.regression, noise_of_share(RESIDUALS_SHARE, 2, self.budget))

    @property
    def _some_shapes(self) -> Floats:
        """Shapes that are somewhere in the prior."""
        return self.regression.shapes(np, np.zeros(self.regression.dimension))

    def _program(self, shares: tuple[float, float], times: int) -> ScoreAndSlope:
        return ScoreAndSlope(self.regression, Sum(1.0, noise_of_share(sum(shares), times, self.budget)))

    @property
    def event(self) -> Event:
        """Everything that the run releases."""
        size = self.regression.dimension
        table = self.regression.scores.table(self._some_shapes, 1.0)
        shapes = ((size,), (size, size), (), (), (2,), LENGTHS.shape, table.shape)
        somewhere = Asked(*(np.ones(shape, np.float32) for shape in shapes))
        first = self.data.price(self.histograms)
        pilot, final = (self.data.price(one, somewhere) for one in (self.pilot, self.final))
        total = first + pilot * PILOT_STEPS + final * LAST
        if self.residuals is None:
            return total
        of_residuals = self.regression.scores.residual_table(self._some_shapes)
        point = Point(np.ones(size, np.float32), np.asarray(of_residuals, np.float32))
        return total + self.data.price(self.residuals, point) * 2

    @property
    def course(self) -> str:
        """What the run does, in words."""
        return (
            f"histograms of the columns, {PILOT_STEPS} private scoring steps for {self.dimension} parameters, "
            f"{LAST} releases of weighted scores, then {self.num_chains} x {self.num_steps} independent draws"
        )

    @property
    def reason(self) -> str:
        """Why this strategy was chosen, in words."""
        return "Scores are weighted by their predictors, not clipped: the truth is their root whatever the bound."

    @property
    def expected_error(self) -> float:
        """By how many of its own standard deviations the noise moves the posterior, about; at best."""
        return self.split.error(self.budget, self.data.facts.size)

    @property
    def remedy(self) -> str:
        """What would make a useless run useful, in words."""
        return self.split.remedy(self.budget, self.data.facts.size)

    @property
    def _noise(self) -> float:
        """The standard deviation of the noise of the last releases together, at radius one."""
        return self.data.facts.clips_moved * noise_of_share(self._final_shares[0], 1, self.budget)

    def draw(self, paid: Session, watcher: Watcher, is_interrupted: Callable[[], bool], seed: int) -> Drawn:
        """Run, to the end: what costs is over in a moment. If the releases cannot be used, draws are from the prior."""
        del is_interrupted
        try:
            drawn = self._drawn(paid, np.random.default_rng(seed))
        except DpmcmcError:
            raise  # the vault's own refusals are no matter of numbers
        except NUMERICAL as error:
            shape = (self.num_chains, self.num_steps)
            drawn = prior_draws_instead(self.model, shape, self._settings(paid, {}), error)
        watcher.update(self.num_steps, 1.0)
        return drawn

    def _drawn(self, paid: Session, rng: np.random.Generator) -> Drawn:
        response, columns = paid.run(self.histograms)  # line 1
        moments = self.histograms.moments(response, columns)
        begin = start(self.regression, self.histograms.response(response), self.histograms.offset(response), moments)
        spreads = Spreads(self.regression)
        steps = Steps(self.regression, moments, lambda asked: paid.run(self.pilot, asked), self._pilot_shares)
        known = information(self.regression, begin, moments)
        point, last, before = steps.pilot(begin, known, spreads, PILOT_STEPS - 1)  # line 2
        look = self._excess(paid, moments, point)  # line 3
        bounds = best_bounds(steps, last, self._noise, tails(*look))
        point = steps.bounded_step(point, last, spreads, bounds.bound, bounds.radius)
        releases, arrived = self._last(paid, moments, point, last, bounds, spreads)  # line 4
        joined = draws.join_all(at_result(self.regression, releases, moments))
        last_look = self._excess(paid, moments, joined.release.point)  # line 5
        fits = p_value_of_looks(*last_look, look[0])
        number = self.num_chains * self.num_steps
        drawn = draws.draw(self.regression, joined.release, spreads.values, number, rng)  # line 6
        if not np.isfinite(drawn.vectors).all():
            raise ValueError("draws are not finite")
        checks = verdict.Checks(arrived, fits, verdict.other_weights(joined, before, bounds, moments.size), bounds.bias)
        return self._result(paid, moments, joined, releases[-2], drawn, spreads, bounds, checks)

    def _settings(self, paid: Session, found: Mapping[str, Any]) -> dict[str, Any]:
        """Return how the run was made, in plain values."""
        return {
            "stages": [{"kernel": NAME, "num_steps": self.num_steps}],
            "num_chains": self.num_chains,
            "temperature": self.model.temperature,
            "pilot": {
                "steps": PILOT_STEPS,
                "pilot_release": repr(self.pilot.sums),
                "final_release": repr(self.final.sums),
                **found,
            },
            **surroundings(self.data, paid.entry),
        }

    def _last(
        self, paid: Session, moments: Moments, point: Floats, last: Release, bounds: Bounds, spreads: Spreads
    ) -> tuple[list[Release], bool]:
        """Return the last releases, and whether the last step between them was as long as it wanted to be."""
        steps = Steps(self.regression, moments, lambda asked: paid.run(self.final, asked), self._final_shares)
        whitening = whiten(steps.known(last, point) + spreads.prior_at(self.regression, point)[1])
        least = USUAL_SLOPE * steps.unit**2
        per_unit = self.data.facts.clips_moved * noise_of_share(self._final_shares[1], 1, self.budget) * LENGTH
        most = SLOPE_NOISE / (np.sqrt(self.regression.dimension) * per_unit)
        slope_radius = float(np.clip(2 * bounds.radius**2, least, max(least, most)))
        releases: list[Release] = []
        arrived = True
        for place in range(LAST):
            release = steps.release(point, whitening, bounds.bound, bounds.radius, slope_radius)
            releases.append(steps.pooled(release, last, LAST))
            if place + 1 < LAST:
                gradient, bend = spreads.prior_at(self.regression, point)
                told, factor = releases[-1].likelihood(), whitening.factor
                precision = told.precision + factor.T @ bend @ factor
                move = factor @ np.linalg.solve(precision, told.tilt + factor.T @ gradient)
                trusted = steps.trusted(move, 0.5)
                point, arrived = point + trusted, bool(np.allclose(move, trusted))
        return releases, arrived

    def _excess(self, paid: Session, moments: Moments, point: Floats) -> tuple[Floats, float, float, Floats]:
        """Return the excess of residuals by bins, the sd of its noise, the number of records and what is expected.

        Where no residual can be far out there is none.
        """
        shapes = self.regression.shapes(np, point)
        table = self.regression.scores.residual_table(shapes)
        if self.residuals is None or table is None:
            return np.zeros(1 + len(MIDDLES)), 1.0, moments.size, np.zeros(1 + len(MIDDLES))
        asked = Point(np.asarray(point, np.float32), np.asarray(table, np.float32))
        excess, sd = paid.run(self.residuals, asked)
        expected = self.regression.scores.bin_probabilities(usual_predictors(self.regression, point, moments), table)
        usual = np.maximum(far_and_bins(expected), 1 / moments.size)
        return np.asarray(excess, float), float(sd), moments.size, usual

    def _result(
        self,
        paid: Session,
        moments: Moments,
        joined: draws.Joined,
        first: Release,
        drawn: draws.Drawn,
        spreads: Spreads,
        bounds: Bounds,
        checks: verdict.Checks,
    ) -> Drawn:
        """Return the draws as people read them, and what they are worth."""
        mean = drawn.vectors.mean(axis=0)
        _, bend = spreads.prior_at(self.regression, mean)
        steps = 1e-3 * np.sqrt(np.maximum(np.diag(np.cov(drawn.vectors.T).reshape(len(mean), -1)), 1e-12))
        corners = np.concatenate([mean + np.diag(steps), mean - np.diag(steps)])
        all_vectors = np.concatenate([drawn.vectors, corners])
        centre = {name: np.exp(np.log(values).mean(axis=0)) for name, values in drawn.spreads.items()}
        all_spreads = {
            name: np.concatenate([values, np.broadcast_to(centre[name], (len(corners), values.shape[1]))])
            for name, values in drawn.spreads.items()
        }
        named = self._named(all_vectors, all_spreads)
        number = len(drawn.vectors)
        labelled = verdict.labelled(named)
        spread = {label: float(values[:number].var()) for label, values in labelled.items()}
        jacobians = {
            label: (values[number : number + len(mean)] - values[number + len(mean) :]) / (2 * steps)
            for label, values in labelled.items()
        }
        jacobians = {label: value for label, value in jacobians.items() if np.any(value)}
        nothing, information = np.zeros((0, len(mean))), self._information(joined.release, bounds, moments)
        whole, visible = (
            verdict.variances(joined, bend, information, known) for known in (nothing, self.regression.unseen)
        )
        move = joined.release.whitening.inverse @ (mean - joined.release.point)
        moved = verdict.distance(joined, move, first.score_variance)
        decided = decided_by_prior(self.regression, drawn.vectors)
        shapes = np.arange(self.regression.dimension) >= self.regression.num_linear
        quality = verdict.judge(
            joined, moved, drawn.share_kept, (whole, visible), jacobians, spread, checks, decided, shapes
        )
        shape = (self.num_chains, self.num_steps)
        return Drawn(
            {name: values[:number].reshape(*shape, *values.shape[1:]) for name, values in named.items()},
            np.ones(shape, bool),
            0,
            self._settings(
                paid,
                {
                    "cut": bounds.bound,
                    "radius": bounds.radius,
                    "disagreement": joined.disagreement,
                    "moved": moved,
                    "fits": checks.fits,
                    "other_weights": checks.weights,
                    "bias": [float(one) for one in bounds.bias],
                },
            ),
            quality,
        )

    def _information(self, release: Release, bounds: Bounds, moments: Moments) -> Floats:
        """Return what the records would tell without weights, cuts and noise, in whitened coordinates."""
        unevenness = release.unevenness
        even = np.sqrt(bounds.losses(unevenness) / unevenness)
        inner = even[:, None] * release.full_information(bounds.inefficiency) * even
        inverse, factor = release.whitening.inverse, release.whitening.factor
        found = with_known_shapes(self.regression, inverse.T @ inner @ inverse, release.point, moments)
        return factor.T @ found @ factor

    def _named(self, vectors: Floats, spreads: Mapping[str, Floats]) -> dict[str, np.ndarray]:
        """Return vectors (draws, parameters) as people read them."""
        position = self.regression.positions(vectors, spreads)
        flat = np.concatenate(
            [np.asarray(position[name], np.float32).reshape(len(vectors), -1) for name in sorted(position)], axis=1
        )
        return {name: values[0] for name, values in parameters(self.model, self.layout, flat[None]).items()}
