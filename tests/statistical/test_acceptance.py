"""The chance of acceptance at a fixed log-ratio, against the closed form.

The penalty test accepts with the chance a(l) = Phi(l/s - s/2) + e^l Phi(-l/s - s/2), where s is the deviation of the
noise, and Barker's with S(l) = 1 / (1 + e^-l); both obey a(l) / a(-l) = e^l. Counts are compared by exact binomial
tails. Each test raises a false alarm with a chance of at most 1e-4.
"""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from dpmcmc.enclave import BarkerBit, LogRatio, PenaltyTest, PrivateData
from dpmcmc.kernels.accept import accept, penalty_test
from dpmcmc.model import Model

ROWS = json.loads((Path(__file__).parents[1] / "golden" / "golden.json").read_text())["rows"]
GOLDEN = [row for row in ROWS if row["name"].startswith("L_accept_penalty/")]
FALSE_ALARMS = 1e-4


def chance(log_ratio, deviation):
    first = stats.norm.cdf(log_ratio / deviation - deviation / 2)
    return first + np.exp(log_ratio) * stats.norm.cdf(-log_ratio / deviation - deviation / 2)


def surprise(accepted, expected):
    """Return the two-sided tail of the number of acceptances."""
    count, trials = int(np.sum(accepted)), np.size(accepted)
    return min(1.0, 2 * min(stats.binom.cdf(count, trials, expected), stats.binom.sf(count - 1, trials, expected)))


@pytest.mark.parametrize("row", GOLDEN, ids=lambda row: row["name"].split("/")[1])
def test_penalty_test_meets_the_golden_rows(row):
    log_ratio, deviation = row["inputs"]["lam"], row["inputs"]["sigma"]
    assert chance(log_ratio, deviation) == pytest.approx(row["output"]["a"], rel=1e-9)
    of_noise, of_test = jax.random.split(jax.random.key(1))
    noisy = log_ratio + deviation * jax.random.normal(of_noise, (1_000_000,))
    accepted = jax.vmap(penalty_test, in_axes=(0, 0, None))(
        jax.random.split(of_test, 1_000_000), noisy, jnp.float32(deviation**2)
    )
    assert surprise(accepted, row["output"]["a"]) > FALSE_ALARMS


MODEL = Model(lambda position: 0.3 * position[0], lambda position, record: position[0] * record)
"""From 0 to x the log-ratio of a record r is x r, and that of the prior 0.3 x."""

RECORDS = np.array([0.5, -0.9, 0.7], np.float32)  # no clip at one


def decisions(mechanism, proposed, log_correction, num_trials, seed):
    """Test one move from 0 many times, through the enclave."""
    data = PrivateData.without_guarantee(RECORDS, bounds={"records": (-1, 1)})

    def program(oracle, keys, proposals):
        def trial(key, there):
            return accept(key, oracle, mechanism, jnp.zeros_like(there), there, log_correction)[0]

        return jax.vmap(trial)(keys, proposals)

    keys = jax.random.split(jax.random.key(seed), num_trials)
    proposals = np.full((num_trials, 1), proposed, np.float32)
    return np.asarray(data.run(program, keys, proposals, model=MODEL, insecure_seed=seed))


MECHANISMS = {
    "released ratio": (LogRatio(1.0, 0.4), lambda log_ratio, distance: chance(log_ratio, 0.8 * distance)),
    "accept bit": (PenaltyTest(1.0, 0.4), lambda log_ratio, distance: chance(log_ratio, 0.8 * distance)),
    "Barker": (BarkerBit(2.0), lambda log_ratio, distance: expit(log_ratio)),  # noqa: ARG005
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_mechanism_accepts_as_often_as_it_should(name):
    """Forward with l = 0.6 x + c, and back with -l: so the balance of the two is tested as well."""
    mechanism, closed_form = MECHANISMS[name]
    proposed, log_correction, trials = 1.5, -0.2, 250_000
    log_ratio = 0.6 * proposed + log_correction
    forth = decisions(mechanism, proposed, log_correction, trials, seed=1)
    back = decisions(mechanism, -proposed, -log_correction, trials, seed=2)
    assert surprise(forth, closed_form(log_ratio, proposed)) > FALSE_ALARMS / 3
    assert surprise(back, closed_form(-log_ratio, proposed)) > FALSE_ALARMS / 3
    balance = np.log(forth.mean() / back.mean()) - log_ratio
    error = np.sqrt(np.sum([(1 / found.mean() - 1) / trials for found in (forth, back)]))
    assert abs(balance) / error < stats.norm.isf(FALSE_ALARMS / 6)


def test_the_tails_have_power():
    """Noise of two thirds or three halves the stated deviation is caught."""
    normal = np.random.default_rng(1).standard_normal(250_000)
    uniform = np.random.default_rng(2).uniform(size=250_000)
    for wrong in (2 / 3, 3 / 2):
        accepted = np.log(uniform) < 0.7 + wrong * 1.2 * normal - 1.2**2 / 2
        assert surprise(accepted, chance(0.7, 1.2)) < FALSE_ALARMS**2
