"""HMC on a surrogate with a test on the remainders keeps its target, and the surrogate's noise is all that moves that.

Chains start at exact draws, of a density on a line that is known on a grid, or jointly with their records; they must
stay draws of it. A test of a correct kernel raises a false alarm with a chance of at most 1e-4.
"""

import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import test_joint_law as joint
from scipy import stats
from stationarity import CLEARLY, advance, over_thresholds

from dpmcmc.enclave import BarkerBit, ExactSum, LogRatio, PrivateData, RemainderTest
from dpmcmc.enclave.mechanisms import log_ratio
from dpmcmc.enclave.oracle import Oracle
from dpmcmc.errors import InvalidArgument
from dpmcmc.kernels import Stage, surrogate_hmc
from dpmcmc.model import Model, normal_terms, remainder, taylor_terms
from dpmcmc.run.program import Layout, Whole

MODULE = sys.modules["dpmcmc.kernels.surrogate_hmc"]  # the function of the same name hides it
SHARPEST = 1 / (6 * 3**0.5)  # the largest third derivative of log(1 + exp(t))
FURTHEST = 4.0  # the largest covariate: few records that bend much, so that the surrogate is poor
CENTRE = jnp.array([0.3])
NOISE = jnp.array([0.5, -0.3])  # of the released gradient and Hessian


def log_likelihood(position, record):
    logit = record["x"] * position[0]
    return record["y"] * logit - jnp.logaddexp(0.0, logit)


MODEL = Model(lambda position: -0.5 * ((position[0] - 0.5) / 2.0) ** 2, log_likelihood)


def records_of(num_records=10):
    rng = np.random.default_rng(0)
    x = rng.uniform(-FURTHEST, FURTHEST, num_records).astype(np.float32)
    return {"x": x, "y": (rng.uniform(size=num_records) < 1 / (1 + np.exp(-0.7 * x))).astype(np.float32)}


RECORDS = records_of()
DATA = PrivateData.without_guarantee(RECORDS, bounds={"x": (-FURTHEST, FURTHEST), "y": (0, 1)})
TERMS = jnp.sum(jax.vmap(taylor_terms(MODEL), in_axes=(None, 0))(CENTRE, RECORDS), axis=0)
CORRECTED = remainder(MODEL, CENTRE, TERMS + NOISE)


def log_posterior(model, position):
    return model.log_prior(position) + jnp.sum(jax.vmap(model.log_likelihood, in_axes=(None, 0))(position, RECORDS))


@pytest.fixture(scope="module")
def target():
    """Return a grid of displacements, and the distribution function of the corrected model on it."""
    grid = np.linspace(-8.0, 8.0, 20_001)
    heights = np.asarray(jax.vmap(lambda u: log_posterior(CORRECTED, u))(jnp.asarray(grid, jnp.float32)[:, None]))
    density = np.exp(heights - heights.max(), dtype=np.float64)
    below = np.cumsum((density[1:] + density[:-1]) / 2)
    return grid, np.concatenate([[0.0], below / below[-1]])


def test_noise_of_the_release_is_all_that_moves_the_target():
    """The corrected log-posterior is the model's, and the noise of its quadratic, whatever the surrogate."""
    displacements = jnp.linspace(-3.0, 3.0, 25)[:, None]
    found = jax.vmap(lambda u: log_posterior(CORRECTED, u))(displacements)
    exact = jax.vmap(lambda u: log_posterior(MODEL, CENTRE + u))(displacements)
    tilt = NOISE[0] * displacements[:, 0] + NOISE[1] * displacements[:, 0] ** 2 / 2
    assert np.ptp(np.asarray(found - exact - tilt)) < 1e-3
    assert np.ptp(np.asarray(found - exact)) > 1


def test_terms_of_several_parameters():
    """In two dimensions, with a position that is no vector, the quadratic is the Taylor polynomial."""
    model = Model(lambda p: jnp.sum(p["a"]), lambda p, x: jnp.exp(p["a"][0] * x + jnp.sin(p["b"])), temperature=0.5)
    centre = {"a": jnp.array([0.2]), "b": jnp.array(0.7)}
    records = jnp.array([0.5, -1.0, 2.0])
    terms = jnp.sum(jax.vmap(taylor_terms(model), in_axes=(None, 0))(centre, records), axis=0)
    taken_apart = remainder(model, centre, terms)
    for u in (jnp.array([0.1, -0.2]), jnp.array([-0.3, 0.4])):
        whole = model.temperature * sum(
            model.log_likelihood({"a": centre["a"] + u[:1], "b": centre["b"] + u[1]}, x)
            - model.log_likelihood(centre, x)
            for x in records
        )
        parts = model.temperature * sum(taken_apart.log_likelihood(u, x) for x in records)
        assert float(parts + taken_apart.log_prior(u) - (0.2 + u[0])) == pytest.approx(float(whole), abs=1e-5)
    assert float(taken_apart.constrain(jnp.zeros(2))["b"]) == pytest.approx(0.7)
    assert np.asarray(taken_apart.unconstrain(centre)) == pytest.approx(np.zeros(2))
    with pytest.raises(InvalidArgument, match=r"terms has the shape \(2,\); expected \(5,\)"):
        remainder(model, centre, jnp.zeros(2))


def test_terms_of_a_normal_approximation():
    """With a normal prior the surrogate is the approximation itself; of any other, its higher orders are left."""
    centre, covariance = jnp.array([0.4, -0.3]), jnp.array([[0.5, 0.2], [0.2, 0.3]])
    normal = Model(joint.log_prior, joint.log_likelihood)
    found = remainder(normal, centre, normal_terms(normal, centre, covariance))
    cubic = Model(lambda position: joint.log_prior(position) + (position[0] - 0.4) ** 3, joint.log_likelihood)
    left = remainder(cubic, centre, normal_terms(cubic, centre, covariance))
    for u in (jnp.array([0.5, 0.1]), jnp.array([-0.2, 0.7])):
        height = -0.5 * u @ jnp.linalg.solve(covariance, u)
        assert float(found.log_prior(u) - found.log_prior(jnp.zeros(2))) == pytest.approx(float(height), abs=1e-4)
        cube = float(left.log_prior(u) - left.log_prior(jnp.zeros(2)) - height)
        assert cube == pytest.approx(float(u[0]) ** 3, abs=1e-4)
    with pytest.raises(InvalidArgument, match=r"covariance has the shape \(3, 3\); expected \(2, 2\)"):
        normal_terms(normal, centre, jnp.eye(3))


def worst(kernel, target, model=CORRECTED, *, num_chains=20_000, num_steps=4, seed=1):
    """Return the largest statistic over its threshold of chains that start at draws of the target."""
    grid, below = target
    uniform = np.random.default_rng(seed).uniform(size=num_chains)
    starts = np.interp(uniform, below, grid).astype(np.float32)[:, None]
    states, info = advance(kernel, model, DATA, starts, num_steps, seed)
    share = np.interp(np.asarray(states.position, np.float64)[:, 0], grid, below)
    assert np.mean(info.is_accepted) > 0.1
    root = num_chains**0.5
    return max(
        over_thresholds(
            {
                "mean": abs(share.mean() - 0.5) * root * 12**0.5,
                "variance": abs(np.mean((share - 0.5) ** 2) - 1 / 12) * root * 180**0.5,
                "KS": stats.kstest(share, "uniform").statistic * root,
            }
        ).values()
    )


def hmc(test=None, third_derivative=FURTHEST**3 * SHARPEST, log_density=CORRECTED.log_prior):
    test = RemainderTest(third_derivative, 3.0) if test is None else test
    return surrogate_hmc(test, log_density, step_size=0.5, num_leapfrog=2, num_trajectories=2)


TESTS = {"remainder": None, "Barker bit": BarkerBit(100.0), "ratio": LogRatio(30.0, 0.02)}


@pytest.mark.parametrize("name", ["remainder", "Barker bit", pytest.param("ratio", marks=pytest.mark.slow)])
def test_the_target_is_kept(name, target):
    assert worst(hmc(TESTS[name]), target) < 1


@pytest.mark.slow
def test_any_surrogate_will_do(target):
    """Proposals from a density that has little to do with the target cost acceptance alone."""
    assert worst(hmc(log_density=lambda u: -0.5 * jnp.sum((u - 1.0) ** 2)), target) < 1


def test_a_record_whose_surrogate_is_not_taken_off_is_caught(target):
    whole = replace(CORRECTED, log_likelihood=lambda u, record: log_likelihood(CENTRE + u, record))
    assert worst(hmc(BarkerBit(100.0)), target, whole) > CLEARLY


@pytest.mark.slow
def test_a_clip_that_binds_is_caught(target):
    assert worst(hmc(third_derivative=SHARPEST), target) > CLEARLY


def without_log_correction(*given, accept=MODULE.accept):
    return accept(*given[:-1])


MUTANTS = {
    "no penalty": (log_ratio, "noise_variance", lambda lattice: jnp.zeros_like(lattice.granularity)),
    "surrogate counted twice": (MODULE, "accept", without_log_correction),
    "no test on the surrogate": (MODULE, "penalty_test", lambda *_: jnp.asarray(True)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_caught(name, target, monkeypatch):
    monkeypatch.setattr(*MUTANTS[name])
    assert worst(hmc(), target) > CLEARLY


def joint_law():
    """Return the worst statistic where each data set has its own surrogate, of exact terms at a public centre."""
    centre = jnp.asarray(joint.PRIOR_MEAN)

    def program(facts):
        def moved(positions, keys):
            terms = Oracle(facts, None).sum(ExactSum(), taylor_terms(joint.MODEL), centre).value
            corrected = remainder(joint.MODEL, centre, terms)
            test = RemainderTest(2**1.5 * SHARPEST, 8.0)
            kernel = surrogate_hmc(test, corrected.log_prior, step_size=0.4, num_leapfrog=2)
            whole = Whole((Stage(kernel, 5),), Layout.of(centre))
            return whole(Oracle(facts, corrected), positions - centre, keys) + centre

        return moved

    return joint.worst_move(lambda *given: joint.on_each(program, *given, 1), 10_000, 1)


def test_the_joint_law_is_kept(monkeypatch):
    assert joint_law() < 1
    monkeypatch.setattr(log_ratio, "noise_variance", lambda lattice: jnp.zeros_like(lattice.granularity))
    assert joint_law() > CLEARLY, "no penalty"
