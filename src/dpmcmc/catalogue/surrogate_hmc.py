"""Surrogate HMC: trajectories on a released quadratic, one test on the remainders."""

from dpmcmc.catalogue import papers
from dpmcmc.catalogue.sampler import Sampler
from dpmcmc.kernels import surrogate_hmc

SAMPLER = Sampler(
    "Surrogate HMC",
    surrogate_hmc,
    releases="a test on remainders; a quadratic before",
    target="exact, given the quadratic",
    papers=(papers.CHRISTEN2005, papers.BARDENET2017, papers.CEPERLEY1999),
    page="surrogate_hmc",
)
