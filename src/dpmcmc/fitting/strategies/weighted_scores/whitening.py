"""Whitened coordinates of the parameters, and normal likelihoods in them."""

from typing import NamedTuple

import numpy as np

from dpmcmc.fitting.strategies.weighted_scores.scores import Floats


class Likelihood(NamedTuple):
    """A normal likelihood in whitened coordinates around a point: exp(-z^T precision z / 2 + z^T tilt)."""

    precision: Floats
    tilt: Floats


class Whitening(NamedTuple):
    """parameters = centre + factor z."""

    factor: Floats
    inverse: Floats


def whiten(precision: Floats) -> Whitening:
    """Return coordinates in which a precision is the identity, each as close to one of the parameters as possible."""
    scales = np.sqrt(np.maximum(np.diag(precision), 1e-30))
    values, vectors = np.linalg.eigh((precision + precision.T) / 2 / np.outer(scales, scales))
    values = np.maximum(values, 1e-9 * values[-1])
    root, inverse_root = (vectors * np.sqrt(values)) @ vectors.T, (vectors / np.sqrt(values)) @ vectors.T
    return Whitening(inverse_root / scales[:, None], root * scales)
