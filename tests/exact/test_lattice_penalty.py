"""The penalty test on a lattice is exact when the variance is a whole number of steps (golden group L)."""

import json
import math
from fractions import Fraction
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpmcmc.enclave.mechanisms.log_ratio import penalty_lattice
from dpmcmc.enclave.noise import discrete_gaussian as noise

ROWS = json.loads((Path(__file__).parents[1] / "golden" / "golden.json").read_text())["rows"]
DISCRETE = [row for row in ROWS if row["name"].startswith("L_accept_discrete")]
CONTINUOUS = [row for row in ROWS if row["name"].startswith("L_accept_penalty")]


def acceptance(log_ratio, sigma, points, masses):
    """a(lambda) = E min(1, exp(lambda + xi - sigma^2 / 2)) over the law of xi."""
    terms = masses * np.exp(np.minimum(log_ratio + points - sigma**2 / 2, 0))
    return float(np.sum(terms) / np.sum(masses))


def weights_of(table):
    """2^95 * P(|X| = i) for each i, exactly as the sampler draws it."""
    weights = list(table.thresholds)
    for alias, threshold in zip(table.aliases, table.thresholds, strict=True):
        weights[alias] += 2**noise.THRESHOLD_BITS - threshold
    return weights


def sampler_law(sigma, granularity):
    """The sampler's own law of xi on the lattice, from its table."""
    weights = weights_of(noise.table((Fraction(sigma) / Fraction(granularity)) ** 2))
    masses = np.array([float(weight) / 2**96 for weight in weights])
    masses[0] *= 2
    points = np.arange(len(weights)) * granularity
    return np.concatenate([-points[:0:-1], points]), np.concatenate([masses[:0:-1], masses])


def defect(log_ratio, sigma, law):
    return math.log(acceptance(log_ratio, sigma, *law) / acceptance(-log_ratio, sigma, *law)) - log_ratio


@pytest.mark.parametrize("row", DISCRETE, ids=lambda row: row["name"])
def test_golden_acceptance_on_a_lattice(row):
    sigma, granularity, log_ratio = (row["inputs"][name] for name in ("sigma", "lattice", "lam"))
    law = sampler_law(sigma, granularity)
    assert acceptance(log_ratio, sigma, *law) == pytest.approx(row["output"]["a"], rel=row["tolerance"]["rel"])
    expected = row["output"]["log_ratio_defect"]
    assert defect(log_ratio, sigma, law) == pytest.approx(expected, abs=row["tolerance"]["abs_defect"])


@pytest.mark.parametrize("steps", [1, 3, 4, 37])
@pytest.mark.parametrize("log_ratio", [-4.0, -0.31, 0.3, 2.0])
def test_whole_variances_are_exact_for_every_ratio(steps, log_ratio):
    granularity = 1.44 / steps
    assert abs(defect(log_ratio, 1.2, sampler_law(1.2, granularity))) <= 1e-12


@pytest.mark.parametrize("steps", [1.43, 2.5, 3.33])
def test_other_variances_are_not(steps):
    defects = [abs(defect(log_ratio, 1.2, sampler_law(1.2, 1.44 / steps))) for log_ratio in (-0.31, 0.3, 0.9)]
    assert max(defects) > 1e-4
    assert max(defects) <= 1.44 / steps  # never more than a step


@pytest.mark.parametrize("row", CONTINUOUS[:3], ids=lambda row: row["name"])
def test_golden_acceptance_at_the_scale_of_a_release(row):
    """At 2^18 steps a deviation the lattice and the continuous law accept alike, to the golden tolerance."""
    sigma, log_ratio, scale = float(row["inputs"]["sigma"]), row["inputs"]["lam"], 2**18
    points = np.arange(-9 * scale, 9 * scale + 1) / scale
    law = points * sigma, np.exp(-(points**2) / 2)
    assert acceptance(log_ratio, sigma, *law) == pytest.approx(row["output"]["a"], rel=row["tolerance"]["rel"])
    if (sigma * scale).is_integer():
        assert abs(defect(log_ratio, sigma, law)) <= 1e-12


@pytest.mark.parametrize("noise_over_clip", [0.7, 1.0, 20.0, 37.123])
def test_penalty_lattices_have_whole_variances(noise_over_clip):
    """sigma^2 / g = s^2 g is a whole number, exactly, for a clip known before and for a traced one."""
    clips = [0.0, 1e-30, 1e-9, 3e-5, 0.013, 0.5, 1.0, 7.7, 1234.5]

    @jax.jit
    def granularities(traced):
        return penalty_lattice(traced, noise_over_clip, 10**6).granularity

    for clip in clips:
        traced = float(granularities(jnp.float32(clip)))
        lattices = [penalty_lattice(1.0, noise_over_clip, 10**6)]
        if clip > 1e-20:
            lattices.append(penalty_lattice(clip, noise_over_clip, 10**6))
        scale = lattices[0].scale
        for granularity in [traced, *(lattice.granularity for lattice in lattices)]:
            whole = Fraction(scale) ** 2 * Fraction(granularity)
            assert whole >= 1
            assert whole.denominator == 1
            sigma = Fraction(scale) * Fraction(granularity)
            assert (sigma**2 / Fraction(granularity)).denominator == 1
        if clip > 1e-3:
            assert scale * traced == pytest.approx(noise_over_clip * clip, rel=1e-4)


def test_the_lattice_moves_and_the_privacy_stays():
    """Bound and scale, which decide the price, do not depend on the clip."""
    lattices = [penalty_lattice(clip, 20.0, 10**6) for clip in (1e-8, 0.1, 3.0, 1e5)]
    assert len({(lattice.bound, lattice.scale) for lattice in lattices}) == 1
    assert len({lattice.granularity for lattice in lattices}) == len(lattices)
