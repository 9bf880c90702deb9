"""The pilot: Hessians that are public cost nothing, long ways are walked, and one that is lost ends in a warning."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpmcmc as dp
from dpmcmc import zoo
from dpmcmc.accounting.event import counts
from dpmcmc.fitting import prepare_fit
from dpmcmc.fitting.curvature import public_curvature
from dpmcmc.run.program import Layout

SIZE = 4000


def vault(problem: zoo.Problem) -> dp.PrivateData:
    return dp.PrivateData.without_guarantee(problem.records, bounds=problem.bounds)


@pytest.mark.parametrize(
    ("name", "is_public"),
    [
        ("dp_hmc_2021_gaussian", True),
        ("thesis_2021_correlated_gaussian", True),
        ("dp_hmc_2021_banana", False),
        ("logistic_regression", False),
        ("linear_regression", False),
    ],
)
def test_a_hessian_that_reads_no_record_is_found_from_the_model(name: str, is_public: bool) -> None:
    problem = zoo.problem(name, np.random.default_rng(0), num_records=SIZE)
    layout = Layout.of(jnp.zeros(problem.dimension))
    found = public_curvature(problem.model, layout, vault(problem))
    assert (found is not None) is is_public
    if found is not None:
        expected = np.linalg.inv(problem.law.covariance)  # of the posterior, which is normal
        assert np.allclose(found(jnp.zeros(problem.dimension)), expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())


def test_public_hessians_take_nothing_of_the_budget() -> None:
    problem = zoo.problem("dp_hmc_2021_gaussian", np.random.default_rng(0), num_records=SIZE)
    prepared = prepare_fit(problem.model, vault(problem), epsilon=4.0, delta=1e-6, sampler="private_laplace")
    pilot = prepared.strategy.pilot
    noisy = sum(times for part, times in counts(pilot.price(prepared.data)).items() if part.gaussian_rho > 0)
    assert noisy == pilot.approach.num_steps + pilot.refine.num_steps + 1, "gradients and one histogram"
    assert pilot.share < 0.13


def test_a_long_way_is_walked_in_units_of_the_prior() -> None:
    """The centre is 14,000 standard deviations away; with the truth as likely anywhere, 4 are an error in 16,000."""
    problem = zoo.problem("dp_hmc_2021_gaussian", np.random.default_rng(0), num_records=SIZE)
    options = {"delta": 1e-6, "sampler": "private_laplace", "progress": False, "insecure_seed": 4}
    posterior = dp.fit(problem.model, vault(problem), epsilon=15.0, **options)
    draws = np.asarray(posterior.draws["position"]).reshape(-1, problem.dimension)
    off = (draws.mean(axis=0) - problem.law.mean) / np.sqrt(np.diag(problem.law.covariance))
    assert np.abs(off).max() < 4 * np.hypot(1, posterior.settings["error_found"])


def test_a_pilot_that_is_lost_ends_in_draws_and_a_verdict() -> None:
    """No normal law fits the banana, and its prior is wide: what is paid for must not end in an error."""
    problem = zoo.problem("dp_hmc_2021_banana", np.random.default_rng(0), num_records=SIZE)
    options = {"sampler": "private_laplace", "allow_low_accuracy": True, "progress": False, "init": jnp.zeros(2)}
    posterior = dp.fit(problem.model, vault(problem), epsilon=2.0, delta=1e-6, insecure_seed=1, **options)
    assert posterior.quality.verdict == "bad"
    assert any("did not find the posterior" in reason for reason in posterior.quality.reasons)
    assert np.isfinite(jax.tree.leaves(posterior.draws)[0]).all()
