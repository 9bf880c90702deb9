"""Parts of a prior on the host: how wide each is, and its log-density at vectors of parameters."""

from typing import Any

import numpy as np

from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.model.formula.priors import Prior


def width_of(prior: Prior, *, on_line: bool = False) -> float:
    """Return half the width of the central two thirds; of the logarithm of a positive parameter if requested."""
    low, high = (prior.quantile(probability) for probability in (0.16, 0.84))
    return float(prior.to_line(np, high) - prior.to_line(np, low) if on_line else high - low) / 2


def term_of(place: int, prior: Prior, *, on_line: bool = False) -> tuple[Any, Any]:
    """Return the log-density of one parameter, of which a positive one is moved by its logarithm."""

    def of_vectors(vectors: Floats) -> Floats:
        value = vectors[..., place]
        return (
            prior.density(prior.from_line(np, value)) + prior.log_jacobian(np, value)
            if on_line
            else prior.density(value)
        )

    return np.array([place]), of_vectors
