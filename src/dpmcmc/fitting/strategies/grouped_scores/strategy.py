"""Regressions with many groups, as a strategy of `fit`: histograms, a pilot, two large releases, draws."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpmcmc.accounting import Budget
from dpmcmc.enclave import PrivateData, Session
from dpmcmc.fitting.strategies.grouped_scores import posterior, verdict
from dpmcmc.fitting.strategies.grouped_scores.bent import UNCUT, still_off
from dpmcmc.fitting.strategies.grouped_scores.bounds import PILOT_BOUND, best_radii, expected_bins
from dpmcmc.fitting.strategies.grouped_scores.budget import LAST, PILOT_STEPS, Split
from dpmcmc.fitting.strategies.grouped_scores.grouped import Grouped
from dpmcmc.fitting.strategies.grouped_scores.known import Known
from dpmcmc.fitting.strategies.grouped_scores.prior import Point, Prior
from dpmcmc.fitting.strategies.grouped_scores.questions import FINAL_SHARES, PILOT_SHARES, Questions
from dpmcmc.fitting.strategies.grouped_scores.release import Radii, Release
from dpmcmc.fitting.strategies.grouped_scores.releases import ScoresOfGroups
from dpmcmc.fitting.strategies.grouped_scores.steps import moved, next_spreads
from dpmcmc.fitting.strategies.laplace import NAME, PrivateLaplace
from dpmcmc.fitting.strategies.strategy import Drawn
from dpmcmc.fitting.strategies.weighted_scores.draws import RARE
from dpmcmc.fitting.strategies.weighted_scores.residuals import Point as Where
from dpmcmc.fitting.strategies.weighted_scores.residuals import far_and_bins, p_value_of_looks
from dpmcmc.fitting.strategies.weighted_scores.scores import MIDDLES, Floats
from dpmcmc.fitting.strategies.weighted_scores.smooth_test import p_value_of_patterns
from dpmcmc.fitting.strategies.weighted_scores.start import start
from dpmcmc.model import FormulaModel
from dpmcmc.run.plan import parameters_at, surroundings
from dpmcmc.run.program import Layout
from dpmcmc.run.progress import Watcher

Look = tuple[Floats, float, float, Floats]
"""The excess of residuals by bins, the sd of its noise, the number of records, and what is expected."""


@dataclass(frozen=True, eq=False)
class GroupedScores(PrivateLaplace):
    """A fit of a formula with many groups."""

    model: FormulaModel
    data: PrivateData
    budget: Budget
    num_steps: int
    num_chains: int

    @cached_property
    def layout(self) -> Layout:
        """How a position of the model is laid out."""
        return Layout.of(self.model.position)

    @cached_property
    def grouped(self) -> Grouped:
        """The model, taken apart."""
        return Grouped.of(self.model)

    @cached_property
    def split(self) -> Split:
        """How the budget is divided."""
        return Split.of(self.grouped, self.budget, self.data.facts.size, self.data.facts.clips_moved)

    @cached_property
    def questions(self) -> Questions:
        """The releases."""
        return Questions(self.grouped, self.data, self.split)

    @property
    def course(self) -> str:
        """What the run does, in words."""
        common, groups = self.split.errors()
        reads = 1 + PILOT_STEPS + LAST + 2 * self.split.has_residuals
        return (
            f"histograms of the columns and counts of {self.grouped.num_groups:,} groups, {PILOT_STEPS} private "
            f"scoring steps for {self.grouped.num_common} common parameters and {self.grouped.size} of each group, "
            f"{LAST} releases of weighted scores, then {self.num_chains} x {self.num_steps} independent draws. "
            f"All rows are read {reads} times. Noise moves common parameters by about {common:.2g} of their standard "
            f"deviations, and the effect of a group of usual size, before it is shrunk, by about {groups:.2g}"
        )

    @property
    def reason(self) -> str:
        """Why this strategy was chosen, in words."""
        return (
            "There are many groups: a record informs only its own, and entries that are always zero are not released."
        )

    @property
    def expected_error(self) -> float:
        """By how many of their standard deviations the noise moves the common parameters, about; at best."""
        return self.split.errors()[0]

    @property
    def remedy(self) -> str:
        """What would make a useless run useful, in words."""
        return self.split.remedy()

    def _drawn(self, paid: Session, seed: int, watcher: Watcher) -> Drawn:
        grouped, asked, rng = self.grouped, self.questions, np.random.default_rng(seed)
        watcher.stage("histograms, and a pilot for the groups")
        response, columns, counts = paid.run(asked.histograms)
        histograms = asked.histograms.histograms
        moments = histograms.moments(response, columns)
        begin = start(grouped.common, histograms.response(response), moments)
        known = Known.begin(grouped, moments, np.asarray(counts.counts, float), float(counts.sd), begin)
        point = Point(np.zeros((grouped.num_groups, grouped.size)), begin)
        spreads = np.array([group.prior.quantile(0.5) for group in grouped.spreads])
        before: list[Release] = []
        for number in range(PILOT_STEPS):
            prior = Prior.at(grouped, spreads, point.common)
            radii = best_radii(known, point, prior, self.split.pilot_noise, (PILOT_BOUND,))
            release = self._ask(paid, asked.pilot, known, point, prior, radii, PILOT_SHARES)
            known = known.pooled(release, prior)
            before.append(release)
            step = moved(known, before, prior, number, PILOT_STEPS)
            point, spreads = step.point, next_spreads(grouped, step, spreads)
        look = self._look(paid, known, point)
        prior = Prior.at(grouped, spreads, point.common)
        radii = best_radii(known, point, prior, self.split.score_noise)
        releases: list[Release] = []
        arrived = True
        for number in range(LAST):
            release = self._ask(paid, asked.final, known, point, prior, radii, FINAL_SHARES)
            known = known.pooled(release, prior)
            releases.append(release)
            if number + 1 < LAST:
                step = moved(known, releases, prior, 0, 1)
                point, arrived = step.point, step.is_whole
        slope = posterior.usual_slope(known, releases)
        chi_square, p_value = posterior.disagreement(grouped, known, releases[0], releases[-1], slope)
        believed = releases if p_value >= RARE else releases[-1:]
        drawn = posterior.draw(grouped, known, believed, spreads, self.num_chains * self.num_steps, rng)
        if not all(np.isfinite(part).all() for part in drawn):
            raise ValueError("draws are not finite")
        mean = Point(drawn.effects.mean(axis=0), drawn.common.mean(axis=0))
        last_look = self._look(paid, known, mean)
        fits = min(1.0, 2 * min(p_value_of_looks(*last_look, look[0]), p_value_of_patterns(*last_look, look[0])))
        found = {"cut": radii.bound, "radii": [float(one) for one in radii.scores], "disagreement": chi_square}
        off = still_off(known, releases[-1], drawn.effects, drawn.common)
        told = known.per_record(releases[-1].point, UNCUT) * known.rows
        differ = chi_square / (releases[-1].score.size + len(grouped.told))
        checks = verdict.Checks(
            arrived, p_value, differ, fits, moments.clamped, off, told / told.sum(), float(told.sum())
        )
        return self._result(paid, known, drawn, checks, {**found, "fits": fits, "away": float(off.max())})

    def _ask(
        self,
        paid: Session,
        question: ScoresOfGroups,
        known: Known,
        point: Point,
        prior: Prior,
        radii: Radii,
        shares: tuple[float, float],
    ) -> Release:
        table = self.grouped.scores.table(self.grouped.common.shapes(np, point.common), radii.bound)
        asked = known.ask(point, radii, prior, table, shares)
        return known.read(paid.run(question, asked), asked, point, radii)

    def _look(self, paid: Session, known: Known, point: Point) -> Look:
        """Return the excess of residuals; where no residual can be far out there is none."""
        size, common = known.moments.size, self.grouped.common
        table = self.grouped.scores.residual_table(common.shapes(np, point.common))
        if self.questions.residuals is None or table is None:
            return np.zeros(1 + len(MIDDLES)), 1.0, size, np.zeros(1 + len(MIDDLES))
        vector = np.concatenate([point.common, point.effects.ravel()])
        asked = Where(np.asarray(vector, np.float32), np.asarray(table, np.float32))
        excess, sd = paid.run(self.questions.residuals, asked)
        usual = np.maximum(far_and_bins(expected_bins(known, point, table)), 1 / size)
        return np.asarray(excess, float), float(sd), size, usual

    def _settings(self, paid: Session, found: Mapping[str, Any]) -> dict[str, Any]:
        """Return how the run was made, in plain values."""
        return {
            "stages": [{"kernel": NAME, "num_steps": self.num_steps}],
            "num_chains": self.num_chains,
            "temperature": self.model.temperature,
            "pilot": {"steps": PILOT_STEPS, **self.questions.settings, **found},
            **surroundings(self.data, paid.entry),
        }

    def _result(
        self,
        paid: Session,
        known: Known,
        drawn: posterior.Drawn,
        checks: verdict.Checks,
        found: Mapping[str, Any],
    ) -> Drawn:
        """Return the draws as people read them, and what they are worth."""
        named = self._named(drawn.effects, drawn.common, drawn.spreads)
        quality = verdict.judge(self.grouped, known, drawn, named, self._named, checks)
        shape = self.num_chains, self.num_steps
        draws = {name: values.reshape(*shape, *values.shape[1:]) for name, values in named.items()}
        return Drawn(draws, np.ones(shape, bool), 0, self._settings(paid, found), quality)

    def _named(self, effects: Floats, common: Floats, spreads: Floats) -> dict[str, np.ndarray]:
        """Return draws as people read them."""
        by_name = {group.name: spreads[:, place, None] for place, group in enumerate(self.grouped.spreads)}
        positions = self.grouped.whole.positions(self.grouped.vectors(effects, common), by_name)
        return parameters_at(self.model, self.layout, positions)
