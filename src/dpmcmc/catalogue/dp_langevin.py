"""DP-Langevin: full-batch Langevin dynamics whose noise is that of its gradients."""

from dpmcmc.accounting import Gaussian, compose
from dpmcmc.accounting.samplers import Cost
from dpmcmc.catalogue import papers
from dpmcmc.catalogue.problem_size import ProblemSize
from dpmcmc.catalogue.sampler import Recipe, Sampler
from dpmcmc.kernels import Kernel, dp_langevin
from dpmcmc.mechanisms import GradientSum

_LARGEST_STEP = 0.1
"""At which the chain's variance is five percent too large."""


def _make(facts: ProblemSize, noise: float) -> Kernel:
    """The step whose own noise is what the release has; small steps cost little and are taken often."""
    step = min(_LARGEST_STEP, 2 / (facts.clips_moved * noise * facts.gradient_clip) ** 2)
    return dp_langevin(GradientSum(facts.gradient_clip, noise), step_size=step)


def _error(facts: ProblemSize, floor: float, inverse_mu: float) -> float:  # noqa: ARG001
    return facts.clips_moved * facts.gradient_clip * inverse_mu


SAMPLER = Sampler(
    "DP-Langevin",
    dp_langevin,
    releases="a gradient",
    target="as the step falls",
    papers=(papers.WANG2015, papers.GIROLAMI2011, papers.XIFARA2014, papers.BUSSI2007),
    page="dp_langevin",
    recipe=Recipe(
        lambda _, noise: Cost(Gaussian(noise), compose([])),
        _make,
        num_steps=1000,
        is_candidate=True,
        is_simulable=True,
        error=_error,
    ),
)
