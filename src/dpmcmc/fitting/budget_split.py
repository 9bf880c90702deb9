"""The division of a budget between pilot and sampler, and the refusal of budgets that are too small."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp

from dpmcmc.accounting import Budget, Event, Gaussian, accountants, compose, gaussian, noise_for
from dpmcmc.enclave import CurvatureSum, PrivateData, Sum
from dpmcmc.errors import BudgetUnreachable
from dpmcmc.fitting.curvature import public_curvature
from dpmcmc.fitting.in_words import at_least, counted
from dpmcmc.fitting.pilot import Newton, Pilot, Refinement
from dpmcmc.fitting.problem_size import ProblemSize
from dpmcmc.fitting.recipes import Recipe
from dpmcmc.fitting.scales import typical_scales
from dpmcmc.fitting.score_histogram import LENGTH, ScoreHistogram
from dpmcmc.fitting.whitening import Begin, GaussianApproximation
from dpmcmc.model import Model
from dpmcmc.run.program import Layout

APPROACH_STEPS, REFINE_STEPS = 6, 4
APPROACH_SHARES, REFINE_SHARES = (0.03, 0.05), (0.05, 0.11)
"""Shares of the budget (mean privacy loss) of the pilot's two phases: for gradients and for Hessians."""

HISTOGRAM_SHARE = 0.04
REFINEMENT_SHARE = 0.08
"""Share of the last gradients before a chain; if draws are free they get the whole rest."""

LEFT = 1 - sum(APPROACH_SHARES) - sum(REFINE_SHARES) - HISTOGRAM_SHARE

USUAL_CLIP_SCALE = 1.4
"""Typical clip scale found by the pilot; heavy-tailed data need a larger one. For planning only."""

MARGIN = 5e-4
"""Share of epsilon reserved for the errors of the noise samplers."""

UNSEEN = 9.9
"""What is said of the error of a run that would not see the slopes of its likelihood, or any larger one."""


USUAL_DISTANCE, LARGE_STEP = 1e-18, 1.0
"""The distance of all noise samplers of a fit from a Gaussian, in total variation, if it is large: from epsilon =
log(delta / distance) on it may matter. And by how much epsilon is reduced until it does not."""


class Priced(Protocol):
    """What has an event."""

    @property
    def event(self) -> Event:
        """The event of everything that is released."""
        ...


Plan = TypeVar("Plan", bound=Priced)


def affordable(budget: Budget, plan: Callable[[Budget], Plan]) -> tuple[Plan, Budget]:
    """Return a plan that a budget pays for, and the budget for which it was made.

    They differ only if epsilon is very large: e^epsilon times the distance of the noise samplers from a Gaussian is
    part of delta, and with less noise alone no plan would keep to it.
    """
    planned, made = budget, plan(budget)
    largest = math.log(budget.delta / USUAL_DISTANCE)
    least = max(largest - 10, LARGE_STEP)
    while planned.epsilon > least and not accountants.epsilon(made.event, budget.delta) <= budget.epsilon:
        planned = Budget(max(min(planned.epsilon, largest + 10) - LARGE_STEP, LARGE_STEP), budget.delta)
        made = plan(planned)
    return made, planned


def mean_loss(budget: Budget) -> float:
    """Return the mean privacy loss (the rho of zCDP) that a budget allows."""
    return gaussian.mean_for(budget.epsilon * (1 - MARGIN), budget.delta)


def noise_of_share(share: float, num_releases: int, budget: Budget) -> float:
    """Return the noise multiplier at which a number of releases spends a share of the budget."""
    return math.sqrt(num_releases / (2 * share * mean_loss(budget)))


def make_pilot(
    model: Model, data: PrivateData, facts: ProblemSize, layout: Layout, begin: Begin, budget: Budget, key: jax.Array
) -> Pilot:
    """Return the pilot, whose noise follows from its shares of the budget; public Hessians cost nothing."""
    public = public_curvature(model, layout, data)

    def newton(clips: tuple[float, float], shares: tuple[float, float], num_steps: int, adapts: bool) -> Newton:
        noises = [noise_of_share(share, num_steps, budget) for share in shares]
        gradient, curvature = Sum(clips[0], noises[0]), CurvatureSum(clips[1], noises[1])
        return Newton(model, layout, gradient, public or curvature, num_steps, adapts, begin.scales)

    reach = ScoreHistogram(model, layout, Sum(LENGTH, noise_of_share(HISTOGRAM_SHARE, 1, budget)), facts)
    scales = typical_scales(model, data, layout, begin.centre, key)
    in_round = (facts.gradient_clip, facts.curvature_clip)
    refine = newton(in_round, REFINE_SHARES, REFINE_STEPS, adapts=True)
    if public is None:
        start = GaussianApproximation(begin.centre, jnp.eye(layout.dimension))
        approach = newton(scales, APPROACH_SHARES, APPROACH_STEPS, adapts=False)
        return Pilot(approach, refine, reach, start, 1 - LEFT)
    approach = newton(in_round, APPROACH_SHARES, APPROACH_STEPS, adapts=True)
    start = public.approximation(begin.centre)
    return Pilot(approach, refine, reach, start, APPROACH_SHARES[0] + REFINE_SHARES[0] + HISTOGRAM_SHARE)


def pilot_event(budget: Budget) -> Event:
    """Return the event of the pilot for planning: without the error of its noise sampler."""
    parts = [(share, APPROACH_STEPS) for share in APPROACH_SHARES] + [(share, REFINE_STEPS) for share in REFINE_SHARES]
    return compose(Gaussian(noise_of_share(share, n, budget)) * n for share, n in [*parts, (HISTOGRAM_SHARE, 1)])


class Noise(NamedTuple):
    """Noise multipliers after the pilot: of the gradients that refine its centre, and of the sampler."""

    refinement: float
    sampler: float


def noise_after(recipe: Recipe, facts: ProblemSize, num_chains: int, budget: Budget, pilot: Event) -> Noise:
    """Return the noise multipliers at which refinement and sampler spend the rest of the budget."""
    refinement = noise_of_share(REFINEMENT_SHARE, 1, budget)

    def noise(multiplier: float) -> Noise:
        return Noise(multiplier if recipe.is_iid else refinement, multiplier)

    def event(multiplier: float) -> Event:
        return pilot + event_after(recipe, facts, num_chains, noise(multiplier))

    epsilon = budget.epsilon * (1 - MARGIN)
    least = recipe.least_noise
    if least is not None and accountants.epsilon(event(least), budget.delta) <= epsilon:
        return noise(least)
    return noise(noise_for(event, epsilon, budget.delta))


def event_after(recipe: Recipe, facts: ProblemSize, num_chains: int, noise: Noise) -> Event:
    """Return the event of refinement and sampler for planning; independent draws need the refinement alone."""
    cost = recipe.cost(facts, noise.sampler)
    if recipe.is_iid:
        return cost.once
    refinement = Refinement(facts.gradient_clip, noise.refinement).event
    return refinement + (cost.per_step * recipe.num_steps + cost.once) * num_chains


def usual(facts: ProblemSize) -> ProblemSize:
    """Return the problem size with the clip scale that the pilot finds on most tables."""
    return replace(facts, clip_scale=USUAL_CLIP_SCALE)


def least_error(facts: ProblemSize, budget: Budget) -> float:
    """Return a lower bound on the error, in posterior standard deviations: 2 R / (sqrt(n) mu)."""
    return facts.clips_moved * usual(facts).gradient_clip / math.sqrt(2 * LEFT * mean_loss(budget))


def remedy(facts: ProblemSize, budget: Budget) -> str:
    """Say what would help a run whose expected error is above one posterior standard deviation."""
    least = least_error(facts, budget)
    if least <= 1:
        return f"sampler='auto' would make it about {least:.2g}"
    enough = Gaussian(math.sqrt(LEFT) / (facts.clips_moved * usual(facts).gradient_clip))
    sizes = [size for size in range(1, facts.dimension) if least_error(replace(facts, dimension=size), budget) <= 1]
    epsilon = max(float(accountants.epsilon(enough, budget.delta)), 1.001 * budget.epsilon)
    return f"About epsilon = {at_least(epsilon)} would do, or {at_least(facts.num_records * least**2)} records" + (
        f", or {counted(sizes[-1], 'parameter')}" if sizes else ""
    )


def refuse_useless(dimension: int, num_records: int, budget: Budget, sampler: str, error: float, remedy: str) -> None:
    """Refuse a run whose expected error is above one posterior standard deviation, and say what would help."""
    if error <= 1:
        return
    off = (
        "noise would hide what the records say"
        if error >= UNSEEN
        else f"the posterior would be off by about {error:.1f} of its own standard deviations"
    )
    raise BudgetUnreachable(
        f"{budget} is too little for {counted(dimension, 'parameter')} and {num_records:,} records: with {sampler} "
        f"{off}. {remedy}; nothing was spent. "
        "allow_low_accuracy=True runs it anyway"
    )
