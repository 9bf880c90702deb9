"""The pictures of a run: its privacy curve, and of every number its density, its traces and its ranks."""

import math
from collections.abc import Mapping

import numpy as np
from markupsafe import Markup

from dpmcmc.accounting import Certificate, delta
from dpmcmc.diagnostics import smoothing
from dpmcmc.diagnostics.ranks import rank_counts
from dpmcmc.report.chart import Chart

POINTS = 120
"""Of a line; more could not be told apart."""

TRACE_POINTS = 300
CHAIN_STYLES = 4


def curve(certificate: Certificate) -> Markup:
    """Draw delta against epsilon: every point of it holds."""
    stated = float(certificate.epsilon)
    if not math.isfinite(stated):
        return Markup("")
    epsilons = np.linspace(0, max(1.3 * stated, 0.1), POINTS)
    deltas = np.array([float(delta(certificate.event, value)) for value in epsilons])
    lowest = max(min(certificate.delta / 1e3, float(deltas[deltas > 0].min(initial=1.0))), 1e-30)
    chart = Chart((0, float(epsilons[-1])), (lowest, 1.0), "epsilon", "delta", log_y=True, height=220)
    chart.line(epsilons, np.maximum(deltas, lowest / 10), "line")
    words = f"epsilon {stated:.4g} at delta {certificate.delta:.4g}"
    chart.dot(stated, certificate.delta, "mark", words)
    chart.read(epsilons, "epsilon", delta=deltas)
    return chart.svg("Privacy curve", f"Delta falls from {deltas[0]:.2g} at epsilon 0; the point marks {words}.")


def density(
    name: str, values: np.ndarray, prior: np.ndarray | None, interval: tuple[float, float, float], known: float | None
) -> Markup:
    """Draw the density of one number, its interval, and the prior's density in dashes."""
    found = smoothing.density(values.reshape(-1, 1))
    low, middle, high = interval
    if found is None:
        return Markup("")
    (places,), heights = found
    kept = slice(None, None, max(1, len(places) // POINTS))
    places, heights = places[kept], heights[kept]
    reach = [places[0], places[-1], *([known] if known is not None else [])]
    chart = Chart((float(min(reach)), float(max(reach))), (0, 1.05 * heights.max()), "", "", y_ticks=False, height=156)
    inside = (places >= low) & (places <= high)
    chart.area(places[inside], np.zeros(inside.sum()), heights[inside], "fill")
    chart.line(places, heights, "line")
    chart.rule(middle, "median", f"median {middle:.4g}")
    lines = {"posterior": heights}
    if prior is not None:
        lines["prior"] = _prior_heights(prior, places)
        chart.line(places, lines["prior"], "prior")
    if known is not None:
        chart.rule(known, "known", f"the value that made the records: {known:.4g}")
    chart.read(places, "at", **lines)
    return chart.svg(f"Density of {name}", f"Median {middle:.4g}; 90 % of the draws are from {low:.4g} to {high:.4g}.")


def prior_and_posterior(name: str, prior: tuple[float, float, float], posterior: tuple[float, float, float]) -> Markup:
    """Draw both 90 % intervals on one scale."""
    low, high = min(prior[0], posterior[0]), max(prior[2], posterior[2])
    margin = 0.05 * (high - low)
    chart = Chart((low - margin, high + margin), (0, 1), "", "", y_ticks=False, height=54)
    for style, words, quantiles, (bottom, top) in (
        ("pre", "prior", prior, (0.35, 0.65)),
        ("post", "posterior", posterior, (0.1, 0.9)),
    ):
        said = f"{words}: median {quantiles[1]:.4g}, 90 % from {quantiles[0]:.4g} to {quantiles[2]:.4g}"
        chart.bar((quantiles[0], quantiles[2]), (bottom, top), style, said)
    wide, narrow = prior[2] - prior[0], posterior[2] - posterior[0]
    share = f"{narrow / wide:.2g} times as wide as the prior's" if wide > 0 else ""
    return chart.svg(f"Prior and posterior of {name}", f"The posterior's 90 % interval is {share}.")


def of_chains(chains: Mapping[str, np.ndarray]) -> dict[str, dict[str, Markup]]:
    """Return the traces and the rank plots of some numbers, by name."""
    return {
        "traces": {name: trace(name, values) for name, values in chains.items()},
        "ranks": {name: ranks(name, values) for name, values in chains.items()},
    }


def trace(name: str, values: np.ndarray) -> Markup:
    """Draw the chains over time, (chain, draw)."""
    chart = Chart((0, values.shape[1]), _range(values), "draw", "")
    every = max(1, values.shape[1] // TRACE_POINTS)
    for number, chain in enumerate(values):
        chart.line(np.arange(0, len(chain), every), chain[::every], f"trace chain{number % CHAIN_STYLES}")
    return chart.svg(f"Traces of {name}", f"{len(values)} chains of {values.shape[1]} draws.")


def ranks(name: str, values: np.ndarray) -> Markup:
    """Draw how the ranks of each chain's draws among all spread: evenly if the chains agree."""
    found = rank_counts(values)
    edges, counts, expected = found.edges, found.counts, found.expected
    chart = Chart((0, values.size), (0, 1.1 * counts.max()), "rank among all draws", "draws")
    steps = np.repeat(edges, 2)[1:-1]
    for number, count in enumerate(counts):
        chart.line(steps, np.repeat(count, 2), f"rank chain{number % CHAIN_STYLES}")
    chart.line([0, values.size], [expected, expected], "even")
    worst = int(np.abs(counts - expected).max())
    return chart.svg(
        f"Ranks of {name}", f"{len(values)} chains; a bin is at most {worst} draws from the even {expected:.0f}."
    )


def _range(values: np.ndarray) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    margin = 0.05 * (high - low) or 0.5
    return low - margin, high + margin


def _prior_heights(prior: np.ndarray, places: np.ndarray) -> np.ndarray:
    found = smoothing.density(prior.reshape(-1, 1))
    if found is None:
        return np.zeros(len(places))
    (at,), heights = found
    return np.interp(places, at, heights, left=0.0, right=0.0)
