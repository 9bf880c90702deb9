"""Normal approximation of clipped scores, whatever the model: gradients before, and free draws around them."""

import math

from dpmcmc.accounting import Gaussian, compose
from dpmcmc.accounting.samplers import Cost
from dpmcmc.catalogue.problem_size import ProblemSize
from dpmcmc.catalogue.sampler import Recipe, Sampler
from dpmcmc.catalogue.settings import POLISH_SHARES
from dpmcmc.kernels import Kernel, normal_draws


def _cost(facts: ProblemSize, noise: float) -> Cost:  # noqa: ARG001
    return Cost(compose([]), compose(Gaussian(noise / math.sqrt(share)) for share in POLISH_SHARES))


def _make(facts: ProblemSize, noise: float) -> Kernel:
    """The centre has noise of its own, that of the refinement: the draws are as much wider."""
    return normal_draws(scale=math.hypot(1, facts.clips_moved * noise * facts.gradient_clip))


def _error(facts: ProblemSize, floor: float, inverse_mu: float) -> float:  # noqa: ARG001
    return floor


RECIPE = Recipe(_cost, _make, num_steps=1000, is_iid=True, error=_error)

SAMPLER = Sampler(
    "Clipped Laplace",
    normal_draws,
    releases="nothing; a pilot before",
    target="normal approximation",
    papers=(),
    page="private_laplace",
    recipe=RECIPE,
)
