"""Zero-concentrated differential privacy: one number a release, adding up (Bun and Steinke 2016)."""

import math
from dataclasses import dataclass

from dpmcmc.accounting import spherical_laplace
from dpmcmc.accounting.event import AcceptBit, Event, Gaussian, LogisticBit, counts
from dpmcmc.accounting.spherical_laplace import SphericalLaplace


@dataclass(frozen=True)
class ConcentratedCurve:
    """The curve of a rho-zCDP composition."""

    rho: float

    def log_delta(self, epsilon: float) -> float:
        """Return -(epsilon - rho)^2 / (4 rho) above rho, else 0."""
        above = max(epsilon - self.rho, 0.0)
        return -above * (above / (4 * self.rho)) if self.rho else -math.inf

    def epsilon(self, delta: float) -> float:
        """Return rho + 2 sqrt(rho ln(1/delta))."""
        return self.rho + 2 * math.sqrt(self.rho * -math.log(delta))


def curve(event: Event) -> ConcentratedCurve | None:
    """Return the curve of the composition; None if an event in it has no useful rho.

    A Barker bit moves its log-odds by at most D, so its privacy loss lies in an interval of length D: rho = D^2/8
    (Cesar and Rogers 2021). An accept bit is post-processing of the Gaussian release that it hides.
    """
    rhos: list[float] = []
    for part, times in counts(event).items():
        match part:
            case Gaussian(noise_multiplier=z) | AcceptBit(noise_multiplier=z):
                rhos.append(times / (2 * z * z))
            case LogisticBit(sensitivity=sensitivity):
                rhos.append(times * sensitivity**2 / 8)
            case SphericalLaplace():
                rhos.append(times * spherical_laplace.rho(part))
            case _:
                return None
    return ConcentratedCurve(math.fsum(rhos))


def rho_for(epsilon: float, delta: float) -> float:
    """Return the largest rho within (epsilon, delta): (sqrt(epsilon - ln delta) - sqrt(-ln delta))^2."""
    target = -math.log(delta)
    return (epsilon / (math.sqrt(epsilon + target) + math.sqrt(target))) ** 2
