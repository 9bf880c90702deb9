"""Full-batch Langevin dynamics has the right temperature, in every metric, and its bias falls with the step.

On a normal target with a fixed metric the dynamics is linear, so that the law that it keeps at a finite step is known:
chains start at draws of that law and must stay there. Where the metric bends, chains start at draws of the posterior
and small steps must leave them there. A test of a correct kernel raises a false alarm with a chance of at most 1e-4.
"""

import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import block_diag, solve_discrete_lyapunov
from stationarity import CLEARLY, move, normal_statistics, normal_target

from dpmcmc.accounting import samplers
from dpmcmc.enclave import ExactGradientSum, GradientSum, SubsampledGradientSum
from dpmcmc.enclave.oracle import Noisy
from dpmcmc.errors import InvalidArgument
from dpmcmc.kernels import dp_langevin

MODULE = sys.modules["dpmcmc.kernels.dp_langevin"]  # the function of the same name hides it
CLIP = 20.0  # never reached by the gradient of one record
STEP = 0.15
DENSE = np.array([[2.0, -0.6], [-0.6, 1.0]])
NUM_CHAINS = 20_000


@pytest.fixture(scope="module")
def target():
    return normal_target()


def own_noise(step, friction=None, share=1.0):
    """Return the mechanism whose noise is that of the dynamics, or a share of its standard deviation."""
    return GradientSum(CLIP, share * samplers.langevin_noise(step, friction) / (2 * CLIP))


def law_of(target, step, metric=None, friction=None):
    """Return the covariance that is kept, of the position and, with friction, of the momentum."""
    one = np.eye(2)
    factor = one if metric is None else np.linalg.inv(np.linalg.cholesky(metric)).T
    precision = factor.T @ np.linalg.inv(target.covariance) @ factor
    if friction is None:
        return factor @ solve_discrete_lyapunov(one - step * precision, 2 * step * one) @ factor.T
    decay = np.exp(-friction * step)
    push = -(1 + decay) / 2 * step * precision
    update = np.block([[one + step * push, step * decay * one], [push, decay * one]])
    kicked = np.vstack([step * one, one])
    law = solve_discrete_lyapunov(update, (1 - decay**2) * kicked @ kicked.T)
    return block_diag(factor, one) @ law @ block_diag(factor, one).T


def worst(kernel, target, law, *, num_steps=20, num_chains=NUM_CHAINS, seed=1):
    """Return the largest statistic over its threshold of chains that start at draws of a law of the whole state."""
    mean = np.concatenate([target.mean, np.zeros(len(law) - 2)])
    normal = np.random.default_rng(seed).standard_normal((num_chains, len(law)))
    draws = (mean + normal @ np.linalg.cholesky(law).T).astype(np.float32)
    state = MODULE.OverdampedState(draws)
    if len(law) > 2:
        state = MODULE.UnderdampedState(draws[:, :2], draws[:, 2:])
    states, _ = move(kernel, target.model, target.data, state, num_steps, seed)
    return max(normal_statistics(np.concatenate(states, axis=1), mean, law).values())


SETTINGS = {
    "no metric, noise from the kernel": (ExactGradientSum(), None, None),
    "no metric, noise from the release": (own_noise(STEP), None, None),
    "metric, noise from the kernel": (ExactGradientSum(), DENSE, None),
    "metric, noise from the release": (own_noise(STEP), DENSE, None),
    "friction, noise from the kernel": (ExactGradientSum(), None, 1.5),
    "friction, metric, noise from the release": (own_noise(STEP, 1.5), DENSE, 1.5),
    "friction, metric, noise from both": (own_noise(STEP, 3.0, 0.6), DENSE, 3.0),
}


LONG = {"metric, noise from the kernel", "friction, noise from the kernel"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in SETTINGS]
)
def test_the_law_of_the_step_is_kept(name, target):
    gradient, metric, friction = SETTINGS[name]
    kernel = dp_langevin(gradient, step_size=STEP, metric=metric, friction=friction)
    assert worst(kernel, target, law_of(target, STEP, metric, friction)) < 1


def changed_forces(kernel, change):
    class Forces:
        def __init__(self, oracle):
            self.oracle = oracle

        def force(self, *question):
            told = self.oracle.force(*question)
            return Noisy(change(told.value), told.variance)

    return replace(kernel, step=lambda key, state, oracle: kernel.step(key, state, Forces(oracle)))


def half_the_noise(key, force, gain, needed):
    return jnp.sqrt(jnp.maximum(needed / 2 - gain**2 * force.variance, 0.0)) * jax.random.normal(key, force.value.shape)


def noise_added_twice(key, force, gain, needed):  # noqa: ARG001
    return jnp.sqrt(needed) * jax.random.normal(key, force.value.shape)


@pytest.mark.parametrize("friction", [None, pytest.param(1.5, marks=pytest.mark.slow)])
def test_mutants_are_caught(friction, target, monkeypatch):
    """Half the temperature, twice the drift, the other sign; noise on top of that of the release; a lost metric."""
    law = law_of(target, STEP, DENSE, friction)
    exact = dp_langevin(ExactGradientSum(), step_size=STEP, metric=DENSE, friction=friction)
    assert worst(changed_forces(exact, lambda force: 2 * force), target, law) > CLEARLY
    assert worst(changed_forces(exact, lambda force: -force), target, law) > CLEARLY
    flat = replace(
        exact,
        step=lambda key, state, oracle: exact.step(
            key,
            state,
            type("Flat", (), {"force": lambda _, gradient, position, __: oracle.force(gradient, position)})(),
        ),
    )
    assert worst(flat, target, law) > CLEARLY
    with monkeypatch.context() as patch:
        patch.setattr(MODULE, "missing_noise", half_the_noise)
        assert worst(exact, target, law) > CLEARLY
    with monkeypatch.context() as patch:
        patch.setattr(MODULE, "missing_noise", noise_added_twice)
        noisy = dp_langevin(own_noise(STEP, friction), step_size=STEP, metric=DENSE, friction=friction)
        assert worst(noisy, target, law) > CLEARLY


def too_wide(target, step, metric, friction):
    """Return by how much the variance that is kept exceeds that of the posterior, in the worst direction."""
    law = law_of(target, step, metric, friction)[:2, :2]
    return max(np.linalg.eigvals(np.linalg.solve(target.covariance, law)).real) - 1


@pytest.mark.parametrize(("friction", "order"), [(None, 1), (2.0, 2)])
def test_bias_falls_with_the_step(friction, order, target):
    """In the posterior's own metric the bias is h / 2 / (1 - h / 2), or with friction (h / 2)^2 / (1 - (h / 2)^2)."""
    metric = np.linalg.inv(target.covariance)
    for step in (0.2, 0.05):
        part = (step / 2) ** order
        assert too_wide(target, step, metric, friction) == pytest.approx(part / (1 - part), rel=1e-6)
        kernel = dp_langevin(ExactGradientSum(), step_size=step, metric=metric, friction=friction)
        assert worst(kernel, target, law_of(target, step, metric, friction), num_steps=10) < 1
    start = target.covariance if friction is None else block_diag(target.covariance, np.eye(2))
    coarse = dp_langevin(ExactGradientSum(), step_size=0.8 if friction else 0.2, metric=metric, friction=friction)
    assert worst(coarse, target, start) > CLEARLY, "a coarse step does not keep the posterior itself"


def bending(position):
    """Return a metric that is another one everywhere."""
    first, second = position
    return jnp.array([[1 + first**2, 0.3 * first], [0.3 * first, 1.5 + jnp.sin(second)]])


def test_a_metric_that_bends_keeps_the_posterior(target, monkeypatch):
    def found():
        kernel = dp_langevin(ExactGradientSum(), step_size=0.01, metric=bending)
        return worst(kernel, target, target.covariance, num_steps=50, num_chains=10_000)

    assert found() < 1
    divergence = MODULE.Geometry.divergence
    for factor in (0.0, -1.0):  # missing, of the wrong sign
        monkeypatch.setattr(MODULE.Geometry, "divergence", lambda *given, by=factor: by * divergence(*given))
        assert found() > CLEARLY


def test_the_divergence_is_that_of_the_inverse_metric():
    position, small = jnp.array([0.7, -0.4]), 1e-3
    inverse = [
        (np.linalg.inv(bending(position + small * away)) - np.linalg.inv(bending(position - small * away)))
        / (2 * small)
        for away in np.eye(2, dtype=np.float32)
    ]
    expected = sum(inverse[j][:, j] for j in range(2))
    assert MODULE.Geometry(bending).divergence(position) == pytest.approx(expected, abs=2e-3)
    assert np.all(MODULE.Geometry.of(DENSE).divergence(position) == 0)


def test_settings_that_make_no_sense_are_refused(target):
    with pytest.raises(InvalidArgument, match="friction must be None where the metric is a function"):
        dp_langevin(ExactGradientSum(), step_size=0.1, metric=bending, friction=1.0)
    for metric in (1.0, [[1.0, 2.0], [2.0, 1.0]], [1.0, -1.0]):
        with pytest.raises(InvalidArgument, match="metric"):
            dp_langevin(ExactGradientSum(), step_size=0.1, metric=metric)
    states = MODULE.OverdampedState(target.draw(2, 1))
    batches = dp_langevin(SubsampledGradientSum.for_sgld(CLIP, 0.5, 0.01), step_size=0.1, metric=DENSE)
    with pytest.raises(InvalidArgument, match="expected a GradientSum where there is a metric"):
        move(batches, target.model, target.data, states, 1, 1)
    for metric in (None, DENSE):  # more noise than the step can hold would heat the chain
        hot = dp_langevin(own_noise(0.05), step_size=0.1, metric=metric)
        with pytest.raises(InvalidArgument, match="too large for the step"):
            move(hot, target.model, target.data, states, 1, 1)
