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

FEW = 0.2
"""Share of all directions that may stand out alone; with more a guess is bad in all of them."""

SURE, SURELY_NOTICED = 2.0, 3.0
"""By so many of its standard deviations the mean square of a difference may lie above what was found, and by so many
of theirs the eigenvalues of a difference that must not go unnoticed lie above those of noise."""

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
    stands_out = np.abs(found) > STANDS_OUT * np.sqrt(2.0 * len(found))
    is_noise = ~stands_out if np.mean(stands_out) <= FEW else np.ones(len(found), bool)  # else the guess is bad in all
    excess = max(0.0, float(np.sum(found[is_noise] ** 2)) / entries - 1) + SURE * np.sqrt(2 / entries)
    share = float(np.clip(excess / (1 + excess), least**2, 1.0))
    alone = np.sqrt(np.maximum(1 - 2 * len(found) / np.maximum(found**2, 1e-30), 0.0))  # what is no noise of them
    moved, turned = np.where(is_noise, share, alone) * found, root @ ways
    return guess + (turned * moved) @ turned.T, (turned * np.where(is_noise, np.sqrt(share), 1.0)) @ turned.T


def most_noise(size: int) -> float:
    """Return the largest noise of eigenvalues, beside a matrix, at which a direction in which it is zero is noticed.

    In units of the largest eigenvalue of noise, a difference of x in one direction has the largest eigenvalue
    x + 1 / (4 x), if x is above a half, with a standard deviation of about one over the root of twice the size.
    """
    least = STANDS_OUT + SURELY_NOTICED / np.sqrt(2.0 * size)
    return float(2 / (least + np.sqrt(least**2 - 1)))


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
