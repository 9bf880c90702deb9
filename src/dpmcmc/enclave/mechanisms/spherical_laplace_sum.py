"""The sum of any statistic of a record with spherical Laplace noise. The proof is in spherical_laplace_sum.md."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dpmcmc import validation
from dpmcmc.accounting.spherical_laplace import SphericalLaplace
from dpmcmc.enclave.arithmetic.lattice import Lattice
from dpmcmc.enclave.core.mechanism import Contribution, ReleasePlan, Term
from dpmcmc.enclave.core.metadata import Facts
from dpmcmc.enclave.core.sums import SumNoise, noise_variance, plain_sum
from dpmcmc.enclave.mechanisms.sum import Flat
from dpmcmc.enclave.noise.spherical_laplace import Mixture, mixture_law
from dpmcmc.enclave.traces import traced_at


@dataclass(frozen=True, slots=True)
class SphericalLaplaceSum:
    """Sum over the records of clip(statistic), with noise whose density falls as exp(-|x| / scale) with its l2 norm.

    The scale is `noise_multiplier` times the sensitivity, so that epsilon is at most 1 / noise_multiplier, whatever
    delta is; a coordinate has a standard deviation of sqrt(coordinates + 1) scales. For one large release of up to some
    twenty coordinates that is less noise than Gaussian noise at the same price. `clip` is as in `Sum`.
    """

    clip: float
    noise_multiplier: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip", validation.positive("clip", self.clip))
        object.__setattr__(self, "noise_multiplier", validation.positive("noise_multiplier", self.noise_multiplier))

    @property
    def is_noisy_sum(self) -> bool:
        """What is released is a sum with noise."""
        return True

    def contribution(self, term: Term) -> Contribution:
        """Return the statistic as a flat vector of real numbers."""
        return Flat(term)

    def plan(self, facts: Facts, contribution: Contribution, queries: Sequence[Any]) -> ReleasePlan:
        """Return the plan: one vector with as many coordinates as the statistic, under either adjacency."""
        (result,) = traced_at(contribution, queries, facts.record).out_avals
        return plain_sum(facts, self.clip, self.noise_multiplier, contribution, result.shape[0], _noise)


def _noise(noise_multiplier: float, num_coordinates: int, lattice: Lattice) -> SumNoise:
    mixture = Mixture(num_coordinates, lattice.scale)
    return SumNoise(
        SphericalLaplace(num_coordinates, noise_multiplier) + mixture.approximation,
        lambda: mixture_law(num_coordinates, lattice.scale),
        noise_variance(lattice) * (num_coordinates + 1),
    )
