"""What an attacker who has seen features of whole runs makes of them: learnt on some runs, judged on others."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpmcmc.accounting import Gaussian
from dpmcmc.accounting import epsilon as epsilon_of
from dpmcmc.audits.bounds import lower_without_assumption, signal
from dpmcmc.audits.histograms import Histogram

LEARNT_ON = 0.25
"""The share of the runs that the attacker learns from and chooses a threshold on."""


@dataclass(frozen=True)
class Seen:
    """What was seen of runs on two tables."""

    runs: int
    claimed: float
    delta: float
    error: float
    signal: float
    """How far the two tables are apart in what the attacker looks at, in standard deviations."""
    lower_no_assumption: float
    lower_trade_off: float

    def __str__(self) -> str:
        return (
            f"{self.runs} runs of each table; claimed epsilon {self.claimed:g} at delta {self.delta:g}\n"
            f"the tables are {self.signal:.3f} standard deviations apart in what the attacker looks at\n"
            f"epsilon is at least {self.lower_no_assumption:.3f} without assumption, {self.lower_trade_off:.3f} if "
            f"what they look at is Gaussian, at a confidence of 1 - {self.error:g}"
        )


def judge(
    first: NDArray[np.float64], second: NDArray[np.float64], claimed: float, delta: float, error: float = 1e-6
) -> Seen:
    """Let an attacker learn on some runs which table they are of, and bound epsilon by the success on the others.

    Args:
        first: the features of the runs on one table, a row each.
        second: those of the other table.
        claimed: the epsilon that was promised.
        delta: at which delta.
        error: the chance that either bound is too high.
    """
    learnt = max(int(LEARNT_ON * min(len(first), len(second))), 2)
    weights, middle, scale = discriminant(first[:learnt], second[:learnt])
    chosen_on, counted = (
        tuple(Histogram.of((rows[part] @ weights - middle) / scale) for rows in (first, second))
        for part in (slice(0, learnt), slice(learnt, None))
    )
    apart, least = signal(counted[0], counted[1], error)
    return Seen(
        counted[0].size,
        claimed,
        delta,
        error,
        apart,
        lower_without_assumption((chosen_on[0], chosen_on[1]), (counted[0], counted[1]), delta, error),
        float(epsilon_of(Gaussian(1 / least), delta)) if least > 0 else 0.0,
    )


def discriminant(first: NDArray[np.float64], second: NDArray[np.float64]) -> tuple[NDArray[np.float64], float, float]:
    """Return the direction in which two clouds are farthest apart, their middle along it, and the spread within."""
    clouds = [np.clip(cloud, *np.quantile(np.r_[first, second], (0.01, 0.99), axis=0)) for cloud in (first, second)]
    within = np.atleast_2d(sum(np.cov(cloud, rowvar=False) for cloud in clouds)) / 2
    within = within + 1e-3 * np.diag(np.diag(within)) + 1e-12 * np.eye(len(within))
    difference = clouds[0].mean(axis=0) - clouds[1].mean(axis=0)
    weights = np.linalg.solve(within, difference)
    middle = float((clouds[0].mean(axis=0) + clouds[1].mean(axis=0)) @ weights / 2)
    return weights, middle, float(np.sqrt(max(weights @ within @ weights, 1e-300)))
