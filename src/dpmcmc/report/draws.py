"""The draws of a run, as parts of a page."""

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from dpmcmc.diagnostics import plot_density, plot_trace
from dpmcmc.posterior import Posterior
from dpmcmc.report.privacy import Section, as_svg


def draws_sections(posterior: Posterior, known: Sequence[float] = ()) -> list[Section]:
    """Return a table of the posterior, its densities and its traces.

    Args:
        posterior: the run.
        known: the values that made the records, where they are simulated; drawn as dashed lines.
    """
    table = posterior.summary()
    columns = [str(column) for column in table.columns]
    numbers = [[f"{value:.4g}" for value in row] for row in table.to_numpy()]
    rows = [["parameter", *columns], *([name, *row] for name, row in zip(map(str, table.index), numbers, strict=True))]
    chains, draws = posterior.is_accepted[:, posterior.num_warmup :].shape
    told = (
        f"{chains} chains of {draws} draws after {posterior.num_warmup} steps of warm-up, "
        f"{posterior.acceptance_rate:.0%} of the proposals accepted."
    )
    if len(known):
        rows = [[*row, value] for row, value in zip(rows, ["truth", *(f"{each:.4g}" for each in known)], strict=True)]
        told += " The records are simulated: the dashed lines are the values that made them."
    picture = as_svg(_picture(posterior, known), "densities and traces of the posterior draws")
    return [
        Section("The posterior", told, rows),
        Section("Its draws", "Densities, and the chains over time.", (), picture),
    ]


def _picture(posterior: Posterior, known: Sequence[float]) -> Figure:
    values = np.concatenate(
        [posterior[name].reshape(*posterior[name].shape[:2], -1) for name in posterior.draws], axis=2
    )
    names = list(posterior.summary().index)
    with mpl.rc_context({"axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(7.5, 1.9 * len(names)), layout="constrained")
        axes = figure.subplots(len(names), 2, squeeze=False)
        for at, name in enumerate(names):
            plot_density(values, coordinate=at, by_chain=True, ax=axes[at, 0])
            plot_trace(values, coordinate=at, ax=axes[at, 1])
            legend = axes[at, 0].get_legend()
            if at and legend is not None:  # one legend serves all rows
                legend.remove()
            axes[at, 0].set(xlabel=name, title="")
            axes[at, 1].set(ylabel=name, title="")
            if len(known):
                axes[at, 0].axvline(known[at], color="black", linestyle="--", linewidth=1)
                axes[at, 1].axhline(known[at], color="black", linestyle="--", linewidth=1)
    return figure
