"""`Model`: a prior, the likelihood of one record, and the map from positions to parameters."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import jax

from dpmcmc import validation
from dpmcmc.model.examination import PriorSample
from dpmcmc.model.observed import Observed, RowsOf


def _unchanged(position: Any) -> Any:
    return position


@dataclass(frozen=True, eq=False)
class Model:
    """A posterior over unconstrained positions, in public code.

    The posterior is proportional to exp(log_prior(position)) * product over records of exp(log_likelihood(position,
    record)) ** temperature. Samplers move in unconstrained space: if a parameter is bounded, `log_prior` includes the
    log-Jacobian of `constrain`.

    Attributes:
        log_prior: ``log_prior(position)``, up to an additive constant.
        log_likelihood: ``log_likelihood(position, record)`` of one record, which is a pytree of its values.
        temperature: the power of the likelihood: one for the posterior, n0 / n for the papers' tempered ones.
        constrain: maps a position to the constrained parameters, a mapping from names to arrays.
        unconstrain: the inverse of `constrain`: maps such parameters to a position.
        sample_prior: ``sample_prior(key)`` draws a position from the prior; None if the prior cannot be sampled.
        prior_sample: draws from the prior made together with the model; see `prior_draws`.
        position: shapes and types of a position, as a pytree of `jax.ShapeDtypeStruct`; None if unknown.
        observed: the observed values of a record and their distributions; None if unknown.
        of_rows: the likelihood of a person with several rows, and the observed values, if it is not the product over
            the rows; None if it is.
    """

    log_prior: Callable[[Any], jax.Array]
    log_likelihood: Callable[[Any, Any], jax.Array]
    temperature: float = field(default=1.0, kw_only=True)
    constrain: Callable[[Any], Any] = field(default=_unchanged, kw_only=True)
    unconstrain: Callable[[Any], Any] = field(default=_unchanged, kw_only=True)
    sample_prior: Callable[[jax.Array], Any] | None = field(default=None, kw_only=True)
    prior_sample: PriorSample | None = field(default=None, kw_only=True)
    position: Any = field(default=None, kw_only=True)
    observed: Observed | None = field(default=None, kw_only=True)
    of_rows: Callable[[RowsOf], tuple[Callable[[Any, Any], jax.Array], Observed]] | None = field(
        default=None, kw_only=True
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "temperature", validation.positive("temperature", self.temperature))

    @property
    def prior_draws(self) -> PriorSample | None:
        """Draws from the prior, if there are any and neither the prior nor `constrain` was replaced since."""
        sample = self.prior_sample
        return None if sample is None or sample.made_by != (self.sample_prior, self.constrain) else sample

    def tempered(self, temperature: float) -> Self:
        """Return the same model with its likelihood raised to another power.

        Args:
            temperature: the power, > 0.
        """
        return replace(self, temperature=temperature)
