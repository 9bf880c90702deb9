"""Equations that are replaced by shorter ones: they are found, they say the same, and their like is left alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpmcmc.enclave.accelerate.jaxpr import Equations
from dpmcmc.enclave.accelerate.linear.identities import shortened

POSITIONS = np.array([-80.0, -20.0, -1.5, 0.0, 0.3, 4.0, 30.0, 85.0], np.float32)

SHARES = {
    "log-sigmoid": jax.nn.log_sigmoid,
    "softplus": jax.nn.softplus,
    "the second of two": lambda w: jnp.logaddexp(0.0, w),
    "both of two": lambda w: jnp.logaddexp(jnp.sin(w), 0.5 * w),
    "of a vector": lambda w: jnp.sum(jax.nn.log_sigmoid(w - jnp.arange(3.0))),
    "jitted": jax.jit(lambda w: jax.nn.log_sigmoid(-w)),
}


def without_exponentials(function):
    equations = Equations(jax.grad(function), jnp.float32(1))
    equations.listed = shortened(equations)
    needed = equations.needed([equations.output])
    assert not {"exp", "log1p"} & {equation.primitive.name for equation in needed}
    return equations, needed


@pytest.mark.parametrize("name", SHARES)
def test_the_derivative_of_a_log_of_two_exponentials_takes_no_logarithm(name):
    equations, needed = without_exponentials(SHARES[name])
    for position in POSITIONS:
        values = equations.given([position])
        for equation in needed:
            operands = [values[array] for array in equation.inputs]
            (result,) = equation.outputs
            values[result] = equation.primitive.bind(*operands, **equation.parameters)
        # in float64 there is a truth: float32 loses digits where a logarithm cancels
        with jax.enable_x64(True):
            truth = jax.grad(lambda w: SHARES[name](w))(np.float64(position))
        np.testing.assert_allclose(values[equations.output], truth, rtol=3e-6, atol=1e-30)


def share(part, total):
    """What JAX's rule writes for e^part / e^total."""
    part, total = (jax.lax.select(value == jnp.inf, jnp.zeros_like(value), value) for value in (part, total))
    return jnp.exp(part - total)


@pytest.mark.parametrize(
    ("function", "is_share"),
    [
        (lambda a, b: share(a, jnp.logaddexp(a, b)), True),
        (lambda a, b: share(b, jnp.logaddexp(a, b)), True),
        (lambda a, b: share(a, jnp.logaddexp(b, 1.0)), False),
        (lambda a, b: share(-a, jnp.logaddexp(a, b)), False),
        (lambda a, b: share(a, jnp.maximum(a, b) + jnp.log1p(jnp.exp(-jnp.abs(a + b)))), False),
    ],
)
def test_what_is_not_such_a_share_stays(function, is_share):
    equations = Equations(function, jnp.float32(1), jnp.float32(2))
    equations.listed = shortened(equations)
    names = {equation.primitive.name for equation in equations.needed([equations.output])}
    assert ("exp" not in names) == is_share
    assert ("logistic" in names) == is_share
