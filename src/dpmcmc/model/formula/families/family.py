"""What a family says of itself: everything that a model, a fit and a page need of it, in one record."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

import jax

from dpmcmc.model.bounded_scores.base import Scores
from dpmcmc.model.formula.links import IDENTITY, Link

Others: TypeAlias = Mapping[str, Any]
"""The parameters beside the predictor, by name."""


class Stated(Protocol):
    """What is stated of a response, as far as a family asks."""

    @property
    def bounds(self) -> tuple[float, float]:
        """The bounds of its column."""
        ...

    @property
    def read_bounds(self) -> tuple[float, float]:
        """The same, as the family reads it: scaled, or as a logarithm."""
        ...

    @property
    def most_trials(self) -> float:
        """The largest number of trials."""
        ...

    @property
    def has_entry(self) -> bool:
        """Whether rows may have come under observation after the start."""
        ...

    @property
    def classes(self) -> tuple[str, ...]:
        """Its classes, where it has some."""
        ...


Default: TypeAlias = str | Callable[[Stated], str]
"""A prior, as it is written, or how it follows from what is stated of the response."""


class Interval(NamedTuple):
    """Between what a parameter lies, and whether it moves at all."""

    low: float
    high: float
    moves: bool


class Bound(NamedTuple):
    """The largest score by the predictor, the largest scores by the other parameters, and a condition in words."""

    residual: float
    others: tuple[float, ...]
    condition: str


@dataclass(frozen=True, kw_only=True)
class Family:
    """A family of distributions.

    Log-densities leave out what depends on the record alone: it changes no posterior, and rounding likes small numbers.
    They take the predictor, the response as it is read, the number of trials, and the other parameters.

    Attributes:
        name: what it is called.
        words: what it says about the response.
        response: what kind of response it needs: number, positive, share, zero_or_positive, binary, count, proportion,
            classes, order or survival.
        log_density: of a response.
        mean: the expected response, or the probabilities of its classes.
        draw: a response, from a key and the rest.
        scores: its bounded scores, for a response that is stated like this.
        coefficients: the default prior of slopes.
        intercept: that of the intercept.
        spread: that of the standard deviation of random intercepts.
        others: further parameters and their default priors: positive ones, or, with a beta prior, between zero and one.
        bound: the largest scores over a region; without it they are looked for on a grid.
        aliases: what else it is called.
        most_trials: the largest number of trials that it can have.
        scale: which of the other parameters is the scale of the response, and may have a formula of its own.
        link: what the predictor is, and so the exponentials of coefficients.
        survival: the probability that the event has not come by a time, from the predictor and the logarithm of the
            time.
        cuts: times between which the hazard is constant.
    """

    name: str
    words: str
    response: str
    log_density: Callable[[jax.Array, jax.Array, jax.Array, Others], jax.Array]
    mean: Callable[[jax.Array, jax.Array, Others], jax.Array]
    draw: Callable[[jax.Array, jax.Array, jax.Array, Others], jax.Array]
    scores: Callable[[Stated], Scores]
    intercept: Default
    coefficients: str
    spread: str
    others: Mapping[str, Default] = field(default_factory=dict[str, Default])
    bound: Callable[[Stated, Mapping[str, Interval]], Bound] | None = None
    aliases: tuple[str, ...] = ()
    most_trials: float | None = None
    scale: str | None = None
    link: Link = IDENTITY
    survival: Callable[[jax.Array, jax.Array, Others], jax.Array] | None = None
    cuts: tuple[float, ...] = ()


def default(prior: Default, response: Stated) -> str:
    """Return a default prior as it is written."""
    return prior if isinstance(prior, str) else prior(response)
