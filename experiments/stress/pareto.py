"""Pareto smoothed importance sampling (Vehtari, Simpson, Gelman, Yao and Gabry 2024)."""

import numpy as np

LEAST = 5
"""Weights that a tail has, at least, for a Pareto to be fitted to it."""


def smoothed(logs: np.ndarray) -> tuple[np.ndarray, float]:
    """Return normalised weights and the shape of their tail, k; where weights are not finite they are zero."""
    logs = np.where(np.isfinite(logs), logs, -np.inf)
    if np.isfinite(logs).sum() < len(logs) / 2:
        return np.full(len(logs), 1 / len(logs)), float("inf")
    weights = np.exp(logs - logs.max())
    number = int(np.ceil(min(0.2 * len(logs), 3 * np.sqrt(len(logs)))))
    order = np.argsort(weights)
    tail, threshold = order[-number:], weights[order[-number - 1]]
    excess = weights[tail] - threshold
    if number < LEAST or not excess[-1] > 1e-12 or not threshold > 0:
        return weights / weights.sum(), 0.0 if excess[-1] <= 1e-12 else float("inf")
    shape, scale = fit_tail(excess)
    levels = (np.arange(number) + 0.5) / number
    quantiles = (
        -scale * np.log1p(-levels) if abs(shape) < 1e-6 else scale * np.expm1(-shape * np.log1p(-levels)) / shape
    )
    weights[tail] = np.minimum(threshold + quantiles, 1.0)
    return weights / weights.sum(), shape


def fit_tail(excess: np.ndarray) -> tuple[float, float]:
    """Return shape and scale of a generalised Pareto law, for sorted excesses (Zhang and Stephens 2009).

    The shape is a mean of the profile likelihood over a grid, drawn a little to one half.
    """
    number = len(excess)
    excess = np.maximum(excess, 1e-300)
    size = 30 + int(np.sqrt(number))
    quartile = excess[int(number / 4 + 0.5) - 1]
    places = np.arange(1, size + 1) - 0.5
    rates = 1 / excess[-1] + (1 - np.sqrt(size / places)) / (3 * quartile)
    shapes = np.mean(np.log1p(-rates[:, None] * excess), axis=1)
    logs = number * (np.log(np.where(shapes != 0, -rates / np.where(shapes != 0, shapes, 1.0), 1.0)) - shapes - 1)
    shares = np.exp(logs - logs.max())
    rate = float(rates @ shares / shares.sum())
    shape = float(np.mean(np.log1p(-rate * excess)))
    return (number * shape + 5.0) / (number + 10.0), -shape / rate
