"""The likelihood sketch on the literature's problems: MMD to the exact posterior, or total variation for the mixture.

    python experiments/beyond/sketch.py dp_hmc_2021_banana --epsilon 1 4 --repeats 10
    python experiments/beyond/sketch.py mixture --epsilon 1 4 10 --repeats 10 --records 100000

Each repeat draws new records and pays for both releases: delta = 1e-6, replace-one. One line a repeat, then quartiles.
"""

import argparse
import time
from dataclasses import replace

import jax
import numpy as np

from dpmcmc import Budget, PrivateData, diagnostics, zoo
from dpmcmc.accounting import accountants
from dpmcmc.fitting import prepare_fit
from dpmcmc.fitting.sketch.draws import Sketched
from dpmcmc.zoo.mixture import condensed

DELTA = 1e-6
CELLS = 400
REACH = 8.0
"""How far the grid goes from a mode of the mixture, in standard deviations."""


def main() -> None:
    """Print one line a repeat, and the quartiles of each epsilon."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problem", choices=sorted(zoo.PROBLEMS))
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 4.0])
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--records", type=int, default=None)
    arguments = parser.parse_args()
    for epsilon in arguments.epsilon:
        scores = [repeat(arguments.problem, epsilon, number, arguments.records) for number in range(arguments.repeats)]
        low, median, high = np.quantile(scores, [0.25, 0.5, 0.75])
        print(f"{arguments.problem} epsilon {epsilon:g}: quartiles {low:.4f} {median:.4f} {high:.4f}", flush=True)  # noqa: T201


def repeat(name: str, epsilon: float, number: int, num_records: int | None) -> float:
    """Return the distance of one private posterior from the exact one."""
    rng = np.random.default_rng(number)
    problem = zoo.problem(name, rng, **({} if num_records is None else {"num_records": num_records}))
    model = problem.model
    if model.sample_prior is None:  # the circle's flat prior: say where to look
        model = replace(model, sample_prior=lambda key: 5 * jax.random.normal(key, (2,)))
    data = PrivateData(problem.records, bounds=problem.bounds, budget=Budget(epsilon, DELTA))
    begun = time.monotonic()
    prepared = prepare_fit(model, data, epsilon=epsilon, sampler="sketch", even_if_useless=True)
    with data.reserve(prepared.event) as paid:
        posterior, points = prepared.way.stages.run(paid, rng)
    seconds = time.monotonic() - begun
    if "mixture" in name:
        score, unit = mixture_total_variation(problem, posterior, rng), "total variation"
    else:
        score, unit = diagnostics.mmd(points.draw(rng, 1000), problem.sample_posterior(rng, 1000), rng), "MMD"
    paid_for = float(accountants.epsilon(prepared.event, DELTA))
    print(  # noqa: T201
        f"{name} epsilon {paid_for:.4f} repeat {number}: {unit} {score:.4f}; rank {prepared.way.stages.coarse.rank} "
        f"then {posterior.sketch.rank}, {points.effective:.0%} of the points count, {seconds:.0f} s",
        flush=True,
    )
    return score


def mixture_total_variation(problem: zoo.Problem, posterior: Sketched, rng: np.random.Generator) -> float:
    """Return the distance on grids around both modes, which (theta1 + theta2, -theta2) takes to each other."""
    places, weights = condensed(problem.records.astype(np.float64))

    def exact(positions: np.ndarray) -> np.ndarray:
        log_prior = -0.5 * (positions[:, 0] ** 2 / 10 + positions[:, 1] ** 2)
        return log_prior + problem.model.temperature * np.concatenate(
            [_mixture_log_likelihood(part, places, weights) for part in np.array_split(positions, 64)]
        )

    axes = _fitted_box(exact, problem.centre)
    one = np.stack([side.ravel() for side in np.meshgrid(*axes, indexing="ij")], axis=1)
    other = np.stack([one[:, 0] + one[:, 1], -one[:, 1]], axis=1)
    cells = np.concatenate([one[one[:, 1] >= 0], other[one[:, 1] >= 0]])
    expected = exact(cells)
    expected = np.exp(expected - expected.max())
    found = posterior.weigh(cells, np.zeros(len(cells)), posterior.replicates(rng)).weights.mean(axis=1)
    return 0.5 * float(np.abs(found - expected / expected.sum()).sum())


def _mixture_log_likelihood(positions: np.ndarray, places: np.ndarray, weights: np.ndarray) -> np.ndarray:
    first, second = positions[:, :1], positions.sum(axis=1, keepdims=True)
    return np.logaddexp(-0.25 * (places - first) ** 2, -0.25 * (places - second) ** 2) @ weights


def _fitted_box(log_density, centre: np.ndarray) -> list[np.ndarray]:
    """Return the axes of a grid around the mode next to the truth, as wide as the density is there."""
    middle, deviation = centre.astype(np.float64), np.array([1.0, 1.0])
    for _ in range(8):
        axes = [m + np.linspace(-REACH, REACH, 60) * d for m, d in zip(middle, deviation, strict=True)]
        points = np.stack([side.ravel() for side in np.meshgrid(*axes, indexing="ij")], axis=1)
        points = points[points[:, 1] >= 0]
        values = log_density(points)
        mass = np.exp(values - values.max())
        middle = mass @ points / mass.sum()
        deviation = np.maximum(np.sqrt(mass @ (points - middle) ** 2 / mass.sum()), deviation * REACH / 30)
    return [m + np.linspace(-REACH, REACH, CELLS) * d for m, d in zip(middle, deviation, strict=True)]


if __name__ == "__main__":
    main()
