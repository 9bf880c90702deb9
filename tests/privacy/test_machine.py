"""XLA adds up what it is given: a version of it that did not is refused, and any other that does not is noticed here.

In jaxlib 0.10.2 the reductions of `many_sums` took, for some sizes, the numbers of one chain for those of another.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpmcmc.enclave import ExactSum, GradientSum, PrivateData
from dpmcmc.enclave.core import self_test
from dpmcmc.errors import RunRefused

SIZES = [(n, d, chains) for n in (1000, 2000, 3000, 20_000) for d, chains in ((5, 3), (5, 16), (10, 3), (32, 16))]


def many_sums(x, y, positions):
    """Return for each chain the sum of residuals times rows, those that are not finite left out."""

    def of_chain(position):
        rows = (y - jnp.sum(x * position, axis=1))[:, None] * x
        return jnp.sum(jnp.where(jnp.all(jnp.isfinite(rows), axis=1, keepdims=True), rows, 0), axis=0)

    return jax.vmap(of_chain)(positions)


@pytest.mark.parametrize("size", SIZES)
def test_sums_are_those_of_numpy(size) -> None:
    num_records, dimension, chains = size
    rng = np.random.default_rng(num_records + dimension)
    shapes = ((num_records, dimension), num_records, (chains, dimension))
    x, y, positions = (rng.normal(size=shape).astype(np.float32) for shape in shapes)
    wide = [part.astype(np.float64) for part in (x, y, positions)]
    expected = np.stack([(wide[1] - wide[0] @ position) @ wide[0] for position in wide[2]])
    np.testing.assert_allclose(jax.jit(many_sums)(x, y, positions), expected, atol=1e-3 * np.sqrt(num_records))


class Robust:
    """A location with outliers: a gradient of no special form."""

    temperature = 1.0

    def log_prior(self, theta):
        return -0.5 * jnp.sum(theta**2)

    def log_likelihood(self, theta, record):
        square = jnp.sum(jnp.square(record - theta))
        return jnp.logaddexp(-0.5 * square, -0.02 * square - 3.0)


@pytest.mark.parametrize(("num_records", "dimension", "chains"), [(3000, 5, 16), (20_000, 5, 3), (45_000, 10, 4)])
def test_clipped_sums_are_those_of_numpy(num_records, dimension, chains) -> None:
    rng = np.random.default_rng(dimension)
    rows = rng.normal(size=(num_records, dimension)).astype(np.float32) * rng.choice([0.1, 1, 9], (num_records, 1))
    positions = rng.normal(size=(chains, dimension))
    data = PrivateData.without_guarantee(rows)
    clip, noise = 1.5, 0.01

    def program(oracle, positions):
        return jax.vmap(lambda position: oracle.force(GradientSum(clip, noise), position).value)(positions)

    found = data.run(program, jnp.asarray(positions, jnp.float32), model=Robust(), insecure_seed=1)
    expected = []
    for position in positions:
        away = rows - position
        square = np.sum(away**2, axis=1, keepdims=True)
        share = 1 / (1 + np.exp(np.clip(0.48 * square - 3, -50, 50)))  # of the narrow one
        gradients = (share + 0.04 * (1 - share)) * away
        norms = np.linalg.norm(gradients, axis=1, keepdims=True)
        expected.append(np.sum(gradients * np.minimum(1, clip / norms), axis=0) - position)
    # seven deviations of the noise, 1e-9 for all numbers together, and 1e-4 of the longest sum for rounding
    np.testing.assert_allclose(found, expected, atol=7 * 2 * clip * noise + 1e-4 * clip * num_records)


@pytest.mark.parametrize("checks", ["quick_checks", "all_checks"])
def test_a_machine_that_does_not_add_up_is_refused(checks, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    self_test.check_machine.cache_clear()
    monkeypatch.setattr(self_test, "all_checks", lambda: iter([lambda: True]))
    monkeypatch.setattr(self_test, checks, lambda: iter([lambda: True, lambda: False]))
    with pytest.raises(RunRefused, match="this machine does not add up"):
        PrivateData.without_guarantee(np.zeros((3, 1)))
    monkeypatch.undo()
    self_test.check_machine.cache_clear()
    data = PrivateData.without_guarantee(np.ones((3, 1)))
    assert data.run(lambda oracle: oracle.sum(ExactSum(), lambda record: record).value) == 3.0
