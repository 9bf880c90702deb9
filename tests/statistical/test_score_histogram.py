"""The clip that the pilot's histograms lead to: as short as the scores allow, longer where cutting them would bias.

The histograms are made up, with the noise of a stated budget, and the decision is repeated: how often it is wrong is
counted over 200 repeats with a fixed seed.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import dpmcmc as dp
from dpmcmc.accounting import gaussian
from dpmcmc.enclave import Sum
from dpmcmc.fitting.budget_split import HISTOGRAM_SHARE, LEFT
from dpmcmc.fitting.problem_size import ProblemSize
from dpmcmc.fitting.score_histogram import CLIP_SCALES, LENGTH, HistogramRelease, ScoreHistogram
from dpmcmc.run.program import Layout

DIMENSION, NUM_RECORDS, REPEATS = 5, 100_000, 200
FACTS = ProblemSize(NUM_RECORDS, DIMENSION, dp.Adjacency.REPLACE_ONE)
MODEL = dp.Model(
    lambda theta: -jnp.sum(theta**2) / 2,
    lambda theta, row: -jnp.sum((row - theta) ** 2) / 2,
    position=jax.ShapeDtypeStruct((DIMENSION,), jnp.float32),
)
EDGES = np.append(CLIP_SCALES, np.inf) * FACTS.gradient_clip * np.sqrt(NUM_RECORDS)
NORMAL_TAIL = NUM_RECORDS * np.diff(stats.chi.cdf(EDGES, DIMENSION))


def stretches(epsilon: float, counts: np.ndarray, share: float) -> np.ndarray:
    """Return the decisions, where `share` of the records of every bin point in one direction."""
    loss = gaussian.mean_for(epsilon, 1e-6)
    noise = 1 / np.sqrt(2 * HISTOGRAM_SHARE * loss)
    deviation = 2 * LENGTH * noise
    reach = ScoreHistogram(MODEL, Layout.of(jnp.zeros(DIMENSION)), Sum(LENGTH, noise), FACTS)
    rng = np.random.default_rng(3)
    directions = np.zeros((len(counts), DIMENSION))
    directions[:, 1] = share * counts

    def decision() -> float:
        noisy = counts + deviation * rng.normal(size=counts.shape)
        pointing = directions + deviation * rng.normal(size=directions.shape)
        return reach.clip_scale(
            HistogramRelease(jnp.asarray(noisy), jnp.asarray(pointing), jnp.asarray(deviation**2)), LEFT * loss
        )

    return np.array([decision() for _ in range(REPEATS)])


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_scores_that_cancel_out_are_clipped_short(epsilon: float) -> None:
    found = stretches(epsilon, NORMAL_TAIL, 0.0)
    assert np.median(found) < 0.52
    assert np.mean(found > 1.0) < 0.05
    assert np.median(stretches(epsilon, NORMAL_TAIL, 0.9)) > 0.6, "the same lengths, in one direction"


def test_long_scores_in_one_direction_are_kept() -> None:
    heavy = 500 * 0.65 ** np.arange(len(CLIP_SCALES))
    assert np.median(stretches(4.0, heavy, 0.7)) > 2.0


def test_noise_alone_does_not_lengthen_the_clip() -> None:
    found = stretches(0.3, np.zeros(len(CLIP_SCALES)), 0.0)
    assert np.mean(found > 1.0) < 0.05


RARE_OUTCOMES = np.array([6, 2, 1, 0, 0, 24, 96, 179, 256, 186, 72, 12.0])
"""One in a hundred of a logistic regression: nearly all scores are short, the others far beyond a gap."""


def released(counts: np.ndarray, share: float, deviation: float, rng) -> HistogramRelease:
    directions = np.zeros((len(counts), DIMENSION))
    directions[:, 1] = share * counts
    noisy = counts + deviation * rng.normal(size=counts.shape)
    pointing = directions + deviation * rng.normal(size=directions.shape)
    return HistogramRelease(jnp.asarray(noisy), jnp.asarray(pointing), jnp.asarray(deviation**2))


def test_long_scores_beyond_a_gap_are_believed() -> None:
    """256 records are 15 standard deviations: clips are long then, and where one is not the bias is foretold.

    At the shortest clip it was 24 posterior standard deviations in length, 11 root mean square over five coordinates.
    """
    reach = ScoreHistogram(MODEL, Layout.of(jnp.zeros(DIMENSION)), Sum(LENGTH, 1.0), FACTS)
    rng = np.random.default_rng(4)
    assert np.median(stretches(4.0, RARE_OUTCOMES, 0.9)) > 2.0
    found = [released(RARE_OUTCOMES, 0.9, 17.0, rng) for _ in range(REPEATS)]
    short = np.array([reach.bias(one, CLIP_SCALES[0]) for one in found])
    assert short.min() > 3
    assert np.mean([reach.bias(one, CLIP_SCALES[-1]) for one in found]) < 0.5


def test_noise_alone_foretells_no_bias() -> None:
    """Of twelve bins one is believed by chance once in 1,500 histograms: of 200, five or more in one of a billion."""
    reach = ScoreHistogram(MODEL, Layout.of(jnp.zeros(DIMENSION)), Sum(LENGTH, 1.0), FACTS)
    rng = np.random.default_rng(5)
    found = [reach.bias(released(0 * RARE_OUTCOMES, 0.0, 17.0, rng), 1.0) for _ in range(REPEATS)]
    assert np.sum(np.array(found) > 0.5) < 5


@pytest.mark.parametrize(("beyond", "is_lost"), [(0.0, False), (0.02, False), (0.5, True)])
def test_a_pilot_that_failed_is_noticed(beyond: float, is_lost: bool) -> None:
    """Noise of 100 records; the limit is 4 standard deviations of it above a tenth of the records."""
    reach = ScoreHistogram(MODEL, Layout.of(jnp.zeros(DIMENSION)), Sum(LENGTH, 1.0), FACTS)
    counts = jnp.zeros(len(CLIP_SCALES)).at[-1].set(beyond * NUM_RECORDS)
    assert (
        reach.is_lost(HistogramRelease(counts, jnp.zeros((len(CLIP_SCALES), DIMENSION)), jnp.asarray(100.0**2)))
        is is_lost
    )
