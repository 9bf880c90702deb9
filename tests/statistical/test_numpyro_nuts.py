"""Our HMC without privacy finds the posteriors that NumPyro's NUTS finds, on models as people write them.

The means of both, and the means of squares, are compared coordinate by coordinate, in unconstrained space. A
difference is measured in its Monte Carlo error, from the effective sample sizes; the threshold makes a false alarm over
all coordinates of all the models rarer than 1e-4 (Bonferroni over fewer than 300 numbers).
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer import MCMC, NUTS
from numpyro_models import MODELS

import dpmcmc as dp
from dpmcmc.diagnostics import ess, rhat

THRESHOLD = 5.1
CHAINS, DRAWS = 4, 1500
SYMMETRIC = {"neural network"}  # hidden units can be swapped: only what does not notice is compared
QUICK = ["ordinal", "poisson"]


def nuts(example, model, seed=0):
    """Return NUTS's draws in unconstrained space, and the step size that it adapted."""
    sampler = MCMC(
        NUTS(example.model),
        num_warmup=800,
        num_samples=DRAWS,
        num_chains=CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    sampler.run(jax.random.key(seed), **example.data, **example.public, extra_fields=("adapt_state.step_size",))
    draws = jax.jit(jax.vmap(jax.vmap(model.unconstrain)))(sampler.get_samples(group_by_chain=True))
    return draws, float(np.mean(sampler.get_extra_fields()["adapt_state.step_size"]))


def flat(position):
    """Return draws of all sites, (chain, draw, coordinate), in the order of a position."""
    leaves = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(position)]
    return np.concatenate([leaf.reshape(*leaf.shape[:2], -1) for leaf in leaves], axis=2)


def ours(data, model, reference, step_size, num_leapfrog):
    """Return the draws of our HMC with exact mechanisms, in the metric that NUTS found, as positions."""
    unconstrained = dp.Model(
        model.log_prior, model.log_likelihood, temperature=model.temperature, position=model.position
    )
    draws = flat(reference)
    kernel = dp.kernels.dp_hmc(
        dp.mechanisms.ExactGradientSum(),
        dp.mechanisms.ExactLogRatio(),
        step_size=0.7 * step_size,
        num_leapfrog=num_leapfrog,
        inverse_mass=draws.reshape(-1, draws.shape[2]).var(axis=0),
        reuse_gradients=True,
        step_size_jitter=0.5,
    )
    starts = [
        jax.tree.map(lambda leaf, chain=chain: jnp.asarray(leaf[chain, -1]), reference) for chain in range(CHAINS)
    ]
    posterior = dp.sample(
        kernel,
        unconstrained,
        data,
        num_steps=2 * DRAWS,
        num_chains=CHAINS,
        init=starts,
        num_warmup=DRAWS // 2,
        segment_size=DRAWS,
        insecure_seed=1,
        progress=False,
    )
    return {name: posterior[name] for name in posterior.draws}


def seen(name, data, model, position):
    """Return what is compared of positions, (chain, draw, statistic), with its squares."""
    values = flat(position)
    if name in SYMMETRIC:
        few = jax.tree.map(lambda column: column[:5], dict(data))
        likelihoods = jax.vmap(model.log_likelihood, in_axes=(None, 0))
        values = np.asarray(jax.jit(jax.vmap(jax.vmap(lambda one: likelihoods(one, few))))(position), np.float64)
    return np.concatenate([values, values**2], axis=2)


def largest_difference(first, second):
    """Return the largest difference of means over its Monte Carlo error."""
    errors = [chains.reshape(-1, chains.shape[2]).std(axis=0) / np.sqrt(ess(chains)) for chains in (first, second)]
    return np.max(np.abs(first.mean((0, 1)) - second.mean((0, 1))) / np.hypot(*errors))


def compare(name, wrong=1.0, num_leapfrog=12):
    """Return our draws and their largest difference from NUTS's; `wrong` misstates the likelihood."""
    example = MODELS[name]
    data = dp.PrivateData.without_guarantee(dict(example.data))
    model = dp.from_numpyro(example.model, data, public_arguments=example.public)
    reference, step_size = nuts(example, model)
    draws = ours(data, model.tempered(wrong), reference, step_size, num_leapfrog)
    pair = [seen(name, example.data, model, position) for position in (reference, draws)]
    return pair[1], largest_difference(*pair)


def check_agreement(name, num_leapfrog):
    draws, difference = compare(name, num_leapfrog=num_leapfrog)
    assert np.max(rhat(draws)) < 1.05
    assert difference < THRESHOLD


@pytest.mark.parametrize("name", QUICK)
def test_our_hmc_agrees_with_nuts(name) -> None:
    check_agreement(name, num_leapfrog=12)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(MODELS) - set(QUICK)))
def test_our_hmc_agrees_with_nuts_on_every_model(name) -> None:
    check_agreement(name, num_leapfrog=40)


def test_a_wrong_likelihood_is_noticed() -> None:
    _, difference = compare("poisson", wrong=0.5)
    assert difference > 2 * THRESHOLD
