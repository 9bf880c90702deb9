# ruff: noqa: ARG002
"""Operations that JAX writes as objects which expand to others: its own may be used in a likelihood, others may not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import hijax
from toy import GaussianModel

from dpmcmc.enclave import GradientSum, LogRatio, PrivateData, Sum
from dpmcmc.enclave.core.allowed import EXPANDABLE
from dpmcmc.errors import OperationRefused

THETA = jnp.array([0.4, -0.2, 0.1])
KNOTS, HEIGHTS = jnp.array([-1.0, 0.0, 1.0]), jnp.array([0.0, 2.0, 1.0])
HighLevel = getattr(hijax, "HiPrim", None) or hijax.VJPHiPrimitive


class Interpolated(GaussianModel):
    def log_likelihood(self, position, record):
        return jnp.interp(record @ position, KNOTS, HEIGHTS)


def test_interpolation_in_a_likelihood(table):
    data = PrivateData.without_guarantee(table)

    def program(oracle, theta):
        force = oracle.force(GradientSum(10.0, 0.003), theta)
        return force.value, oracle.log_posterior_ratio(LogRatio(5.0, 0.003), theta, theta + 0.1).value

    force, ratio = data.run(program, THETA, model=Interpolated(), insecure_seed=1)
    model = Interpolated()

    def posterior(theta):
        return model.log_prior(theta) + sum(model.log_likelihood(theta, record) for record in table)

    np.testing.assert_allclose(force, jax.grad(posterior)(THETA), atol=0.4)
    np.testing.assert_allclose(ratio, posterior(THETA + 0.1) - posterior(THETA), atol=0.05)


STATISTICS = {
    "searchsorted": lambda record: jnp.searchsorted(KNOTS, record).astype(float),
    "digitize": lambda record: jnp.digitize(record, KNOTS).astype(float),
    "einsum": lambda record: jnp.einsum("i,j->ij", record, record),
    "ldexp": lambda record: jnp.ldexp(record, 2),
    "frexp": lambda record: jnp.frexp(record)[0],
    "nonzero": lambda record: jnp.nonzero(record > 0, size=3)[0].astype(float),
    "histogram": lambda record: jnp.histogram(record, bins=KNOTS)[0],
    "median": jnp.median,
}


@pytest.mark.parametrize("name", STATISTICS)
def test_functions_of_jax_numpy_in_a_statistic(table, name):
    data = PrivateData.without_guarantee(table)
    quiet = Sum(100.0, 0.003)
    total = data.run(lambda oracle: oracle.sum(quiet, STATISTICS[name]).value)
    expected = np.sum([np.ravel(STATISTICS[name](jnp.asarray(record))) for record in table], axis=0)
    np.testing.assert_allclose(total, expected, atol=4.0)


class Doubled(HighLevel):
    """An operation of the user's own: what it expands to is harmless, its other rules could be anything."""

    def __init__(self, aval):
        self.in_avals = (aval,)
        self.out_aval = aval
        self.params = {}
        super().__init__()

    def expand(self, x):
        return 2 * x

    def batch(self, axis_data, args, dims):
        jax.debug.print("{}", args[0])
        return 2 * args[0], dims[0]


def doubled(record):
    return Doubled(jax.typeof(record))(record)


def test_objects_of_other_classes_are_refused(data, book):
    for attempt in (data.price, data.run):
        with pytest.raises(OperationRefused, match=r"call_hi_primitive at .*test_expansions.py:\d+.*is applied to"):
            attempt(lambda oracle: oracle.sum(Sum(1.0, 1.0), doubled).value)
    assert book.reserved == []


def test_subclasses_of_the_accepted_classes_are_not_accepted():
    for _, kind in EXPANDABLE:
        own = type("Own", (kind,), {})
        assert not any(own is other for _, other in EXPANDABLE)
