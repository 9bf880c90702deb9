"""The event of one step of each sampler of the literature: for planning without tracing a program.

The price of a run is derived from the traced program. These formulae answer "how many steps could I afford"
beforehand; tests compare the two.
"""

import math
from dataclasses import dataclass

from dpmcmc import validation
from dpmcmc.accounting.adjacency import Adjacency
from dpmcmc.accounting.event import (
    AcceptBit,
    BarkerTest,
    Event,
    FixedBatchGaussian,
    Gaussian,
    LogisticBit,
    PoissonGaussian,
    compose,
)


@dataclass(frozen=True)
class Cost:
    """The events of a sampler: that of every step of every chain, and that of everything released once per chain."""

    per_step: Event
    once: Event


def dp_penalty(noise_ratio: float, hidden: bool = False) -> Cost:
    """DP-penalty (Yıldırım and Ermiş 2019): one noisy log-likelihood ratio, or only its decision where `hidden`."""
    return Cost(AcceptBit(noise_ratio) if hidden else Gaussian(noise_ratio), compose([]))


def dp_hmc(
    noise_ratio: float, noise_gradient: float, num_leapfrog: int, reuse_gradients: bool = False, hidden: bool = False
) -> Cost:
    """DP-HMC (Räisä et al. 2021): L + 1 noisy gradients and a penalty test; L, and one at the start, if reused."""
    gradient = Gaussian(noise_gradient)
    num_leapfrog = validation.integer("num_leapfrog", num_leapfrog, at_least=1)
    test = dp_penalty(noise_ratio, hidden).per_step
    if reuse_gradients:
        return Cost(test + gradient * num_leapfrog, gradient)
    return Cost(test + gradient * (num_leapfrog + 1), compose([]))


def minibatch_penalty(noise_multiplier: float, batch_size: int, population: int) -> Cost:
    """Minibatch DP-penalty (Räisä 2021, Section 3.3): a noisy corrected ratio of a batch drawn without replacement."""
    return Cost(FixedBatchGaussian(batch_size, population, noise_multiplier), compose([]))


def dp_barker(sensitivity: float) -> Cost:
    """Full-data DP-Barker: one coin a step."""
    return Cost(LogisticBit(sensitivity), compose([]))


def subsampled_barker(batch_size: int, population: int, variance: float = 2.0, clip_fraction: float = 1.0) -> Cost:
    """Subsampled DP-Barker (Heikkilä et al. 2019, Section 3.2)."""
    return Cost(BarkerTest(batch_size, population, variance, clip_fraction), compose([]))


def dp_sgld(rate: float, noise_over_clip: float, adjacency: Adjacency) -> Cost:
    """DP-SGLD, and SGHMC and SGNHT by inner step: one noisy gradient of a Poisson sample."""
    return Cost(PoissonGaussian(rate, noise_over_clip, adjacency), compose([]))


def dp_langevin(clip: float, step_size: float, adjacency: Adjacency, friction: float | None = None) -> Cost:
    """Full-batch DP-Langevin whose own noise is all privacy noise: one noisy gradient per step.

    A step moves by up to h D, D what one record moves a gradient by, and has noise of the variance 2 h: its mean loss
    is h D^2 / 4, and that of a trajectory of time t is t D^2 / 4 for every h; with friction gamma about t D^2 / (4
    gamma), as h falls.
    """
    moved = (2 if adjacency is Adjacency.REPLACE_ONE else 1) * validation.positive("clip", clip)
    return Cost(Gaussian(langevin_noise(step_size, friction) / moved), compose([]))


def langevin_noise(step_size: float, friction: float | None = None) -> float:
    """DP-Langevin's own noise as noise of the gradient: sqrt(2 / h); with friction 2 sqrt(tanh(gamma h / 2)) / h."""
    step_size = validation.positive("step_size", step_size)
    if friction is None:
        return math.sqrt(2 / step_size)
    return 2 * math.sqrt(math.tanh(validation.positive("friction", friction) * step_size / 2)) / step_size


def sgld_noise_over_clip(rate: float, clip: float, step_size: float) -> float:
    """SGLD's own noise as privacy noise: drift h/2 and noise variance h give 2 q / (L sqrt(h))."""
    return 2 * rate / (clip * math.sqrt(step_size))


def sghmc_noise_over_clip(rate: float, clip: float, step_size: float, friction: float) -> float:
    """SGHMC's and SGNHT's own noise as privacy noise: (q / L) sqrt(2 C / h), C net of any estimated gradient noise."""
    return rate / clip * math.sqrt(2 * friction / step_size)


def minibatch_ratio_sensitivity(clip: float, scale: float, batch_size: int) -> float:
    """How far one replaced record moves scale * sum(r) - variance/2 (docs/accounting.md; attained).

    With scale a = n T / b and abs(r) <= L: 2 a L + 2 a^2 (1 - 1/b) L^2. Lemma 1 of Räisä (2021) has 3
    for the second 2.
    """
    return 2 * scale * clip + 2 * scale**2 * (1 - 1 / batch_size) * clip**2
