"""The uncertainty of a symmetric matrix in every direction, and weighted averages of two such matrices.

The doubt of a matrix M is a matrix C: u^T M u has the standard deviation u^T C u, for every direction u. That is the
distribution of B Z B^T with C = B B^T and Z of independent entries, those off the diagonal a root of two smaller. In
other coordinates it becomes A^T C A, as M does: a direction that is stretched stays as uncertain as it was beside what
is known of it. Standard deviations of the entries would not do: once turned, entries depend on each other.
"""

import numpy as np

from dpmcmc.fitting.strategies.weighted_scores.scores import Floats

STANDS_OUT = 1.1
"""Eigenvalues of a difference beyond so many times the largest that noise makes are no noise."""

SURE = 2.0
"""By so many of its standard deviations the mean square of a difference may lie above what was found."""

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


def shrunk(known: Floats, doubt: Floats, guess: Floats, least: float) -> tuple[Floats, Floats]:
    """Return a matrix with a doubt, moved to a public guess as far as their difference is explained by noise.

    The mean square over all entries of the difference shows how good the guess is: of a large matrix far more exactly
    than any entry. Directions in which the difference alone is more than noise stay as they are.

    Args:
        known: the estimate.
        doubt: its doubt.
        guess: the guess.
        least: what is left of the doubt at least.
    """
    values, vectors = np.linalg.eigh((doubt + doubt.T) / 2)
    roots = np.sqrt(np.maximum(values, 1e-9 * max(values[-1], 1e-30)))
    root, inverse = vectors * roots, (vectors / roots).T
    found, ways = np.linalg.eigh(inverse @ (known - guess) @ inverse.T)
    entries = len(found) * (len(found) + 1) / 2
    is_noise = np.abs(found) <= STANDS_OUT * np.sqrt(2.0 * len(found))
    excess = max(0.0, float(np.sum(found[is_noise] ** 2)) / entries - 1) + SURE * np.sqrt(2 / entries)
    kept = np.where(is_noise, np.clip(excess / (1 + excess), least**2, 1.0), 1.0)
    turned = root @ ways
    return guess + (turned * (kept * found)) @ turned.T, (turned * np.sqrt(kept)) @ turned.T


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
