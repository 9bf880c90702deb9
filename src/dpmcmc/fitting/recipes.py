"""Settings of every sampler, from public facts alone: the number of records, of parameters, of steps, and the noise.

In whitened coordinates (`whitening`) the clips are known (`problem_size`). The budget and the number of steps fix the
noise, and the noise fixes how far a step may go: no sampler needs tuning.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dpmcmc.accounting import compose, samplers
from dpmcmc.enclave import BarkerBit, BarkerTest, GradientSum, MinibatchLogRatio, PenaltyTest, SubsampledGradientSum
from dpmcmc.fitting.pilot import Refinement
from dpmcmc.fitting.problem_size import ProblemSize
from dpmcmc.kernels import (
    Kernel,
    dp_barker,
    dp_hmc,
    dp_langevin,
    dp_penalty,
    dp_sghmc,
    dp_sgld,
    dp_sgnht,
    guided_walk,
    normal_draws,
)

TEST_NOISE = 2.38
"""The standard deviation of the noise in a penalty test at which a random walk gets furthest for its budget."""

LARGEST_LANGEVIN_STEP = 0.1
"""At which a Langevin chain's variance is five percent too large."""


@dataclass(frozen=True)
class Recipe:
    """How to set a sampler: what a step costs at a noise multiplier, and the kernel for it."""

    cost: Callable[[ProblemSize, float], samplers.Cost]
    make: Callable[[ProblemSize, float], Kernel]
    num_steps: int
    least_noise: float | None = None
    """Less noise than this is of no use, even if the budget would pay for it."""

    is_iid: bool = False
    """Whether the steps release nothing, so that all that is left of the budget goes into the gradients before them."""


def _longest_move(facts: ProblemSize, noise: float) -> float:
    """Return the distance at which a penalty test's noise reaches `TEST_NOISE`; at most what a random walk uses."""
    return min(2.38, TEST_NOISE / (facts.clips_moved * noise * facts.slope_clip))


def _penalty(facts: ProblemSize, noise: float) -> Kernel:
    scale = _longest_move(facts, noise) / math.sqrt(facts.dimension)
    return dp_penalty(PenaltyTest(facts.slope_clip, noise), proposal_scale=scale)


def _guided(facts: ProblemSize, noise: float) -> Kernel:
    return guided_walk(PenaltyTest(facts.slope_clip, noise), proposal_scale=_longest_move(facts, noise))


def _laplace(facts: ProblemSize, noise: float) -> Kernel:
    """The centre has noise of its own, that of the refinement: the draws are as much wider."""
    return normal_draws(scale=math.hypot(1, facts.clips_moved * noise * facts.gradient_clip))


_LEAPFROG = 4
_GRADIENT_NOISE = 2.0
"""How much noisier the gradients of DP-HMC are than its test, in multipliers."""


def _hmc(facts: ProblemSize, noise: float) -> Kernel:
    """A trajectory of length t moves by about t sqrt(d); its noisy kicks add energy ~ t^2 L (sd of a kick)^2 d."""
    gradient = GradientSum(facts.gradient_clip, _GRADIENT_NOISE * noise)
    sd = facts.clips_moved * gradient.noise_multiplier * gradient.clip
    by_test = _longest_move(facts, noise) / math.sqrt(facts.dimension)
    by_kicks = math.sqrt(_LEAPFROG / facts.dimension) / sd
    time = min(1.5, by_test, by_kicks)
    return dp_hmc(
        gradient,
        PenaltyTest(facts.slope_clip, noise),
        step_size=time / _LEAPFROG,
        num_leapfrog=_LEAPFROG,
        reuse_gradients=True,
        step_size_jitter=0.2,
    )


def _langevin(facts: ProblemSize, noise: float) -> Kernel:
    """The step whose own noise is what the release has; small steps cost little and are taken often."""
    step = min(LARGEST_LANGEVIN_STEP, 2 / (facts.clips_moved * noise * facts.gradient_clip) ** 2)
    return dp_langevin(GradientSum(facts.gradient_clip, noise), step_size=step)


RATE = 0.25
"""The share of the records in a batch of the stochastic-gradient samplers: small batches heat the chain."""

BATCH_SHARE = 10
"""A batch of the minibatch tests is one record in so many."""

FRICTION = 1.0


def _sgld(facts: ProblemSize, noise: float) -> Kernel:
    """The choice of the batch adds variance (1 - q) / q to the force: the step keeps that below a tenth of its own."""
    step = min(0.4 * RATE, (2 * RATE / (facts.gradient_clip * noise)) ** 2)
    return dp_sgld(SubsampledGradientSum.poisson(facts.gradient_clip, noise, RATE), step_size=step)


def _friction_step(facts: ProblemSize, noise: float) -> float:
    return min(0.1, 2 * FRICTION * (RATE / (facts.gradient_clip * noise)) ** 2)


def _sghmc(facts: ProblemSize, noise: float) -> Kernel:
    step = _friction_step(facts, noise)
    batch_noise = step / 2 * (1 - RATE) / RATE  # what the choice of the batch adds by itself, in these coordinates
    net = SubsampledGradientSum.poisson(facts.gradient_clip, noise, RATE)
    return dp_sghmc(
        net, step_size=step, friction=FRICTION + batch_noise, batch_noise=batch_noise, resample_momentum=False
    )


def _sgnht(facts: ProblemSize, noise: float) -> Kernel:
    gradient = SubsampledGradientSum.poisson(facts.gradient_clip, noise, RATE)
    return dp_sgnht(gradient, step_size=_friction_step(facts, noise), diffusion=FRICTION)


def _barker(facts: ProblemSize, noise: float) -> Kernel:
    """The clip of the ratio, one over the `noise`, is that of a move of a certain length; most moves are shorter."""
    length = min(2.38, 0.6 / (noise * facts.slope_clip))
    return dp_barker(BarkerBit(1 / noise), proposal_scale=length / math.sqrt(facts.dimension))


def _batch_size(facts: ProblemSize) -> int:
    return max(2, facts.num_records // BATCH_SHARE)


def _minibatch(facts: ProblemSize, noise: float) -> Kernel:
    """Noise and batch must both stay below a penalty that lets proposals pass."""
    share = facts.num_records / _batch_size(facts)
    length = min(1 / math.sqrt(share), 1.2 / (2 * noise * share * facts.slope_clip))
    mechanism = MinibatchLogRatio(_batch_size(facts), facts.slope_clip, noise)
    return dp_penalty(mechanism, proposal_scale=length / math.sqrt(facts.dimension))


def _minibatch_barker(facts: ProblemSize, noise: float) -> Kernel:
    """The clip sqrt(kappa b) / n of one ratio, kappa one over the `noise`, is that of a move of a certain length."""
    fraction = min(1.0, 1 / noise)
    clip = math.sqrt(fraction * _batch_size(facts)) / facts.num_records
    scale = min(2.38, 0.6 * clip / facts.slope_clip) / math.sqrt(facts.dimension)
    return dp_barker(BarkerTest(_batch_size(facts), 2.0, fraction), proposal_scale=scale)


_LAPLACE = Recipe(
    lambda facts, noise: samplers.Cost(compose([]), Refinement(facts.gradient_clip, noise).event),
    _laplace,
    1000,
    is_iid=True,
)

RECIPES: Mapping[str, Recipe] = {
    "clipped_laplace": _LAPLACE,
    "dp_barker": Recipe(lambda facts, noise: samplers.dp_barker(facts.clips_moved / noise), _barker, 1000),
    "dp_hmc": Recipe(
        lambda _, noise: samplers.dp_hmc(noise, _GRADIENT_NOISE * noise, _LEAPFROG, True, hidden=True), _hmc, 300
    ),
    "dp_langevin": Recipe(lambda _, noise: samplers.dp_penalty(noise), _langevin, 1000),
    "dp_penalty": Recipe(lambda _, noise: samplers.dp_penalty(noise, hidden=True), _penalty, 1000),
    "dp_sghmc": Recipe(lambda facts, noise: samplers.dp_sgld(RATE, noise, facts.adjacency), _sghmc, 1000),
    "dp_sgld": Recipe(lambda facts, noise: samplers.dp_sgld(RATE, noise, facts.adjacency), _sgld, 1000),
    "dp_sgnht": Recipe(lambda facts, noise: samplers.dp_sgld(RATE, noise, facts.adjacency), _sgnht, 1000),
    "guided_walk": Recipe(lambda _, noise: samplers.dp_penalty(noise, hidden=True), _guided, 1000),
    "minibatch_barker": Recipe(
        lambda facts, noise: samplers.subsampled_barker(
            _batch_size(facts), facts.num_records, 2.0, min(1.0, 1 / noise)
        ),
        _minibatch_barker,
        500,
        least_noise=1.0,
    ),
    "minibatch_penalty": Recipe(
        lambda facts, noise: samplers.minibatch_penalty(noise, _batch_size(facts), facts.num_records), _minibatch, 500
    ),
    "private_laplace": _LAPLACE,
}
"""The samplers of the literature, full-batch Langevin dynamics and the normal approximation, by name.

``clipped_laplace`` clips scores whatever the model; ``private_laplace`` weights them where the model is a formula's.
"""
