"""A fit before it starts: everything about it is public, it has its price, and nothing is charged yet."""

import secrets
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import jax
import numpy as np

from dpmcmc import validation
from dpmcmc.accounting import Budget, Event, accountants
from dpmcmc.diagnostics.quality import Quality, both, judge_chains
from dpmcmc.enclave import PrivateData, Session
from dpmcmc.fitting.budget_split import make_pilot, refuse_useless
from dpmcmc.fitting.models import MODELS_KEPT, as_model
from dpmcmc.fitting.problem_size import ProblemSize
from dpmcmc.fitting.reading import Reading
from dpmcmc.fitting.recipes import RECIPES, SKETCH
from dpmcmc.fitting.strategies.fallback import quiet_numbers
from dpmcmc.fitting.strategies.grouped_scores.choice import has_many_groups
from dpmcmc.fitting.strategies.laplace import NAME as WEIGHTED
from dpmcmc.fitting.strategies.laplace import PrivateLaplace
from dpmcmc.fitting.strategies.strategy import Drawn, Strategy
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.strategy import DRAWS, WeightedScores
from dpmcmc.fitting.whitening import Begin
from dpmcmc.html import card, line
from dpmcmc.model import FormulaModel, Model
from dpmcmc.model.examination import PRIOR_POSITIONS
from dpmcmc.model.formula.priors import as_texts
from dpmcmc.posterior import Posterior
from dpmcmc.run.interrupt import interruptible
from dpmcmc.run.plan import prior_draws
from dpmcmc.run.program import Layout
from dpmcmc.run.progress import Watcher, watch
from dpmcmc.run.sampling import delta_of, price_in_words
from dpmcmc.run.start import start_points

QUARTILES = 1.349
"""How far apart the quartiles of a normal law are, in standard deviations."""


@dataclass(frozen=True, eq=False, repr=False)
class PreparedFit:
    """A fit that was checked and priced: `describe` says what it would do, `run` pays and does it."""

    model: Model
    data: PrivateData
    budget: Budget
    strategy: Strategy
    seed: int
    insecure_seed: int | None
    arguments: Mapping[str, Any]
    """What it was prepared from, in plain values; of models, formulas alone."""

    def __repr__(self) -> str:
        rows = dict(self._rows())
        lines = [f"PreparedFit: {rows.pop('model')}", *(f"{name}: {words}" for name, words in rows.items())]
        return "\n".join(line(words) for words in lines)

    def _repr_html_(self) -> str:
        """Show it in a notebook."""
        return card("Prepared fit", self._rows())

    def _rows(self) -> list[tuple[str, str]]:
        model = self.model
        named = f"{model.formula}, {model.family}" if isinstance(model, FormulaModel) else type(model).__name__
        return [
            ("model", named),
            ("budget", f"{self.budget}"),
            ("sampler", self.sampler),
            ("expected error", f"{self.expected_error:.2g} posterior standard deviations"),
            ("charged", "nothing yet: run() charges the budget, describe() says what it would do"),
        ]

    @cached_property
    def event(self) -> Event:
        """What the run releases, and so what it is charged."""
        return self.strategy.event

    @property
    def sampler(self) -> str:
        """The sampler that was asked for or chosen."""
        return self.strategy.name

    @property
    def num_steps(self) -> int:
        """How many steps each chain takes."""
        return self.strategy.num_steps

    @property
    def expected_error(self) -> float:
        """By how many of its own standard deviations the noise moves the posterior, about."""
        return self.strategy.expected_error

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
        return self.strategy.what

    def run(self, *, progress: bool = True) -> Posterior:
        """Set the price aside, run, and settle."""
        self.compile()
        with (
            interruptible() as is_interrupted,
            self.watched(progress) as watcher,
            self.data.reserve(self.event, what=self.what, insecure_seed=self.insecure_seed) as paid,
        ):
            return self.draw(paid, watcher, is_interrupted)

    def compile(self) -> None:
        """Compile what will be asked, side by side, if it is asked as it was priced; others compile as they go."""
        if isinstance(self.strategy, PrivateLaplace):
            self.data.compile_for(self.event)

    def watched(self, progress: bool) -> AbstractContextManager[Watcher]:
        """Return what shows the progress of the run."""
        return watch(self.what, self.num_steps, price_in_words(self.event, self.budget.delta), progress)

    def draw(self, paid: Session, watcher: Watcher, is_interrupted: Callable[[], bool]) -> Posterior:
        """Run, or as much of it as there is time for."""
        with quiet_numbers():
            drawn = self.strategy.draw(paid, watcher, is_interrupted, self.seed)
        return Posterior(
            draws=drawn.draws,
            is_accepted=drawn.is_accepted,
            num_warmup=drawn.num_warmup,
            certificate=self.data.certificate(paid.spent, self.budget.delta, paid.paths),
            settings={
                **drawn.settings,
                "chosen": self.strategy.reason,
                "request": self._request(),
                "quality": self._quality(drawn).to_plain(),
            },
            prior=prior_draws(self.model),
            told=dict(drawn.told),
        )

    def _quality(self, drawn: Drawn) -> Quality:
        """Return the verdict: of the strategy alone where draws are independent, else of the chains as well."""
        if drawn.num_warmup == 0:
            return drawn.quality
        return both(
            drawn.quality, judge_chains({name: values[:, drawn.num_warmup :] for name, values in drawn.draws.items()})
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
        asked |= {name: self.arguments[name] for name in ("purpose", "contact") if name in self.arguments}
        if self.data.schema is not None:
            asked["schema"] = tomllib.loads(self.data.schema.to_toml())
        return asked

    @property
    def _units(self) -> str:
        schema = self.data.schema
        return "records" if schema is None or schema.person is None else "persons"

    def _lines(self) -> Iterator[str]:
        facts = self.data.facts
        if isinstance(self.model, FormulaModel):
            yield self.model.describe()
        protected = "" if self._units == "records" else f" The unit of protection is a {self.data.unit}."
        yield f"Data: {facts.size:,} {self._units}, {facts.adjacency.words} adjacency.{protected}"
        yield f"Run: {self.strategy.course}."
        epsilon = float(accountants.epsilon(self.event, self.budget.delta))
        yield f"Total cost: epsilon = {epsilon:.4g} at delta = {self.budget.delta:g}."
        yield self.strategy.reason
        yield f"Expected error from the privacy noise: about {self.expected_error:.2g} posterior standard deviations."
        if self.caution:
            yield f"Warning: {self.caution}."


def prepare_fit(
    model: Model | str | Callable[..., Any],
    data: PrivateData,
    *,
    epsilon: float,
    delta: float | None = None,
    family: str | None = None,
    priors: Mapping[str, Any] | None = None,
    sampler: str = "auto",
    num_chains: int = 2,
    num_steps: int | None = None,
    init: Any = None,
    passes: int | None = None,
    block_seed: int | None = None,
    even_if_useless: bool = False,
    purpose: str = "",
    contact: str = "",
    insecure_seed: int | None = None,
) -> PreparedFit:
    """Check the arguments of `fit` and derive everything that follows from them. Reads no record and charges nothing.

    `block_seed` fixes the public positions of blocks, if there are any (default: random).
    """
    formula = model if isinstance(model, str) else None
    priors = None if priors is None else as_texts(priors)
    model = as_model(model, data, family, priors)
    name = validation.choice("sampler", sampler, ("auto", *RECIPES, SKETCH))
    if num_steps is not None:
        num_steps = validation.integer("num_steps", num_steps, at_least=1)
    num_chains = validation.integer("num_chains", num_chains, at_least=1)
    budget = Budget(validation.positive("epsilon", epsilon), delta_of(delta, data))
    seed = secrets.randbits(63) if insecure_seed is None else validation.integer("insecure_seed", insecure_seed, 0)
    if block_seed is None:
        block_seed = secrets.randbits(63) if insecure_seed is None else seed
    block_seed = validation.integer("block_seed", block_seed, 0)
    if passes is not None:
        passes = validation.integer("passes", passes, at_least=1)
    reading, about = Reading(passes, block_seed), (("purpose", purpose), ("contact", contact))
    stated = {name: validation.text(name, words) for name, words in about if words != ""}
    strategy = _strategy(model, data, name, budget, num_steps, num_chains, init, reading)
    if not even_if_useless:
        error, called, size = strategy.expected_error, strategy.name, strategy.dimension
        refuse_useless(size, data.facts.size, budget, called, error, strategy.remedy if error > 1 else "")
    return PreparedFit(
        model=model,
        data=data,
        budget=budget,
        strategy=strategy,
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
            "passes": passes,
            "block_seed": block_seed,
            **stated,
        },
    )


def _strategy(
    model: Model,
    data: PrivateData,
    sampler: str,
    budget: Budget,
    num_steps: int | None,
    num_chains: int,
    init: Any,
    reading: Reading,
) -> Strategy:
    """Return how the fit gets to its posterior: weighted or centred scores if it can be, else a sketch or chains.

    Each is loaded where it is taken: a first fit of a formula does not wait for the others.
    """
    can_weigh = sampler in ("auto", WEIGHTED) and model.temperature == 1 and init is None
    if can_weigh and isinstance(model, FormulaModel) and not model.integrated:  # a mixture has no one predictor
        if has_many_groups(model, data):
            from dpmcmc.fitting.strategies.grouped_scores.strategy import GroupedScores

            reading.refuse_few()
            return GroupedScores(model, data, budget, num_steps or DRAWS, num_chains)
        split = reading.split(Regression.of(model), data, budget)
        return WeightedScores(model, data, budget, num_steps or DRAWS, num_chains, split)
    from dpmcmc.fitting.choice import choose
    from dpmcmc.fitting.strategies.centred_scores.strategy import CentredScores, centred_questions
    from dpmcmc.fitting.strategies.chains import PilotedChains
    from dpmcmc.fitting.strategies.sketch.strategy import sketch_strategy

    layout, begin = _begin(model, init)
    observed = model.observed
    if can_weigh and observed is not None:
        questions = centred_questions(observed, data, budget, layout, begin)
        if questions is not None:
            reading.refuse_few()
            return CentredScores(model, observed, questions, data, layout, begin, num_steps or DRAWS, num_chains)
    facts = ProblemSize(data.facts.size, layout.dimension, data.facts.adjacency, model.temperature)
    sketch = sketch_strategy(sampler, model, data, layout, facts, budget, num_steps, num_chains)
    if sketch is not None:
        return sketch
    reading.refuse_few()
    pilot = make_pilot(model, data, facts, layout, begin, budget, _keys()[1])
    choice = choose(sampler, facts, num_steps, num_chains, budget, pilot.price(data))
    return PilotedChains(model, data, budget, pilot, choice, facts, num_chains)


def _keys() -> jax.Array:
    """Return keys that never change: means over synthetic draws are settings, the same in a dry run and in the run."""
    return jax.random.split(jax.random.key(0))


def _begin(model: Model, init: Any) -> tuple[Layout, Begin]:
    """Return where the pilot starts: as stated, or the mean of many draws from the prior."""
    scales = None
    positions = _prior_positions(model)
    if positions is not None:
        layout = Layout.of(jax.tree.map(lambda leaf: leaf[0], positions))
        vectors = np.concatenate([leaf.reshape(len(leaf), -1) for leaf in jax.tree.leaves(positions)], axis=1)
        lower, upper = np.quantile(vectors, [0.25, 0.75], axis=0)
        scales = np.where(upper > lower, (upper - lower) / QUARTILES, 1.0)  # some priors have no variance
        if init is None:
            return layout, Begin(*(jax.device_put(each.astype(np.float32)) for each in (vectors.mean(axis=0), scales)))
    layout, starts = start_points(model, init, 1, _keys()[0])
    widths = np.ones(layout.dimension) if scales is None else scales
    return layout, Begin(starts[0], jax.device_put(widths.astype(np.float32)))


@lru_cache(maxsize=MODELS_KEPT)
def _prior_positions(model: Model) -> Any:
    """Return many draws from the prior, as arrays on the host with an axis of draws in front, if there can be any."""
    if model.prior_draws is not None:
        return model.prior_draws.positions
    draw = model.sample_prior
    if draw is None:
        return None
    many = jax.jit(lambda key: jax.vmap(draw)(jax.random.split(key, PRIOR_POSITIONS)))
    return jax.tree.map(np.asarray, many(_keys()[0]))
