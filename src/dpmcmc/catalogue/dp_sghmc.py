"""DP-SGHMC: stochastic-gradient dynamics with friction on secret batches."""

from dpmcmc.accounting import samplers
from dpmcmc.catalogue import papers
from dpmcmc.catalogue.problem_size import ProblemSize
from dpmcmc.catalogue.sampler import Recipe, Sampler
from dpmcmc.catalogue.settings import FRICTION, RATE, friction_step
from dpmcmc.kernels import Kernel, dp_sghmc
from dpmcmc.mechanisms import SubsampledGradientSum


def _make(facts: ProblemSize, noise: float) -> Kernel:
    step = friction_step(facts, noise)
    batch_noise = step / 2 * (1 - RATE) / RATE  # what the choice of the batch adds by itself, in these coordinates
    net = SubsampledGradientSum.poisson(facts.gradient_clip, noise, RATE)
    return dp_sghmc(
        net, step_size=step, friction=FRICTION + batch_noise, batch_noise=batch_noise, resample_momentum=False
    )


SAMPLER = Sampler(
    "DP-SGHMC",
    dp_sghmc,
    releases="J gradients of batches",
    target="as the step falls",
    papers=(papers.CHEN2014, papers.LI2019),
    page="dp_sghmc",
    recipe=Recipe(lambda facts, noise: samplers.dp_sgld(RATE, noise, facts.adjacency), _make, num_steps=1000),
)
