"""HMC, DP-SGHMC and DP-SGD with this library's kernels, on the radon data at the thesis's temperature 1 / n."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import dpmcmc as dp
from dpmcmc.accounting import Adjacency, PoissonGaussian, noise_for
from dpmcmc.run.program import Advance, Begin, Layout
from experiments.dp_sghmc_thesis.radon import Radon

LEVELS = 6
"""A decreasing step size is a staircase of so many levels: each is compiled by itself."""


def run_stages(
    data: Radon, model: dp.Model, stages: Sequence[dp.kernels.Stage], starts: np.ndarray, seed: int
) -> np.ndarray:
    """Return the positions of all steps, (chain, step, d); stages hand their states on."""
    first = jnp.asarray(starts, jnp.float32)
    layout = Layout.of(first[0])
    run = partial(data.vault().run, model=model)
    of_start, of_steps = jax.random.split(jax.random.key(seed))
    seeds = np.random.SeedSequence(seed).generate_state(len(stages) + 1, np.uint32).tolist()
    begin = Begin(stages[0].kernel, layout)
    states = run(begin, first, jax.random.split(of_start, len(first)), insecure_seed=seeds[-1])
    own, found, done = jax.random.split(of_steps, len(first)), [], 0
    for stage, noise in zip(stages, seeds, strict=False):
        advance = Advance(stage.kernel, layout, stage.num_steps)
        states, (positions, _) = run(advance, states, own, jnp.uint32(done), insecure_seed=noise)
        found.append(np.asarray(positions))
        done += stage.num_steps
    return np.swapaxes(np.concatenate(found), 0, 1)


def hmc(data: Radon, prior_variance: float | None, c: dict[str, Any], starts: np.ndarray, seed: int) -> np.ndarray:
    """Run HMC, without privacy."""
    model = data.model(prior_variance, 1 / data.size)
    kernel = dp.kernels.dp_hmc(
        dp.mechanisms.ExactGradientSum(),
        dp.mechanisms.ExactLogRatio(),
        step_size=c["step_size"],
        num_leapfrog=c["num_leapfrog"],
    )
    return run_stages(data, model, [dp.kernels.Stage(kernel, c["num_steps"])], starts, seed)


def dp_sghmc(
    data: Radon, prior_variance: float | None, c: dict[str, Any], starts: np.ndarray, seed: int, *, fixed: bool = False
) -> np.ndarray:
    """Run DP-SGHMC with each record's gradient clipped, on Poisson batches; its noise is its privacy noise.

    Momenta are kept from one step to the next: friction renews them, and trajectories are not cut short.
    """
    model = data.model(prior_variance, 1 / data.size)
    sizes = dp.kernels.polynomial_steps(c["multiplier"], exponent=1 / 3, num_steps=c["num_steps"], num_levels=LEVELS)
    stages = []
    for step, times in [(c["fixed_step"], c["num_steps"])] if fixed else sizes:
        gradient = dp.mechanisms.SubsampledGradientSum.for_sghmc(c["clip"] / data.size, c["rate"], step, c["friction"])
        kernel = dp.kernels.dp_sghmc(gradient, step_size=step, friction=c["friction"], num_inner=c["num_inner"])
        stages.append(dp.kernels.Stage(kernel, times))
    return run_stages(data, model, stages, starts, seed)


def dp_sgd(data: Radon, c: dict[str, Any], starts: np.ndarray, seed: int) -> np.ndarray:
    """Run noisy gradient ascent within (epsilon, delta), one record added or removed."""
    steps, rate = c["num_steps"], c["rate"]
    noise = noise_for(
        lambda z: PoissonGaussian(rate, z, Adjacency.ADD_OR_REMOVE_ONE) * steps, c["epsilon"], c["delta"], "pld"
    )
    gradient = dp.mechanisms.SubsampledGradientSum.poisson(c["clip"] / data.size, noise, rate)
    kernel = dp.kernels.gradient_ascent(gradient, step_size=c["step_size"])
    model = data.model(c["prior_variance"], 1 / data.size)
    return run_stages(data, model, [dp.kernels.Stage(kernel, steps)], starts, seed)
