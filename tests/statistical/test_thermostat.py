"""The thermostat finds the friction that the noise calls for, told of that noise or not.

With diffusion A and gradient noise of the variance V that nobody told the kernel of, the friction rises to A + h V / 2,
and the positions keep the posterior; what remains is an error of the order of the step size, h friction^2 / 2 of it in
the friction, which is granted. Chains are independent, and the tests raise a false alarm with a chance of at most 1e-4.
"""

from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from stationarity import FALSE_ALARMS, advance, normal_target

from dpmcmc.enclave import ExactGradientSum, GradientSum, SubsampledGradientSum
from dpmcmc.enclave.oracle import Noisy
from dpmcmc.kernels import dp_sgnht

CLIP, STEP, DIFFUSION = 20.0, 0.02, 1.0
UNTOLD = 100.0  # variance of the noise on the gradient: h V / 2 = 1
NUM_CHAINS, NUM_STEPS = 2_000, 600


@pytest.fixture(scope="module")
def target():
    return normal_target()


@dataclass(frozen=True)
class Silent:
    """An oracle that does not tell the variance of its noise."""

    oracle: Any

    def force(self, mechanism, position):
        return Noisy(self.oracle.force(mechanism, position).value, jnp.zeros(()))


def silent(kernel):
    return replace(kernel, step=lambda key, state, oracle: kernel.step(key, state, Silent(oracle)))


def heated(kernel, target):
    """Return the mean friction, with its error, and the covariance of the positions over that of the posterior."""
    states, _ = advance(kernel, target.model, target.data, target.draw(NUM_CHAINS, 1), NUM_STEPS, 1)
    friction = np.asarray(states.friction, np.float64)
    white = (states.position - target.mean) @ np.linalg.cholesky(np.linalg.inv(target.covariance))
    return friction.mean(), friction.std() / NUM_CHAINS**0.5, float(np.mean(np.square(white)))


def assert_right(found, friction):
    mean, error, temperature = found
    threshold = stats.norm.isf(FALSE_ALARMS / 4)
    assert abs(mean - friction) < threshold * error + STEP * (friction**2 + 1) / 2
    assert abs(temperature - 1) < threshold / NUM_CHAINS**0.5 + STEP  # 2 M squares, each of the variance 2


TOLD = {
    "all noise from the kernel": ExactGradientSum(),
    "all noise from the release": SubsampledGradientSum.for_sghmc(CLIP, 1.0, STEP, DIFFUSION),
}


@pytest.mark.parametrize("name", TOLD)
def test_friction_stays_at_the_diffusion(name, target):
    assert_right(heated(dp_sgnht(TOLD[name], step_size=STEP, diffusion=DIFFUSION), target), DIFFUSION)


def test_friction_rises_by_the_noise_that_was_not_told(target):
    noisy = GradientSum(CLIP, UNTOLD**0.5 / (2 * CLIP))
    kernel = silent(dp_sgnht(noisy, step_size=STEP, diffusion=DIFFUSION))
    assert_right(heated(kernel, target), DIFFUSION + STEP * UNTOLD / 2)


def test_friction_that_does_not_move_overheats(target):
    kernel = silent(dp_sgnht(GradientSum(CLIP, UNTOLD**0.5 / (2 * CLIP)), step_size=STEP, diffusion=DIFFUSION))

    def step(key, state, oracle):
        new, info = kernel.step(key, state, oracle)
        return new._replace(friction=state.friction), info

    _, _, temperature = heated(replace(kernel, step=step), target)
    assert temperature > 1.7
