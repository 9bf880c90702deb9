"""A pilot, then chains in the coordinates that it found: how every sampler of the recipes gets to a posterior."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp

from dpmcmc.accounting import Budget, Event
from dpmcmc.enclave import PaidRun, PrivateData
from dpmcmc.fitting.choice import Choice
from dpmcmc.fitting.facts import Facts
from dpmcmc.fitting.pilot import Pilot, Polish, warn_of_loss
from dpmcmc.fitting.round import Summit, nowhere, rounded
from dpmcmc.fitting.spending import USUAL_STRETCH, mean_loss
from dpmcmc.fitting.way import Drawn
from dpmcmc.model import Model
from dpmcmc.run.plan import Plan, make_plan, parameters, settings
from dpmcmc.run.program import Layout
from dpmcmc.run.progress import Watcher

FAR = 0.5
"""A polish that goes more than so far as it can, where all scores are cut and point in one direction, is lost."""


@dataclass(frozen=True, eq=False)
class PilotedChains:
    """A pilot, the polish of its centre, and a sampler."""

    model: Model
    data: PrivateData
    budget: Budget
    pilot: Pilot
    choice: Choice
    facts: Facts
    num_chains: int

    @property
    def name(self) -> str:
        """The sampler that was asked for or chosen."""
        return self.choice.name

    @property
    def what(self) -> str:
        """The run in a few words, for the ledger."""
        return f"pilot and {self.name}"

    @property
    def num_steps(self) -> int:
        """How many steps each chain takes."""
        return self.choice.recipe.num_steps

    @property
    def expected_error(self) -> float:
        """By how many of its own standard deviations the noise moves the posterior, about."""
        return self.choice.expected_error

    @property
    def event(self) -> Event:
        """What the run releases: pilot, all steps, all chains."""
        somewhere = nowhere(self._layout.dimension)
        polish = self.data.price(self._polish(self.facts), somewhere.centre, model=self._rounded(somewhere))
        return self.pilot.price(self.data) + polish + self._plan(somewhere, self.facts, seed=0).price(self.data)

    @property
    def course(self) -> str:
        """What the run does, in words."""
        return (
            f"{self.pilot.approach.num_steps + self.pilot.refine.num_steps} private Newton steps for "
            f"{self._layout.dimension} parameters, then {self.name}, {self.num_chains} x {self.num_steps} steps"
        )

    @property
    def reason(self) -> str:
        """How the sampler was chosen, in words."""
        return self.choice.words

    def draw(self, paid: PaidRun, watcher: Watcher, is_interrupted: Callable[[], bool], seed: int) -> Drawn:
        """Run the pilot and the sampler, or as much of it as there is time for."""
        sampling, facts = self._found(paid, seed)
        vectors, is_accepted = sampling.run(paid, None, watcher, is_interrupted)
        return Drawn(
            parameters(sampling.model, sampling.layout, vectors),
            is_accepted,
            0 if self.choice.recipe.draws_for_nothing else vectors.shape[1] // 10,  # it starts at the summit
            {
                **settings(sampling, self.data, paid.entry),
                "error_found": self.expected_error * facts.stretch / USUAL_STRETCH,  # noise is as long as the clips
                "pilot": {**self.pilot.settings, "stretch": facts.stretch, "polish": repr(self._polish(facts))},
            },
        )

    @property
    def _layout(self) -> Layout:
        return self.pilot.approach.layout

    def _found(self, paid: PaidRun, seed: int) -> tuple[Plan, Facts]:
        """Run the pilot and the polish; return the sampler's run that follows, and what they found of the clips."""
        # a chain has to cross the posterior several times over: noise hurts it twice as much as one release
        left = (1 - self.pilot.share) * mean_loss(self.budget) * (1 if self.choice.recipe.draws_for_nothing else 1 / 4)
        summit, stretch = self.pilot.run(paid, left)
        facts = replace(self.facts, stretch=stretch)
        moved = paid.run(self._polish(facts), jnp.zeros(facts.dimension), model=self._rounded(summit))
        if jnp.linalg.norm(moved) > FAR * facts.num_records * facts.gradient_clip:
            warn_of_loss()
        polished = summit.moved(moved)
        found = polished if self._has_prior(polished) else summit  # what was paid for ends in draws all the same
        return self._plan(found, facts, seed), facts

    def _has_prior(self, summit: Summit) -> bool:
        value, gradient = jax.value_and_grad(self._rounded(summit).log_prior)(jnp.zeros(self._layout.dimension))
        return bool(jnp.isfinite(value) & jnp.all(jnp.isfinite(gradient)))

    def _polish(self, facts: Facts) -> Polish:
        return Polish(facts.gradient_clip, self.choice.noise.polish)

    def _rounded(self, summit: Summit) -> Model:
        return rounded(self.model, self._layout, summit)

    def _plan(self, summit: Summit, facts: Facts, seed: int) -> Plan:
        kernel = self.choice.recipe.make(facts, self.choice.noise.sampler)
        return make_plan(kernel, self._rounded(summit), self.num_steps, self.num_chains, None, seed)
