"""Do the chains agree, and how many independent draws are they worth? R-hat, and effective sample size by ArviZ."""

from collections.abc import Callable, Mapping
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dpmcmc import validation
from dpmcmc.diagnostics.arguments import Array, Draws, Sample, read
from dpmcmc.diagnostics.arviz_adapter import arviz
from dpmcmc.errors import InvalidArgument

MINIMUM_DRAWS = 4
"""Draws per chain below which a chain cannot be split and compared."""

TAIL = (0.05, 0.95)
"""The quantiles whose effective sample sizes the tail one is the smaller of; ArviZ 1 has no default for arrays."""


@overload
def rhat(draws: Mapping[str, ArrayLike]) -> dict[str, Array]: ...
@overload
def rhat(draws: ArrayLike) -> Array: ...
def rhat(draws: Draws) -> Array | dict[str, Array]:
    """Return the rank-normalised split R-hat of each coordinate (Vehtari et al. 2021): near 1 if the chains agree.

    The larger of two split R-hats, of the normalised ranks of the draws and of their distances from the median.
    Infinite where no chain ever moved and they stand at different places, NaN where they stand at the same.

    Args:
        draws: (chain, draw, coordinate), or names to (chain, draw, ...): at least 2 chains of at least 4 draws.

    Returns:
        One number a coordinate, in the form in which the draws came.
    """
    sample = _read_chains(draws)
    if sample.chains.shape[0] < 2:
        raise InvalidArgument(
            f"draws of shape {sample.chains.shape} (chain, draw, coordinate) must have at least 2 chains, which R-hat "
            "compares; for one chain, compare its halves: draws.reshape(2, -1, dimension)"
        )
    return sample.by_name(_each_coordinate(sample, _rhat, np.inf))


@overload
def ess(draws: Mapping[str, ArrayLike], kind: str = "bulk") -> dict[str, Array]: ...
@overload
def ess(draws: ArrayLike, kind: str = "bulk") -> Array: ...
def ess(draws: Draws, kind: str = "bulk") -> Array | dict[str, Array]:
    """Return the effective sample size of each coordinate (Vehtari et al. 2021), all chains together.

    How many independent draws estimate as well: a mean (``"bulk"``, of the normalised ranks) or the 5 % and 95 %
    quantiles (``"tail"``, the smaller of the two). NaN where no chain ever moved.

    Args:
        draws: (chain, draw, coordinate), or names to (chain, draw, ...), or (draw, coordinate) for a single chain; at
            least 4 draws per chain.
        kind: ``"bulk"`` or ``"tail"``.

    Returns:
        One number a coordinate, in the form in which the draws came.
    """
    kind = validation.choice("kind", kind, {"bulk", "tail"})
    sample = _read_chains(draws)
    module = arviz()
    options: dict[str, Any] = {"method": "bulk"} if kind == "bulk" else {"method": "tail", "prob": TAIL}
    return sample.by_name(_each_coordinate(sample, lambda chains: module.ess(chains, **options), np.nan))


def _rhat(chains: Array) -> float:
    """Return the R-hat of one coordinate. A verdict needs it in every fit, and ArviZ takes a second to be loaded."""
    half = chains.shape[1] // 2
    halves = np.concatenate([chains[:, :half], chains[:, -half:]])
    return max(_plain_rhat(_normal_ranks(each)) for each in (halves, np.abs(halves - np.median(halves))))


def _normal_ranks(values: Array) -> Array:
    """Return the quantiles of a standard normal distribution at the ranks of values; equal ones share their ranks."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places.reshape(values.shape)]
    return special.ndtri((ranks - 3 / 8) / (values.size + 1 / 4))


def _plain_rhat(chains: Array) -> float:
    length = chains.shape[1]
    between, within = np.var(chains.mean(axis=1), ddof=1), np.var(chains, axis=1, ddof=1).mean()
    return float(np.sqrt(between / within + (length - 1) / length))


def _read_chains(draws: Draws) -> Sample:
    sample = read("draws", draws)
    if sample.chains.shape[1] < MINIMUM_DRAWS:
        raise InvalidArgument(
            f"draws of shape {sample.chains.shape} (chain, draw, coordinate) must have at least {MINIMUM_DRAWS} draws "
            "per chain, which is split in two"
        )
    return sample


def _each_coordinate(sample: Sample, statistic: Callable[[Array], Any], stuck_apart: float) -> Array:
    """Return a statistic of each coordinate; of chains that never moved it is `stuck_apart`, or NaN at one place."""
    values = np.empty(sample.chains.shape[2])
    for i in range(len(values)):
        chains = sample.chains[:, :, i]
        if (chains == chains[:, :1]).all():
            values[i] = stuck_apart if np.ptp(chains[:, 0]) > 0 else np.nan
        else:
            with np.errstate(divide="ignore", invalid="ignore"):  # some halves never moved: the answer is inf or NaN
                values[i] = float(statistic(chains))
    return values
