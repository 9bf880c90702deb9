"""Directions that change no law, and laws that all records share: what a fit by centred scores knows without asking."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import dpmcmc as dp
from dpmcmc.accounting import Budget
from dpmcmc.fitting.strategies.centred_scores.one_law import OneLaw, one_law
from dpmcmc.fitting.strategies.centred_scores.points import Points
from dpmcmc.fitting.strategies.centred_scores.releases import RADII, Asked
from dpmcmc.fitting.strategies.centred_scores.shown import chart, hidden_directions, same_change
from dpmcmc.fitting.strategies.centred_scores.simulator import BATCH, Simulator
from dpmcmc.fitting.strategies.fallback import prior_draws_instead
from dpmcmc.fitting.strategies.sketch.density import Likelihood
from dpmcmc.model import from_numpyro
from dpmcmc.run.program import Layout

GROUPS = 3


def grouped(g, y) -> None:
    mu, tau = numpyro.sample("mu", dist.Normal(0, 10)), numpyro.sample("tau", dist.HalfNormal(2))
    with numpyro.plate("groups", GROUPS):
        z = numpyro.sample("z", dist.Normal(0, 1))
    with numpyro.plate("data", y.shape[0]):
        numpyro.sample("y", dist.Normal(mu + tau * z[g], 1.0), obs=y)


def counts(y) -> None:
    rate = numpyro.sample("rate", dist.Gamma(0.5, 10.0))
    with numpyro.plate("data", y.shape[0]):
        numpyro.sample("y", dist.Poisson(rate), obs=y)


def data_of(**columns):
    bounds = dict.fromkeys(columns, (0.0, 2.0))
    return dp.PrivateData.without_guarantee({name: np.asarray(each) for name, each in columns.items()}, bounds=bounds)


@pytest.fixture(scope="module")
def points() -> Points:
    data = data_of(g=np.arange(6, dtype=np.int32) % GROUPS, y=np.zeros(6, np.float32))
    model = from_numpyro(grouped, data)
    return Points(model, data, Layout.of(model.position))


SCALES = np.array([10.0, 1.0, 1.0, 1.0, 1.0])  # mu, log tau, z
FIRST, SECOND = np.array([5.0, -0.4, -1.0, 0.2, 0.9]), np.array([5.3, 0.3, -0.7, -0.1, 0.5])


def shown(vector):
    """The means of the groups, by hand."""
    return vector[0] + np.exp(vector[1]) * vector[2:]


def slopes(vector):
    tau = np.exp(vector[1])
    return np.concatenate([np.ones((3, 1)), tau * vector[2:, None], tau * np.eye(3)], axis=1)


def test_a_mean_and_a_spread_of_groups_are_hidden(points: Points) -> None:
    hidden = hidden_directions(points, FIRST, SCALES)
    assert hidden.shape == (2, 5)
    assert np.abs(slopes(FIRST) @ hidden.T).max() < 1e-4
    assert np.abs(slopes(SECOND) @ hidden.T).max() > 0.05, "they turn with the point"


def test_moves_that_change_the_laws_alike(points: Points) -> None:
    there = same_change(points, FIRST, SECOND, SCALES)
    np.testing.assert_allclose(slopes(FIRST) @ there, slopes(SECOND), atol=1e-3)


def test_coordinates_keep_what_is_hidden_apart(points: Points) -> None:
    """The information of the laws is the identity where it is seen, at this point and at another one, and else zero."""
    information = 1e4 * slopes(FIRST).T @ slopes(FIRST)
    prior = np.diag(SCALES**-2.0)
    found = chart(points, FIRST, information, prior, SCALES)
    np.testing.assert_allclose(found.whitening.factor @ found.whitening.inverse, np.eye(5), atol=1e-6)
    turned = found.whitening.factor.T @ information @ found.whitening.factor
    np.testing.assert_allclose(turned, found.visible, atol=5e-3)
    there = found.carried(points, FIRST, SECOND, prior, SCALES)
    assert there is not None
    moved = 1e4 * slopes(SECOND).T @ slopes(SECOND)
    np.testing.assert_allclose(there.whitening.factor.T @ moved @ there.whitening.factor, found.visible, atol=5e-3)
    stale = found.whitening.factor.T @ moved @ found.whitening.factor
    assert np.abs(stale - found.visible).max() > 1, "the control: coordinates of another point mix them"


@pytest.mark.parametrize("radius", [0.02, 0.2])
def test_sums_over_one_law_are_its_means(radius: float) -> None:
    """Beside many draws: six standard errors."""
    data = data_of(y=np.zeros(50, np.float32))
    model = from_numpyro(counts, data)
    layout = Layout.of(model.position)
    found = one_law(model.observed, data, Budget(1.0, 1e-6), layout)
    assert isinstance(found, OneLaw)
    values = (np.log([0.3]), [[0.1]], radius, 1.0, np.ones(2), 0.05 * RADII)
    asked = Asked(*(np.asarray(value, np.float32) for value in values))
    exact = found.simulator.means(asked, 0, 0.0, 1.0)
    drawn = Simulator.means(found.simulator, asked, 16 * BATCH, np.inf, 1.0)
    error = np.sqrt(np.maximum(np.diag(drawn.mean_error), 1e-12))
    assert np.all(np.abs(exact.mean - drawn.mean) <= 6 * error + 1e-6)
    for own, its in ((exact.slope, drawn.slope), (exact.information, drawn.information), (exact.traces, drawn.traces)):
        np.testing.assert_allclose(own, its, rtol=0.03)
    assert exact.variance == pytest.approx(drawn.variance, rel=0.03)


def test_draws_from_the_prior_are_others_in_another_fit() -> None:
    model = from_numpyro(counts, data_of(y=np.zeros(50, np.float32)))
    first, again, other = (prior_draws_instead(model, (2, 100), {}, "noise", seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.draws["rate"], again.draws["rate"])
    assert not np.array_equal(first.draws["rate"], other.draws["rate"])
    assert first.quality.verdict == "bad"
    assert "draws from the prior" in first.quality.words


def test_a_climb_without_end_is_none() -> None:
    """Noise may leave a sum of squares negative: the density then rises without end where a scale goes to zero."""
    density = Likelihood(lambda vector: -0.5 * jnp.sum(vector**2), lambda vector, _: -jnp.exp(-vector[0]))
    records = jnp.zeros(1)
    assert density.climb(np.zeros(1), records, np.array([-1.0])) is None
    mode, height = density.climb(np.zeros(1), records, np.array([1.0]))
    assert np.isfinite(height)
    assert jax.grad(lambda vector: -0.5 * vector**2 - jnp.exp(-vector))(mode[0]) == pytest.approx(0, abs=1e-3)
