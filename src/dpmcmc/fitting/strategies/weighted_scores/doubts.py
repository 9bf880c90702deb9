"""The uncertainty of a symmetric matrix in every direction, and weighted averages of two such matrices.

The doubt of a matrix M is a matrix C: u^T M u has the standard deviation u^T C u, for every direction u. That is the
distribution of B Z B^T with C = B B^T and Z of independent entries, those off the diagonal a root of two smaller. In
other coordinates it becomes A^T C A, as M does: a direction that is stretched stays as uncertain as it was beside what
is known of it. Standard deviations of the entries would not do: once turned, entries depend on each other.
"""

import numpy as np

from dpmcmc.fitting.strategies.weighted_scores.scores import Floats

EXPLAINED = 4.0
"""Largest squared difference, relative to its variance, that counts as chance."""


def widened(doubt: Floats, drift: float) -> Floats:
    """Return the doubt of a matrix that may have changed by a given amount in every direction."""
    values, vectors = np.linalg.eigh((doubt + doubt.T) / 2)
    return (vectors * np.hypot(values, drift)) @ vectors.T


def averaged(known: Floats, doubt: Floats, told: Floats, noise: float) -> tuple[Floats, Floats]:
    """Return the weighted average of a matrix with a doubt and of one with isotropic noise, and its doubt.

    Args:
        known: the earlier estimate.
        doubt: its doubt.
        told: the released matrix.
        noise: the standard deviation of its entries on the diagonal.
    """
    values, vectors = np.linalg.eigh((doubt + doubt.T) / 2)
    values = np.maximum(values, 0.0)
    squares = np.outer(values, values)
    gain = squares / (squares + noise**2)
    move = vectors.T @ (told - known) @ vectors
    left = noise * values / np.hypot(noise, values)
    return known + vectors @ (gain * move) @ vectors.T, (vectors * left) @ vectors.T


def or_more(known: Floats, doubt: Floats, told: Floats, noise: float, parameters: Floats) -> Floats:
    """Return the doubt, increased where a release differs by more than its noise and the doubt explain.

    In the direction of a skewed predictor weights are smaller than elsewhere, and other bounds change it more.

    Args:
        known: the earlier estimate.
        doubt: its doubt.
        told: the released matrix.
        noise: the standard deviation of its entries on the diagonal.
        parameters: how they move with the coordinates, as columns.
    """
    ridge = 1e-6 * np.trace(known) / len(known) * np.eye(len(known))
    directions = np.linalg.solve(known + ridge, parameters)  # in which a parameter is told of beside the others
    directions = directions / np.maximum(np.linalg.norm(directions, axis=0), 1e-30)
    off = np.sum(directions * ((told - known) @ directions), axis=0)
    for place in np.argsort(-np.abs(off)):  # some may be nearly one direction, which counts once
        direction = directions[:, place]
        more = off[place] ** 2 - EXPLAINED * (float(direction @ doubt @ direction) ** 2 + noise**2)
        if more > 0:
            doubt = doubt + np.sqrt(more) * np.outer(direction, direction)
    return doubt
