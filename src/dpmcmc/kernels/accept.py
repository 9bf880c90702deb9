"""Accept or reject a proposal by the test of the mechanism."""

import jax
import jax.numpy as jnp

from dpmcmc.kernels.base import DecisionMechanism, Info, Oracle


def accept(
    key: jax.Array,
    oracle: Oracle,
    mechanism: object,
    current: jax.Array,
    proposed: jax.Array,
    log_correction: jax.Array | float = 0.0,
) -> Info:
    """Return whether to move, with statistics of the test; a non-finite proposal is rejected.

    The oracle is queried in any case, at a finite position: the cost of a step must not depend on its proposal.

    Args:
        key: for the uniform draw of the test, unless the mechanism releases the decision alone.
        oracle: the oracle to query.
        mechanism: releases a noisy log-ratio, to which the penalty test is applied, or the decision of its own test.
        current: the position of the chain.
        proposed: the proposed position.
        log_correction: the rest of the log acceptance ratio: momenta, or an asymmetric proposal.
    """
    is_finite = jnp.all(jnp.isfinite(proposed)) & jnp.isfinite(log_correction)
    safe = jnp.where(is_finite, proposed, current)
    if isinstance(mechanism, DecisionMechanism):
        decision = oracle.accept(mechanism, current, safe, jnp.where(is_finite, log_correction, 0.0))
        return Info(decision & is_finite, ~is_finite)
    ratio = oracle.log_posterior_ratio(mechanism, current, safe)
    noisy = ratio.value + log_correction
    decision = penalty_test(key, noisy, ratio.variance)
    return Info(decision & is_finite, ~is_finite, noisy - ratio.variance / 2, -noisy)


def penalty_test(key: jax.Array, noisy_log_ratio: jax.Array, variance: jax.Array) -> jax.Array:
    """Accept with probability min(1, exp(noisy log-ratio - variance / 2)) (Ceperley and Dewing 1999).

    Averaged over noise of that variance, a(l) = E min(1, exp(l + noise - variance / 2)) obeys a(l) / a(-l) = e^l: the
    chain keeps the exact target although it never sees the exact ratio. Without noise it is the Metropolis test.
    """
    minus_log_uniform = jax.random.exponential(key)
    return -minus_log_uniform < noisy_log_ratio - variance / 2
