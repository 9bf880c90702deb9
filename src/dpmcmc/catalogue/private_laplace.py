"""Private Laplace: as clipped_laplace for models by hand; bounded scores where the model is a formula's."""

from dataclasses import replace

from dpmcmc.catalogue.clipped_laplace import RECIPE
from dpmcmc.catalogue.sampler import Sampler
from dpmcmc.kernels import normal_draws

SAMPLER = Sampler(
    "Private Laplace",
    normal_draws,
    releases="nothing; a pilot before",
    target="normal approximation",
    papers=(),
    page="private_laplace",
    recipe=replace(RECIPE, is_candidate=True, is_simulable=True, error=None),  # its error is that of bounded scores
)
