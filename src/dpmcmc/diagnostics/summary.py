"""A table of draws: one row a number."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from dpmcmc.diagnostics.convergence import MINIMUM_DRAWS, ess, rhat

INTERVAL = (0.05, 0.5, 0.95)
"""The quantiles of a summary."""


SOURCES = ("data", "privacy", "prior")
"""Where the variance of a number comes from."""


def summarise(draws: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Return mean, standard deviation, quantiles, effective sample size and R-hat of every number.

    Args:
        draws: by parameter, with the axes (chain, draw, ...).
    """
    columns, table = coordinates(draws), summarise_moments(draws)
    chains, length = next(iter(columns.values())).shape
    judged = length >= MINIMUM_DRAWS
    table["ess_bulk"] = pd.Series(ess(columns), dtype=float) if judged else np.nan
    table["r_hat"] = pd.Series(rhat(columns), dtype=float) if judged and chains > 1 else np.nan
    return table


def summarise_moments(draws: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Return mean, standard deviation and quantiles of every number.

    Args:
        draws: by parameter, with the axes (chain, draw, ...).
    """
    columns = coordinates(draws)
    return pd.DataFrame.from_dict({label: _moments(values) for label, values in columns.items()}, orient="index")


def coordinates(draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return each number of all parameters by a label of its own, such as ``beta[0]``, as (chain, draw)."""
    return {
        name + (f"[{', '.join(map(str, index))}]" if index else ""): values[(slice(None), slice(None), *index)]
        for name, values in draws.items()
        for index in np.ndindex(values.shape[2:])
    }


def _moments(values: np.ndarray) -> dict[str, float]:
    """Summarise the draws of one number."""
    quantiles = np.quantile(values, INTERVAL)
    return {
        "mean": float(np.mean(values)),
        "sd": float(np.std(values, ddof=1)) if values.size > 1 else float("nan"),
        **{f"q{100 * level:g}": float(value) for level, value in zip(INTERVAL, quantiles, strict=True)},
    }
