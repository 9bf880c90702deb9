"""The one-dimensional Gaussian of the thesis on DP-SGHMC, Sections 6.1 and 6.2, which repeats Betancourt (2015)."""

import numpy as np

from dpmcmc.zoo import settings
from dpmcmc.zoo.gaussian import gaussian
from dpmcmc.zoo.problem import Problem


def gaussian_mean(rng: np.random.Generator, *, num_records: int = 500) -> Problem:
    """Return n records N(mu, 2^2) with mu = 1 and the prior N(0, 1); records have the shape (n, 1).

    The posterior has the variance 1 / (1 + n / 4) and the mean (n / 4) mean(x) times that.
    """
    return gaussian(
        rng,
        num_records=num_records,
        covariance=np.array([[4.0]]),
        truth=(1.0,),
        prior_variance=1.0,
        name="sghmc_thesis_gaussian",
        paper=settings.SGHMC_THESIS,
        settings={
            "dp_sghmc": settings.dp_sghmc(
                num_records, friction=0.005, clip=0.7, rate=0.1, multiplier=1.0, num_leapfrog=10, num_steps=500
            ),
            "hmc": {"step_size": 0.1, "num_leapfrog": 15, "num_steps": 500},
            "phase_space": {"step_sizes": (0.05, 0.1, 0.005), "friction": 0.0008, "batch_sizes": (10, 50, 500)},
        },
    )
