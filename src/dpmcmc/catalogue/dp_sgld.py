"""DP-SGLD: stochastic-gradient Langevin dynamics on secret batches."""

from dpmcmc.accounting import samplers
from dpmcmc.catalogue import papers
from dpmcmc.catalogue.problem_size import ProblemSize
from dpmcmc.catalogue.sampler import Recipe, Sampler
from dpmcmc.catalogue.settings import RATE
from dpmcmc.kernels import Kernel, dp_sgld
from dpmcmc.mechanisms import SubsampledGradientSum


def _make(facts: ProblemSize, noise: float) -> Kernel:
    """The choice of the batch adds variance (1 - q) / q to the force: the step keeps that below a tenth of its own."""
    step = min(0.4 * RATE, (2 * RATE / (facts.gradient_clip * noise)) ** 2)
    return dp_sgld(SubsampledGradientSum.poisson(facts.gradient_clip, noise, RATE), step_size=step)


SAMPLER = Sampler(
    "DP-SGLD",
    dp_sgld,
    releases="a gradient of a batch",
    target="as the step falls",
    papers=(papers.WANG2015, papers.LI2019),
    page="dp_sgld",
    recipe=Recipe(lambda facts, noise: samplers.dp_sgld(RATE, noise, facts.adjacency), _make, num_steps=1000),
)
