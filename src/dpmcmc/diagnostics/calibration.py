"""Whether a method knows its own noise: simulation-based calibration, and how often its intervals hold the truth.

Parameters are drawn, a data set is simulated from them, and a method makes draws of a posterior from the data set
alone; many times over. If the parameters come from the prior and the draws from the posterior given what the method has
seen, its privacy noise included, then the rank of the truth among independent draws is uniform (Talts et al. 2018), and
a central interval holds the truth as often as it says. All of it is simulated: no private record is involved.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dpmcmc import validation
from dpmcmc.diagnostics.arguments import Array, Draws, Sample, generator, read
from dpmcmc.errors import InvalidArgument

LEVELS = (0.5, 0.8, 0.95)
"""The intervals whose coverage is told."""

Data = TypeVar("Data")
Parameters = ArrayLike | Mapping[str, ArrayLike]


@dataclass(frozen=True, eq=False)
class Calibration:
    """Where the truth stood among the draws, data set by data set.

    Attributes:
        ranks: the share of the draws that are below the truth, ties broken at random so that it is uniform on (0, 1)
            where the method is calibrated and its draws independent; of shape (data set, coordinate).
        labels: a name for each coordinate.
    """

    ranks: Array
    labels: tuple[str, ...]

    def coverage(self, levels: Sequence[float] = LEVELS) -> pd.DataFrame:
        """Return how often central intervals held the truth, one row for each coordinate and level.

        Its `error` is the standard deviation of `coverage` over data sets, if the intervals are right: a binomial's.
        """
        levels = [validation.probability("levels", level) for level in levels]
        rows = [
            {
                "parameter": label,
                "level": level,
                "coverage": float(np.mean(np.abs(ranks - 0.5) < level / 2)),
                "error": float(np.sqrt(level * (1 - level) / len(ranks))),
            }
            for label, ranks in zip(self.labels, self.ranks.T, strict=True)
            for level in levels
        ]
        return pd.DataFrame(rows)

    def uniformity(self) -> pd.Series:
        """Return for each coordinate the chance of ranks at least as far from uniform (Kolmogorov and Smirnov)."""
        from scipy import stats

        found = [float(stats.kstest(ranks, "uniform").pvalue) for ranks in self.ranks.T]
        return pd.Series(found, index=list(self.labels), name="p_value")


def calibrate(
    simulate: Callable[[np.random.Generator], tuple[Parameters, Data]],
    method: Callable[[Data], Draws],
    num_data_sets: int,
    rng: np.random.Generator,
) -> Calibration:
    """Simulate data sets, make a posterior of each, and note where the truth stands in it.

    Chains whose draws resemble each other have fewer of them in effect: thin them, or the ranks will pile up at the
    ends although the method is right.

    Args:
        simulate: ``simulate(rng)`` draws parameters and, from them, a data set. With parameters from the prior
            calibration is exact; with fixed ones it is the coverage that a frequentist means.
        method: ``method(data)`` returns draws, see `dpmcmc.diagnostics.Draws`. It is shown the data set and not the
            truth: a start at the truth, say, would be an answer that nobody paid for.
        num_data_sets: how many. A hundred tell 90 from 95 percent at about two standard errors.
        rng: a numpy generator.
    """
    num_data_sets = validation.integer("num_data_sets", num_data_sets, at_least=1)
    rng = generator("rng", rng)
    ranks: list[Array] = []
    labels: tuple[str, ...] | None = None
    for _ in range(num_data_sets):
        parameters, data = simulate(rng)
        sample, truth = read("draws", method(data)), _read_truth(parameters)
        labels = sample.labels if labels is None else labels
        if sample.labels != truth.labels or sample.labels != labels:
            raise InvalidArgument(
                f"draws of {', '.join(sample.labels)} must be of the parameters that simulate returned, "
                f"{', '.join(truth.labels)}, in every data set"
            )
        ranks.append(_rank(sample.pooled, truth.pooled[0], rng))
    assert labels is not None  # noqa: S101  # there is at least one data set
    return Calibration(np.stack(ranks), labels)


def _read_truth(parameters: Parameters) -> Sample:
    """Return parameters as a single draw."""
    once: Any
    if isinstance(parameters, Mapping):
        once = {name: np.asarray(value)[None, None] for name, value in parameters.items()}
    else:
        once = np.atleast_1d(np.asarray(parameters))[None]
    return read("parameters", once, at_least=1)


def _rank(draws: Array, truth: Array, rng: np.random.Generator) -> Array:
    """Return a number that is uniform between the shares of the draws below the truth and not above it."""
    below, tied = np.sum(draws < truth, axis=0), np.sum(draws == truth, axis=0)
    return (below + (tied + 1) * rng.uniform(size=len(truth))) / (len(draws) + 1)
