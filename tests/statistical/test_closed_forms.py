"""Posteriors that are known in closed form, sampled without the limits of privacy: exact forces and exact ratios.

Chains start at exact draws and stay draws; and from elsewhere they get there. Each test raises a false alarm with a
chance of at most 1e-4, and each law is held against a wrong one as well.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from stationarity import CLEARLY, advance, normal_statistics, over_thresholds

from dpmcmc import zoo
from dpmcmc.enclave import ExactGradientSum, ExactLogRatio, PrivateData
from dpmcmc.kernels import dp_hmc

NUM_CHAINS = 20_000


def gaussian():
    rng = np.random.default_rng(1)
    covariance = zoo.random_covariance(rng, np.geomspace(4.0, 40.0, 10))
    return zoo.gaussian(
        rng, num_records=20, covariance=covariance, truth=np.linspace(-2, 1, 10), prior_mean=1.0, prior_variance=2.0
    )


def banana(dimension):
    rng = np.random.default_rng(2)
    return zoo.banana(
        rng,
        num_records=20,
        truth=np.linspace(0.5, 2, dimension),
        variances=np.linspace(10, 20, dimension),
        a=0.8,
        b=0.3,
        m=-0.4,
        prior_variance=4.0,
    )


def circle():
    return zoo.circle(np.random.default_rng(3), num_records=20, a=0.02, radius=2.0, deviation=0.5)


def mixture():
    return zoo.mixture(np.random.default_rng(4), num_records=20, truth=(0.0, 4.0), prior_variances=(4.0, 9.0))


def unbent(problem, draws):
    return normal_statistics(problem.law.bend.straight(draws), problem.law.normal.mean, problem.law.normal.covariance)


def ring(problem, draws):
    """Return statistics of the law of the squared radius and of the angle, which is uniform."""
    first, second = draws.T
    angle = np.arctan2(second, first)
    root = len(draws) ** 0.5
    radius = stats.ks_1samp(first**2 + second**2, problem.law.squared_radius_cdf, method="asymp")
    uniform = stats.ks_1samp(angle / (2 * np.pi) % 1, stats.uniform.cdf, method="asymp")
    means = {f"mean of {wave.__name__}": abs(wave(angle).mean()) * (2 * len(draws)) ** 0.5 for wave in (np.sin, np.cos)}
    return over_thresholds({"KS radius": radius.statistic * root, "KS angle": uniform.statistic * root, **means})


def two_modes(problem, draws):
    """Return statistics of two samples, and of the share of either mode."""
    exact = problem.sample_posterior(np.random.default_rng(9), len(draws))
    found = {}
    for name, direction in {"first": (1, 0), "second": (0, 1), "sum": (1, 1)}.items():
        distance = stats.ks_2samp(draws @ direction, exact @ direction, method="asymp").statistic
        found[f"KS {name}"] = distance * (len(draws) / 2) ** 0.5
    share, of_exact = (draws[:, 1] > 0).mean(), (exact[:, 1] > 0).mean()
    assert 0.1 < of_exact < 0.9, "both modes"
    found["share"] = abs(share - of_exact) / (2 * of_exact * (1 - of_exact) / len(draws)) ** 0.5
    return over_thresholds(found)


def straight(problem, draws):
    return normal_statistics(draws, problem.law.mean, problem.law.covariance)


CASES = {
    "Gaussian d=10": (gaussian, straight, {"step_size": 0.4, "num_leapfrog": 5}),
    "banana d=2": (lambda: banana(2), unbent, {"step_size": 0.3, "num_leapfrog": 5}),
    "banana d=10": (lambda: banana(10), unbent, {"step_size": 0.3, "num_leapfrog": 5}),
    "circle": (circle, ring, {"step_size": 0.2, "num_leapfrog": 8}),
    "mixture": (mixture, two_modes, {"step_size": 0.35, "num_leapfrog": 6}),
}


def moved(problem, starts, num_steps, temperature=1.0, **settings):
    data = PrivateData.without_guarantee(problem.records, bounds=problem.bounds)
    kernel = dp_hmc(ExactGradientSum(), ExactLogRatio(), **settings)
    model = problem.model.tempered(temperature)
    states, info = advance(kernel, model, data, starts.astype(np.float32), num_steps, 1)
    print("ACC", float(info.is_accepted.mean()))
    return np.asarray(states.position, np.float64)


@pytest.mark.parametrize("name", CASES)
def test_posterior_is_kept(name):
    make, statistics, settings = CASES[name]
    problem = make()
    starts = problem.sample_posterior(np.random.default_rng(5), NUM_CHAINS)
    found = statistics(problem, moved(problem, starts, 5, **settings))
    print("STAT", round(max(found.values()), 2), max(found, key=found.get))
    assert max(found.values()) < 1


@pytest.mark.parametrize("name", CASES)
def test_another_posterior_is_not(name):
    """The likelihood is raised to the power 0.7."""
    make, statistics, settings = CASES[name]
    problem = make()
    starts = problem.sample_posterior(np.random.default_rng(5), NUM_CHAINS)
    found = statistics(problem, moved(problem, starts, 5, temperature=0.7, **settings))
    print("STAT", round(max(found.values()), 2), max(found, key=found.get))
    assert max(found.values()) > CLEARLY


@pytest.mark.parametrize("name", ["Gaussian d=10", "banana d=2", "circle", "mixture"])
def test_chains_from_elsewhere_get_there(name):
    """All chains start at one place, for the mixture in one of its modes."""
    make, statistics, settings = CASES[name]
    problem = make()
    starts = np.tile(problem.centre, (4_000, 1))
    found = statistics(problem, moved(problem, starts, 100, **settings))
    print("STAT", round(max(found.values()), 2), max(found, key=found.get))
    assert max(found.values()) < 1
