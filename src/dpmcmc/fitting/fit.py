"""From a model and a budget to a private posterior, without a knob."""

import math
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from dpmcmc import validation
from dpmcmc.accounting import Budget, Certificate, Event, Gaussian, accountants, gaussian, noise_for
from dpmcmc.enclave import GradientSum, PrivateData, Sum
from dpmcmc.errors import BudgetUnreachable
from dpmcmc.fitting.models import as_model
from dpmcmc.fitting.pilot import Newton, Polish, Summit
from dpmcmc.fitting.recipes import RECIPES, Facts, Recipe
from dpmcmc.fitting.round import rounded
from dpmcmc.fitting.scales import typical_scales
from dpmcmc.model import Model
from dpmcmc.posterior import Posterior
from dpmcmc.run.interrupt import interruptible
from dpmcmc.run.plan import Plan, make_plan, parameters, settings
from dpmcmc.run.program import Layout
from dpmcmc.run.progress import watch
from dpmcmc.run.sampling import delta_of, price_in_words
from dpmcmc.run.start import start_points

PRIOR_DRAWS = 4096
PILOT_STEPS, POLISH_STEPS = 8, 4
GRADIENT_SHARE, CURVATURE_SHARE, POLISH_SHARE = 0.05, 0.12, 0.08
"""What of the budget, in mean privacy loss, the pilot takes: for gradients, Hessians, and the last gradients."""

AUTO = "dp_langevin"
"""The sampler that gets furthest for its budget once the posterior is round."""

MARGIN = 1e-4
"""What of epsilon is left for the distance of the samplers of noise from their ideal laws."""


def fit(
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
    progress: bool = True,
    insecure_seed: int | None = None,
) -> Posterior:
    """Spend (epsilon, delta) on a posterior: a private pilot, then a sampler whose settings follow from public facts.

    The pilot, a few Newton steps, finds where the posterior is and how wide; it is paid for. In the coordinates that it
    gives, every sampler of the literature has settings that depend on nothing but the number of records, of parameters
    and of steps, and on the noise that the rest of the budget buys.

    Args:
        model: a formula such as ``"readmitted ~ age + smoker"``, a NumPyro model, or a `Model`.
        data: the records; bounds must be stated for all their leaves, since clips are set from them.
        epsilon: the budget of this run.
        delta: that of the data's budget unless stated.
        family: of a formula: gaussian, bernoulli, binomial, poisson, negative_binomial, student_t, categorical, ordinal.
        priors: of a formula, by parameter; the defaults are weakly informative, and in the model's `describe()`.
        sampler: ``"auto"``, or one of `RECIPES`.
        num_chains: chains, all of which are paid for.
        num_steps: steps of each chain; a number that suits the sampler unless stated.
        init: where the pilot starts; the centre of the prior unless stated.
        even_if_useless: run even if the result is expected to be off by more than a posterior standard deviation.
        progress: whether to show how it gets on.
        insecure_seed: fixes all randomness, for tests; the result then carries no guarantee.

    Raises:
        BudgetUnreachable: the result would be useless, before anything is spent; the message says what would work.
    """
    model = as_model(model, data, family, priors)
    name = AUTO if sampler == "auto" else validation.choice("sampler", sampler, RECIPES)
    recipe = RECIPES[name]
    if num_steps is not None:
        recipe = replace(recipe, num_steps=validation.integer("num_steps", num_steps, at_least=1))
    budget = Budget(epsilon, delta_of(delta, data))
    seed = secrets.randbits(63) if insecure_seed is None else validation.integer("insecure_seed", insecure_seed, 0)
    of_start, of_scales, of_chains = jax.random.split(jax.random.key(seed), 3)
    layout, start = _start(model, init, of_start)
    facts = Facts(data.facts.size, layout.dimension, data.facts.adjacency)
    newton, polish = _pilot(model, data, facts, layout, start, budget, of_scales)
    origin = jnp.zeros(layout.dimension)
    nowhere = Summit(origin, jnp.eye(layout.dimension))  # a price knows no position
    pilot_price = data.price(newton, start, model=model)
    pilot_price += data.price(polish, origin, model=rounded(model, layout, nowhere))
    if not even_if_useless:
        _check_useful(facts, budget, pilot_price)
    noise = _noise(recipe, facts, num_chains, budget, pilot_price)
    kernel = recipe.make(facts, noise)

    def plan(summit: Summit) -> Plan:
        own_seed = int(jax.random.randint(of_chains, (), 0, 2**31 - 1))
        return make_plan(kernel, rounded(model, layout, summit), recipe.num_steps, num_chains, None, own_seed)

    event = pilot_price + plan(nowhere).price(data)
    what = f"pilot and {name}"
    with (
        interruptible() as is_interrupted,
        watch(what, recipe.num_steps, price_in_words(event, budget.delta), progress) as watcher,
        data.reserve(event, what=what, insecure_seed=insecure_seed) as paid,
    ):
        summit = paid.run(newton, start, model=model)
        moved = paid.run(polish, origin, model=rounded(model, layout, summit))
        sampling = plan(Summit(summit.centre + summit.factor @ moved, summit.factor))
        vectors, is_accepted = sampling.run(paid, None, watcher, is_interrupted)
        spent = paid.spent
    return Posterior(
        draws=parameters(sampling.model, sampling.layout, vectors),
        is_accepted=is_accepted,
        num_warmup=vectors.shape[1] // 10,  # it starts at the summit
        certificate=Certificate(spent, data.facts.adjacency, budget.delta, data.assumptions),
        settings={**settings(sampling, data), "pilot": _in_words(newton, polish)},
    )


def _start(model: Model, init: Any, key: jax.Array) -> tuple[Layout, jax.Array]:
    """Return where the pilot starts: as stated, or the mean of many draws from the prior."""
    if init is None and model.sample_prior is not None:
        draws = jax.vmap(model.sample_prior)(jax.random.split(key, PRIOR_DRAWS))
        centre = jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), draws)
        return Layout.of(centre), Layout.of(centre).ravel(centre)
    layout, starts = start_points(model, init, 1, key)
    return layout, starts[0]


def _pilot(
    model: Model, data: PrivateData, facts: Facts, layout: Layout, start: jax.Array, budget: Budget, key: jax.Array
) -> tuple[Newton, Polish]:
    """Return both parts of the pilot, whose shares of the budget fix their noise."""
    scales = typical_scales(model, data, layout, start, key)
    mean = gaussian.mean_for(budget.epsilon * (1 - MARGIN), budget.delta)

    def noise(share: float, num_steps: int) -> float:
        return math.sqrt(num_steps / (2 * share * mean))

    gradient = GradientSum(scales.gradient, noise(GRADIENT_SHARE, PILOT_STEPS))
    curvature = Sum(scales.curvature, noise(CURVATURE_SHARE, PILOT_STEPS))
    fine = GradientSum(facts.gradient_clip, noise(POLISH_SHARE, POLISH_STEPS))
    return Newton(model, layout, gradient, curvature, PILOT_STEPS), Polish(fine, POLISH_STEPS)


def _noise(recipe: Recipe, facts: Facts, num_chains: int, budget: Budget, pilot: Event) -> float:
    """Return the noise multiplier with which all steps of all chains spend what the pilot leaves."""

    def event(noise: float) -> Event:
        cost = recipe.cost(facts, noise)
        return pilot + (cost.per_step * recipe.num_steps + cost.once) * num_chains

    epsilon = budget.epsilon * (1 - MARGIN)
    least = recipe.least_noise
    if least is not None and accountants.epsilon(event(least), budget.delta) <= epsilon:
        return least
    return noise_for(event, epsilon, budget.delta)


def _check_useful(facts: Facts, budget: Budget, pilot: Event) -> None:
    """Refuse a run whose posterior would be off by more than its own width: 2 R / (sqrt(n) mu) standard deviations."""
    left = gaussian.mean_for(budget.epsilon, budget.delta) - pilot.gaussian_mean
    needed = facts.clips_moved * facts.gradient_clip
    error = needed / math.sqrt(2 * left)
    if error <= 1:
        return
    share = 1 - GRADIENT_SHARE - CURVATURE_SHARE - POLISH_SHARE
    enough = float(accountants.epsilon(Gaussian(math.sqrt(share) / needed), budget.delta))
    raise BudgetUnreachable(
        f"{budget} is too little for {facts.dimension} parameters and {facts.num_records} records: the posterior would "
        f"be off by about {error:.1f} of its own standard deviations. About epsilon = {enough:.2g} would do, or "
        f"{facts.num_records * error**2:.2g} records, or fewer parameters; nothing was spent. "
        "even_if_useless=True runs it all the same"
    )


def _in_words(newton: Newton, polish: Polish) -> dict[str, Any]:
    return {
        "newton_steps": newton.num_steps,
        "gradient": repr(newton.gradient),
        "curvature": repr(newton.curvature),
        "polish_steps": polish.num_steps,
        "polish": repr(polish.gradient),
    }
