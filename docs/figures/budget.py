"""Draws budget.png: samplers at several budgets, what one run tells, and whether its chains agree.

The data are simulated: 5,000 records of N(mean, I) in two dimensions, with a prior N(0, I). So the exact posterior is
known, and may be drawn from. Takes some minutes.
"""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import dpmcmc as dp
from dpmcmc.diagnostics import mmd, plot_chain_ranks, plot_distances, plot_privacy

EPSILONS = (0.5, 1.0, 2.0, 4.0)
SAMPLERS = ("dp_langevin", "dp_penalty")
REPEATS = 2
NUM_STEPS = 1000
SIZE = 5_000


def main() -> None:
    """Run all, measure all, and write the picture beside this file."""
    rng = np.random.default_rng(21)
    rows = rng.normal([0.5, -0.3], 1.0, size=(SIZE, 2)).clip(-5, 5).astype(np.float32)
    reference = rng.normal(rows.sum(axis=0) / (SIZE + 1), (SIZE + 1) ** -0.5, size=(2000, 2))
    exact = rng.normal(rows.sum(axis=0) / (SIZE + 1), (SIZE + 1) ** -0.5, size=(2000, 2))
    model = dp.Model(
        lambda theta: -0.5 * jnp.sum(theta**2),
        lambda theta, record: -0.5 * jnp.sum((record - theta) ** 2),
        position=jnp.zeros(2),
    )
    options = {"num_steps": NUM_STEPS, "init": jnp.zeros(2), "even_if_useless": True, "progress": False}

    def run(sampler: str, epsilon: float) -> dp.Posterior:
        data = dp.PrivateData(rows, bounds={"records": (-5, 5)}, budget=dp.Budget(epsilon, 1e-6))
        return dp.fit(model, data, epsilon=epsilon, sampler=sampler, **options)

    runs = {sampler: [[run(sampler, epsilon) for _ in range(REPEATS)] for epsilon in EPSILONS] for sampler in SAMPLERS}
    scores = {
        sampler: [[mmd(posterior.matrix(), reference, rng) for posterior in repeats] for repeats in by_epsilon]
        for sampler, by_epsilon in runs.items()
    }
    figure = Figure(figsize=(14, 4.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    plot_distances(EPSILONS, scores, floor=mmd(exact, reference, rng), ax=left)
    curves = {
        f"epsilon {epsilon:g}": repeats[0].certificate.curve
        for epsilon, repeats in zip(EPSILONS, runs["dp_langevin"], strict=True)
    }
    plot_privacy(curves, ax=middle)
    plot_chain_ranks(runs["dp_penalty"][-1][0].draws, ax=right)
    target = Path(__file__).with_suffix(".png")
    figure.savefig(target, dpi=110)
    print(f"wrote {target.name}")


if __name__ == "__main__":
    main()
