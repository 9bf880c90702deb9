"""The weights of records in releases of many groups, and how well they are known."""

from collections.abc import Sequence

import numpy as np

from dpmcmc.fitting.strategies.grouped_scores.release import Release
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats

MOST_FACTOR, USUAL_FACTOR = 8.0, 0.5
"""By how much a slope may be larger than expected, of all groups together, or smaller; and how far it usually is."""


def times_expected(found: float, noise: float) -> float:
    """Return by how much the slopes of all groups are larger than expected, as far as noise lets it be seen."""
    seen = USUAL_FACTOR**2 / (USUAL_FACTOR**2 + noise**2)
    return float(np.clip(1 + (found - 1) * seen, 1 / MOST_FACTOR, MOST_FACTOR))


def weights_of(releases: Sequence[Release]) -> Floats:
    """Return the weights of records in the last release, as all tell of them that have the same radii."""
    alike = [release for release in releases if release.radii.scores == releases[-1].radii.scores]
    return np.mean([release.radii.weights for release in alike], axis=0)


def doubt_of_weights(releases: Sequence[Release]) -> float:
    """Return how uncertain they are all together, beside themselves: what all slopes add up to has noise.

    One number for all groups, that counts where there are many: it makes all effects larger or smaller.
    """
    found: list[float] = []
    for release in releases:
        whole = float(np.einsum("gji,gjk,gki->", release.roots, release.slope.blocks, release.roots))
        noise = release.slope_sds[0] * np.sqrt(release.score.size)
        found.append(float(noise / max(whole, noise)))
    return float(np.sqrt(np.sum(np.square(found))) / len(found))
