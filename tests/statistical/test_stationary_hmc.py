"""DP-HMC keeps the posterior in all its variants, although its gradients are clipped hard and noisy on purpose.

The mutants are those of the published algorithms, of a forgotten mass and of a stale gradient. Not among them: a wrong
sign of the gradient or a missing step size, which are valid kernels and only inefficient (test_energy.py has them). A
test of a correct kernel raises a false alarm with a chance of at most 1e-4.
"""

import sys

import jax
import pytest
from stationarity import CLEARLY, normal_target, worst

from dpmcmc.enclave import BarkerBit, GradientSum, LogRatio, PenaltyTest
from dpmcmc.kernels import accept, dp_hmc
from dpmcmc.kernels.leapfrog import Metric, leapfrog

MODULE = sys.modules["dpmcmc.kernels.dp_hmc"]  # the function of the same name hides it
GRADIENT = GradientSum(1.0, 1.0)
RATIO = LogRatio(10.0, 0.05)
DIAGONAL = (0.4, 0.8)
DENSE = ((0.4, 0.2), (0.2, 0.8))

VARIANTS = {
    "fresh": lambda: dp_hmc(GRADIENT, RATIO, step_size=0.3, num_leapfrog=3),
    "fresh, diagonal, accept bit": lambda: dp_hmc(
        GRADIENT, PenaltyTest(10.0, 0.05), step_size=0.5, num_leapfrog=2, inverse_mass=DIAGONAL
    ),
    "fresh, dense, jitter, Barker": lambda: dp_hmc(
        GRADIENT, BarkerBit(20.0), step_size=0.8, num_leapfrog=1, inverse_mass=DENSE, step_size_jitter=0.5
    ),
    "reuse, L=1, diagonal": lambda: dp_hmc(
        GradientSum(1.0, 0.5), RATIO, step_size=1.1, num_leapfrog=1, inverse_mass=DIAGONAL, reuse_gradients=True
    ),
    "reuse, L=2, dense, jitter": lambda: dp_hmc(
        GRADIENT,
        RATIO,
        step_size=0.6,
        num_leapfrog=2,
        inverse_mass=DENSE,
        reuse_gradients=True,
        step_size_jitter=0.5,
    ),
    "reuse, L=5, Barker": lambda: dp_hmc(
        GRADIENT, BarkerBit(20.0), step_size=0.2, num_leapfrog=5, reuse_gradients=True
    ),
}


@pytest.fixture(scope="module")
def target():
    return normal_target()


@pytest.mark.parametrize("name", VARIANTS)
def test_hmc_keeps_the_posterior(name, target):
    assert worst(VARIANTS[name](), target, num_chains=50_000) < 1


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_many_chains_keep_the_posterior(name, target):
    assert worst(VARIANTS[name](), target, num_chains=200_000, num_steps=20, seed=2) < 1


def without_last_kick(force, start, metric, step_size, num_leapfrog):
    end = leapfrog(force, start, metric, step_size, num_leapfrog)
    return end._replace(momentum=end.momentum - step_size / 2 * end.force)


def mass_forgotten(metric, key, shape):  # noqa: ARG001
    return jax.random.normal(key, shape)


def uniform_for_its_logarithm(key, noisy_log_ratio, variance):
    return jax.random.uniform(key) < noisy_log_ratio - variance / 2


def mixed_energy():
    """Return p' M^-1 p0 / 2 in place of the second kinetic energy of a step, as Algorithm 1 is printed."""
    first = []

    def kinetic_energy(metric, momentum):
        if not first:
            first.append(momentum)
            return momentum @ metric.velocity(momentum) / 2
        return first.pop() @ metric.velocity(momentum) / 2

    return kinetic_energy


MUTANTS = {
    "no last half kick": (MODULE, "leapfrog", without_last_kick, "fresh"),
    "mass forgotten": (Metric, "draw", mass_forgotten, "reuse, L=1, diagonal"),
    "mixed kinetic energy": (Metric, "kinetic_energy", mixed_energy(), "fresh"),
    "u for log u": (accept, "penalty_test", uniform_for_its_logarithm, "reuse, L=1, diagonal"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_caught(name, target, monkeypatch):
    place, function, mutant, variant = MUTANTS[name]
    monkeypatch.setattr(place, function, mutant)
    assert worst(VARIANTS[variant](), target, num_chains=20_000) > CLEARLY


@pytest.mark.parametrize(
    ("name", "num_chains"),
    [("reuse, L=1, diagonal", 50_000), pytest.param("reuse, L=2, dense, jitter", 400_000, marks=pytest.mark.slow)],
)
def test_stale_gradient_is_caught(name, num_chains, target, monkeypatch):
    """On rejection the force at the end of the trajectory is kept, where it does not belong."""
    last = []

    def noted(*arguments):
        last.append(leapfrog(*arguments))
        return last[-1]

    state = MODULE.HMCState
    monkeypatch.setattr(MODULE, "leapfrog", noted)
    monkeypatch.setattr(
        MODULE, "HMCState", lambda position, force, *rest: state(position, last.pop().force if last else force, *rest)
    )
    assert worst(VARIANTS[name](), target, num_chains=num_chains) > CLEARLY
