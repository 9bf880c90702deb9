"""A problem of the zoo: a model, records simulated for it, and the posterior that a sampler ought to find."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmcmc import validation
from dpmcmc.model import Model

Vector: TypeAlias = NDArray[np.float64]

Settings: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Parameter sets by the name of the algorithm: numbers, and tuples of numbers."""


class Law(Protocol):
    """A distribution that can be drawn from."""

    def draw(self, rng: np.random.Generator, num_draws: int, /) -> Vector:
        """Return independent draws, or a checked stand-in for them, shape (num_draws, d)."""
        ...


@dataclass(frozen=True, eq=False)
class Problem:
    """A model with simulated records, which are public, and with its reference posterior.

    Attributes:
        name: what the catalogue calls it.
        paper: author and year of the source; empty for the problems that have none.
        model: the posterior, over flat positions of shape (d,).
        records: a pytree of numpy arrays with one row per record, float32 or int32.
        bounds: the lowest and highest value of each leaf of the records, from the model and not from the records.
        law: the reference posterior given the records; an exact law has its moments as attributes.
        centre: the position that the records were made from; the circle, which has none, has the thesis's (0, 1).
        start_scale: the standard deviation of the start points around the centre.
        settings: the paper's parameter sets by algorithm, in the conventions of `dpmcmc.zoo.settings`.
    """

    name: str
    paper: str
    model: Model
    records: Any
    bounds: Mapping[str, tuple[float, float]]
    law: Law
    centre: Vector
    start_scale: float
    settings: Settings = field(default_factory=dict[str, Mapping[str, Any]])

    def __post_init__(self) -> None:
        object.__setattr__(self, "start_scale", validation.positive("start_scale", self.start_scale))
        object.__setattr__(self, "bounds", MappingProxyType(dict(self.bounds)))
        frozen = {algorithm: MappingProxyType(dict(values)) for algorithm, values in self.settings.items()}
        object.__setattr__(self, "settings", MappingProxyType(frozen))

    @property
    def dimension(self) -> int:
        """The number of coordinates of a position."""
        return len(self.centre)

    def sample_posterior(self, rng: np.random.Generator, num_draws: int) -> Vector:
        """Return draws of the reference posterior, shape (num_draws, d), in the order of the position."""
        return self.law.draw(generator(rng), validation.integer("num_draws", num_draws, at_least=1))

    def start(self, rng: np.random.Generator) -> Vector:
        """Return a start point as the papers draw them: centre + start_scale * N(0, I).

        A device for evaluations alone: it knows the position that made the records, so it is no private procedure.
        """
        return self.centre + self.start_scale * generator(rng).standard_normal(self.dimension)


def generator(rng: object) -> np.random.Generator:
    """Return the stated generator of random numbers; there is no default."""
    if not isinstance(rng, np.random.Generator):
        validation.refuse("rng", rng, "must be a numpy Generator, as numpy.random.default_rng(seed) makes")
    return rng


def vector(name: str, value: ArrayLike, length: int | None = None) -> Vector:
    """Return a vector of finite numbers, of one length if that is given."""
    array = np.asarray(value, dtype=np.float64)
    if array.ndim != 1 or not array.size or not np.isfinite(array).all():
        validation.refuse(name, value, "must be a vector of finite numbers")
    if length is not None and array.size != length:
        validation.refuse(name, value, f"must have {length} entries")
    return array
