"""The normal approximation knows its own noise: its intervals hold the truth as often as they say.

The truth given the records is a draw from the exact posterior; a calibrated interval around a noisy centre holds such
a draw, over the noise, as often as it says. The model is a normal mean, whose posterior is known, in coordinates in
which it is exactly round. With independent trials the share that is held is binomial: the tolerance is 4 standard
errors, a false alarm in 16,000. The seed is fixed.
"""

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

import dpmcmc as dp
from dpmcmc.fitting.pilot import Refinement
from dpmcmc.fitting.problem_size import ProblemSize
from dpmcmc.fitting.recipes import RECIPES

NUM_RECORDS, DIMENSION, REPEATS, LEVEL = 300, 3, 800, 0.9
FACTS = ProblemSize(NUM_RECORDS, DIMENSION, dp.Adjacency.REPLACE_ONE)
NOISE = 0.9


def centres(facts: ProblemSize = FACTS, start: float = 0.7) -> np.ndarray:
    """Return refined centres from a start that is off, in standard deviations of the posterior: (repeat, d)."""
    records = np.random.default_rng(4).normal(size=(NUM_RECORDS, DIMENSION)).astype(np.float32)
    records -= records.mean(axis=0)  # so that the posterior, under a flat prior, is N(0, I) in z = sqrt(n) theta
    model = dp.Model(
        lambda z: 0.0 * jnp.sum(z),
        lambda z, row: -0.5 * jnp.sum((row - z / math.sqrt(NUM_RECORDS)) ** 2),
        position=jax.ShapeDtypeStruct((DIMENSION,), jnp.float32),
    )
    data = dp.PrivateData.without_guarantee(records)
    refinement = Refinement(facts.gradient_clip, NOISE)
    starts = jnp.full((REPEATS, DIMENSION), start)
    program = lambda oracle, start: jax.vmap(lambda one: refinement(oracle, one)[0])(start)  # noqa: E731
    return np.asarray(data.run(program, starts, model=model, insecure_seed=3))


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    found = centres()
    scale = RECIPES["private_laplace"].make(FACTS, NOISE).settings["scale"]
    truths = np.random.default_rng(5).normal(size=found.shape)
    half = stats.norm.ppf(0.5 + LEVEL / 2)
    tolerance = 4 * math.sqrt(LEVEL * (1 - LEVEL) / found.size)
    assert abs(np.mean(np.abs(truths - found) < half * scale) - LEVEL) < tolerance
    held_without = np.mean(np.abs(truths - found) < half)  # a mutant that leaves the privacy noise out
    assert held_without < LEVEL - tolerance
    held_twice = np.mean(np.abs(truths - found) < half * math.hypot(scale, math.sqrt(scale**2 - 1)))
    assert held_twice > LEVEL + tolerance, "one that counts it twice"


def test_a_start_far_away_is_forgotten_where_the_clip_cuts() -> None:
    """Of the way 0.009 is left; equal shares with gains 1, 1/2, 1/3 would leave 0.043. Four standard errors."""
    short = replace(FACTS, clip_scale=0.3)
    sd = 2 * NOISE * short.gradient_clip
    means = [centres(short, start).mean(axis=0) for start in (10.0, -10.0)]
    left = np.mean(means[0] - means[1]) / 20
    assert abs(left) < 0.02 + 4 * sd / 20 / math.sqrt(REPEATS * DIMENSION / 2)
