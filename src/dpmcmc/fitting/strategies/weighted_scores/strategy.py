"""Regressions by weighted scores, as a strategy of `fit`: histograms, a pilot, a few large releases, draws."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from dpmcmc.accounting import Budget
from dpmcmc.enclave import PrivateData, Session
from dpmcmc.fitting.budget_split import noise_of_share
from dpmcmc.fitting.strategies.laplace import NAME, PrivateLaplace
from dpmcmc.fitting.strategies.strategy import Drawn
from dpmcmc.fitting.strategies.weighted_scores import draws, grades, rescaled, verdict
from dpmcmc.fitting.strategies.weighted_scores.agreement import agreement, missed, with_agreement
from dpmcmc.fitting.strategies.weighted_scores.arrival import moved_to, noise_of_step
from dpmcmc.fitting.strategies.weighted_scores.beside_prior import marked_shares, seen_beside_prior
from dpmcmc.fitting.strategies.weighted_scores.bounds import Bias, Bounds, best_bounds, far_tails, tails
from dpmcmc.fitting.strategies.weighted_scores.budget import (
    PILOT_STEPS,
    SLOPE_NOISE,
    SLOPE_NOISE_OF_ONE,
    USUAL_SLOPE,
    Split,
)
from dpmcmc.fitting.strategies.weighted_scores.efficiency import full_information
from dpmcmc.fitting.strategies.weighted_scores.few_rows import told_little
from dpmcmc.fitting.strategies.weighted_scores.histograms import Moments
from dpmcmc.fitting.strategies.weighted_scores.levels import MANY, some_predictors, without_hardly_seen
from dpmcmc.fitting.strategies.weighted_scores.misfit import expected_misfit
from dpmcmc.fitting.strategies.weighted_scores.monotone_draws import inside_of
from dpmcmc.fitting.strategies.weighted_scores.newton import PILOT_BOUND, Steps
from dpmcmc.fitting.strategies.weighted_scores.nonlinearity import at_result, known
from dpmcmc.fitting.strategies.weighted_scores.one_pass import predicted_error, remedy
from dpmcmc.fitting.strategies.weighted_scores.other_root import other_root, tighter
from dpmcmc.fitting.strategies.weighted_scores.public_guess import near_together
from dpmcmc.fitting.strategies.weighted_scores.questions import Questions
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.release import Release
from dpmcmc.fitting.strategies.weighted_scores.releases import LENGTH, LENGTHS
from dpmcmc.fitting.strategies.weighted_scores.residuals import Point, far_and_bins, is_near, p_value_of_looks
from dpmcmc.fitting.strategies.weighted_scores.scores import MIDDLES, Floats
from dpmcmc.fitting.strategies.weighted_scores.smooth_test import p_value_of_patterns, scale_moved
from dpmcmc.fitting.strategies.weighted_scores.spacing import sampling_variance, squares_of
from dpmcmc.fitting.strategies.weighted_scores.spreads import Spreads
from dpmcmc.fitting.strategies.weighted_scores.start import information, start
from dpmcmc.fitting.strategies.weighted_scores.synthetic_records import with_shared
from dpmcmc.fitting.strategies.weighted_scores.synthetic_rows import Bounded
from dpmcmc.fitting.strategies.weighted_scores.told import carried
from dpmcmc.fitting.strategies.weighted_scores.whitening import whiten
from dpmcmc.model import FormulaModel
from dpmcmc.model.bounded_scores.one_row import LocationScale
from dpmcmc.run.plan import parameters_at, surroundings
from dpmcmc.run.program import Layout
from dpmcmc.run.progress import Watcher

DRAWS = 1000
"""Number of draws per chain by default."""

UNSEEN = 2.0
"""Excess of far residuals, in noise standard deviations of one release, that two releases may fail to detect."""

DOUBTFUL = 2.0
"""In the last step slopes below this number of noise levels are raised to it."""


@dataclass(frozen=True, eq=False)
class WeightedScores(PrivateLaplace):
    """A weighted fit of a formula."""

    model: FormulaModel
    data: PrivateData
    budget: Budget
    num_steps: int
    num_chains: int
    split: Split
    """How the budget is divided, and which rows are asked when."""

    @cached_property
    def layout(self) -> Layout:
        """How a position of the model is laid out."""
        return Layout.of(self.model.position)

    @cached_property
    def regression(self) -> Regression:
        """The model, taken apart."""
        return Regression.of(self.model)

    @cached_property
    def questions(self) -> Questions:
        """The releases."""
        return Questions(self.regression, self.data, self.budget, self.split)

    @property
    def course(self) -> str:
        """A description of the run."""
        may_move = self.data.facts.places is None  # then no blocks of rows lead the way, where they might
        why = (
            ": it is not stated that rows keep their place (rows_keep_place=True), so no pilot can use blocks"
            * may_move
        )
        return (
            f"histograms of the columns, {PILOT_STEPS} private scoring steps for {self.dimension} parameters, "
            f"{self.split.schedule.shares.num_final} releases of weighted scores, then {self.num_chains} x "
            f"{self.num_steps} independent draws. {self.split.schedule.words(self.data.facts.size)}{why}"
        )

    @property
    def reason(self) -> str:
        """The reason for choosing this strategy."""
        return "Scores are weighted by their predictors, not clipped: if the model holds, bounding them causes no bias."

    @property
    def expected_error(self) -> float:
        """A lower bound on the error from the privacy noise, in posterior standard deviations."""
        return predicted_error(self.split, self.budget, self.data.facts.size)

    @property
    def remedy(self) -> str:
        """What would help if the expected error is too large."""
        return remedy(self.split, self.budget, self.data.facts.size)

    def _drawn(self, paid: Session, seed: int, watcher: Watcher) -> Drawn:
        asked, schedule, spreads = self.questions, self.split.schedule, Spreads(self.regression)
        rng = np.random.default_rng(seed)
        watcher.stage("histograms of the columns")
        response, columns = paid.run(schedule.pilot.of(asked.histograms))  # line 1
        moments = with_shared(self.regression, asked.histograms.moments(response, columns))
        begin = start(self.regression, asked.histograms.response(response), moments)
        ask = watcher.counted("pilot", PILOT_STEPS - 1, partial(paid.run, schedule.pilot.of(asked.pilot)))
        steps = Steps(self.regression, moments, ask, asked.pilot_shares)
        first = information(self.regression, begin, moments)
        point, last, before = steps.pilot(begin, first, spreads, PILOT_STEPS - 1)  # line 2
        times = 1 / schedule.pilot.share  # from here on all is as if it were of all rows
        moments, last = rescaled.moments_of(moments, times), rescaled.release_of(last, times)
        if schedule.has_blocks:
            bounds = PILOT_BOUND, steps.radius / np.sqrt(times)
            point, last = self._step(paid, moments, point, last, bounds, spreads)
            before = [last]
        look, looked = self._excess(paid, moments, point), point  # line 3
        times = 1 / schedule.refinement.share
        every, found = self._steps(paid, moments), (last, asked.final_noise, rescaled.tails_of(tails(*look), times))
        bounds = best_bounds(every, *found)
        kept = carried(self.regression, [] if schedule.has_blocks else before)
        point, refined = self._step(paid, moments, point, last, (bounds.bound, bounds.radius), spreads, kept)
        led = other_root(draws.Joined(refined, 0.0), before, bounds, moments.worth, times=times)
        misfit = partial(expected_misfit, led, refined, (bounds, every.radius), every.unit)
        bounds = best_bounds(every, *found, misfit)
        last = refined if schedule.has_blocks else last
        watcher.stage("the last releases, and how they fit")
        raw, releases, arrived = self._last(paid, moments, point, last, bounds, spreads)  # line 4
        joined = draws.join_or_last(at_result(self.regression, releases, moments))
        joined = replace(joined, release=without_hardly_seen(self.regression, moments, raw, joined.release))
        number = self.num_chains * self.num_steps
        drawn = draws.draw(self.regression, joined.release, spreads.values, number, rng)  # line 5
        if not np.isfinite(drawn.vectors).all():
            raise ValueError("draws are not finite")
        mean = drawn.vectors.mean(axis=0)
        last_look = self._excess(paid, moments, mean)  # line 6
        since = joined.release.squared(mean - looked) / times  # of as many rows as were asked
        before_it = look[0] if is_near(since, last_look[1]) else None
        fits = min(1.0, 2 * min(p_value_of_looks(*last_look, before_it), p_value_of_patterns(*last_look, before_it)))
        other = tighter(asked, paid, moments, mean, joined.release, last)
        root = other_root(joined, [*before, other], bounds, moments.worth, times - 1).beside(led)
        unseen = 0.0 if self.questions.residuals is None else UNSEEN * last_look[1] * times
        far = far_tails(*last_look, before_it).bias(self.regression.scores, bounds.bound, self.regression.num_linear)
        bias = bounds.bias.or_more(far)
        if isinstance(self.regression.scores, LocationScale):
            bias = bias.or_more(Bias(0.0, scale_moved(*last_look, before_it, bounds.bound)))
        told = moments.clamped, *told_little(self.regression, moments, drawn.vectors)
        all_know = moments.worth * known(self.regression, mean, moments)
        checks = verdict.Checks(arrived, fits, root, bias, unseen, *told, knows=all_know, moved=bounds.moved)
        earlier, others = (releases[-2], 0.0) if len(releases) > 1 else (refined, times - 1)
        noise = noise_of_step(earlier, joined.release.point) + others
        result = self._result(paid, moments, joined, noise, drawn, spreads, bounds, checks)
        if len(releases) > 1:  # how they agree is tested
            return result
        agree = agreement(joined, refined, schedule.refinement.share, moments.worth)
        knows = known(self.regression, joined.release.point, moments), known(self.regression, mean, moments)
        off = missed(joined, mean, moments.worth, knows)
        return result._replace(quality=with_agreement(result.quality, agree, off))

    def _steps(self, paid: Session, moments: Moments) -> Steps:
        """Return the steps that read all rows."""
        program, shares = self.questions.final, self.questions.final_shares
        return Steps(self.regression, moments, lambda asked: paid.run(program, asked), shares)

    def _step(
        self,
        paid: Session,
        moments: Moments,
        point: Floats,
        last: Release,
        bounds: tuple[float, float],
        spreads: Spreads,
        kept: Floats | float = 0.0,
    ) -> tuple[Floats, Release]:
        """Return where a step of the rows after the pilot's leads, with bounds, and its release as if of all rows."""
        rows = self.split.schedule.refinement
        program, shares = rows.of(self.questions.refinement), self.questions.refinement_shares
        few = rescaled.moments_of(moments, rows.share)
        steps = Steps(self.regression, few, lambda asked: paid.run(program, asked), shares)
        own, radius = rescaled.release_of(last, rows.share), bounds[1] / np.sqrt(rows.share)
        point, release = steps.bounded_step(point, own, spreads, bounds[0], radius, kept)
        return point, rescaled.release_of(release, 1 / rows.share)

    def _settings(self, paid: Session, found: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of the run as plain values."""
        return {
            "stages": [{"kernel": NAME, "num_steps": self.num_steps}],
            "num_chains": self.num_chains,
            "temperature": self.model.temperature,
            "pilot": {"steps": PILOT_STEPS, **self.questions.settings, **found},
            **surroundings(self.data, paid.entry),
        }

    def _last(
        self, paid: Session, moments: Moments, point: Floats, last: Release, bounds: Bounds, spreads: Spreads
    ) -> tuple[list[Release], list[Release], bool]:
        """Return the last releases, the same with corrected slopes, and whether the last step between them was whole.

        A step is whole if it did not have to be shortened.
        """
        steps, number = self._steps(paid, moments), self.split.schedule.shares.num_final
        whitening = whiten(steps.known(last, point) + spreads.prior_at(self.regression, point)[1])
        radius = self._slope_radius(bounds, moments)
        squares = squares_of(last.lengths, LENGTHS * steps.unit, radius)
        left_out = sampling_variance(self.split.schedule.shares.spacing, squares, self.regression.dimension)
        raw: list[Release] = []
        releases: list[Release] = []
        arrived = True
        for place in range(number):
            release = steps.release(point, whitening, bounds.bound, bounds.radius, radius)
            raw += [replace(release, slope_sd=float(np.hypot(release.slope_sd, np.sqrt(left_out))))]
            releases.append(steps.pooled(raw[-1], last, number))
            if place + 1 < number:
                gradient, bend = spreads.prior_at(self.regression, point)
                told, factor = steps.near(releases[-1]).step(DOUBTFUL), whitening.factor
                precision = told.precision + factor.T @ bend @ factor
                move = factor @ np.linalg.solve(precision, told.tilt + factor.T @ gradient)
                move = steps.straightened(point, move, bounds.bound)
                trusted = steps.trusted(move)
                point, arrived = point + trusted, bool(np.allclose(move, trusted))
        return raw, near_together(steps, releases), arrived

    def _excess(self, paid: Session, moments: Moments, point: Floats) -> tuple[Floats, float, float, Floats]:
        """Return the excess of residuals by bins, the sd of its noise, the number of records and what is expected.

        Where no residual can be far out there is none.
        """
        rows = self.split.schedule.refinement
        shapes, moments = self.regression.shapes(np, point), rescaled.moments_of(moments, rows.share)
        table = self.regression.scores.residual_table(shapes)
        if self.questions.residuals is None or table is None:
            return np.zeros(1 + len(MIDDLES)), 1.0, moments.size, np.zeros(1 + len(MIDDLES))
        asked = Point(np.asarray(point, np.float32), np.asarray(table, np.float32))
        excess, sd = paid.run(rows.of(self.questions.residuals), asked)
        each = some_predictors(self.regression, point, moments, MANY)
        expected = np.sum([weight * self.regression.scores.bins_at(one, shapes, table) for one, weight in each], axis=0)
        usual = np.maximum(far_and_bins(expected), 1 / moments.size)
        return np.asarray(excess, float), float(sd), moments.size, usual

    def _result(
        self,
        paid: Session,
        moments: Moments,
        joined: draws.Joined,
        noise_before: float,
        drawn: draws.Drawn,
        spreads: Spreads,
        bounds: Bounds,
        checks: verdict.Checks,
    ) -> Drawn:
        """Return the draws as reported parameters, with their verdict."""
        mean = drawn.vectors.mean(axis=0)
        _, bend = spreads.prior_at(self.regression, mean)
        steps = 1e-3 * np.sqrt(np.maximum(np.diag(np.cov(drawn.vectors.T).reshape(len(mean), -1)), 1e-12))
        inside = inside_of(self.regression, drawn.vectors) if self.model.coordinates.monotone else mean
        corners = np.concatenate([inside + np.diag(steps), inside - np.diag(steps)])
        all_vectors = np.concatenate([drawn.vectors, corners])
        centre = {name: np.exp(np.log(values).mean(axis=0)) for name, values in drawn.spreads.items()}
        all_spreads = {
            name: np.concatenate([values, np.broadcast_to(centre[name], (len(corners), values.shape[1]))])
            for name, values in drawn.spreads.items()
        }
        named = self._named(all_vectors, all_spreads)
        number, labelled = len(drawn.vectors), grades.labelled(named)
        spread = {label: float(values[:number].var()) for label, values in labelled.items()}
        jacobians = {
            label: (values[number : number + len(mean)] - values[number + len(mean) :]) / (2 * steps)
            for label, values in labelled.items()
        }
        jacobians = {label: value for label, value in jacobians.items() if np.any(value)}
        nothing, information = np.zeros((0, len(mean))), self._information(joined.release, bounds, moments)
        known = nothing, self.regression.unseen
        whole, visible = (grades.variances(joined, bend, information, each) for each in known)
        beside = seen_beside_prior(
            self.regression, drawn.vectors, {label: labelled[label][:number] for label in jacobians}
        )
        shapes = np.arange(self.regression.dimension) >= self.regression.num_linear
        moved = moved_to(joined, drawn.root, noise_before, self.regression)
        quality = verdict.judge(
            joined, moved, drawn.share_kept, (whole, visible), jacobians, spread, checks, beside, shapes
        )
        found = {
            "cut": bounds.bound,
            "radius": bounds.radius,
            "misfit": bounds.misfit,
            "disagreement": joined.disagreement,
            "moved": moved.length,
            "fits": checks.fits,
            "other_bounds": checks.other.p_value,
            "bias": [float(one) for one in bounds.bias],
        }
        own = {name: values[:number] for name, values in named.items()}
        shape, quality = (self.num_chains, self.num_steps), marked_shares(self.regression, quality, own)
        chains = {name: values.reshape(*shape, *values.shape[1:]) for name, values in own.items()}
        return Drawn(chains, np.ones(shape, bool), 0, self._settings(paid, found), quality)

    def _information(self, release: Release, bounds: Bounds, moments: Moments) -> Floats:
        """Return the information of the records without weights, cuts and noise, in whitened coordinates."""
        bounded = Bounded(bounds.bound, bounds.radius, self._slope_radius(bounds, moments))
        return full_information(self.regression, release, bounded, moments)

    def _slope_radius(self, bounds: Bounds, moments: Moments) -> float:
        """Return the largest trace of a record's weighted slope in the last releases."""
        least = USUAL_SLOPE * self.regression.dimension / moments.worth
        per_unit = self.data.facts.clips_moved * noise_of_share(self.questions.final_shares[1], 1, self.budget) * LENGTH
        per_unit *= self.split.schedule.shares.spacing
        allowed = SLOPE_NOISE if self.split.schedule.shares.num_final > 1 else SLOPE_NOISE_OF_ONE
        most = allowed / (np.sqrt(self.regression.dimension) * per_unit)
        return float(np.clip(2 * bounds.radius**2, least, max(least, most)))

    def _named(self, vectors: Floats, spreads: Mapping[str, Floats]) -> dict[str, np.ndarray]:
        """Return vectors (draws, parameters) as reported parameters."""
        return parameters_at(self.model, self.layout, self.regression.positions(vectors, spreads))
