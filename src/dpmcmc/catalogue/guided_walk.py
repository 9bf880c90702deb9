"""Guided walk: penalty tests along a line, turning round when one refuses."""

from dpmcmc.accounting import samplers
from dpmcmc.catalogue import papers
from dpmcmc.catalogue.problem_size import ProblemSize
from dpmcmc.catalogue.sampler import Recipe, Sampler
from dpmcmc.catalogue.settings import longest_move
from dpmcmc.kernels import Kernel, guided_walk
from dpmcmc.mechanisms import PenaltyTest


def _make(facts: ProblemSize, noise: float) -> Kernel:
    return guided_walk(PenaltyTest(facts.slope_clip, noise), proposal_scale=longest_move(facts, noise))


SAMPLER = Sampler(
    "Guided walk",
    guided_walk,
    releases="a test",
    target="exact",
    papers=(papers.YILDIRIM2019, papers.GUSTAFSON1998, papers.RAISA2021THESIS),
    page="guided_walk",
    recipe=Recipe(lambda _, noise: samplers.dp_penalty(noise, hidden=True), _make, num_steps=1000, is_simulable=True),
)
