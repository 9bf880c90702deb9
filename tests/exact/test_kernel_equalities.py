# ruff: noqa: ARG002
"""Without noise the samplers are the textbook ones: equal to BlackJAX's, number by number, with the same keys."""

from typing import NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.sgmcmc import diffusions

from dpmcmc import kernels
from dpmcmc.catalogue import citation
from dpmcmc.kernels import polynomial_steps
from dpmcmc.kernels.schedule import halton, radical_inverse

PRECISION = jnp.asarray([[2.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 3.0]])
DENSE = jnp.asarray([[0.6, 0.1, 0.0], [0.1, 0.9, 0.05], [0.0, 0.05, 0.4]])


def log_density(theta):
    return -0.5 * (theta - 1.0) @ PRECISION @ (theta - 1.0) - 0.1 * jnp.sum(theta**4)


class Exact(NamedTuple):
    value: jax.Array
    variance: jax.Array


class ExactOracle:
    """Answers without noise, with no record behind it."""

    def force(self, mechanism, position, factor=None):
        force = jax.grad(log_density)(position)
        return Exact(force if factor is None else factor.T @ force, jnp.zeros(()))

    def log_posterior_ratio(self, mechanism, current, proposed):
        return Exact(log_density(proposed) - log_density(current), jnp.zeros(()))


ORACLE = ExactOracle()
STARTS = jax.random.normal(jax.random.key(7), (200, 3))
KEYS = jax.random.split(jax.random.key(8), 200)


@pytest.mark.parametrize("inverse_mass", [jnp.ones(3), jnp.asarray([0.5, 1.0, 2.0]), DENSE])
@pytest.mark.parametrize("reuse", [False, True])
def test_hmc_is_blackjax_hmc(inverse_mass, reuse) -> None:
    kernel = kernels.dp_hmc(
        None, None, step_size=0.42, num_leapfrog=7, inverse_mass=inverse_mass, reuse_gradients=reuse
    )
    peer = blackjax.hmc(log_density, step_size=0.42, inverse_mass_matrix=inverse_mass, num_integration_steps=7)

    def ours(key, start):
        return kernel.step(key, kernel.init(key, start, ORACLE), ORACLE)

    state, info = jax.jit(jax.vmap(ours))(KEYS, STARTS)
    _, theirs = jax.jit(jax.vmap(lambda key, start: peer.step(key, peer.init(start))))(KEYS, STARTS)
    # the same probability, but the coin is thrown in another way: ours asks whether -log(uniform) exceeds -log(p)
    coins = jax.vmap(lambda key: jax.random.exponential(jax.random.split(key)[1]))(KEYS)
    expected = -np.asarray(coins) < np.asarray(jnp.log(theirs.acceptance_rate))
    assert np.array_equal(np.asarray(info.is_accepted), expected)
    assert 0.2 < expected.mean() < 0.99
    moved = np.where(expected[:, None], theirs.proposal.position, STARTS)
    np.testing.assert_allclose(state.position, moved, rtol=2e-5, atol=2e-6)


def test_random_walk_is_blackjax_random_walk() -> None:
    kernel = kernels.dp_penalty(None, proposal_scale=0.7)
    state, info = jax.vmap(lambda key, start: kernel.step(key, kernel.init(key, start, ORACLE), ORACLE))(KEYS, STARTS)

    def peer(key, start):
        of_proposal, of_test = jax.random.split(key)
        proposed = start + 0.7 * jax.random.normal(of_proposal, (3,))
        ratio = log_density(proposed) - log_density(start)
        return jnp.where(-jax.random.exponential(of_test) < ratio, proposed, start)

    expected = jax.vmap(peer)(KEYS, STARTS)
    np.testing.assert_allclose(state.position, expected, rtol=1e-6)
    assert 0.1 < float(info.is_accepted.mean()) < 0.9


def test_langevin_is_blackjax_sgld() -> None:
    kernel = kernels.dp_sgld(None, step_size=0.02)
    step = diffusions.overdamped_langevin()
    state, _ = jax.vmap(lambda key, start: kernel.step(key, kernel.init(key, start, ORACLE), ORACLE))(KEYS, STARTS)
    expected = jax.vmap(lambda key, start: step(key, start, jax.grad(log_density)(start), 0.01))(KEYS, STARTS)
    np.testing.assert_allclose(state.position, expected, rtol=2e-6, atol=1e-6)


def test_langevin_in_a_metric_is_langevin_in_other_coordinates() -> None:
    """With G = (F F^T)^-1 it is Langevin dynamics of z, theta = F z; and an identity for a function changes nothing."""
    factor = jnp.linalg.inv(jnp.linalg.cholesky(DENSE)).T

    def moved(**options):
        kernel = kernels.dp_langevin(None, step_size=0.02, **options)
        return jax.vmap(lambda key, start: kernel.step(key, kernel.init(key, start, ORACLE), ORACLE)[0])(KEYS, STARTS)

    noise = jax.vmap(lambda key: jnp.sqrt(0.04) * jax.random.normal(key, (3,)))(KEYS)
    force = jax.vmap(jax.grad(log_density))(STARTS)
    expected = STARTS + (0.02 * force @ factor + noise) @ factor.T
    np.testing.assert_allclose(moved(metric=DENSE).position, expected, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(moved(metric=lambda _: DENSE).position, expected, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(moved().position, STARTS + 0.02 * force + noise, rtol=2e-5, atol=2e-6)


def test_underdamped_langevin_is_the_published_splitting() -> None:
    """O B A B O (Bussi and Parrinello 2007) with one force for two half kicks, read after A; O by two half steps."""
    step, friction = 0.1, 1.5
    kernel = kernels.dp_langevin(None, step_size=step, friction=friction)
    state = jax.vmap(lambda key, start: kernel.init(key, start, ORACLE))(KEYS, STARTS)
    moved, _ = jax.vmap(lambda key, state: kernel.step(key, state, ORACLE))(KEYS, state)
    half = np.exp(-friction * step / 2)
    force = jax.vmap(jax.grad(log_density))(STARTS)
    momentum = state.momentum + step / 2 * force  # B
    # O twice, whose two noises add up to one of the variance 1 - half^4
    momentum = half * (half * momentum) + np.sqrt(1 - half**4) * jax.vmap(lambda key: jax.random.normal(key, (3,)))(
        KEYS
    )
    momentum = momentum + step / 2 * force  # B
    np.testing.assert_allclose(moved.momentum, momentum, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(moved.position, STARTS + step * momentum, rtol=2e-5, atol=2e-6)  # A


@pytest.mark.parametrize("resample", [False, True])
def test_friction_is_blackjax_sghmc(resample) -> None:
    kernel = kernels.dp_sghmc(None, step_size=0.05, friction=1.5, num_inner=4, resample_momentum=resample)
    peer = diffusions.sghmc(alpha=1.5)

    def ours(key, start):
        state = kernel.init(key, start, ORACLE)
        return kernel.step(key, state, ORACLE)[0]

    def theirs(key, start):
        of_momentum, of_noise = jax.random.split(key)
        position, momentum = start, jax.random.normal(of_momentum if resample else key, (3,))
        for number, one in enumerate(jax.random.split(of_noise, 4)):
            # theirs drifts before it kicks: the same momenta, read at another moment; on fresh ones we begin with half
            kick = 0.025 if resample and not number else 0.05
            _, momentum = peer(one, position, momentum, jax.grad(log_density)(position), kick)
            position = position + 0.05 * momentum
        return position, momentum

    state, expected = jax.vmap(ours)(KEYS, STARTS), jax.vmap(theirs)(KEYS, STARTS)
    np.testing.assert_allclose(state.position, expected[0], rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(state.momentum, expected[1], rtol=2e-5, atol=2e-6)


def test_thermostat_is_the_published_recursion() -> None:
    kernel = kernels.dp_sgnht(None, step_size=0.05, diffusion=1.5)
    state = jax.vmap(lambda key, start: kernel.init(key, start, ORACLE))(KEYS, STARTS)
    moved, _ = jax.vmap(lambda key, state: kernel.step(key, state, ORACLE))(KEYS, state)
    noise = jax.vmap(lambda key: jax.random.normal(key, (3,)))(KEYS)
    force = jax.vmap(jax.grad(log_density))(STARTS)
    momentum = state.momentum + 0.05 * force - 0.05 * 1.5 * state.momentum + jnp.sqrt(2 * 1.5 * 0.05) * noise
    np.testing.assert_allclose(moved.momentum, momentum, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(moved.position, STARTS + 0.05 * momentum, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(
        moved.friction, 1.5 + 0.05 * (np.sum(np.square(momentum), axis=1) / 3 - 1), rtol=2e-5, atol=2e-6
    )


def test_a_component_moves_alone() -> None:
    walk = kernels.dp_penalty(None, proposal_scale=jnp.asarray([0.1, 0.2, 0.3]), one_component=True)
    guided = kernels.guided_walk(None, proposal_scale=0.1)
    for kernel in (walk, guided):
        start = jax.vmap(lambda key, start, kernel=kernel: kernel.init(key, start, ORACLE))(KEYS, STARTS)
        state, info = jax.vmap(lambda key, state, kernel=kernel: kernel.step(key, state, ORACLE))(KEYS, start)
        changed = np.sum(np.asarray(state.position != STARTS), axis=1)
        assert np.array_equal(changed, np.asarray(info.is_accepted).astype(int))
        assert 0 < changed.sum() < len(changed)


def test_a_direction_turns_on_rejection_and_alone() -> None:
    kernel = kernels.guided_walk(None, proposal_scale=1.5)
    start = jax.vmap(lambda key, start: kernel.init(key, start, ORACLE))(KEYS, STARTS)
    state, info = jax.vmap(lambda key, state: kernel.step(key, state, ORACLE))(KEYS, start)
    turned = np.sum(np.asarray(state.direction != start.direction), axis=1)
    assert np.array_equal(turned, (~np.asarray(info.is_accepted)).astype(int))
    assert set(np.unique(state.direction)) == {-1.0, 1.0}
    forward = np.sign(np.sum(np.asarray(state.position - STARTS), axis=1))
    component = np.argmax(np.asarray(state.position != STARTS), axis=1)
    moved = np.asarray(info.is_accepted)
    assert np.array_equal(forward[moved], np.asarray(start.direction)[np.arange(200), component][moved])


def test_step_sizes_follow_the_halton_sequence() -> None:
    first = [0.0, 0.5, 0.25, 0.75, 0.125, 0.625, 0.375, 0.875]
    assert np.array_equal(radical_inverse(jnp.arange(8)), np.asarray(first, np.float32))
    shifted = np.asarray(halton(jnp.arange(8), jnp.float32(0.3)))
    np.testing.assert_allclose(shifted, np.mod(np.asarray(first) + 0.3, 1), atol=1e-6)


def test_jitter_shortens_steps_and_never_stops_them() -> None:
    kernel = kernels.dp_hmc(None, None, step_size=0.01, num_leapfrog=1, step_size_jitter=1.0)
    states = jax.vmap(lambda key, start: kernel.init(key, start, ORACLE))(KEYS, STARTS)
    lengths = 1 - halton(states.iteration, states.shift)
    assert float(lengths.min()) > 0
    assert float(lengths.max()) <= 1
    moved, info = jax.vmap(lambda key, state: kernel.step(key, state, ORACLE))(KEYS, states)
    assert np.array_equal(moved.iteration, np.ones(200))
    assert np.array_equal(np.asarray(jnp.any(moved.position != STARTS, axis=1)), np.asarray(info.is_accepted))


def test_the_staircase_keeps_the_polynomial() -> None:
    steps = polynomial_steps(1.7, exponent=1 / 3, num_steps=1500, floor=0.16)
    sizes = np.maximum(1.7 * np.arange(1, 1501) ** (-1 / 3), 0.16)
    staircase = np.repeat([size for size, _ in steps], [times for _, times in steps])
    assert staircase.shape == sizes.shape
    assert len(steps) <= 16
    assert staircase.sum() == pytest.approx(sizes.sum())
    assert np.max(np.abs(np.log(staircase / sizes))) < np.log(sizes[0] / sizes[-1]) / 16 + 1e-9
    assert polynomial_steps(0.5, exponent=1.0, num_steps=3, floor=0.5) == [(0.5, 3)]


def test_surrogate_hmc_on_the_target_itself_is_hmc() -> None:
    """Its own test then decides: the private one sees a ratio of one."""
    kernel = kernels.surrogate_hmc(None, log_density, step_size=0.42, num_leapfrog=7, inverse_mass=DENSE)
    peer = kernels.dp_hmc(None, None, step_size=0.42, num_leapfrog=7, inverse_mass=DENSE)

    def moved(kernel, key, start):
        return kernel.step(key, kernel.init(key, start, ORACLE), ORACLE)

    state, info = jax.vmap(lambda key, start: moved(kernel, key, start))(KEYS, STARTS)
    inner = jax.vmap(lambda key: jax.random.split(jax.random.split(key)[0], 1)[0])(KEYS)
    expected, test = jax.vmap(lambda key, start: moved(peer, key, start))(inner, STARTS)
    np.testing.assert_allclose(state.position, expected.position, rtol=2e-5, atol=2e-6)
    assert np.all(info.is_accepted)
    assert 0.2 < float(np.mean(test.is_accepted)) < 0.99


@pytest.mark.parametrize("make", [kernels.dp_hmc, kernels.dp_langevin, kernels.surrogate_hmc, kernels.dp_barker])
def test_every_sampler_can_be_cited(make) -> None:
    assert citation(make).count("@") >= 1
    assert "title" in citation(make)


def test_a_kernel_knows_its_name_and_its_settings() -> None:
    kernel = kernels.dp_sgld(None, step_size=0.1)
    assert kernel.name == "dp_sgld"
    assert kernel.settings == {"gradient": None, "step_size": 0.1}
    assert citation(kernel) == citation(kernels.dp_sgld)
    with pytest.raises(ValueError, match="kernel='nuts' must be one of dp_barker"):
        citation(type("Other", (), {"__name__": "nuts"})())
