"""Subsampled DP-Barker: one bit of Barker's test per step, on a batch."""

import math

from dpmcmc.accounting import samplers
from dpmcmc.accounting.samplers import Cost
from dpmcmc.catalogue import papers
from dpmcmc.catalogue.problem_size import ProblemSize
from dpmcmc.catalogue.sampler import Recipe, Sampler
from dpmcmc.catalogue.settings import batch_size
from dpmcmc.kernels import Kernel, dp_barker
from dpmcmc.mechanisms import BarkerTest


def _cost(facts: ProblemSize, noise: float) -> Cost:
    return samplers.subsampled_barker(batch_size(facts), facts.num_records, 2.0, min(1.0, 1 / noise))


def _make(facts: ProblemSize, noise: float) -> Kernel:
    """The clip sqrt(kappa b) / n of one ratio, kappa one over the `noise`, is that of a move of a certain length."""
    fraction = min(1.0, 1 / noise)
    clip = math.sqrt(fraction * batch_size(facts)) / facts.num_records
    scale = min(2.38, 0.6 * clip / facts.slope_clip) / math.sqrt(facts.dimension)
    return dp_barker(BarkerTest(batch_size(facts), 2.0, fraction), proposal_scale=scale)


SAMPLER = Sampler(
    "Subsampled DP-Barker",
    dp_barker,
    releases="one bit of a batch",
    target="approximate",
    papers=(papers.HEIKKILA2019,),
    page="minibatch_barker",
    recipe=Recipe(_cost, _make, num_steps=500, least_noise=1.0, is_quickly_priced=False),
)
