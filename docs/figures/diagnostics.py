"""Draws diagnostics.png: a short and a long run on a banana, as `dpmcmc.diagnostics` shows and measures them."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from dpmcmc.diagnostics import ess, mmd, plot_contour, plot_density, plot_trace, rhat

NUM_CHAINS = 4
BEND = 0.25


def exact_draws(num_draws: int, rng: np.random.Generator) -> np.ndarray:
    """Return independent draws of the banana: a normal pair whose second coordinate is bent by the first."""
    pair = rng.normal(size=(num_draws, 2))
    return np.stack([2 * pair[:, 0], pair[:, 1] - BEND * (4 * pair[:, 0] ** 2 - 4)], axis=1)


def log_density(points: np.ndarray) -> np.ndarray:
    """Return the log-density of the banana, up to a constant."""
    first, second = points.T
    return -(first**2) / 8 - (second + BEND * (first**2 - 4)) ** 2 / 2


def random_walk(num_draws: int, rng: np.random.Generator) -> np.ndarray:
    """Return chains of random-walk Metropolis, of shape (chain, draw, coordinate)."""
    position = np.stack([[-3.0, 1.0], [0.0, 2.0], [2.0, 0.0], [3.5, -4.0]])
    chains = np.empty((NUM_CHAINS, num_draws, 2))
    for i in range(num_draws):
        proposal = position + rng.normal(scale=0.8, size=position.shape)
        accept = np.log(rng.uniform(size=NUM_CHAINS)) < log_density(proposal) - log_density(position)
        position = np.where(accept[:, None], proposal, position)
        chains[:, i] = position
    return chains


def main() -> None:
    """Run both, measure both, and write the picture beside this file."""
    rng = np.random.default_rng(20)
    reference = {"theta": exact_draws(1000, rng)[None]}
    figure = Figure(figsize=(13.5, 7.6), layout="constrained")
    for row, num_draws in zip(figure.subfigures(2, 1), (100, 10_000), strict=True):
        draws = {"theta": random_walk(num_draws, rng)}
        left, middle, right = row.subplots(1, 3, width_ratios=(3, 3, 4))
        plot_density(draws, reference=reference, coordinate=0, ax=left)
        plot_contour(draws, reference=reference, ax=middle)
        plot_trace(draws, coordinate=0, ax=right)
        row.suptitle(
            f"{NUM_CHAINS} chains of {num_draws:,} draws:   MMD {mmd(draws, reference, rng):.3f},   "
            f"R-hat {rhat(draws)['theta'].max():.2f},   bulk ESS {ess(draws)['theta'].min():.0f}",
            fontsize=15,
        )
    target = Path(__file__).with_suffix(".png")
    figure.savefig(target, dpi=110)
    print(f"wrote {target.name}")


if __name__ == "__main__":
    main()
