"""NumPyro models with an observed site by centred scores, as a strategy of `fit`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmcmc.accounting import Budget
from dpmcmc.diagnostics.quality import both, judge_chains
from dpmcmc.diagnostics.summary import coordinates
from dpmcmc.enclave import PrivateData, Session
from dpmcmc.fitting.budget_split import noise_of_share
from dpmcmc.fitting.strategies.centred_scores import draws, laws
from dpmcmc.fitting.strategies.centred_scores.last import Last, last_releases
from dpmcmc.fitting.strategies.centred_scores.one_law import one_law
from dpmcmc.fitting.strategies.centred_scores.points import Points
from dpmcmc.fitting.strategies.centred_scores.questions import LAST, PILOT_STEPS, Questions, SummedLaws
from dpmcmc.fitting.strategies.centred_scores.shown import hidden_directions
from dpmcmc.fitting.strategies.centred_scores.simulation import is_one_term, simulated
from dpmcmc.fitting.strategies.centred_scores.steps import Found, Prior, Steps
from dpmcmc.fitting.strategies.laplace import NAME, PrivateLaplace
from dpmcmc.fitting.strategies.strategy import Drawn
from dpmcmc.fitting.strategies.weighted_scores import grades, verdict
from dpmcmc.fitting.strategies.weighted_scores.arrival import Moved, distance
from dpmcmc.fitting.strategies.weighted_scores.beside_prior import BesidePrior, beside_prior
from dpmcmc.fitting.strategies.weighted_scores.budget import USUAL_SLOPE
from dpmcmc.fitting.strategies.weighted_scores.draws import Joined
from dpmcmc.fitting.whitening import Begin
from dpmcmc.model import Model
from dpmcmc.model.observed import Observed
from dpmcmc.run.plan import by_name, prior_draws, surroundings
from dpmcmc.run.program import Layout
from dpmcmc.run.progress import Watcher
from dpmcmc.schema import SEED

TOO_WIDE = 4.0
"""Largest predicted error at which a result can still be fair."""

SLOPE_NOISE = 0.07
"""How large the noise of the slope's eigenvalues may become for longer slopes to be let in."""


def centred_questions(
    observed: Observed, data: PrivateData, budget: Budget, layout: Layout, begin: Begin
) -> Questions | None:
    """Return the queries of centred scores of a model, if their means under it can be computed; otherwise None."""
    if observed.is_drawn and not (isinstance(data.facts.record, Mapping) and SEED in data.facts.record):
        return None  # not read from a table: nothing tells persons apart for their draws
    is_known = all(laws.is_known(site.example) for site in observed.sites)
    if is_known and is_one_term(observed, layout, data.facts.record):
        return one_law(observed, data, budget, layout) or SummedLaws(observed, data, budget, layout)
    # terms that divide a radius between them are noisier than a record that is bounded as a whole
    found = simulated(observed, data, budget, layout, np.asarray(begin.centre, float))
    return SummedLaws(observed, data, budget, layout) if found is None and is_known else found


@dataclass(frozen=True, eq=False)
class CentredScores(PrivateLaplace):
    """A fit of a NumPyro model with an observed site."""

    model: Model
    observed: Observed
    questions: Questions
    data: PrivateData
    layout: Layout
    begin: Begin
    num_steps: int
    num_chains: int

    @property
    def course(self) -> str:
        """A description of the run."""
        return (
            f"{PILOT_STEPS} private scoring steps for {self.dimension} parameters, {LAST} releases of centred scores, "
            f"then {self.num_chains} x {self.num_steps} draws with NUTS from the released likelihood"
        )

    @property
    def reason(self) -> str:
        """The reason for choosing this strategy."""
        return f"{self.questions.words}: if the model holds, bounding them causes no bias."

    @property
    def expected_error(self) -> float:
        """A lower bound on the error from the privacy noise, in posterior standard deviations."""
        return self.questions.error

    @property
    def remedy(self) -> str:
        """What would help if the expected error is too large."""
        return self.questions.remedy

    def _drawn(self, paid: Session, seed: int, watcher: Watcher) -> Drawn:
        prior = Prior(Points(self.model, self.data, self.layout), np.asarray(self.begin.scales, float))
        start, size = np.asarray(self.begin.centre, float), self.data.facts.size
        known = self.questions.begin(paid, start, prior)  # line 1
        ask = watcher.counted("pilot", PILOT_STEPS, self.questions.ask(paid, is_last=False))
        steps = Steps(prior, size, ask, self.questions.shares[0])
        found = steps.pilot(start, known, PILOT_STEPS)  # line 2
        noise = self.data.facts.clips_moved * noise_of_share(self.questions.shares[1][0], 1, self.questions.budget)
        radius, loss = steps.best_radius(found.traces, noise)  # line 3
        watcher.stage("the last releases, then NUTS")
        last = self._last(paid, prior, found, radius)  # line 4
        joined = last.joined(prior)
        fits = self.questions.fits(paid, joined.release.point)  # line 5
        care = draws.USUAL if last.chart is None else draws.ALONG_CURVES
        moved = last.from_end(prior)
        drawn = draws.draw(self.model, self.layout, joined.release, moved, self.shape, seed, care)  # line 6
        if not np.isfinite(drawn.vectors).all():
            raise ValueError("draws are not finite")
        length = distance(joined, drawn.move, last.releases[-2].score_variance)
        return self._result(paid, joined, drawn, prior, last, radius, loss, fits, Moved(length))

    def _last(self, paid: Session, prior: Prior, found: Found, radius: float) -> Last:
        """Make the last releases."""
        ask = self.questions.ask(paid, is_last=True)
        steps = Steps(prior, self.data.facts.size, ask, self.questions.shares[1])
        least = USUAL_SLOPE * steps.unit**2
        most = SLOPE_NOISE / (np.sqrt(self.dimension) * max(self.questions.slope_noise, 1e-9))
        slope_radius = float(np.clip(2 * radius**2, least, max(least, most)))
        return last_releases(steps, found, radius, slope_radius, LAST)

    def _result(
        self,
        paid: Session,
        joined: Joined,
        drawn: draws.Draws,
        prior: Prior,
        last: Last,
        radius: float,
        loss: float,
        fits: float,
        moved: Moved,
    ) -> Drawn:
        """Return the draws as reported parameters, with their verdict."""
        flat = drawn.vectors.reshape(-1, self.dimension)
        mean = flat.mean(axis=0)
        _, bend = prior.at(mean)
        steps = 1e-2 * np.maximum(flat.std(axis=0), 1e-6)
        corners = np.concatenate([mean + np.diag(steps), mean - np.diag(steps)])
        at_corners = [by_name(prior.points.at(corner).parameters) for corner in corners]
        labelled = grades.labelled({name: np.stack([one[name] for one in at_corners]) for name in at_corners[0]})
        jacobians = {
            label: (values[: len(mean)] - values[len(mean) :]) / (2 * steps) for label, values in labelled.items()
        }
        jacobians = {label: value for label, value in jacobians.items() if np.any(value)}
        hidden = hidden_directions(prior.points, mean, prior.scales)
        joined, full = last.at(prior, joined, mean), last.without_blind(joined.release.full_information(loss))
        parts, visible = (grades.variances(joined, bend, full, known) for known in (np.zeros((0, len(mean))), hidden))
        checks = verdict.Checks(last.arrived, fits)
        quality = verdict.judge(
            joined, moved, 1.0, (parts, visible), jacobians, {}, checks, BesidePrior(), too_wide=TOO_WIDE
        )
        named = by_name(drawn.parameters)
        quality = beside_prior(quality, named, prior_draws(self.model))
        moving = {label: values for label, values in coordinates(named).items() if label in jacobians}
        chains = judge_chains(moving)
        found = {"radius": radius, "disagreement": joined.disagreement, "moved": moved.length, "fits": fits}
        quality = quality if chains.verdict == "good" or self.num_chains < 2 else both(quality, chains)
        return Drawn(named, np.ones((self.num_chains, self.num_steps), bool), 0, self._settings(paid, found), quality)

    def _settings(self, paid: Session, found: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of the run as plain values."""
        return {
            "stages": [{"kernel": NAME, "num_steps": self.num_steps}],
            "num_chains": self.num_chains,
            "temperature": self.model.temperature,
            "pilot": {
                "steps": PILOT_STEPS,
                **self.questions.settings,
                **found,
            },
            **surroundings(self.data, paid.entry),
        }
