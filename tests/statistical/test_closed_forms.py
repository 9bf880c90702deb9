"""Posteriors that are known in closed form, sampled without the limits of privacy: exact forces and exact ratios.

Chains start at exact draws and stay draws; and from elsewhere they get there. Each test raises a false alarm with a
chance of at most 1e-4, and each law is held against a wrong one as well.
"""

import numpy as np
import pytest
from scipy import stats
from stationarity import CLEARLY, advance, normal_statistics, over_thresholds

from dpmcmc import zoo
from dpmcmc.enclave import ExactGradientSum, ExactLogRatio, PrivateData
from dpmcmc.kernels import dp_hmc, dp_penalty

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
    return zoo.mixture(np.random.default_rng(4), num_records=12, truth=(0.0, 3.0), prior_variances=(16.0, 9.0))


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


def hmc(step_size, num_leapfrog):
    """Return HMC; steps of one length would be in tune with some coordinates, which then hardly move."""
    return lambda: dp_hmc(
        ExactGradientSum(), ExactLogRatio(), step_size=step_size, num_leapfrog=num_leapfrog, step_size_jitter=0.5
    )


def walk(*proposal_scale):
    """Return a random walk, wide enough to go from mode to mode."""
    return lambda: dp_penalty(ExactLogRatio(), proposal_scale=proposal_scale)


CASES = {
    "Gaussian d=10": (gaussian, straight, hmc(0.4, 5)),
    "banana d=2": (lambda: banana(2), unbent, hmc(0.3, 5)),
    "banana d=10": (lambda: banana(10), unbent, hmc(0.3, 5)),
    "circle": (circle, ring, hmc(0.2, 8)),
    "mixture": (mixture, two_modes, hmc(0.6, 6)),
    "mixture, random walk": (mixture, two_modes, walk(2.0, 3.5)),
}


def moved(kernel, problem, starts, num_steps, temperature=1.0):
    data = PrivateData.without_guarantee(problem.records, bounds=problem.bounds)
    model = problem.model.tempered(temperature)
    states, _ = advance(kernel, model, data, starts.astype(np.float32), num_steps, 1)
    return np.asarray(states.position, np.float64)


@pytest.mark.parametrize("name", CASES)
def test_posterior_is_kept(name):
    make, statistics, kernel = CASES[name]
    problem = make()
    starts = problem.sample_posterior(np.random.default_rng(5), NUM_CHAINS)
    found = statistics(problem, moved(kernel(), problem, starts, 5))
    assert max(found.values()) < 1


@pytest.mark.parametrize("name", ["Gaussian d=10", "banana d=2", "circle", "mixture"])
def test_another_posterior_is_not(name):
    """The likelihood is raised to the power 0.7."""
    make, statistics, kernel = CASES[name]
    problem = make()
    starts = problem.sample_posterior(np.random.default_rng(5), NUM_CHAINS)
    found = statistics(problem, moved(kernel(), problem, starts, 5, temperature=0.7))
    assert max(found.values()) > CLEARLY


@pytest.mark.parametrize(
    ("name", "num_steps"),
    [("Gaussian d=10", 60), ("banana d=2", 60), ("circle", 60), ("mixture, random walk", 400)],
)
def test_chains_from_elsewhere_get_there(name, num_steps):
    """All chains start at one place; for the mixture it is in one of the modes."""
    make, statistics, kernel = CASES[name]
    problem = make()
    starts = np.tile(problem.centre, (4_000, 1))
    found = statistics(problem, moved(kernel(), problem, starts, num_steps))
    assert max(found.values()) < 1
