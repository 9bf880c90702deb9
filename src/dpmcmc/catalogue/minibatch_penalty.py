"""Minibatch penalty: a random walk whose penalty tests see a batch."""

import math

from dpmcmc.accounting import samplers
from dpmcmc.catalogue import papers
from dpmcmc.catalogue.problem_size import ProblemSize
from dpmcmc.catalogue.sampler import Recipe, Sampler
from dpmcmc.catalogue.settings import batch_size
from dpmcmc.kernels import Kernel, dp_penalty
from dpmcmc.mechanisms import MinibatchLogRatio


def _make(facts: ProblemSize, noise: float) -> Kernel:
    """Noise and batch must both stay below a penalty that lets proposals pass."""
    share = facts.num_records / batch_size(facts)
    length = min(1 / math.sqrt(share), 1.2 / (2 * noise * share * facts.slope_clip))
    mechanism = MinibatchLogRatio(batch_size(facts), facts.slope_clip, noise)
    return dp_penalty(mechanism, proposal_scale=length / math.sqrt(facts.dimension))


SAMPLER = Sampler(
    "Minibatch penalty",
    dp_penalty,
    releases="a test on a batch",
    target="approximate",
    papers=(papers.RAISA2021THESIS, papers.YILDIRIM2019),
    page="minibatch_penalty",
    recipe=Recipe(
        lambda facts, noise: samplers.minibatch_penalty(noise, batch_size(facts), facts.num_records),
        _make,
        num_steps=500,
    ),
)
