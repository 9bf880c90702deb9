"""What no method can be expected to beat: one release of the right sum, by one who knows everything but the noise."""

import numpy as np

from dpmcmc.accounting import gaussian
from experiments.beyond.problems import Regular

CLIPS = np.geomspace(0.3, 6.0, 40)
"""The clips that the oracle chooses from, in root mean squares of the norms of the scores."""


def best_shift(law: Regular, epsilon: float, delta: float, rng: np.random.Generator) -> np.ndarray:
    """Return by how much one release moves the posterior, in its standard deviations.

    The sum of all scores at the exact mode, in the exact round coordinates, clipped at the norm at which bias and noise
    together are least, with the noise that the whole budget allows where a record may be replaced. A sum that is cut
    changes less with the position than a whole one: by a slope that the oracle knows, and divides by.
    """
    norms = np.linalg.norm(law.scores, axis=1)
    multiplier = 1 / np.sqrt(2 * gaussian.mean_for(epsilon, delta))
    dimension = law.scores.shape[1]
    choices = []
    for clip in CLIPS * np.sqrt(np.mean(norms**2)):
        bias = -np.sum(law.scores * np.maximum(1 - clip / np.maximum(norms, clip), 0.0)[:, None], axis=0)
        sd = 2 * clip * multiplier
        slope = float(np.mean(np.where(norms <= clip, 1.0, clip / norms * (1 - 1 / dimension))))
        choices.append((bias / slope, sd / slope))
    bias, sd = min(choices, key=lambda choice: np.sum(choice[0] ** 2) + dimension * choice[1] ** 2)
    return bias + sd * rng.normal(size=dimension)
