"""The price that the auditor reads off each sampler is the formula of its paper, as corrected."""

import jax.numpy as jnp
import numpy as np
import pytest

import dpmcmc as dp
from dpmcmc.accounting import Adjacency, Gaussian, NonPrivate, compose, samplers
from dpmcmc.accounting.accountants import APPROXIMATIONS
from dpmcmc.accounting.event import counts

SIZE = 60
MODEL = dp.Model(lambda theta: -0.5 * jnp.sum(theta**2), lambda theta, x: -0.5 * jnp.sum((x - theta) ** 2))
RATIO, GRADIENT = (
    dp.mechanisms.LogRatio(clip=2.0, noise_multiplier=5.0),
    dp.mechanisms.GradientSum(clip=3.0, noise_multiplier=7.0),
)
START = jnp.zeros(2)


def vault(**facts):
    rows = np.random.default_rng(0).normal(size=(SIZE, 2))
    return dp.PrivateData.without_guarantee(rows, bounds={"records": (-4, 4)}, **facts)


def without_approximation(event):
    return compose([part * times for part, times in counts(event).items() if not isinstance(part, APPROXIMATIONS)])


def charged(kernel, num_steps=3, num_chains=2, data=None):
    price = dp.price(
        kernel, MODEL, vault() if data is None else data, num_steps=num_steps, num_chains=num_chains, init=START
    )
    return without_approximation(price)


def expected(cost, num_steps=3, num_chains=2):
    return (cost.per_step * num_steps + cost.once) * num_chains


@pytest.mark.parametrize("num_steps", [1, 4, 100])
@pytest.mark.parametrize("num_leapfrog", [1, 3])
@pytest.mark.parametrize("num_chains", [1, 5])
@pytest.mark.parametrize("reuse", [False, True])
def test_dp_hmc(num_steps, num_leapfrog, num_chains, reuse) -> None:
    kernel = dp.kernels.dp_hmc(GRADIENT, RATIO, step_size=0.1, num_leapfrog=num_leapfrog, reuse_gradients=reuse)
    event = charged(kernel, num_steps, num_chains)
    assert event == expected(samplers.dp_hmc(5.0, 7.0, num_leapfrog, reuse), num_steps, num_chains)
    gradients = num_steps * num_leapfrog + (1 if reuse else num_steps)
    assert event.gaussian_rho == pytest.approx(num_chains * (num_steps / 50 + gradients / 98))


def test_dp_hmc_with_hidden_tests() -> None:
    bit = dp.kernels.dp_hmc(GRADIENT, dp.mechanisms.PenaltyTest(2.0, 5.0), step_size=0.1, num_leapfrog=3)
    assert charged(bit) == expected(samplers.dp_hmc(5.0, 7.0, 3, hidden=True))
    barker = dp.kernels.dp_hmc(GRADIENT, dp.mechanisms.BarkerBit(0.3), step_size=0.1, num_leapfrog=3)
    assert charged(barker) == expected(samplers.dp_barker(0.6)) + Gaussian(7.0) * 4 * 3 * 2


@pytest.mark.parametrize("one_component", [False, True])
def test_dp_penalty(one_component) -> None:
    kernel = dp.kernels.dp_penalty(RATIO, proposal_scale=0.1, one_component=one_component)
    assert charged(kernel) == expected(samplers.dp_penalty(5.0))
    hidden = dp.kernels.dp_penalty(dp.mechanisms.PenaltyTest(2.0, 5.0), proposal_scale=0.1, one_component=one_component)
    assert charged(hidden) == expected(samplers.dp_penalty(5.0, hidden=True))


def test_surrogate_hmc_pays_for_its_tests_alone() -> None:
    def kernel(test):
        return dp.kernels.surrogate_hmc(
            test, lambda u: -0.5 * jnp.sum(u**2), step_size=0.1, num_leapfrog=7, num_trajectories=3
        )

    assert charged(kernel(dp.mechanisms.RemainderTest(0.1, 5.0))) == expected(samplers.dp_penalty(5.0, hidden=True))
    assert charged(kernel(dp.mechanisms.BarkerBit(0.3))) == expected(samplers.dp_barker(0.6))


def test_guided_walk() -> None:
    assert charged(dp.kernels.guided_walk(RATIO, proposal_scale=0.1)) == expected(samplers.dp_penalty(5.0))


def test_minibatch_penalty() -> None:
    kernel = dp.kernels.dp_penalty(dp.mechanisms.MinibatchLogRatio(10, 2.0, 5.0), proposal_scale=0.1)
    assert charged(kernel) == expected(samplers.minibatch_penalty(5.0, 10, SIZE))


def test_dp_barker() -> None:
    assert charged(dp.kernels.dp_barker(dp.mechanisms.BarkerBit(0.3), proposal_scale=0.1)) == expected(
        samplers.dp_barker(0.6)
    )
    batch = dp.kernels.dp_barker(dp.mechanisms.BarkerTest(10, 2.0, 1.0), proposal_scale=0.1)
    assert charged(batch) == expected(samplers.subsampled_barker(10, SIZE))
    everything = dp.kernels.dp_barker(dp.mechanisms.BarkerTest(SIZE, 2.0, 1.0), proposal_scale=0.1)
    assert charged(everything) == expected(samplers.subsampled_barker(SIZE, SIZE))


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("metric", [None, [[2.0, 0.5], [0.5, 1.0]], lambda theta: jnp.eye(2) * (1 + theta @ theta)])
def test_dp_langevin_is_priced_by_time_and_not_by_steps(adjacency, metric) -> None:
    data = vault(adjacency=adjacency, **({} if adjacency is Adjacency.REPLACE_ONE else {"capacity": 70}))
    clip, moved, time, prices = 0.3, 0.6 if adjacency is Adjacency.REPLACE_ONE else 0.3, 0.8, []
    for step in (0.2, 0.1, 0.01):
        gradient = dp.mechanisms.GradientSum(clip, samplers.langevin_noise(step) / moved)
        kernel = dp.kernels.dp_langevin(gradient, step_size=step, metric=metric)
        event, steps = charged(kernel, round(time / step), 1, data), round(time / step)
        assert event == expected(samplers.dp_langevin(clip, step, adjacency), steps, 1)
        prices.append(event.gaussian_rho)
    assert prices == pytest.approx([time * moved**2 / 4] * 3, rel=1e-12)


def test_dp_langevin_with_friction_is_priced_by_time_over_friction() -> None:
    clip, time, friction, steps = 0.3, 0.8, 2.0, (0.1, 0.01, 0.001)
    kernel = dp.kernels.dp_langevin(
        dp.mechanisms.GradientSum(clip, samplers.langevin_noise(0.1, friction) / 0.6), step_size=0.1, friction=2.0
    )
    assert charged(kernel) == expected(samplers.dp_langevin(clip, 0.1, Adjacency.REPLACE_ONE, friction))
    costs = [samplers.dp_langevin(clip, step, Adjacency.REPLACE_ONE, friction).per_step for step in steps]
    prices = [(cost * round(time / step)).gaussian_rho for cost, step in zip(costs, steps, strict=True)]
    assert prices == pytest.approx([time * 0.6**2 / (4 * friction)] * 3, rel=(friction * 0.1) ** 2 / 12)
    assert prices == sorted(prices, reverse=True)


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_stochastic_gradients(adjacency) -> None:
    data = vault(adjacency=adjacency, **({} if adjacency is Adjacency.REPLACE_ONE else {"capacity": 70}))
    rate, clip, step, friction = 0.1, 2.0, 1e-4, 3.0
    langevin = dp.kernels.dp_sgld(dp.mechanisms.SubsampledGradientSum.for_sgld(clip, rate, step), step_size=step)
    noise = samplers.sgld_noise_over_clip(rate, clip, step)
    assert noise == pytest.approx(2 * rate / (clip * np.sqrt(step)))
    assert charged(langevin, data=data) == expected(samplers.dp_sgld(rate, noise, adjacency))
    gradient = dp.mechanisms.SubsampledGradientSum.for_sghmc(clip, rate, step, friction)
    noise = samplers.sghmc_noise_over_clip(rate, clip, step, friction)
    assert noise == pytest.approx(rate / clip * np.sqrt(2 * friction / step))
    cost = samplers.dp_sgld(rate, noise, adjacency)
    assert charged(dp.kernels.dp_sgnht(gradient, step_size=step, diffusion=friction), data=data) == expected(cost)
    inner = dp.kernels.dp_sghmc(gradient, step_size=step, friction=friction, num_inner=4)
    assert charged(inner, data=data) == expected(cost, num_steps=3 * 4)


def test_stages_add_up() -> None:
    sizes = dp.kernels.polynomial_steps(1e-3, exponent=1 / 3, num_steps=30, num_levels=4)
    gradients = {size: dp.mechanisms.SubsampledGradientSum.for_sgld(2.0, 0.1, size) for size, _ in sizes}
    stages = [dp.kernels.Stage(dp.kernels.dp_sgld(gradients[size], step_size=size), times) for size, times in sizes]
    parts = [
        samplers.dp_sgld(0.1, gradients[size].noise_over_clip, Adjacency.REPLACE_ONE).per_step * times * 2
        for size, times in sizes
    ]
    assert charged(stages, num_steps=None) == compose(parts)


def test_a_pilot_is_paid_and_another_sampler_starts_anew() -> None:
    pilot = dp.kernels.dp_penalty(RATIO, proposal_scale=0.1)
    hmc = dp.kernels.dp_hmc(GRADIENT, RATIO, step_size=0.1, num_leapfrog=2, reuse_gradients=True)
    event = charged([(pilot, 5), (hmc, 3)], num_steps=None, num_chains=1)
    assert event == Gaussian(5.0) * (5 + 3) + Gaussian(7.0) * (3 * 2 + 1)
    same = charged([(hmc, 2), (hmc, 3)], num_steps=None, num_chains=1)
    assert same == expected(samplers.dp_hmc(5.0, 7.0, 2, True), 5, 1)


def test_baselines_are_the_same_kernels_and_have_no_price() -> None:
    hmc = dp.kernels.dp_hmc(
        dp.mechanisms.ExactGradientSum(), dp.mechanisms.ExactLogRatio(), step_size=0.1, num_leapfrog=2
    )
    walk = dp.kernels.dp_penalty(dp.mechanisms.ExactLogRatio(), proposal_scale=0.1)
    naive = dp.kernels.dp_sghmc(
        dp.mechanisms.ExactSubsampledGradientSum(dp.mechanisms.Poisson(0.1)), step_size=0.01, friction=0.0
    )
    for kernel in (hmc, walk, naive):
        assert charged(kernel).held == {NonPrivate}
