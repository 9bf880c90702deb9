"""The two problems of Räisä, Koskela and Honkela (2021), Section 4, at n = 100,000 unless told otherwise.

Their Section 4.1: epsilon as in `PROTOCOL`, delta = 0.1 / n; the steps that epsilon allows are divided by the number of
chains, the first half of each chain is discarded, the rest pooled. Parameters do not depend on epsilon.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmcmc.zoo import settings
from dpmcmc.zoo.banana import banana
from dpmcmc.zoo.gaussian import gaussian, random_covariance
from dpmcmc.zoo.problem import Problem

NUM_RECORDS = 100_000

EIGENVALUES = (0.0127, 0.0347, 0.0496, 0.105, 0.327, 0.372, 0.528, 0.835, 0.885, 4.774)
"""Of the covariance that the paper drew from Gamma(1/2, 1) and tuned its clips for; another draw needs other clips."""


def protocol(num_records: int) -> dict[str, Any]:
    """Return how the paper compares its samplers."""
    return {
        "epsilons": (2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 15.0),
        "delta": 0.1 / num_records,
        "num_chains": 4,
        "num_repeats": 10,
        "num_reference_draws": 1000,
    }


def banana_2021(rng: np.random.Generator, *, num_records: int = NUM_RECORDS) -> Problem:
    """Return the banana: a = 20, likelihood variances 2000 and 2500, prior variance 1000, truth (0, 3)."""
    return banana(
        rng,
        num_records=num_records,
        truth=(0.0, 3.0),
        variances=(2000.0, 2500.0),
        a=20.0,
        prior_variance=1000.0,
        name="dp_hmc_2021_banana",
        paper=settings.DP_HMC_2021,
        settings=_banana_settings(num_records),
    )


def gaussian_2021(
    rng: np.random.Generator, *, num_records: int = NUM_RECORDS, covariance: NDArray[np.float64] | None = None
) -> Problem:
    """Return the ten-dimensional Gaussian: prior variance 100^2, truth (0, 3, 0, ...), the paper's eigenvalues."""
    if covariance is None:
        covariance = random_covariance(rng, EIGENVALUES)
    return gaussian(
        rng,
        num_records=num_records,
        covariance=covariance,
        truth=(0.0, 3.0, *[0.0] * 8),
        prior_variance=1e4,
        name="dp_hmc_2021_gaussian",
        paper=settings.DP_HMC_2021,
        settings=_gaussian_settings(num_records),
    )


def _banana_settings(n: int) -> Mapping[str, Mapping[str, Any]]:
    return {
        "protocol": protocol(n),
        # every step of DP-HMC is multiplied by a number of a randomised Halton sequence in (0, 1)
        "dp_hmc": settings.dp_hmc(
            n, ratio_tau=0.10, gradient_tau=0.55, step_size=0.006, num_leapfrog=25, ratio_clip=0.1, gradient_clip=0.05
        ),
        "dp_penalty": settings.dp_penalty(n, tau=0.17, proposal_scale=0.06, ratio_clip=0.15),
        "dp_sgld": settings.dp_sgld(n, eta=1.0, gradient_clip=0.2, batch_size=1000),
        "dp_sgnht": settings.dp_sgnht(n, eta=100.0, friction=50.0, gradient_clip=0.2, batch_size=1000),
        "clipping": {"ratio_clips": (0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.5, 1.0, 10.0)},
        "clipping_hmc": {"step_size": 0.01, "num_leapfrog": 100, "gradient_clip": 10.0, "num_steps": 1000},
        "clipping_random_walk": {"proposal_scale": 0.3, "num_steps": 12_000},
    }


def _gaussian_settings(n: int) -> Mapping[str, Mapping[str, Any]]:
    return {
        "protocol": protocol(n),
        "dp_hmc": settings.dp_hmc(
            n, ratio_tau=0.10, gradient_tau=0.25, step_size=0.00015, num_leapfrog=12, ratio_clip=6.0, gradient_clip=10.0
        ),
        "dp_penalty": settings.dp_penalty(n, tau=0.05, proposal_scale=0.0007, ratio_clip=10.0),
        "dp_sgld": settings.dp_sgld(n, eta=0.008, gradient_clip=15.0, batch_size=1000),
        "dp_sgnht": settings.dp_sgnht(n, eta=0.2, friction=30.0, gradient_clip=12.0, batch_size=1000),
        "clipping": {"ratio_clips": (0.1, 0.2, 1.0, 5.0, 10.0, 15.0, 20.0, 50.0, 100.0)},
        "clipping_hmc": {"step_size": 0.0005, "num_leapfrog": 12, "gradient_clip": 100.0, "num_steps": 1000},
        "clipping_random_walk": {"proposal_scale": 0.0007, "num_steps": 25_000},
    }
