"""How good draws are: functions of draws alone, never of records.

Distances from a reference posterior (MMD, mean error, sliced Wasserstein, total variation), agreement between chains
(R-hat, effective sample size), calibration over simulated data sets, summaries, and pictures. Every random choice
comes from a generator that the caller passes.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpmcmc.diagnostics.arguments import Draws
from dpmcmc.diagnostics.calibration import Calibration, calibrate
from dpmcmc.diagnostics.convergence import ess, rhat
from dpmcmc.diagnostics.distance import mean_error, sliced_wasserstein, total_variation
from dpmcmc.diagnostics.mmd import median_bandwidth, mmd, squared_mmd_unbiased
from dpmcmc.diagnostics.quality import Grade, Quality, judge_chains
from dpmcmc.diagnostics.summary import coordinates, summarise

if TYPE_CHECKING:
    from dpmcmc.diagnostics.arviz_adapter import to_arviz
    from dpmcmc.diagnostics.budget_plots import plot_distances, plot_privacy
    from dpmcmc.diagnostics.plots import (
        plot_chain_ranks,
        plot_contour,
        plot_density,
        plot_pairs,
        plot_ranks,
        plot_trace,
        plot_traces,
    )

__all__ = [
    "Calibration",
    "Draws",
    "Grade",
    "Quality",
    "calibrate",
    "coordinates",
    "ess",
    "judge_chains",
    "mean_error",
    "median_bandwidth",
    "mmd",
    "plot_chain_ranks",
    "plot_contour",
    "plot_density",
    "plot_distances",
    "plot_pairs",
    "plot_privacy",
    "plot_ranks",
    "plot_trace",
    "plot_traces",
    "rhat",
    "sliced_wasserstein",
    "squared_mmd_unbiased",
    "summarise",
    "to_arviz",
    "total_variation",
]

_HOMES = {"to_arviz": "arviz_adapter", "plot_distances": "budget_plots", "plot_privacy": "budget_plots"}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Load pictures, and what draws them, when somebody asks: a fit does not wait for them."""
    if name not in __all__:
        raise AttributeError(f"module 'dpmcmc.diagnostics' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"dpmcmc.diagnostics.{_HOMES.get(name, 'plots')}"), name)
