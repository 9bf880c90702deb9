"""A fit before it starts: everything about it is public, it has its price, and nothing is charged yet."""

import secrets
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp

from dpmcmc import validation
from dpmcmc.accounting import Budget, Certificate, Event, accountants
from dpmcmc.enclave import GradientSum, PaidRun, PrivateData
from dpmcmc.fitting.choice import Choice, choose
from dpmcmc.fitting.facts import Facts
from dpmcmc.fitting.models import as_model
from dpmcmc.fitting.pilot import Pilot, Polish
from dpmcmc.fitting.recipes import POLISH_STEPS, RECIPES
from dpmcmc.fitting.round import Summit, nowhere, rounded
from dpmcmc.fitting.spending import LEFT, USUAL_STRETCH, make_pilot, mean_loss, refuse_useless
from dpmcmc.model import FormulaModel, Model
from dpmcmc.posterior import Posterior
from dpmcmc.run.interrupt import interruptible
from dpmcmc.run.plan import Plan, make_plan, parameters, prior_draws, settings
from dpmcmc.run.program import Layout
from dpmcmc.run.progress import Watcher, watch
from dpmcmc.run.sampling import delta_of, price_in_words
from dpmcmc.run.start import start_points

PRIOR_DRAWS = 4096


@dataclass(frozen=True, eq=False)
class PreparedFit:
    """A fit that was checked and priced: `describe` says what it would do, `run` pays and does it."""

    model: Model
    data: PrivateData
    budget: Budget
    pilot: Pilot
    choice: Choice
    facts: Facts
    num_chains: int
    seed: int
    insecure_seed: int | None
    arguments: Mapping[str, Any]
    """What it was prepared from, in plain values; of models, formulas alone."""

    @cached_property
    def event(self) -> Event:
        """What the run releases, and so what it is charged: pilot, all steps, all chains."""
        somewhere = nowhere(self._layout.dimension)
        polish = self.data.price(self._polish(self.facts), somewhere.centre, model=self._rounded(somewhere))
        return self.pilot.price(self.data) + polish + self._plan(somewhere, self.facts).price(self.data)

    @property
    def sampler(self) -> str:
        """The sampler that was asked for or chosen."""
        return self.choice.name

    @property
    def num_steps(self) -> int:
        """How many steps each chain takes."""
        return self.choice.recipe.num_steps

    @property
    def expected_error(self) -> float:
        """By how many of its own standard deviations the noise moves the posterior, about."""
        return self.choice.expected_error

    def describe(self) -> str:
        """Say in words what would be done, and what it costs."""
        return "\n".join(self._lines())

    @property
    def caution(self) -> str:
        """What should give pause about a run that may be made all the same; nothing in most cases."""
        delta, size = self.budget.delta, self.data.facts.size
        if delta * size < 1:
            return ""
        return f"delta = {delta:g} is not below one over the number of {self._units}; take a smaller one"

    @property
    def what(self) -> str:
        """The run in a few words, for the ledger."""
        return f"pilot and {self.sampler}"

    def run(self, *, progress: bool = True) -> Posterior:
        """Set the price aside, run the pilot and the sampler, and settle."""
        with (
            interruptible() as is_interrupted,
            self.watched(progress) as watcher,
            self.data.reserve(self.event, what=self.what, insecure_seed=self.insecure_seed) as paid,
        ):
            return self.draw(paid, watcher, is_interrupted)

    def watched(self, progress: bool) -> AbstractContextManager[Watcher]:
        """Return what shows the progress of the run."""
        return watch(self.what, self.num_steps, price_in_words(self.event, self.budget.delta), progress)

    def draw(self, paid: PaidRun, watcher: Watcher, is_interrupted: Callable[[], bool]) -> Posterior:
        """Run the pilot and the sampler, or as much of it as there is time for."""
        sampling, facts = self._found(paid)
        vectors, is_accepted = sampling.run(paid, None, watcher, is_interrupted)
        return Posterior(
            draws=parameters(sampling.model, sampling.layout, vectors),
            is_accepted=is_accepted,
            num_warmup=0 if self.choice.recipe.draws_for_nothing else vectors.shape[1] // 10,  # it starts at the summit
            certificate=Certificate(
                paid.spent, self.data.facts.adjacency, self.budget.delta, self.data.assumptions, unit=self.data.unit
            ),
            settings={
                **settings(sampling, self.data, paid.entry),
                "chosen": self.choice.words,
                "error_found": self.expected_error * facts.stretch / USUAL_STRETCH,  # noise is as long as the clips
                "pilot": {**self.pilot.settings, "stretch": facts.stretch, "polish": repr(self._polish(facts))},
                "request": self._request(),
            },
            prior=prior_draws(self.model),
        )

    def _request(self) -> dict[str, Any]:
        """Say what was asked, in plain values: with them the model of a formula can be built again."""
        asked: dict[str, Any] = {
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "sampler": self.sampler,
            "expected_error": self.expected_error,
            "description": self.describe(),
        }
        if isinstance(self.model, FormulaModel):
            asked |= {"formula": self.model.formula, "family": self.model.family, "priors": self.model.priors}
        if self.data.schema is not None:
            asked["schema"] = tomllib.loads(self.data.schema.to_toml())
        return asked

    @property
    def _units(self) -> str:
        schema = self.data.schema
        return "records" if schema is None or schema.person is None else "persons"

    @property
    def _layout(self) -> Layout:
        return self.pilot.approach.layout

    def _found(self, paid: PaidRun) -> tuple[Plan, Facts]:
        """Run the pilot and the polish; return the sampler's run that follows, and what they found of the clips."""
        # a chain has to cross the posterior several times over: noise hurts it twice as much as one release
        left = LEFT * mean_loss(self.budget) * (1 if self.choice.recipe.draws_for_nothing else 1 / 4)
        summit, stretch = self.pilot.run(paid, left)
        facts = replace(self.facts, stretch=stretch)
        moved = paid.run(self._polish(facts), jnp.zeros(facts.dimension), model=self._rounded(summit))
        return self._plan(summit.moved(moved), facts), facts

    def _polish(self, facts: Facts) -> Polish:
        return Polish(GradientSum(facts.gradient_clip, self.choice.noise.polish), POLISH_STEPS)

    def _rounded(self, summit: Summit) -> Model:
        return rounded(self.model, self._layout, summit)

    def _plan(self, summit: Summit, facts: Facts) -> Plan:
        kernel = self.choice.recipe.make(facts, self.choice.noise.sampler)
        return make_plan(kernel, self._rounded(summit), self.num_steps, self.num_chains, None, self.seed)

    def _lines(self) -> Iterator[str]:
        facts = self.data.facts
        if isinstance(self.model, FormulaModel):
            yield self.model.describe()
        protected = "" if self._units == "records" else f" Protected is every {self.data.unit}."
        yield f"Data: {facts.size:,} {self._units}, {facts.adjacency.words} adjacency.{protected}"
        yield (
            f"Run: {self.pilot.approach.num_steps + self.pilot.refine.num_steps} private Newton steps for "
            f"{self._layout.dimension} parameters, then {self.sampler}, {self.num_chains} x {self.num_steps} steps."
        )
        epsilon = float(accountants.epsilon(self.event, self.budget.delta))
        yield f"Price: epsilon = {epsilon:.4g} at delta = {self.budget.delta:g}, the pilot and all chains in it."
        yield self.choice.words
        yield f"The noise moves the posterior by about {self.expected_error:.2g} of its standard deviations."
        if self.caution:
            yield f"Warning: {self.caution}."


def prepare_fit(
    model: Model | str | Callable[..., Any],
    data: PrivateData,
    *,
    epsilon: float,
    delta: float | None = None,
    family: str | None = None,
    priors: Mapping[str, str] | None = None,
    sampler: str = "auto",
    num_chains: int = 2,
    num_steps: int | None = None,
    init: Any = None,
    even_if_useless: bool = False,
    insecure_seed: int | None = None,
) -> PreparedFit:
    """Check the arguments of `fit` and set everything that follows from them. Reads no record and charges nothing."""
    formula = model if isinstance(model, str) else None
    model = as_model(model, data, family, priors)
    name = validation.choice("sampler", sampler, ("auto", *RECIPES))
    if num_steps is not None:
        num_steps = validation.integer("num_steps", num_steps, at_least=1)
    num_chains = validation.integer("num_chains", num_chains, at_least=1)
    budget = Budget(validation.positive("epsilon", epsilon), delta_of(delta, data))
    seed = secrets.randbits(63) if insecure_seed is None else validation.integer("insecure_seed", insecure_seed, 0)
    # a key that never changes: means over made-up draws are settings, the same in a dry run and in the run
    of_start, of_scales = jax.random.split(jax.random.key(0))
    layout, start = _start(model, init, of_start)
    facts = Facts(data.facts.size, layout.dimension, data.facts.adjacency, model.temperature)
    pilot = make_pilot(model, data, facts, layout, start, budget, of_scales)
    choice = choose(name, facts, num_steps, num_chains, budget, pilot.price(data))
    if not even_if_useless:
        refuse_useless(facts, budget, choice.name, choice.expected_error)
    return PreparedFit(
        model=model,
        data=data,
        budget=budget,
        pilot=pilot,
        choice=choice,
        facts=facts,
        num_chains=num_chains,
        seed=seed,
        insecure_seed=insecure_seed,
        arguments={
            "model": formula,
            "family": family,
            "priors": None if priors is None else dict(priors),
            "epsilon": budget.epsilon,
            "delta": budget.delta,
            "sampler": name,
            "num_chains": num_chains,
            "num_steps": num_steps,
        },
    )


def _start(model: Model, init: Any, key: jax.Array) -> tuple[Layout, jax.Array]:
    """Return where the pilot starts: as stated, or the mean of many draws from the prior."""
    if init is None and model.sample_prior is not None:
        draws = jax.vmap(model.sample_prior)(jax.random.split(key, PRIOR_DRAWS))
        centre = jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), draws)
        return Layout.of(centre), Layout.of(centre).ravel(centre)
    layout, starts = start_points(model, init, 1, key)
    return layout, starts[0]
