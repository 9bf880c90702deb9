"""What `fit` would do with a budget, from the number of records and of parameters alone.

The noise is what `fit` would take; the price of a run is read off the traced program and includes the distances of the
noise from its ideal distribution, which move it by less than one part in a thousand. How good the result would be at
best follows from the noise, for a posterior that the pilot has made round:

* The noise of one release of all clipped scores moves the posterior by s = 2 R / mu of its standard deviations, with R
  the clip of a score in whitened coordinates and mu the signal-to-noise ratio that the budget buys.
* private_laplace has bounded scores with mean zero instead, which may be shorter: it is off by less, where its slope is
  seen.
* The normal approximation of clipped scores (clipped_laplace) is one such release, and off by no more than s.
* Langevin dynamics is worth 1 / s^2 independent draws, so its mean is off by the same s.
* A random walk with penalty tests is worth 0.083 mu^2 / (C^2 d), with C the clip of a slope and 2 C moved by a
  neighbour. Hamiltonian dynamics has the same tests to pay and its gradients besides; once the posterior is round it
  does no better, so this bounds it.
* Of the others only the first line is known.
"""

import math
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpmcmc import accounting, validation
from dpmcmc.accounting import Adjacency, Budget, Event, FixedBatchGaussian
from dpmcmc.accounting.event import counts
from dpmcmc.errors import BudgetUnreachable, InvalidArgument
from dpmcmc.fitting import RECIPES
from dpmcmc.fitting.budget_split import event_after, least_error, noise_after, pilot_event, usual
from dpmcmc.fitting.problem_size import ProblemSize
from dpmcmc.fitting.recipes import Recipe
from dpmcmc.fitting.strategies.centred_scores.questions import usual_variance
from dpmcmc.fitting.strategies.laplace import NAME as WEIGHTED
from dpmcmc.fitting.strategies.weighted_scores.budget import Split
from dpmcmc.fitting.strategies.weighted_scores.one_pass import chosen, predicted_error


@dataclass(frozen=True)
class Answer:
    """What a fit would do.

    Attributes:
        num_steps: steps of each chain.
        noise: the noise multiplier of every release of the sampler; of HMC, that of its test.
        epsilon: what it would cost under each accountant that can bound it, at the budget's delta.
        floor: by how many standard deviations the posterior would be off at least, with this sampler's scores.
        error: the same for this sampler, where it is known; else a bound from below.
        is_known: whether it is known.
    """

    num_steps: int
    noise: float
    epsilon: dict[str, float]
    floor: float
    error: float
    is_known: bool

    @property
    def is_refused(self) -> bool:
        """Whether `fit` would refuse: the posterior would be off by more than its own width."""
        return self.error > 1

    @property
    def effective_draws(self) -> float:
        """How many independent draws estimate a mean as well."""
        return 1 / self.error**2

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {**asdict(self), "effective_draws": self.effective_draws, "is_refused": self.is_refused}


def plan_fit(
    sampler: str,
    *,
    epsilon: float,
    delta: float,
    num_records: int,
    num_parameters: int,
    num_chains: int = 2,
    adjacency: Adjacency | str = Adjacency.REPLACE_ONE,
    passes: int | None = None,
) -> Answer | None:
    """Return what `fit` would do, or None if no noise would keep the sampler within the budget.

    `passes` is how many times all rows may be read at most; every step reads them, if None.
    """
    if passes is not None and sampler != WEIGHTED:
        raise InvalidArgument(f"passes={passes} must be left out for {sampler!r}; it is for {WEIGHTED!r}")
    recipe = RECIPES[validation.choice("sampler", sampler, RECIPES)]
    facts = ProblemSize(
        validation.integer("num_records", num_records, at_least=1),
        validation.integer("num_parameters", num_parameters, at_least=1),
        Adjacency.parse("adjacency", adjacency),
    )
    budget = Budget(validation.positive("epsilon", epsilon), delta)
    num_chains = validation.integer("num_chains", num_chains, at_least=1)
    found = _calibrated(_priced_alike(sampler, facts), _that_matter(recipe, facts), num_chains, budget)
    if found is None:
        return None
    noise, by_accountant = found
    if sampler == WEIGHTED:
        error = _weighted_error(facts, budget, passes)
        return Answer(recipe.num_steps, noise, dict(by_accountant), error, error, True)
    floor = least_error(facts, budget)
    error, is_known = floor, False
    if recipe.error is not None:
        error = recipe.error(usual(facts), floor, noise / math.sqrt(num_chains * recipe.num_steps))
        is_known = recipe.error_is == "the error"
    return Answer(recipe.num_steps, noise, dict(by_accountant), floor, max(error, floor), is_known)


def _weighted_error(facts: ProblemSize, budget: Budget, passes: int | None) -> float:
    """Return by how many standard deviations weighted scores are off, given the most passes over the rows."""
    split = Split(facts.dimension, facts.clips_moved, True, usual_variance)
    most = None if passes is None else validation.integer("passes", passes, at_least=1)
    split = chosen(split, budget, facts.num_records, 0, passes=most, is_in_memory=True)
    return predicted_error(split, budget, facts.num_records)


@lru_cache(maxsize=4096)
def _priced_alike(sampler: str, facts: ProblemSize) -> str:
    """Return the first sampler whose run costs the same at any noise: the noise that a budget buys is the same too."""

    def terms(recipe: Recipe) -> tuple[Any, ...]:
        costs = [recipe.cost(facts, noise) for noise in (1.0, 7.0)]
        return costs, recipe.num_steps, recipe.least_noise, recipe.is_iid

    own = terms(RECIPES[sampler])
    return next(name for name, recipe in RECIPES.items() if terms(recipe) == own)


def _that_matter(recipe: Recipe, facts: ProblemSize) -> ProblemSize:
    """Return the facts that the price of a step depends on: most samplers' know neither records nor parameters."""
    other = replace(facts, num_records=1_000_000, dimension=1)
    is_same = all(_price(recipe, facts, noise) == _price(recipe, other, noise) for noise in (1.0, 7.0))
    return other if is_same else facts


def _price(recipe: Recipe, facts: ProblemSize, noise: float) -> dict[Any, int]:
    """Return what the accountants see of a step and of what comes once: of a batch with Gaussian noise, its share."""
    cost = recipe.cost(facts, noise)
    return {
        (Fraction(part.batch_size, part.population), part.noise_multiplier)
        if isinstance(part, FixedBatchGaussian)
        else part: times
        for part, times in counts(cost.per_step + cost.once).items()
    }


@lru_cache(maxsize=1024)
def _pilot(budget: Budget) -> Event:
    return pilot_event(budget)


@lru_cache(maxsize=4096)
def _calibrated(
    sampler: str, facts: ProblemSize, num_chains: int, budget: Budget
) -> tuple[float, tuple[tuple[str, float], ...]] | None:
    """Return the noise, and what it costs under each accountant; None if there is none that is enough."""
    recipe, pilot = RECIPES[sampler], _pilot(budget)
    try:
        noise = noise_after(recipe, facts, num_chains, budget, pilot)
    except BudgetUnreachable:
        return None
    event = pilot + event_after(recipe, facts, num_chains, noise)
    able = [name for name, curve in accounting.ACCOUNTANTS.items() if curve(event) is not None]
    return noise.sampler, tuple(
        (name, float(accounting.epsilon(event, budget.delta, name))) for name in ("tight", *able)
    )
