"""An attacker's estimate of what one release gives away, from 200,000 releases on worst-case neighbours.

Two tables differ in one record, whose contribution is as far on one side of the clip as it is on the other side in the
neighbour. Over M releases of each, the difference of the means over the standard deviation estimates the sensitivity
over the noise, 1 / noise_multiplier. Its standard error is about sqrt(2 / M); a bound of 4.4 of them raises a false
alarm with probability 1.1e-5 a case, below 1e-4 for all cases together.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpmcmc.enclave import CurvatureSum, GradientSum, LogRatio, NoisyCount, PrivateData, Sum

RELEASES = 200_000
ALARM = 4.4 * np.sqrt(2 / RELEASES)
CLIP = 0.7


class Steep:
    """A likelihood whose slope is the record: gradients and ratios reach any clip on either side."""

    temperature = 1.0

    def log_prior(self, position):
        return 0.0 * jnp.sum(position)

    def log_likelihood(self, position, record):
        return jnp.sum(position) * record


class Bent(Steep):
    """A likelihood whose Hessian is the square of a row, with the sign of the record."""

    def log_likelihood(self, position, record):
        row = jnp.stack([jnp.abs(record), jnp.zeros_like(record)])
        return -0.5 * jnp.sign(record) * jnp.square(row @ position)


def released(mechanism, ask, record, adjacency):
    """Return RELEASES values released from a table of one ordinary record and, unless it is None, one extreme one."""
    rows = [0.0] if record is None else [0.0, record]
    capacity = {} if adjacency == "replace_one" else {"capacity": 2}
    data = PrivateData.without_guarantee(np.array(rows), adjacency=adjacency, **capacity)

    def program(oracle, positions):
        return jax.vmap(lambda position: ask(oracle, mechanism, position))(positions)

    seed, model = 1 if record == 1e6 else 2, Bent() if ask is curvature else Steep()
    return np.asarray(data.run(program, jnp.zeros((RELEASES, 1)), model=model, insecure_seed=seed), np.float64)


def gradient(oracle, mechanism, position):
    return oracle.force(mechanism, position).value[0]


def ratio(oracle, mechanism, position):
    return oracle.log_posterior_ratio(mechanism, position, position + 1.0).value


def statistic(oracle, mechanism, position):
    return oracle.sum(mechanism, lambda position, record: record + 0 * position, position).value[0]


def curvature(oracle, mechanism, position):
    return oracle.curvature(mechanism, jnp.repeat(position, 2), jnp.eye(2)[:, :1]).value[0, 0]


def signal_to_noise(mechanism, ask, adjacency):
    first = released(mechanism, ask, 1e6, adjacency)
    second = released(mechanism, ask, -1e6 if adjacency == "replace_one" else None, adjacency)
    spread = np.sqrt((first.var() + second.var()) / 2)
    return abs(first.mean() - second.mean()) / spread


CASES = [
    pytest.param(GradientSum(CLIP, 1.3), gradient, id="gradient"),
    pytest.param(LogRatio(CLIP, 1.3), ratio, id="log-ratio"),
    pytest.param(Sum(CLIP, 1.3), statistic, id="sum"),
    pytest.param(CurvatureSum(CLIP, 1.3), curvature, id="curvature"),
]


@pytest.mark.parametrize("adjacency", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize(("mechanism", "ask"), CASES)
def test_a_release_shows_what_its_noise_multiplier_says(mechanism, ask, adjacency):
    measured = signal_to_noise(mechanism, ask, adjacency)
    assert abs(measured - 1 / 1.3) < ALARM
    for wrong in (2 / 3, 3 / 2, 1 / 2, 2.0):  # the same measurement rejects another scale and a factor of two
        assert abs(measured - wrong / 1.3) > ALARM


def test_a_count_shows_what_its_noise_multiplier_says():
    mechanism = NoisyCount(CLIP, 1.3)
    first = released(mechanism, statistic, 1e6, "replace_one")
    second = released(mechanism, statistic, 0.0, "replace_one")
    measured = abs(first.mean() - second.mean()) / np.sqrt((first.var() + second.var()) / 2)
    assert abs(measured - 1 / 1.3) < ALARM


def test_two_runs_with_system_entropy_differ():
    data = PrivateData.without_guarantee(np.array([0.0, 1.0]))

    def program(oracle, position):
        return gradient(oracle, GradientSum(CLIP, 1.3), position)

    draws = {float(data.run(program, jnp.zeros(1), model=Steep())) for _ in range(5)}
    assert len(draws) == 5
