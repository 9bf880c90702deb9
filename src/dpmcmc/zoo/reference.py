"""Reference posteriors by a long run of NUTS, with the checks that it must pass.

For models without a closed form. It reads the records exactly, so it is for simulated or public data alone.
"""

# numpyro and jax annotate themselves in part only
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin
from numpyro.infer.hmc import hmc

from dpmcmc import validation
from dpmcmc.errors import InvalidArgument, NotConverged
from dpmcmc.model import Model
from dpmcmc.zoo.problem import Vector

LARGEST_RHAT = 1.01
LEAST_EFFECTIVE = 400.0


class Checks(NamedTuple):
    """What a long run showed of itself."""

    largest_rhat: float
    """The largest split R-hat over all coordinates, below 1.01."""
    least_effective: float
    """The smallest effective number of draws over all coordinates, above 400."""
    num_divergent: int
    """How many trajectories diverged: none."""


class Reference(NamedTuple):
    """Draws of a long run, and the checks that they passed."""

    draws: Any
    """A pytree like the position, every leaf with the axes (chain, draw, ...), in float64."""
    checks: Checks


def nuts_reference(
    model: Model,
    records: Any,
    *,
    key: jax.Array,
    num_chains: int = 4,
    num_warmup: int = 500,
    num_draws: int = 1000,
    target_acceptance: float = 0.9,
    dense_mass: bool = True,
    quantity: Callable[[Any], Any] | None = None,
) -> Any:
    """Return draws of the posterior by NUTS (Hoffman and Gelman 2014), a pytree like the position: (chain, draw, ...).

    The potential is -log_prior(position) - temperature * sum of log_likelihood(position, record), in float64. The
    result is determined by the key. Chains start at uniform points of (-1, 1) around zero, in unconstrained space.

    Args:
        model: with its `position` stated, or with a prior to draw one from.
        records: a pytree of arrays with one row per record.
        key: a random key of JAX.
        num_chains: how many chains, at least two.
        num_warmup: steps of adaptation per chain.
        num_draws: draws kept per chain.
        target_acceptance: what the step size is adapted to; nearer to one against divergences.
        dense_mass: adapt a full mass matrix; False for many coordinates or several modes.
        quantity: what of a position must have converged, if not all of it: the predictions of a neural network,
            say, whose weights have equivalent modes.

    Raises:
        NotConverged: if R-hat >= 1.01, or fewer than 400 effective draws, or a divergence.
    """
    return checked_reference(
        model,
        records,
        key=key,
        num_chains=num_chains,
        num_warmup=num_warmup,
        num_draws=num_draws,
        target_acceptance=target_acceptance,
        dense_mass=dense_mass,
        quantity=quantity,
    ).draws


def checked_reference(
    model: Model,
    records: Any,
    *,
    key: jax.Array,
    num_chains: int,
    num_warmup: int,
    num_draws: int,
    target_acceptance: float = 0.9,
    dense_mass: bool = True,
    quantity: Callable[[Any], Any] | None = None,
) -> Reference:
    """Return what `nuts_reference` returns together with its checks."""
    num_chains = validation.integer("num_chains", num_chains, at_least=2)
    num_warmup = validation.integer("num_warmup", num_warmup, at_least=1)
    num_draws = validation.integer("num_draws", num_draws, at_least=4)
    target_acceptance = validation.probability("target_acceptance", target_acceptance)
    shapes = _position(model)
    with jax.enable_x64(True):
        table = jax.tree.map(_double, records)
        _, nest = ravel_pytree(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), shapes))
        of_start, of_run = jax.random.split(key)

        def potential(flat: jax.Array) -> jax.Array:
            position = nest(flat)
            terms = jax.vmap(model.log_likelihood, in_axes=(None, 0))(position, table)
            return -model.log_prior(position) - model.temperature * jnp.sum(terms)

        size = sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(shapes))
        initialise, step = hmc(potential, algo="NUTS")

        def chain(key: jax.Array, start: jax.Array) -> Any:
            state = initialise(
                start, num_warmup, dense_mass=dense_mass, target_accept_prob=target_acceptance, rng_key=key
            )

            def next_draw(state: Any, _: None) -> Any:
                state = step(state)
                return state, (state.z, state.diverging)

            _, kept = jax.lax.scan(next_draw, state, None, length=num_warmup + num_draws)
            return jax.tree.map(lambda leaf: leaf[num_warmup:], kept)

        starts = jax.random.uniform(of_start, (num_chains, size), minval=-1.0, maxval=1.0)
        flat, diverging = jax.jit(jax.vmap(chain))(jax.random.split(of_run, num_chains), starts)
        draws = jax.vmap(jax.vmap(nest))(flat)
        tested = flat if quantity is None else jax.vmap(jax.vmap(quantity))(draws)
        checks = check_convergence(tested, int(np.sum(diverging)))
        return Reference(jax.tree.map(np.asarray, draws), checks)


def check_convergence(draws: Any, num_divergent: int = 0) -> Checks:
    """Return the checks of draws, whose leaves have the axes (chain, draw, ...), or raise `NotConverged`."""
    leaves = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(draws)]
    rhat = max(float(np.max(split_gelman_rubin(leaf))) for leaf in leaves)
    effective = min(float(np.min(effective_sample_size(leaf))) for leaf in leaves)
    if not (rhat < LARGEST_RHAT and effective > LEAST_EFFECTIVE and num_divergent == 0):
        raise NotConverged(
            f"the long run has R-hat {rhat:.4f} (expected < {LARGEST_RHAT}), {effective:.0f} effective draws (expected "
            f"> {LEAST_EFFECTIVE:.0f}) and {num_divergent} divergences (expected none); raise num_warmup and num_draws"
        )
    return Checks(rhat, effective, num_divergent)


def _position(model: Model) -> Any:
    """Return the shapes of a position."""
    if model.position is not None:
        return model.position
    if model.sample_prior is None:
        raise InvalidArgument("model.position=None must be stated for a model whose prior cannot be drawn from")
    return jax.eval_shape(model.sample_prior, jax.random.key(0))


def _double(leaf: Any) -> jax.Array:
    """Return a leaf of the records in float64 if it holds real numbers."""
    array = np.asarray(leaf)
    return jnp.asarray(array.astype(np.float64) if array.dtype.kind == "f" else array)


@dataclass(frozen=True, eq=False)
class LongRun:
    """The posterior of a model with a flat position, by a long run that is made when it is first needed."""

    model: Model
    records: Any
    seed: int
    """Determines the run."""
    num_chains: int = 4
    num_warmup: int = 500
    num_kept: int = 1000
    """Draws per chain."""
    target_acceptance: float = 0.9
    dense_mass: bool = True
    quantity: Callable[[Any], Any] | None = None

    @cached_property
    def reference(self) -> Reference:
        """The draws, shape (chain, draw, d), and the checks that they passed."""
        return checked_reference(
            self.model,
            self.records,
            key=jax.random.key(self.seed),
            num_chains=self.num_chains,
            num_warmup=self.num_warmup,
            num_draws=self.num_kept,
            target_acceptance=self.target_acceptance,
            dense_mass=self.dense_mass,
            quantity=self.quantity,
        )

    def draw(self, rng: np.random.Generator, num_draws: int) -> Vector:
        """Return draws of the long run, chosen at random without replacement, shape (num_draws, d)."""
        most = self.num_chains * self.num_kept
        if num_draws > most:
            validation.refuse("num_draws", num_draws, f"must be <= {most}, the draws of the long run")
        pooled = self.reference.draws.reshape(most, -1)
        return pooled[rng.choice(most, num_draws, replace=False)]
