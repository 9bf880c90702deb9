"""How a budget is divided between the pilot and the sampler, and whether it is enough for either."""

import math

import jax

from dpmcmc.accounting import Budget, Event, Gaussian, accountants, gaussian, noise_for
from dpmcmc.enclave import GradientSum, PrivateData, Sum
from dpmcmc.errors import BudgetUnreachable
from dpmcmc.fitting.pilot import Newton, Pilot, Polish
from dpmcmc.fitting.recipes import Facts, Recipe
from dpmcmc.fitting.scales import typical_scales
from dpmcmc.model import Model
from dpmcmc.run.program import Layout

PILOT_STEPS, POLISH_STEPS = 8, 4
GRADIENT_SHARE, CURVATURE_SHARE, POLISH_SHARE = 0.05, 0.12, 0.08
"""What of the budget, in mean privacy loss, the pilot takes: for gradients, Hessians, and the last gradients."""

MARGIN = 1e-4
"""What of epsilon is left for the distance of the samplers of noise from their ideal laws."""


def make_pilot(
    model: Model, data: PrivateData, facts: Facts, layout: Layout, start: jax.Array, budget: Budget, key: jax.Array
) -> Pilot:
    """Return the pilot, whose shares of the budget fix its noise."""
    scales = typical_scales(model, data, layout, start, key)
    mean = gaussian.mean_for(budget.epsilon * (1 - MARGIN), budget.delta)

    def noise(share: float, num_steps: int) -> float:
        return math.sqrt(num_steps / (2 * share * mean))

    gradient = GradientSum(scales.gradient, noise(GRADIENT_SHARE, PILOT_STEPS))
    curvature = Sum(scales.curvature, noise(CURVATURE_SHARE, PILOT_STEPS))
    fine = GradientSum(facts.gradient_clip, noise(POLISH_SHARE, POLISH_STEPS))
    return Pilot(Newton(model, layout, gradient, curvature, PILOT_STEPS), Polish(fine, POLISH_STEPS), start)


def noise_left(recipe: Recipe, facts: Facts, num_chains: int, budget: Budget, pilot: Event) -> float:
    """Return the noise multiplier with which all steps of all chains spend what the pilot leaves."""

    def event(noise: float) -> Event:
        cost = recipe.cost(facts, noise)
        return pilot + (cost.per_step * recipe.num_steps + cost.once) * num_chains

    epsilon = budget.epsilon * (1 - MARGIN)
    least = recipe.least_noise
    if least is not None and accountants.epsilon(event(least), budget.delta) <= epsilon:
        return least
    return noise_for(event, epsilon, budget.delta)


def expected_error(facts: Facts, budget: Budget, pilot: Event) -> float:
    """Return by how many of its standard deviations the posterior would be off: 2 R / (sqrt(n) mu)."""
    left = gaussian.mean_for(budget.epsilon, budget.delta) - pilot.gaussian_mean
    return facts.clips_moved * facts.gradient_clip / math.sqrt(2 * left)


def refuse_useless(facts: Facts, budget: Budget, error: float) -> None:
    """Refuse a run whose posterior would be off by more than its own width, and say what would do."""
    if error <= 1:
        return
    share = 1 - GRADIENT_SHARE - CURVATURE_SHARE - POLISH_SHARE
    enough = Gaussian(math.sqrt(share) / (facts.clips_moved * facts.gradient_clip))
    raise BudgetUnreachable(
        f"{budget} is too little for {facts.dimension} parameters and {facts.num_records} records: the posterior would "
        f"be off by about {error:.1f} of its own standard deviations. About epsilon = "
        f"{float(accountants.epsilon(enough, budget.delta)):.2g} would do, or {facts.num_records * error**2:.2g} "
        "records, or fewer parameters; nothing was spent. even_if_useless=True runs it all the same"
    )
