"""Langevin dynamics and dynamics with friction have the right temperature.

On all records and a normal target these samplers are linear, so that the law that they keep at a finite step is known
exactly: an autoregression, or a discrete Lyapunov equation. Chains start at draws of that law and must stay there. A
test of a correct kernel raises a false alarm with a chance of at most 1e-4.
"""

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import block_diag, solve_discrete_lyapunov
from stationarity import CLEARLY, NormalTarget, move, normal_statistics, normal_target

from dpmcmc.accounting import samplers
from dpmcmc.enclave import ExactGradientSum, GradientSum, PrivateData, SubsampledGradientSum
from dpmcmc.enclave.oracle import Noisy
from dpmcmc.kernels import dp_sghmc, dp_sgld
from dpmcmc.model import Model

ROWS = json.loads((Path(__file__).parents[1] / "golden" / "golden.json").read_text())["rows"]
SGHMC, SGLD = sys.modules["dpmcmc.kernels.dp_sghmc"], sys.modules["dpmcmc.kernels.dp_sgld"]
CLIP = 20.0  # never reached by the gradient of one record
STEP, FRICTION = 0.2, 1.5
NUM_CHAINS = 20_000


def rows_of(group):
    return [pytest.param(row, id=row["name"].split("/")[1]) for row in ROWS if row["name"].startswith(group)]


@pytest.mark.parametrize("row", rows_of("Q_sg_noise_multiplier/"))
def test_noise_of_the_dynamics_in_units_of_the_clip(row):
    given = row["inputs"]
    if given["algo"].startswith("SGLD"):
        found = samplers.sgld_noise_over_clip(given["q"], given["clip"], given["h"])
        mechanism = SubsampledGradientSum.for_sgld(given["clip"], given["q"], given["h"])
    else:
        net = given["A"] if "A" in given else given["C"] - given["Bhat"]
        found = samplers.sghmc_noise_over_clip(given["q"], given["clip"], given["h"], net)
        mechanism = SubsampledGradientSum.for_sghmc(given["clip"], given["q"], given["h"], net)
    assert found == pytest.approx(row["output"]["sigma_over_clip"], rel=1e-12)
    assert mechanism.noise_over_clip == found


def langevin_law(precision, step):
    one = np.eye(len(precision))
    return solve_discrete_lyapunov(one - step / 2 * precision, step * one)


def friction_map(precision, step, friction, kick=None):
    """Return one update of (position, momentum), away from the mean: a kick, and a drift with the new momentum."""
    one = np.eye(len(precision))
    kick = step if kick is None else kick
    push, damping = -kick * precision, (1 - kick * friction) * one
    return np.block([[one + step * push, step * damping], [push, damping]])


def friction_law(precision, step, friction, num_inner=None):
    """Return the covariance of (position, momentum) that is kept; with `num_inner`, where the momentum is resampled."""
    size = len(precision)
    kicked = np.vstack([step * np.eye(size), np.eye(size)])  # the noise of a kick is in the drift that follows
    noise = 2 * friction * kicked @ kicked.T  # of a kick of length one
    if num_inner is None:
        return solve_discrete_lyapunov(friction_map(precision, step, friction), step * noise)
    law = np.eye(2 * size)
    for _ in range(2000):  # a contraction: fresh momenta, a half kick, and whole ones
        law = block_diag(law[:size, :size], np.eye(size))
        for kick in [step / 2, *[step] * (num_inner - 1)]:
            update = friction_map(precision, step, friction, kick)
            law = update @ law @ update.T + kick * noise
    return law


def worst(kernel, target, law, *, num_steps=30, num_chains=NUM_CHAINS, seed=1):
    """Return the largest statistic over its threshold of chains that start at draws of a law of the whole state."""
    mean = np.concatenate([target.mean, np.zeros(len(law) - len(target.mean))])
    normal = np.random.default_rng(seed).standard_normal((num_chains, len(law)))
    draws = (mean + normal @ np.linalg.cholesky(law).T).astype(np.float32)
    size = len(target.mean)
    state = SGLD.LangevinState(draws) if len(law) == size else SGHMC.FrictionState(draws[:, :size], draws[:, size:])
    states, _ = move(kernel, target.model, target.data, state, num_steps, seed)
    return max(normal_statistics(np.concatenate(states, axis=1), mean, law).values())


@pytest.fixture(scope="module")
def target():
    return normal_target()


def line(precision):
    """Return a target in one dimension, of the stated precision, with four records and a flat prior."""
    records = np.array([-1.0, 0.5, 1.0, 2.5], np.float32)
    model = Model(lambda _: jnp.zeros(()), lambda position, record: -precision / 8 * (record - position[0]) ** 2)
    data = PrivateData.without_guarantee(records, bounds={"records": (-3, 3)})
    return NormalTarget(model, data, np.array([0.75]), np.array([[1 / precision]]))


@pytest.mark.parametrize("row", rows_of("Q_sg_stationary/"))
def test_golden_variances_are_kept(row):
    given = row["inputs"]
    precision = np.array([[given["precision"]]])
    if "C" in given:
        law, kernel = friction_law(precision, given["eta"], given["C"]), friction_kernel(given["eta"], given["C"])
        assert np.diag(law) == pytest.approx([row["output"]["var_q"], row["output"]["var_p"]], rel=1e-9)
    else:
        law, kernel = langevin_law(precision, given["h"]), dp_sgld(ExactGradientSum(), step_size=given["h"])
        assert law[0, 0] == pytest.approx(row["output"]["var"], rel=1e-9)
    assert worst(kernel, line(given["precision"]), law, num_chains=100_000, num_steps=50) < 1


def friction_kernel(step, friction, gradient=None, **options):
    gradient = gradient or ExactGradientSum()
    return dp_sghmc(gradient, step_size=step, friction=friction, **{"resample_momentum": False, **options})


LANGEVIN = {
    "all noise from the kernel": ExactGradientSum(),
    "all noise from the release": SubsampledGradientSum.for_sgld(CLIP, 1.0, STEP),
    "noise from both": GradientSum(CLIP, 0.5 / CLIP / STEP**0.5),
}


@pytest.mark.parametrize("name", LANGEVIN)
def test_langevin_dynamics_is_at_temperature_one(name, target):
    law = langevin_law(np.linalg.inv(target.covariance), STEP)
    assert worst(dp_sgld(LANGEVIN[name], step_size=STEP), target, law) < 1


@dataclass(frozen=True)
class Forces:
    """An oracle whose forces are changed."""

    oracle: Any
    change: Any

    def force(self, mechanism, position):
        told = self.oracle.force(mechanism, position)
        return Noisy(self.change(told.value), told.variance)


def with_forces(kernel, change):
    return replace(kernel, step=lambda key, state, oracle: kernel.step(key, state, Forces(oracle, change)))


def clipped_whole(force):
    return force / jnp.maximum(1.0, jnp.linalg.norm(force))


@pytest.mark.parametrize("change", [lambda force: 2 * force, clipped_whole], ids=["as published", "clipped whole"])
def test_mutant_of_langevin_dynamics_is_caught(change, target):
    """With a drift of h and noise of the variance h it has half the temperature: it samples the squared posterior."""
    law = langevin_law(np.linalg.inv(target.covariance), STEP)
    mutant = with_forces(dp_sgld(ExactGradientSum(), step_size=STEP), change)
    assert worst(mutant, target, law) > CLEARLY


def test_published_langevin_dynamics_has_half_the_temperature():
    """The mutant keeps the variance of the golden row that was computed for it."""
    (row,) = (row for row in ROWS if row["name"].startswith("Q_sg_stationary/sgld"))
    published = np.array([[row["checks"]["printed_001_drift_h_noise_h"]]])
    kernel = with_forces(dp_sgld(ExactGradientSum(), step_size=row["inputs"]["h"]), lambda force: 2 * force)
    assert worst(kernel, line(row["inputs"]["precision"]), published) < 1


WITH_FRICTION = {
    "all noise from the kernel": ExactGradientSum(),
    "all noise from the release": SubsampledGradientSum.for_sghmc(CLIP, 1.0, STEP, FRICTION),
    "noise from both": GradientSum(CLIP, 0.5 / CLIP * (FRICTION / STEP) ** 0.5),
}


@pytest.mark.parametrize("name", WITH_FRICTION)
def test_dynamics_with_friction_is_at_temperature_one(name, target):
    law = friction_law(np.linalg.inv(target.covariance), STEP, FRICTION)
    assert worst(friction_kernel(STEP, FRICTION, WITH_FRICTION[name]), target, law) < 1


@pytest.mark.parametrize("num_inner", [1, 3])
def test_resampled_momenta_keep_their_own_law(target, num_inner):
    law = friction_law(np.linalg.inv(target.covariance), STEP, FRICTION, num_inner=num_inner)
    kernel = friction_kernel(STEP, FRICTION, num_inner=num_inner, resample_momentum=True)
    assert worst(kernel, target, law, num_steps=10) < 1
    assert np.allclose(law[:2, :2], target.covariance, rtol=0.1)  # a free walk, whose kicks are lost, has no such law


def anti_friction(step, friction):
    kernel = friction_kernel(step, friction)

    def wrong(key, state, oracle):
        new, info = kernel.step(key, state, oracle)
        push = 2 * step * friction * state.momentum
        return SGHMC.FrictionState(new.position + step * push, new.momentum + push), info

    return replace(kernel, step=wrong)


def test_mutants_of_dynamics_with_friction_are_caught(target, monkeypatch):
    """The wrong sign of the friction; the whole gradient clipped; the noise multiplied by the step with the rest."""
    law = friction_law(np.linalg.inv(target.covariance), STEP, FRICTION)
    assert worst(anti_friction(STEP, FRICTION), target, law, num_steps=10) > CLEARLY
    assert worst(with_forces(friction_kernel(STEP, FRICTION), clipped_whole), target, law) > CLEARLY
    noise = SGHMC.missing_noise
    monkeypatch.setattr(SGHMC, "missing_noise", lambda *given, **named: STEP**0.5 * noise(*given, **named))
    assert worst(friction_kernel(STEP, FRICTION), target, law) > CLEARLY


def test_the_map_contracts_and_anti_friction_does_not():
    """The map is the derivative of the implemented step; at these settings the published sign has the radius 1.025."""
    step, friction, precision = 0.05, 1.0, 4.0

    class Line:
        def force(self, mechanism, position):  # noqa: ARG002
            return Noisy(-precision * position, jnp.zeros(()))

    def derivative(kernel):
        def one_step(phase):
            new, _ = kernel.step(jax.random.key(1), SGHMC.FrictionState(phase[:1], phase[1:]), Line())
            return jnp.concatenate(new)

        return np.asarray(jax.jacobian(one_step)(jnp.ones(2)))

    found = derivative(friction_kernel(step, friction))
    assert found == pytest.approx(friction_map(np.array([[precision]]), step, friction), abs=1e-6)
    assert max(abs(np.linalg.eigvals(found))) < 0.98
    assert max(abs(np.linalg.eigvals(derivative(anti_friction(step, friction))))) == pytest.approx(1.025, abs=1e-3)
