"""Position and records keep their joint law: theta0 from the prior, records given theta0, K steps from theta0 on them.

Then (theta_K, records) has the law of (theta0, records), whatever the model, so that the mean of f(theta_K, records) -
f(theta0, records) is zero for every f. That is Geweke's joint test without autocorrelation. Each data set is read by
the very function that the enclave made of the audited program. With M data sets and six statistics the false alarm has
a chance of at most 1e-4.
"""

import sys
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from stationarity import CLEARLY, over_thresholds

from dpmcmc.accounting import samplers
from dpmcmc.enclave import BarkerBit, GradientSum, LogRatio, PenaltyTest, PrivateData
from dpmcmc.enclave.core.audit import audit, executable
from dpmcmc.enclave.core.places import Slots
from dpmcmc.enclave.mechanisms import log_ratio
from dpmcmc.enclave.noise import chacha20 as rng
from dpmcmc.enclave.oracle import Oracle
from dpmcmc.kernels import Stage, accept, dp_barker, dp_hmc, dp_langevin, dp_penalty, guided_walk
from dpmcmc.model import Model
from dpmcmc.run.program import Layout, Whole

NUM_RECORDS = 20
PRIOR_MEAN = np.array([0.5, -1.0], np.float32)
PRIOR_SCALE = np.array([1.0, 2.0], np.float32)


def log_prior(position):
    return -0.5 * jnp.sum(((position - PRIOR_MEAN) / PRIOR_SCALE) ** 2)


def log_likelihood(position, record):
    logit = record["x"] @ position
    return record["y"] * logit - jnp.logaddexp(0.0, logit)


MODEL = Model(log_prior, log_likelihood)


def simulate(num_data_sets, seed):
    """Return positions from the prior and, for each, records whose covariates have a norm of at most sqrt(2)."""
    generator = np.random.default_rng(seed)
    positions = PRIOR_MEAN + PRIOR_SCALE * generator.standard_normal((num_data_sets, 2)).astype(np.float32)
    x = generator.uniform(-1, 1, (num_data_sets, NUM_RECORDS, 2)).astype(np.float32)
    chance = 1 / (1 + np.exp(-np.einsum("mij,mj->mi", x, positions)))
    return positions, {"x": x, "y": (generator.uniform(size=chance.shape) < chance).astype(np.float32)}


def moved(kernel, model, positions, records, num_steps, seed):
    """Run one chain on each data set."""

    def program(facts):
        return partial(Whole((Stage(kernel, num_steps),), Layout.of(jnp.zeros(2))), Oracle(facts, model))

    return on_each(program, positions, records, seed)


def on_each(program, positions, records, seed):
    """Run a program of one chain on each data set; it is made of their facts.

    On the reference path: the loops of the others are made for one table and not for a table a chain, as here.
    """
    data = PrivateData.without_guarantee(
        jax.tree.map(lambda leaf: leaf[0], records), bounds={"x": (-1, 1), "y": (0, 1)}, accelerate=False
    )
    keys = jax.random.split(jax.random.key(seed), len(positions))
    traced = jax.make_jaxpr(program(data.facts))(positions[:1], keys[:1])
    function = executable(traced, audit(traced, data.facts))
    noise_keys = jax.random.split(rng.insecure_key(seed), len(positions))
    slots = Slots(records, jnp.ones((len(positions), data.facts.size), jnp.bool_), jnp.int32(1))
    each = jax.jit(jax.vmap(function, in_axes=((Slots(0, 0, None),), 0, 0, 0)))
    (last,) = each((slots,), noise_keys, positions[:, None], keys[:, None])
    return np.asarray(last[:, 0])


def features(positions, records):
    first, second = np.asarray(positions, np.float64).T
    logits = np.einsum("mij,mj->mi", records["x"], positions)
    return {
        "theta1": first,
        "theta2": second,
        "theta1^2": first**2,
        "theta2^2": second**2,
        "theta1 theta2": first * second,
        "log-likelihood": (records["y"] * logits - np.logaddexp(0, logits)).sum(1),
    }


def worst(kernel, model=MODEL, *, num_data_sets=20_000, num_steps=5, seed=1):
    """Return the largest paired statistic over its threshold."""
    return worst_move(lambda *given: moved(kernel, model, *given, num_steps, seed), num_data_sets, seed)


def worst_move(move, num_data_sets, seed):
    """Return the largest paired statistic, over its threshold, of ``move(positions, records)``."""
    positions, records = simulate(num_data_sets, seed)
    before, after = features(positions, records), features(move(positions, records), records)
    gains = {name: after[name] - before[name] for name in before}
    found = over_thresholds({name: abs(gain.mean()) / gain.std() * num_data_sets**0.5 for name, gain in gains.items()})
    return max(found.values())


RATIO = LogRatio(1.5, 0.5)  # clips nothing: a ratio is at most the norm of the covariates times the distance
GRADIENT = GradientSum(0.5, 0.5)

KERNELS = {
    "penalty": lambda: dp_penalty(RATIO, proposal_scale=(1.0, 1.5)),
    "guided": lambda: guided_walk(RATIO, proposal_scale=(1.0, 1.5)),
    "Barker": lambda: dp_barker(BarkerBit(10.0), proposal_scale=(1.0, 1.5)),
    "HMC": lambda: dp_hmc(GRADIENT, RATIO, step_size=0.5, num_leapfrog=2, inverse_mass=(0.7, 1.5)),
    "HMC, reuse, accept bit": lambda: dp_hmc(
        GRADIENT, PenaltyTest(1.5, 0.5), step_size=0.5, num_leapfrog=2, reuse_gradients=True
    ),
}


@pytest.mark.parametrize("name", KERNELS)
def test_joint_law_is_kept(name):
    assert worst(KERNELS[name]()) < 1


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_joint_law_is_kept_by_many(name):
    assert worst(KERNELS[name](), num_data_sets=200_000, num_steps=10, seed=2) < 1


def no_penalty(key, noisy_log_ratio, variance):  # noqa: ARG001
    return -jax.random.exponential(key) < noisy_log_ratio


def deviation_for_variance(key, noisy_log_ratio, variance):
    return -jax.random.exponential(key) < noisy_log_ratio - jnp.sqrt(variance) / 2


def uniform_for_its_logarithm(key, noisy_log_ratio, variance):
    return jax.random.uniform(key) < noisy_log_ratio - variance / 2


@pytest.mark.parametrize(
    ("name", "mutant"),
    [
        ("penalty", no_penalty),
        ("penalty", deviation_for_variance),
        ("penalty", uniform_for_its_logarithm),
        ("HMC", no_penalty),
        pytest.param("HMC", deviation_for_variance, marks=pytest.mark.slow),
    ],
)
def test_mutant_of_the_penalty_test_is_caught(name, mutant, monkeypatch):
    monkeypatch.setattr(accept, "penalty_test", mutant)
    assert worst(KERNELS[name]()) > CLEARLY


def test_missing_penalty_in_the_enclave_is_caught(monkeypatch):
    monkeypatch.setattr(log_ratio, "noise_variance", lambda lattice: jnp.zeros_like(lattice.granularity))
    assert worst(KERNELS["HMC, reuse, accept bit"]()) > CLEARLY


@pytest.mark.parametrize(("name", "factor"), [("penalty", 0.0), ("penalty", -1.0), ("Barker", -1.0)])
def test_wrong_prior_is_caught(name, factor):
    mutant = replace(MODEL, log_prior=lambda position: factor * log_prior(position))
    assert worst(KERNELS[name](), mutant) > CLEARLY


TIGHT = {
    "penalty": lambda: dp_penalty(LogRatio(0.3, 0.5), proposal_scale=(1.0, 1.5)),
    "Barker": lambda: dp_barker(BarkerBit(0.2), proposal_scale=(1.0, 1.5)),
}


@pytest.mark.parametrize("name", TIGHT)
def test_clip_that_binds_is_caught(name):
    """A ratio that is clipped belongs to no posterior."""
    assert worst(TIGHT[name]()) > CLEARLY


def expected_information(position):
    """Return the precision of the prior and what the model expects of the records, over a grid of their covariates."""
    middles = (jnp.arange(6) + 0.5) / 3 - 1
    x = jnp.stack(jnp.meshgrid(middles, middles), axis=-1).reshape(-1, 2)
    chance = jax.nn.sigmoid(x @ position)
    return jnp.diag(PRIOR_SCALE**-2) + NUM_RECORDS * (x.T * (chance * (1 - chance))) @ x / len(x)


STEP = 0.02


def langevin(*, clip=2.0, share=1.0, num_data_sets=5_000):
    """Return the worst statistic of Langevin dynamics, whose bias is of the order of its step, over a time of 0.4."""
    gradient = GradientSum(clip, share * samplers.langevin_noise(STEP) / (2 * clip))
    kernel = dp_langevin(gradient, step_size=STEP, metric=expected_information)
    return worst(kernel, num_data_sets=num_data_sets, num_steps=20)


def test_langevin_dynamics_keeps_the_joint_law():
    assert langevin(num_data_sets=10_000) < 1


def test_mutant_of_langevin_dynamics_is_caught(monkeypatch):
    module = sys.modules["dpmcmc.kernels.dp_langevin"]
    assert langevin(clip=0.05) > CLEARLY, "a clip of the gradient that most records reach"
    monkeypatch.setattr(module, "missing_noise", lambda *_, **__: 0.0)
    assert langevin(share=0.5**0.5) > CLEARLY, "half the temperature"
