"""How a budget is divided between the pilot and the sampler, and whether it is enough for either."""

import math
from dataclasses import replace
from typing import NamedTuple

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
"""What of the budget, in mean privacy loss, the pilot takes: for gradients and for Hessians."""

HISTOGRAM_SHARE = 0.04
REFINEMENT_SHARE = 0.08
"""What the last gradients before a chain take; where the draws cost nothing they take all that is left."""

LEFT = 1 - sum(APPROACH_SHARES) - sum(REFINE_SHARES) - HISTOGRAM_SHARE

USUAL_CLIP_SCALE = 1.4
"""What the pilot lengthens the clips by on most tables; by more where tails are heavy, which nobody knows before."""

MARGIN = 5e-4
"""What of epsilon is left for the distance of the samplers of noise from their ideal laws."""


def mean_loss(budget: Budget) -> float:
    """Return the mean privacy loss that a budget allows."""
    return gaussian.mean_for(budget.epsilon * (1 - MARGIN), budget.delta)


def noise_of_share(share: float, num_releases: int, budget: Budget) -> float:
    """Return the noise multiplier with which so many releases take a share of the budget."""
    return math.sqrt(num_releases / (2 * share * mean_loss(budget)))


def make_pilot(
    model: Model, data: PrivateData, facts: ProblemSize, layout: Layout, begin: Begin, budget: Budget, key: jax.Array
) -> Pilot:
    """Return the pilot, whose shares of the budget fix its noise; Hessians that are public take none of it."""
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
    """Return what the pilot releases, for planning: the distances of its noise from the ideal law are left out."""
    parts = [(share, APPROACH_STEPS) for share in APPROACH_SHARES] + [(share, REFINE_STEPS) for share in REFINE_SHARES]
    return compose(Gaussian(noise_of_share(share, n, budget)) * n for share, n in [*parts, (HISTOGRAM_SHARE, 1)])


class Noise(NamedTuple):
    """Noise multipliers after the pilot: of the gradients that refinement its centre, and of the sampler."""

    refinement: float
    sampler: float


def noise_after(recipe: Recipe, facts: ProblemSize, num_chains: int, budget: Budget, pilot: Event) -> Noise:
    """Return the noise with which refinement and sampler spend what the pilot leaves."""
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
    """Return what refinement and sampler release, for planning; independent draws need the refinement alone."""
    cost = recipe.cost(facts, noise.sampler)
    if recipe.is_iid:
        return cost.once
    refinement = Refinement(facts.gradient_clip, noise.refinement).event
    return refinement + (cost.per_step * recipe.num_steps + cost.once) * num_chains


def usual(facts: ProblemSize) -> ProblemSize:
    """Return the facts with clips as long as the pilot makes them on most tables."""
    return replace(facts, clip_scale=USUAL_CLIP_SCALE)


def least_error(facts: ProblemSize, budget: Budget) -> float:
    """Return by how many of its standard deviations the posterior would be off, at best: 2 R / (sqrt(n) mu)."""
    return facts.clips_moved * usual(facts).gradient_clip / math.sqrt(2 * LEFT * mean_loss(budget))


def remedy(facts: ProblemSize, budget: Budget) -> str:
    """Say what would make a run useful whose posterior would be off by more than its own width."""
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
    """Refuse a run whose posterior would be off by more than its own width, and say what would do."""
    if error <= 1:
        return
    raise BudgetUnreachable(
        f"{budget} is too little for {counted(dimension, 'parameter')} and {num_records} records: with {sampler} the "
        f"posterior would be off by about {error:.1f} of its own standard deviations. {remedy}; nothing was spent. "
        "even_if_useless=True runs it all the same"
    )
