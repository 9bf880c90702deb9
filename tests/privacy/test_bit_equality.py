"""The same bits from `run`, whatever the order of the records and the chunks that they are read in."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_shards import D, Logistic, Mixture, table

from dpmcmc.enclave import GradientSum, LogRatio, PrivateData

SIZE = 1500
POSITIONS = jnp.asarray(np.random.default_rng(2).normal(size=(2, D)).astype(np.float32))


def run(model, records, chunk_size):
    def program(oracle, thetas):
        def one(theta):
            force = oracle.force(GradientSum(0.7, 2.0), theta).value
            return force, oracle.log_posterior_ratio(LogRatio(0.7, 2.0), theta, theta + 0.1).value

        return jax.vmap(one)(thetas)

    data = PrivateData.without_guarantee(records, chunk_size=chunk_size)
    return np.column_stack(data.run(program, POSITIONS, model=model, insecure_seed=9))


@pytest.mark.parametrize("chunk_size", [1, 7, 1000, SIZE])
def test_chunks_change_no_bit_of_a_linear_predictor(chunk_size):
    np.testing.assert_array_equal(run(Logistic(), table(SIZE), chunk_size), run(Logistic(), table(SIZE), 100))


@pytest.mark.parametrize("model", [Logistic(), Mixture()], ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("chunk_size", [7, 1000])
def test_the_order_changes_no_bit(model, chunk_size):
    records = table(SIZE)
    expected = run(model, records, chunk_size)
    for order in (slice(None, None, -1), np.random.default_rng(3).permutation(SIZE)):
        shuffled = jax.tree.map(lambda leaf, order=order: leaf[order], records)
        np.testing.assert_array_equal(run(model, shuffled, chunk_size), expected)


@pytest.mark.parametrize("chunk_size", [1, 7, 1000, SIZE])
def test_chunks_change_another_model_by_roundings_of_single_records_at_most(chunk_size):
    found, expected = (run(Mixture(), table(SIZE), size) for size in (chunk_size, 100))
    np.testing.assert_allclose(found, expected, atol=SIZE * 0.7 * 2**-20)
