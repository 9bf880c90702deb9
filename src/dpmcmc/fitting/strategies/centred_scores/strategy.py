"""NumPyro models with an observed site by centred scores, as a strategy of `fit`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmcmc.accounting import Budget, Event
from dpmcmc.diagnostics.quality import both, judge_chains
from dpmcmc.diagnostics.summary import coordinates
from dpmcmc.enclave import PrivateData, Session
from dpmcmc.errors import DpmcmcError
from dpmcmc.fitting.budget_split import noise_of_share
from dpmcmc.fitting.strategies.centred_scores import draws, laws
from dpmcmc.fitting.strategies.centred_scores.points import Points
from dpmcmc.fitting.strategies.centred_scores.questions import LAST, PILOT_STEPS, Questions, SummedLaws
from dpmcmc.fitting.strategies.centred_scores.shown import displacement, hidden_directions, linear_displacement
from dpmcmc.fitting.strategies.centred_scores.simulation import is_one_term, simulated
from dpmcmc.fitting.strategies.centred_scores.steps import Prior, Steps
from dpmcmc.fitting.strategies.fallback import NUMERICAL, prior_draws_instead
from dpmcmc.fitting.strategies.strategy import Drawn
from dpmcmc.fitting.strategies.weighted_scores import verdict
from dpmcmc.fitting.strategies.weighted_scores.beside_prior import beside_prior
from dpmcmc.fitting.strategies.weighted_scores.budget import USUAL_SLOPE
from dpmcmc.fitting.strategies.weighted_scores.draws import Joined, join_all
from dpmcmc.fitting.strategies.weighted_scores.release import Release
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.fitting.strategies.weighted_scores.whitening import whiten
from dpmcmc.fitting.whitening import Begin
from dpmcmc.model import Model
from dpmcmc.model.observed import Observed
from dpmcmc.run.plan import by_name, prior_draws, surroundings
from dpmcmc.run.program import Layout
from dpmcmc.run.progress import Watcher

NAME = "private_laplace"

SLOPE_NOISE = 0.07
"""How large the noise of the slope's eigenvalues may become for longer slopes to be let in."""


def centred_questions(
    observed: Observed, data: PrivateData, budget: Budget, layout: Layout, begin: Begin
) -> Questions | None:
    """Return how centred scores of a model are asked for, if their means under it are known."""
    is_known = all(laws.is_known(site.example) for site in observed.sites)
    if is_known and is_one_term(observed, layout, data.facts.record):
        return SummedLaws(observed, data, budget, layout)
    # terms that divide a radius between them are noisier than a record that is bounded as a whole
    found = simulated(observed, data, budget, layout, np.asarray(begin.centre, float))
    return SummedLaws(observed, data, budget, layout) if found is None and is_known else found


@dataclass(frozen=True, eq=False)
class CentredScores:
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
    def name(self) -> str:
        """What `fit` calls it."""
        return NAME

    @property
    def what(self) -> str:
        """The run in a few words, for the ledger."""
        return f"pilot and {NAME}"

    @property
    def dimension(self) -> int:
        """How many parameters there are."""
        return self.layout.dimension

    @property
    def event(self) -> Event:
        """Everything that the run releases."""
        return self.questions.event

    @property
    def course(self) -> str:
        """What the run does, in words."""
        return (
            f"{PILOT_STEPS} private scoring steps for {self.dimension} parameters, {LAST} releases of centred scores, "
            f"then {self.num_chains} x {self.num_steps} draws with NUTS from what they tell"
        )

    @property
    def reason(self) -> str:
        """Why this strategy was chosen, in words."""
        return f"{self.questions.words}: the truth is their root whatever the bound."

    @property
    def expected_error(self) -> float:
        """By how many of its own standard deviations the noise moves the posterior, about; at best."""
        return self.questions.error

    @property
    def remedy(self) -> str:
        """What would make a useless run useful, in words."""
        return self.questions.remedy

    def draw(self, paid: Session, watcher: Watcher, is_interrupted: Callable[[], bool], seed: int) -> Drawn:
        """Run, to the end: what costs is over in a moment. If the releases cannot be used, draws are from the prior."""
        del is_interrupted
        try:
            drawn = self._drawn(paid, seed)
        except DpmcmcError:
            raise  # the vault's own refusals are no matter of numbers
        except NUMERICAL as error:
            shape = (self.num_chains, self.num_steps)
            drawn = prior_draws_instead(self.model, shape, self._settings(paid, {}), error, self.begin)
        watcher.update(self.num_steps, 1.0)
        return drawn

    def _drawn(self, paid: Session, seed: int) -> Drawn:
        prior = Prior(Points(self.model, self.data, self.layout), np.asarray(self.begin.scales, float))
        start, size = np.asarray(self.begin.centre, float), self.data.facts.size
        known = self.questions.begin(paid, start, prior)  # line 1
        steps = Steps(prior, size, self.questions.ask(paid, is_last=False), self.questions.shares[0])
        point, information, traces = steps.pilot(start, known, PILOT_STEPS)  # line 2
        noise = self.data.facts.clips_moved * noise_of_share(self.questions.shares[1][0], 1, self.questions.budget)
        radius, loss = steps.best_radius(traces, noise)  # line 3
        releases, arrived = self._last(paid, prior, point, information, radius)  # line 4

        def apart(first: Release, second: Release) -> Floats:
            moved = displacement(prior.points, first.point, first.whitening, prior.scales)
            return moved.on_host(prior.points, second.point)

        joined = join_all(releases, apart)
        fits = self.questions.fits(paid, joined.release.point)  # line 5
        last, shape = joined.release, (self.num_chains, self.num_steps)
        moved = displacement(prior.points, last.point, last.whitening, prior.scales)
        if self._shows_too_little(last, prior):
            moved = linear_displacement(last.point, last.whitening)
        drawn = draws.draw(self.model, self.layout, joined.release, moved, shape, seed)  # line 6
        if not np.isfinite(drawn.vectors).all():
            raise ValueError("draws are not finite")
        distance = verdict.distance(joined, drawn.move, releases[-2].score_variance)
        return self._result(paid, joined, drawn, prior, radius, loss, arrived, fits, distance)

    def _last(
        self, paid: Session, prior: Prior, point: Floats, information: Floats, radius: float
    ) -> tuple[list[Release], bool]:
        """Return the last releases, and whether the steps between them were as long as they wanted to be."""
        ask = self.questions.ask(paid, is_last=True)
        steps = Steps(prior, self.data.facts.size, ask, self.questions.shares[1])
        whitening = whiten(information + prior.at(point)[1])
        least = USUAL_SLOPE * steps.unit**2
        most = SLOPE_NOISE / (np.sqrt(self.dimension) * max(self.questions.slope_noise, 1e-9))
        slope_radius = float(np.clip(2 * radius**2, least, max(least, most)))
        releases: list[Release] = []
        arrived = True
        for _ in range(LAST):
            release = steps.release(point, whitening, radius, slope_radius).release
            releases.append(release)
            gradient, bend = prior.at(point)
            told, factor = release.likelihood(), whitening.factor
            precision = told.precision + factor.T @ bend @ factor
            values, vectors = np.linalg.eigh(release.slope)
            seen = vectors[
                :, values > release.noise_level
            ]  # elsewhere nothing is told, and the prior leads along curves
            move = factor @ seen @ seen.T @ np.linalg.solve(precision, told.tilt + factor.T @ gradient)
            trusted = steps.trusted(move, information, 0.5)
            arrived = bool(np.allclose(move, trusted))
            point = point + trusted
        return releases, arrived

    def _shows_too_little(self, release: Release, prior: Prior) -> bool:
        """Say whether the slope sees a direction that changes no law of a made-up record: then these miss something."""
        hidden = hidden_directions(prior.points, release.point, prior.scales)
        turned = hidden @ release.whitening.inverse.T
        turned = turned / np.maximum(np.linalg.norm(turned, axis=1, keepdims=True), 1e-30)
        return bool(np.any(np.sum(turned @ release.slope * turned, axis=1) > 3 * release.noise_level))

    def _result(
        self,
        paid: Session,
        joined: Joined,
        drawn: draws.Draws,
        prior: Prior,
        radius: float,
        loss: float,
        arrived: bool,
        fits: float,
        moved: float,
    ) -> Drawn:
        """Return the draws as people read them, and what they are worth."""
        flat = drawn.vectors.reshape(-1, self.dimension)
        mean = flat.mean(axis=0)
        _, bend = prior.at(mean)
        steps = 1e-2 * np.maximum(flat.std(axis=0), 1e-6)
        corners = np.concatenate([mean + np.diag(steps), mean - np.diag(steps)])
        at_corners = [by_name(prior.points.at(corner).parameters) for corner in corners]
        labelled = verdict.labelled({name: np.stack([one[name] for one in at_corners]) for name in at_corners[0]})
        jacobians = {
            label: (values[: len(mean)] - values[len(mean) :]) / (2 * steps) for label, values in labelled.items()
        }
        jacobians = {label: value for label, value in jacobians.items() if np.any(value)}
        hidden = hidden_directions(prior.points, mean, prior.scales)
        full = joined.release.full_information(loss)
        parts, visible = (verdict.variances(joined, bend, full, known) for known in (np.zeros((0, len(mean))), hidden))
        quality = verdict.judge(joined, moved, 1.0, (parts, visible), jacobians, {}, verdict.Checks(arrived, fits), [])
        named = by_name(drawn.parameters)
        quality = beside_prior(quality, named, prior_draws(self.model))
        moving = {label: values for label, values in coordinates(named).items() if label in jacobians}
        chains = judge_chains(moving)
        found = {"radius": radius, "disagreement": joined.disagreement, "moved": moved, "fits": fits}
        quality = quality if chains.verdict == "good" or self.num_chains < 2 else both(quality, chains)
        return Drawn(named, np.ones((self.num_chains, self.num_steps), bool), 0, self._settings(paid, found), quality)

    def _settings(self, paid: Session, found: Mapping[str, Any]) -> dict[str, Any]:
        """Return how the run was made, in plain values."""
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
