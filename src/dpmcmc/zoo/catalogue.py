"""The zoo by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from dpmcmc import validation
from dpmcmc.zoo import settings
from dpmcmc.zoo.banana import banana
from dpmcmc.zoo.barker_2019 import mixture_2019
from dpmcmc.zoo.circle import circle
from dpmcmc.zoo.dp_hmc_2021 import banana_2021, gaussian_2021
from dpmcmc.zoo.gaussian import gaussian
from dpmcmc.zoo.linear import linear_regression
from dpmcmc.zoo.logistic import logistic_regression
from dpmcmc.zoo.mixture import mixture
from dpmcmc.zoo.neural_network import neural_network
from dpmcmc.zoo.poisson import poisson_regression
from dpmcmc.zoo.problem import Problem
from dpmcmc.zoo.sghmc_thesis import gaussian_mean
from dpmcmc.zoo.softmax import softmax_regression
from dpmcmc.zoo.thesis_2021 import ROWS, thesis_problem


@dataclass(frozen=True)
class Entry:
    """One name of the catalogue."""

    make: Callable[..., Problem]
    """``make(rng, num_records=...)``; the general models take more arguments."""
    paper: str
    """Author and year, or empty."""
    reference: str
    """How the reference posterior is had: ``exact``, ``quadrature`` or ``long run``."""


def _thesis(name: str) -> Entry:
    return Entry(partial(thesis_problem, name), settings.THESIS_2021, "exact")


PROBLEMS: Mapping[str, Entry] = MappingProxyType(
    {
        "dp_hmc_2021_banana": Entry(banana_2021, settings.DP_HMC_2021, "exact"),
        "dp_hmc_2021_gaussian": Entry(gaussian_2021, settings.DP_HMC_2021, "exact"),
        **{f"thesis_2021_{name}": _thesis(name) for name in ROWS},
        "barker_2019_mixture": Entry(mixture_2019, settings.BARKER_2019, "quadrature"),
        "sghmc_thesis_gaussian": Entry(gaussian_mean, settings.SGHMC_THESIS, "exact"),
        "gaussian": Entry(gaussian, "", "exact"),
        "banana": Entry(banana, "", "exact"),
        "circle": Entry(circle, "", "exact"),
        "mixture": Entry(mixture, "", "quadrature"),
        "linear_regression": Entry(linear_regression, "", "exact"),
        "logistic_regression": Entry(logistic_regression, "", "long run"),
        "softmax_regression": Entry(softmax_regression, settings.SGHMC_THESIS, "long run"),
        "poisson_regression": Entry(poisson_regression, "", "long run"),
        "neural_network": Entry(neural_network, "", "long run"),
    }
)
"""The problems of the papers, then the general models, whose makers take the parameters of the model."""


def problem(name: str, rng: np.random.Generator, **options: Any) -> Problem:
    """Return the problem of that name, its records drawn from `rng`; `num_records` is an option of all."""
    return PROBLEMS[validation.choice("name", name, PROBLEMS)].make(rng, **options)
