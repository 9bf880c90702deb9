"""DP-HMC: Hamiltonian Monte Carlo with noisy forces and a penalty test."""

import math

from dpmcmc.accounting import samplers
from dpmcmc.catalogue import papers
from dpmcmc.catalogue.problem_size import ProblemSize
from dpmcmc.catalogue.sampler import Recipe, Sampler
from dpmcmc.catalogue.settings import longest_move, walk_error
from dpmcmc.kernels import Kernel, dp_hmc
from dpmcmc.mechanisms import GradientSum, PenaltyTest

_LEAPFROG = 4
_GRADIENT_NOISE = 2.0
"""How much noisier the gradients are than the test, in multipliers."""


def _make(facts: ProblemSize, noise: float) -> Kernel:
    """A trajectory of length t moves by about t sqrt(d); its noisy kicks add energy ~ t^2 L (sd of a kick)^2 d."""
    gradient = GradientSum(facts.gradient_clip, _GRADIENT_NOISE * noise)
    sd = facts.clips_moved * gradient.noise_multiplier * gradient.clip
    by_test = longest_move(facts, noise) / math.sqrt(facts.dimension)
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


SAMPLER = Sampler(
    "DP-HMC",
    dp_hmc,
    releases="L + 1 gradients and a test; reused, L",
    target="exact",
    papers=(papers.RAISA2021HMC, papers.RAISA2021THESIS),
    page="dp_hmc",
    recipe=Recipe(
        lambda _, noise: samplers.dp_hmc(noise, _GRADIENT_NOISE * noise, _LEAPFROG, True, hidden=True),
        _make,
        num_steps=300,
        is_simulable=True,
        error=walk_error,
        error_is="a bound",
    ),
)
