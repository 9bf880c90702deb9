"""The papers' samplers as our kernels, and how many steps a budget allows them, in the paper's reading and in ours."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import dpmcmc as dp
from dpmcmc.accounting import Adjacency, Event, epsilon, max_steps, samplers
from dpmcmc.accounting.samplers import Cost
from experiments.machinery.chains import Bench, telling


class Reading(NamedTuple):
    """A way to count the steps of a sampler: what a step is taken to release, and what it does release."""

    counted: Cost
    released: Cost
    accountant: str = "tight"
    """Who counts the steps; the epsilon that holds is always the tight one."""

    def steps(self, epsilon: float, delta: float, num_chains: int) -> int:
        """Return the steps of each chain that the budget is said to allow, all chains together."""
        return _steps(self.counted, epsilon, delta, num_chains, self.accountant)

    def epsilon(self, steps: int, delta: float, num_chains: int) -> float:
        """Return the epsilon that so many steps of each chain really cost."""
        return _epsilon(self.released.per_step * (steps * num_chains) + self.released.once * num_chains, delta)


def right(cost: Cost) -> Reading:
    """Return the reading of a sampler that counts what it releases."""
    return Reading(cost, cost)


@dataclass(frozen=True)
class Sampler:
    """A kernel on a posterior, and the readings of how many steps it may take: the same chains, cut at other ends."""

    kernel: Any
    model: Any
    readings: Mapping[str, Reading]
    """`published`: as the paper counts, and releases; `tight`: as it could be counted; `accept bit`: likewise, where
    only the decisions are released, which have the same law."""


@lru_cache(maxsize=1024)
def _steps(cost: Cost, epsilon: float, delta: float, num_chains: int, accountant: str) -> int:
    once = cost.once * num_chains if cost.once.held else None
    return max_steps(cost.per_step, epsilon, delta, once, accountant) // num_chains


@lru_cache(maxsize=1024)
def _epsilon(event: Event, delta: float) -> float:
    return float(epsilon(event, delta))


def squared(model: Any) -> Any:
    """Return the square of a posterior, the posterior at half the temperature: its variance is halved."""
    return replace(model, log_prior=lambda position: 2 * model.log_prior(position), temperature=2 * model.temperature)


def dp_hmc(bench: Bench, *, reuse: bool = False) -> Sampler:
    """DP-HMC; steps are shortened by a randomised Halton sequence where the paper does so."""
    c = bench.problem.settings["dp_hmc"]
    kernel = dp.kernels.dp_hmc(
        dp.mechanisms.GradientSum(c["gradient_clip"], c["gradient_noise"]),
        dp.mechanisms.PenaltyTest(c["ratio_clip"], c["ratio_noise"]),
        step_size=c["step_size"],
        num_leapfrog=c["num_leapfrog"],
        reuse_gradients=reuse,
        step_size_jitter=1.0 if bench.problem.name.startswith("dp_hmc_2021") else 0.0,
    )
    shown, hidden = (
        right(samplers.dp_hmc(c["ratio_noise"], c["gradient_noise"], c["num_leapfrog"], reuse, bit))
        for bit in (False, True)
    )
    return Sampler(kernel, bench.problem.model, {"published": shown, "accept bit": hidden})


def dp_penalty(bench: Bench, *, guided: bool = False) -> Sampler:
    """DP-penalty; guided: one component at a time, in one direction until a proposal is rejected."""
    c = bench.problem.settings["guided_walk" if guided else "dp_penalty"]
    walk = dp.kernels.guided_walk if guided else dp.kernels.dp_penalty
    kernel = walk(dp.mechanisms.PenaltyTest(c["ratio_clip"], c["ratio_noise"]), proposal_scale=c["proposal_scale"])
    shown, hidden = (right(samplers.dp_penalty(c["ratio_noise"], bit)) for bit in (False, True))
    return Sampler(kernel, bench.problem.model, {"published": shown, "accept bit": hidden})


def minibatch(bench: Bench, *, guided: bool = False) -> Sampler:
    """Minibatch DP-penalty; its published count is `fourier_count`."""
    c = bench.problem.settings["minibatch_guided_walk" if guided else "minibatch_penalty"]
    test = dp.mechanisms.MinibatchLogRatio(
        batch_size=c["batch_size"], clip=c["ratio_clip"], noise_multiplier=c["ratio_noise"]
    )
    walk = dp.kernels.guided_walk if guided else dp.kernels.dp_penalty
    size = bench.vault.facts.size
    cost = samplers.minibatch_penalty(c["ratio_noise"], c["batch_size"], size)
    counted = fourier_count(c["batch_size"] / size, c["ratio_noise"])
    readings = {"published": Reading(counted, cost), "tight": right(cost)}
    return Sampler(walk(test, proposal_scale=c["proposal_scale"]), bench.problem.model, readings)


def fourier_count(rate: float, noise_over_sensitivity: float) -> Cost:
    """What the authors' Fourier accountant was asked: noise over the sensitivity, where it expects noise over half.

    Its pair of laws for a replaced record has centres two apart, so it took the noise for half of what it is.
    """
    return samplers.dp_sgld(rate, noise_over_sensitivity, Adjacency.REPLACE_ONE)


def dp_barker(bench: Bench) -> Sampler:
    """DP-Barker on batches; its published count is the one of Heikkilä et al. (2019)."""
    c = bench.problem.settings["dp_barker"]
    test = dp.mechanisms.BarkerTest(
        batch_size=c["batch_size"], variance=c["variance"], clip_fraction=c["clip_fraction"]
    )
    cost = samplers.subsampled_barker(c["batch_size"], bench.vault.facts.size, c["variance"], c["clip_fraction"])
    kernel = dp.kernels.dp_barker(test, proposal_scale=c["proposal_scale"])
    whole = samplers.subsampled_barker(c["batch_size"], bench.vault.facts.size)  # the theorem has no clip fraction
    readings = {"published": Reading(whole, cost, "barker_2019"), "tight": right(cost)}
    return Sampler(kernel, bench.problem.model, readings)


def dp_sgld_published(bench: Bench) -> Sampler:
    """DP-SGLD as published: half the temperature, and `fourier_count`."""
    c = bench.problem.settings["dp_sgld"]
    return _sgld(bench, squared(bench.problem.model), 2 * c["gradient_clip"], c["step_size"], "published")


def dp_sgld(bench: Bench) -> Sampler:
    """DP-SGLD with the drift as published, and the noise that belongs to it."""
    c = bench.problem.settings["dp_sgld"]
    return _sgld(bench, bench.problem.model, c["gradient_clip"], 2 * c["step_size"], "tight")


def _sgld(bench: Bench, model: Any, clip: float, step: float, reading: str) -> Sampler:
    rate = bench.problem.settings["dp_sgld"]["batch_size"] / bench.vault.facts.size
    noise = samplers.sgld_noise_over_clip(rate, clip, step)
    kernel = dp.kernels.dp_sgld(dp.mechanisms.SubsampledGradientSum.for_sgld(clip, rate, step), step_size=step)
    return Sampler(kernel, model, {reading: _subsampled(rate, noise)[reading]})


def dp_sgnht(bench: Bench) -> Sampler:
    """DP-SGNHT; its published count is `fourier_count`."""
    c = bench.problem.settings["dp_sgnht"]
    rate, step = c["batch_size"] / bench.vault.facts.size, c["step_size"]
    gradient = dp.mechanisms.SubsampledGradientSum.for_sghmc(c["gradient_clip"], rate, step, c["friction"])
    noise = samplers.sghmc_noise_over_clip(rate, c["gradient_clip"], step, c["friction"])
    kernel = dp.kernels.dp_sgnht(gradient, step_size=step, diffusion=c["friction"])
    return Sampler(kernel, bench.problem.model, _subsampled(rate, noise))


def _subsampled(rate: float, noise: float) -> dict[str, Reading]:
    cost = samplers.dp_sgld(rate, noise, Adjacency.REPLACE_ONE)
    return {"published": Reading(fourier_count(rate, noise / 2), cost), "tight": right(cost)}


SAMPLERS: Mapping[str, Callable[[Bench], Sampler]] = {
    "dp_hmc": dp_hmc,
    "dp_hmc_reuse": partial(dp_hmc, reuse=True),
    "dp_penalty": dp_penalty,
    "guided_walk": partial(dp_penalty, guided=True),
    "minibatch": minibatch,
    "minibatch_guided": partial(minibatch, guided=True),
    "dp_barker": dp_barker,
    "dp_sgld_published": dp_sgld_published,
    "dp_sgld": dp_sgld,
    "dp_sgnht": dp_sgnht,
}
"""Samplers by name; `published` in a name runs what no one should, so that it can be seen."""


@lru_cache(maxsize=64)
def sampler(name: str, bench: Bench) -> Sampler:
    """Return a sampler by name, with a kernel that tells its proposals; one process makes it once."""
    made = SAMPLERS[name](bench)
    return replace(made, kernel=telling(made.kernel))
