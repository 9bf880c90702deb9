"""Efficiency of the leapfrog: the error of the energy is of second order in the step size.

A kernel whose forces have the wrong sign, or whose drift forgets the step size, still keeps the posterior, because any
reversible trajectory does: tests of stationarity cannot see it. Here the error of the energy does.
"""

import sys

import numpy as np
import pytest
from stationarity import advance, normal_target

from dpmcmc.enclave import ExactGradientSum, ExactLogRatio
from dpmcmc.kernels import dp_hmc
from dpmcmc.kernels.leapfrog import Metric, leapfrog

MODULE = sys.modules["dpmcmc.kernels.dp_hmc"]  # the function of the same name hides it
NUM_CHAINS = 5_000


@pytest.fixture(scope="module")
def target():
    return normal_target()


def energy_error(target, num_leapfrog, inverse_mass=((0.5, 0.2), (0.2, 0.9))):
    """Return the root mean square change of the energy on trajectories of the length 1.2 from exact draws."""
    kernel = dp_hmc(
        ExactGradientSum(),
        ExactLogRatio(),
        step_size=1.2 / num_leapfrog,
        num_leapfrog=num_leapfrog,
        inverse_mass=inverse_mass,
    )
    _, info = advance(kernel, target.model, target.data, target.draw(NUM_CHAINS, 1), 1, 1)
    return float(np.sqrt(np.mean(np.asarray(info.energy_change, np.float64) ** 2)))


def reversed_force(force, start, metric, step_size, num_leapfrog):
    start = start._replace(force=-start.force)
    return leapfrog(lambda position: -force(position), start, metric, step_size, num_leapfrog)


def drift_without_step(force, start, metric, step_size, num_leapfrog):
    faster = Metric(metric.inverse_mass / step_size)
    return leapfrog(force, start, faster, step_size, num_leapfrog)


def ratio_of_errors(target):
    return energy_error(target, 4) / energy_error(target, 8)


def test_half_the_step_makes_a_quarter_of_the_error(target):
    assert 3.5 < ratio_of_errors(target) < 4.5


@pytest.mark.parametrize("mutant", [reversed_force, drift_without_step])
def test_mutant_has_another_order(mutant, target, monkeypatch):
    monkeypatch.setattr(MODULE, "leapfrog", mutant)
    assert not 3 < ratio_of_errors(target) < 5


def acceptance(target):
    kernel = dp_hmc(ExactGradientSum(), ExactLogRatio(), step_size=0.1, num_leapfrog=10)
    _, info = advance(kernel, target.model, target.data, target.draw(NUM_CHAINS, 1), 1, 1)
    return float(np.mean(info.is_accepted))


def test_small_steps_are_accepted(target):
    assert acceptance(target) > 0.99


@pytest.mark.parametrize("mutant", [reversed_force, drift_without_step])
def test_mutant_is_rejected_more_often(mutant, target, monkeypatch):
    monkeypatch.setattr(MODULE, "leapfrog", mutant)
    assert acceptance(target) < 0.9
