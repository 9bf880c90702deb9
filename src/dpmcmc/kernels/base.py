"""The interface of samplers: ``init`` and ``step`` on flat vectors, with an oracle for private queries.

Kernels are untrusted post-processing. They hold no record, import neither the enclave nor the accountants, and get
their mechanisms as arguments; the auditor derives releases and price from the traced program.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from inspect import signature
from typing import Any, NamedTuple, ParamSpec, Protocol, runtime_checkable

import jax


class Noisy(Protocol):
    """A released value with the variance of its own noise."""

    @property
    def value(self) -> Any:
        """The released value."""
        ...

    @property
    def variance(self) -> jax.Array:
        """The variance of the noise on each coordinate."""
        ...


class Oracle(Protocol):
    """The queries that a kernel can make."""

    def force(self, mechanism: Any, position: jax.Array, factor: jax.Array | None = None, /) -> Noisy:
        """Return the noisy gradient of the log-posterior; of position + factor z by z, at z = 0, if there is a factor.

        Clip and noise are those of the coordinates z.
        """
        ...

    def log_posterior_ratio(self, mechanism: Any, current: jax.Array, proposed: jax.Array, /) -> Noisy:
        """Return the noisy log-posterior at `proposed` less the one at `current`."""
        ...

    def accept(self, mechanism: Any, current: jax.Array, proposed: jax.Array, log_correction: Any, /) -> jax.Array:
        """Return the bare decision of a test of `proposed` against `current`."""
        ...


@runtime_checkable
class DecisionMechanism(Protocol):
    """A mechanism that releases only the decision of a test, not its statistic."""

    @property
    def acceptance(self) -> str:
        """The name of the acceptance rule that the bit obeys."""
        ...


class Info(NamedTuple):
    """Statistics of one step; all of them are post-processing of releases."""

    is_accepted: jax.Array
    is_divergent: jax.Array
    """Whether the step left the finite numbers; such a step does not move."""
    log_alpha: jax.Array | float = math.nan
    """The logarithm of the acceptance probability, before it is cut at zero, from the noisy ratio and its penalty; NaN
    where there is no test, or where the test stays in the enclave and only its decision is released."""
    energy_change: jax.Array | float = math.nan
    """By how much the energy, less the log-posterior and the kinetic energy, rose, with the noise of the ratio; NaN as
    above."""


@dataclass(frozen=True, eq=False)
class Kernel:
    """A sampler with its settings.

    Attributes:
        name: the name of the function that made it.
        settings: the arguments of that function.
        init: ``init(key, position, oracle) -> state``; every state has a `position`.
        step: ``step(key, state, oracle) -> (state, info)``.
    """

    name: str
    settings: Mapping[str, Any]
    init: Callable[[jax.Array, jax.Array, Oracle], Any] = field(repr=False)
    step: Callable[[jax.Array, Any, Oracle], tuple[Any, Info]] = field(repr=False)

    def bind(self, oracle: Oracle) -> "BoundKernel":
        """Return the sampler with a fixed oracle, with the interface of BlackJAX's algorithms."""
        return BoundKernel(
            lambda position, rng_key: self.init(rng_key, position, oracle),
            lambda rng_key, state: self.step(rng_key, state, oracle),
        )


class BoundKernel(NamedTuple):
    """A sampler with a fixed oracle: ``init(position, rng_key)`` and ``step(rng_key, state) -> (state, info)``."""

    init: Callable[[jax.Array, jax.Array], Any]
    step: Callable[[jax.Array, Any], tuple[Any, Info]]


Parameters = ParamSpec("Parameters")

KERNELS: dict[str, Callable[..., Kernel]] = {}
"""The functions that make kernels, by module and name."""


def kernel(make: Callable[Parameters, tuple[Callable[..., Any], Callable[..., Any]]]) -> Callable[Parameters, Kernel]:
    """Turn a function that returns ``init, step`` into one that returns a `Kernel` that remembers its settings."""

    @wraps(make)
    def named(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Kernel:
        init, step = make(*args, **kwargs)
        bound = signature(make).bind(*args, **kwargs)
        bound.apply_defaults()
        return Kernel(make.__name__, dict(bound.arguments), init, step)

    KERNELS[f"{make.__module__}.{make.__name__}"] = named
    return named
