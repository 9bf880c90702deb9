"""DP-penalty: a random walk with penalty tests."""

import math

from dpmcmc.accounting import samplers
from dpmcmc.catalogue import papers
from dpmcmc.catalogue.problem_size import ProblemSize
from dpmcmc.catalogue.sampler import Recipe, Sampler
from dpmcmc.catalogue.settings import longest_move, walk_error
from dpmcmc.kernels import Kernel, dp_penalty
from dpmcmc.mechanisms import PenaltyTest


def _make(facts: ProblemSize, noise: float) -> Kernel:
    scale = longest_move(facts, noise) / math.sqrt(facts.dimension)
    return dp_penalty(PenaltyTest(facts.slope_clip, noise), proposal_scale=scale)


SAMPLER = Sampler(
    "DP-penalty",
    dp_penalty,
    releases="a test",
    target="exact",
    papers=(papers.YILDIRIM2019, papers.CEPERLEY1999, papers.RAISA2021THESIS),
    page="dp_penalty",
    recipe=Recipe(
        lambda _, noise: samplers.dp_penalty(noise, hidden=True),
        _make,
        num_steps=1000,
        is_candidate=True,
        is_simulable=True,
        error=walk_error,
    ),
)
