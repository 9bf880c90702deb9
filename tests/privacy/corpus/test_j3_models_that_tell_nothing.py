"""J3: NumPyro models whose likelihood is flat or not a number, and bounds beyond 32 bits, with warnings as errors.

The attack: nothing is leaked, but a result that was charged for is lost: in a model whose mean does not depend on its
parameters no direction is seen, and NumPy's "Mean of empty slice", of released numbers alone, ended the run after the
charge. With bounds of 1e30, or whole numbers beyond 2^31, JAX raised an OverflowError before it.

What must happen: a refusal in words before the charge, or a result after it.

False alarms: none; every noise has to give a result.
"""

import warnings

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import dpmcmc as dp
from dpmcmc.accounting import Adjacency, Budget, Ledger
from dpmcmc.errors import DpmcmcError

MEANS = {"flat": lambda a, x: 0 * a * x, "nan": lambda a, x: a * x * jnp.nan}


@pytest.mark.parametrize(("mean", "bound"), [("flat", 1e30), ("nan", 5.0), ("nan", 1e30)])
def test_a_result_or_a_refusal(mean: str, bound: float) -> None:
    def model(x, y):
        a = numpyro.sample("a", dist.Normal(0.0, 1.0))
        with numpyro.plate("rows", x.shape[0]):
            numpyro.sample("y", dist.Normal(MEANS[mean](a, x), 1.0), obs=y)

    ledger = Ledger.in_memory()
    ledger.register("rows", Budget(20.0, 1e-5), Adjacency.REPLACE_ONE)
    x = np.linspace(-1, 1, 4000).astype(np.float32)
    records = {"x": x, "y": np.where(x > 0, np.nan, bound).astype(np.float32)}
    data = dp.PrivateData(records, bounds={"x": (-1, 1), "y": (-bound, bound)}, ledger=ledger, dataset="rows")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            posterior = dp.fit(model, data, epsilon=8.0, progress=False, allow_low_accuracy=True)
        except DpmcmcError:
            assert ledger.account("rows").epsilon_left == 20.0
        else:
            assert posterior.quality.verdict in ("good", "fair", "bad")
            assert len(posterior.to_pandas())
