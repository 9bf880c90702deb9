"""A pilot, then chains in its whitened coordinates: the strategy for every sampler of the recipes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from dpmcmc.accounting import Budget, Event
from dpmcmc.diagnostics.quality import BAD_ERROR, FAIR_ERROR, Grade, Quality, worst
from dpmcmc.diagnostics.summary import coordinates
from dpmcmc.enclave import PrivateData, Session
from dpmcmc.errors import DpmcmcError
from dpmcmc.fitting.budget_split import USUAL_CLIP_SCALE, mean_loss, remedy
from dpmcmc.fitting.choice import Choice
from dpmcmc.fitting.pilot import LOST, Pilot, Refinement
from dpmcmc.fitting.problem_size import ProblemSize
from dpmcmc.fitting.strategies.fallback import NUMERICAL, prior_draws_instead
from dpmcmc.fitting.strategies.strategy import Drawn
from dpmcmc.fitting.whitening import Begin, GaussianApproximation, placeholder, whitened
from dpmcmc.model import Model
from dpmcmc.run.plan import Plan, make_plan, parameters, settings, surroundings
from dpmcmc.run.program import Layout
from dpmcmc.run.progress import Watcher

RARE = 1e-3
"""False-alarm rate of the test that the last gradient was taken at the mode."""

FAR = 0.5
"""A refinement failed if it moves by more than this share of the largest move that clipped scores allow."""


@dataclass(frozen=True, eq=False)
class PilotedChains:
    """A pilot, the refinement of its centre, and a sampler."""

    model: Model
    data: PrivateData
    budget: Budget
    pilot: Pilot
    choice: Choice
    facts: ProblemSize
    num_chains: int

    @property
    def name(self) -> str:
        """The name of the requested or chosen sampler."""
        return self.choice.name

    @property
    def description(self) -> str:
        """A short description of the run for the ledger."""
        return f"pilot and {self.name}"

    @property
    def dimension(self) -> int:
        """The number of parameters."""
        return self._layout.dimension

    @property
    def num_steps(self) -> int:
        """The number of steps of each chain."""
        return self.choice.recipe.num_steps

    @property
    def expected_error(self) -> float:
        """The expected error from the privacy noise, in posterior standard deviations."""
        return self.choice.expected_error

    @property
    def remedy(self) -> str:
        """What would help if the expected error is too large."""
        return remedy(self.facts, self.budget)

    @property
    def event(self) -> Event:
        """The event of the run: pilot, all steps, all chains."""
        somewhere = placeholder(self._layout.dimension)
        refinement = self.data.price(self._refinement(self.facts), somewhere.centre, model=self._whitened(somewhere))
        return self.pilot.price(self.data) + refinement + self._plan(somewhere, self.facts, seed=0).price(self.data)

    @property
    def course(self) -> str:
        """A description of the run."""
        return (
            f"{self.pilot.approach.num_steps + self.pilot.refine.num_steps} private Newton steps for "
            f"{self._layout.dimension} parameters, then {self.name}, {self.num_chains} x {self.num_steps} steps"
        )

    @property
    def reason(self) -> str:
        """A description of how the sampler was chosen."""
        return self.choice.words

    def draw(self, paid: Session, watcher: Watcher, is_interrupted: Callable[[], bool], seed: int) -> Drawn:
        """Run pilot and sampler until the end or an interrupt; a charged run always ends in draws."""
        try:
            return self._drawn(paid, watcher, is_interrupted, seed)
        except DpmcmcError:
            raise  # the vault's own refusals and interrupts are not numerical failures
        except NUMERICAL as error:
            shape = (self.num_chains, self.num_steps)
            made = {"num_chains": self.num_chains, "temperature": self.model.temperature}
            made |= {"stages": [{"kernel": self.name, "num_steps": self.num_steps}], "pilot": self.pilot.settings}
            begin = Begin(self.pilot.start.centre, self.pilot.approach.scales)
            return prior_draws_instead(
                self.model, shape, {**made, **surroundings(self.data, paid.entry)}, error, seed, begin
            )

    def _drawn(self, paid: Session, watcher: Watcher, is_interrupted: Callable[[], bool], seed: int) -> Drawn:
        watcher.stage("pilot")
        sampling, facts, reasons, bias = self._found(paid, seed)
        stats: dict[str, np.ndarray] = {}
        vectors, is_accepted = sampling.run(paid, None, watcher, is_interrupted, stats)
        drawn = parameters(sampling.model, sampling.layout, vectors)
        error = self.expected_error * facts.clip_scale / USUAL_CLIP_SCALE  # the noise is as large as the clips
        return Drawn(
            drawn,
            is_accepted,
            0 if self.choice.recipe.is_iid else vectors.shape[1] // 10,  # it starts at the approximation
            {
                **settings(sampling, self.data, paid.entry),
                "error_found": error,
                "clipping_bias": bias,
                "pilot": {
                    **self.pilot.settings,
                    "clip_scale": facts.clip_scale,
                    "refinement": repr(self._refinement(facts)),
                },
            },
            self._quality(drawn, reasons, error, bias),
            {} if self.choice.recipe.is_iid else stats,  # independent draws have no steps of a chain
        )

    def _quality(self, drawn: Mapping[str, np.ndarray], reasons: Sequence[str], error: float, bias: float) -> Quality:
        """Return the verdict from the pilot's releases; for independent draws with the sources of their variance."""
        said, verdicts = list(reasons), ["bad" for _ in reasons]
        predicted = float(np.hypot(error, bias))
        if not predicted <= FAIR_ERROR:
            verdicts.append("fair" if predicted <= BAD_ERROR else "bad")
            moves = [f"The privacy noise moves the means by about {error:.2g}"] if error > bias else []
            moves += [f"Clipped scores move the means by about {bias:.2g}"] if not bias <= error / 2 else []
            said += [f"{move} of the posterior's standard deviations." for move in moves]
        grades: dict[str, Grade] = {}
        if self.choice.recipe.is_iid:
            of_all = {"data": 1 / (1 + error**2), "privacy": error**2 / (1 + error**2)}
            grades = {name: Grade(shares=of_all) for name in coordinates(drawn)}
        if not all(np.isfinite(values).all() for values in drawn.values()):
            said.append("Draws are not finite.")
            verdicts.append("bad")
        verdict = worst(verdicts)
        if verdict == "bad":
            grades = {
                name: Grade("bad", (), grades[name].shares if name in grades else {}) for name in coordinates(drawn)
            }
        return Quality(verdict, tuple(said), grades, predicted if np.isfinite(predicted) else None)

    @property
    def _layout(self) -> Layout:
        return self.pilot.approach.layout

    def _found(self, paid: Session, seed: int) -> tuple[Plan, ProblemSize, list[str], float]:
        """Run pilot and refinement; return the sampler's run, the clips, what went wrong, and the bias of clipping."""
        # a chain has to cross the posterior several times over: noise hurts it twice as much as one release
        left = (1 - self.pilot.share) * mean_loss(self.budget) * (1 if self.choice.recipe.is_iid else 1 / 4)
        approximation, clip_scale, is_lost, bias = self.pilot.run(paid, left)
        facts = replace(self.facts, clip_scale=clip_scale)
        moved, missed = paid.run(
            self._refinement(facts), jnp.zeros(facts.dimension), model=self._whitened(approximation)
        )
        reasons = [LOST] if is_lost else []
        if not float(jnp.linalg.norm(moved)) <= FAR * facts.num_records * facts.gradient_clip:
            reasons.append("The last gradients lead far away: the pilot did not find the posterior.")
        if not float(missed) <= float(special.chdtri(facts.dimension, RARE)):
            reasons.append("The last gradient is further from zero than its noise: the pilot did not arrive.")
        refined = approximation.moved(moved)
        if not self._has_prior(refined):  # a charged run ends in draws all the same
            reasons.append("The last gradients lead outside the prior's support; the pilot's own position is used.")
            refined = approximation
        return self._plan(refined, facts, seed), facts, list(dict.fromkeys(reasons)), bias

    def _has_prior(self, approximation: GaussianApproximation) -> bool:
        value, gradient = jax.value_and_grad(self._whitened(approximation).log_prior)(jnp.zeros(self._layout.dimension))
        return bool(jnp.isfinite(value) & jnp.all(jnp.isfinite(gradient)))

    def _refinement(self, facts: ProblemSize) -> Refinement:
        return Refinement(facts.gradient_clip, self.choice.noise.refinement)

    def _whitened(self, approximation: GaussianApproximation) -> Model:
        return whitened(self.model, self._layout, approximation)

    def _plan(self, approximation: GaussianApproximation, facts: ProblemSize, seed: int) -> Plan:
        kernel = self.choice.recipe.make(facts, self.choice.noise.sampler)
        return make_plan(kernel, self._whitened(approximation), self.num_steps, self.num_chains, None, seed)
