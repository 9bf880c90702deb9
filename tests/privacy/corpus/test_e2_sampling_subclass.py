"""A way of sampling that states its own price.

The attack: `SubsampledGradientSum` is certified by its exact class, and made anew from its fields; but its field
`sampling` may be an instance of a subclass of `Poisson` or `WithoutReplacement`, whose methods `gaussian` and
`distance` are the price and whose `draw` is the batch. One that says ``Gaussian(1e6)`` buys sums with noise of a
hundredth of a clip over all records for epsilon 1e-8. The same with an honest class whose field was replaced, by
`object.__setattr__`, with a number that lies when it is converted: it is priced as one rate and sampled as another.

What must happen: an error of dpmcmc before anything is charged, or price and release are those of the honest class.

False alarms: the noise that is seen is 2e-5 of the one that was paid for, so none; refusals are exact.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from vaults import free_vault

from dpmcmc.accounting import epsilon
from dpmcmc.accounting.event import Gaussian
from dpmcmc.enclave import SubsampledGradientSum
from dpmcmc.enclave.batches.sampling import Poisson, WithoutReplacement
from dpmcmc.errors import DpmcmcError

ROWS = np.random.default_rng(0).normal(size=(600, 2)).astype(np.float32)
TRUE = (ROWS / np.maximum(1, np.linalg.norm(ROWS, axis=1, keepdims=True))).sum(0)


class Model:
    temperature = 1.0

    def log_prior(self, t):
        return 0.0 * jnp.sum(t)

    def log_likelihood(self, t, x):
        return jnp.dot(t, x)


class CheapPoisson(Poisson):
    def gaussian(self, facts, noise_over_clip):  # noqa: ARG002
        return Gaussian(1e6)


class CheapBatch(WithoutReplacement):
    def gaussian(self, facts, noise_over_clip):  # noqa: ARG002
        return Gaussian(1e6)


class Sly(float):
    """Is one; but whoever converts it to a float is told another number."""

    def __float__(self):
        return 1e-9


def with_a_number_that_lies():
    sampling = Poisson(1e-9, 599)  # so large a limit that a coin is tossed for each record
    object.__setattr__(sampling, "rate", Sly(1.0))
    return sampling


def tell(mechanism):
    """What one release costs, and by how much it misses the sum of all records."""
    vault = free_vault(ROWS)

    def program(oracle, t):
        return oracle.force(mechanism, t).value

    t = jnp.zeros(2)
    price = vault.price(program, t, model=Model())
    return epsilon(price, delta=1e-6), float(np.abs(np.asarray(vault.run(program, t, model=Model())) - TRUE).max())


@pytest.mark.parametrize(
    "sampling", [lambda: CheapPoisson(1.0), lambda: CheapBatch(600), with_a_number_that_lies], ids=["p", "b", "rate"]
)
def test_a_sampling_does_not_state_its_own_price(sampling):
    try:
        price, error = tell(SubsampledGradientSum(1.0, 0.01, sampling()))
    except DpmcmcError:
        return
    assert price > 10 or error > 1, f"the sum of all records, give or take {error:.2g}, for epsilon {price:.2g}"
