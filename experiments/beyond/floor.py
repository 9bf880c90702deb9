"""What no method can be expected to beat: one release of the right sum, by one who knows everything but the noise."""

import numpy as np

from dpmcmc.accounting import gaussian
from experiments.beyond.problems import Regular

CLIPS = np.geomspace(0.3, 6.0, 40)
"""The clips that the oracle chooses from, in root mean squares of the norms of the scores."""


def best_shift(law: Regular, epsilon: float, delta: float, rng: np.random.Generator) -> np.ndarray:
    """Return by how much one release moves the posterior, in its standard deviations.

    The sum of all scores at the exact mode, in the exact round coordinates, clipped at the norm at which bias and noise
    together are least, with the noise that the whole budget allows where a record may be replaced.
    """
    norms = np.linalg.norm(law.scores, axis=1)
    multiplier = 1 / np.sqrt(2 * gaussian.mean_for(epsilon, delta))
    dimension = law.scores.shape[1]
    choices = []
    for clip in CLIPS * np.sqrt(np.mean(norms**2)):
        bias = -np.sum(law.scores * np.maximum(1 - clip / np.maximum(norms, clip), 0.0)[:, None], axis=0)
        sd = 2 * clip * multiplier
        choices.append((np.sum(bias**2) + dimension * sd**2, bias, sd))
    _, bias, sd = min(choices, key=lambda choice: choice[0])
    return bias + sd * rng.normal(size=dimension)
