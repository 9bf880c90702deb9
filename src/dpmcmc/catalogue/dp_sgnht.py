"""DP-SGNHT: stochastic-gradient dynamics with a thermostat on secret batches."""

from dpmcmc.accounting import samplers
from dpmcmc.catalogue import papers
from dpmcmc.catalogue.problem_size import ProblemSize
from dpmcmc.catalogue.sampler import Recipe, Sampler
from dpmcmc.catalogue.settings import FRICTION, RATE, friction_step
from dpmcmc.kernels import Kernel, dp_sgnht
from dpmcmc.mechanisms import SubsampledGradientSum


def _make(facts: ProblemSize, noise: float) -> Kernel:
    gradient = SubsampledGradientSum.poisson(facts.gradient_clip, noise, RATE)
    return dp_sgnht(gradient, step_size=friction_step(facts, noise), diffusion=FRICTION)


SAMPLER = Sampler(
    "DP-SGNHT",
    dp_sgnht,
    releases="a gradient of a batch",
    target="as the step falls",
    papers=(papers.DING2014, papers.WANG2015),
    page="dp_sgnht",
    recipe=Recipe(lambda facts, noise: samplers.dp_sgld(RATE, noise, facts.adjacency), _make, num_steps=1000),
)
