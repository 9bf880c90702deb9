"""DP-Barker: one coin of Barker's rule per step, over all records."""

import math

from dpmcmc.accounting import samplers
from dpmcmc.catalogue import papers
from dpmcmc.catalogue.problem_size import ProblemSize
from dpmcmc.catalogue.sampler import Recipe, Sampler
from dpmcmc.kernels import Kernel, dp_barker
from dpmcmc.mechanisms import BarkerBit


def _make(facts: ProblemSize, noise: float) -> Kernel:
    """The clip of the ratio, one over the `noise`, is that of a move of a certain length; most moves are shorter."""
    length = min(2.38, 0.6 / (noise * facts.slope_clip))
    return dp_barker(BarkerBit(1 / noise), proposal_scale=length / math.sqrt(facts.dimension))


SAMPLER = Sampler(
    "DP-Barker",
    dp_barker,
    releases="one coin",
    target="exact",
    papers=(papers.HEIKKILA2019,),
    page="dp_barker",
    recipe=Recipe(lambda facts, noise: samplers.dp_barker(facts.clips_moved / noise), _make, num_steps=1000),
)
