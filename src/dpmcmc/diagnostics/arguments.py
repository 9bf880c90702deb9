"""What callers pass: draws in any of three shapes, brought to one in double precision, and a random generator."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmcmc import validation
from dpmcmc.errors import InvalidArgument

Draws = ArrayLike | Mapping[str, ArrayLike]
"""(draw, coordinate), (chain, draw, coordinate), or a mapping from names to (chain, draw, ...)."""

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Sample:
    """Draws of one posterior.

    Attributes:
        chains: the values, of shape (chain, draw, coordinate).
        labels: a name for each coordinate.
        shapes: for draws that came by name, the shape of each named parameter; None for an array.
    """

    chains: Array
    labels: tuple[str, ...]
    shapes: dict[str, tuple[int, ...]] | None

    @property
    def pooled(self) -> Array:
        """All chains, one after the other, of shape (draw, coordinate)."""
        return self.chains.reshape(-1, self.chains.shape[-1])

    def by_name(self, values: Array) -> Array | dict[str, Array]:
        """Return one value a coordinate in the form in which the draws came."""
        if self.shapes is None:
            return values
        ends = np.cumsum([np.prod(shape, dtype=int) for shape in self.shapes.values()])
        parts = np.split(values, ends[:-1])
        return {name: part.reshape(shape) for (name, shape), part in zip(self.shapes.items(), parts, strict=True)}


def read(name: str, draws: Draws, at_least: int = 2) -> Sample:
    """Check draws and bring them to one shape.

    Args:
        name: what the caller calls them, for messages.
        draws: see `Draws`.
        at_least: how many draws there must be, all chains together.
    """
    sample = _read_mapping(name, draws) if isinstance(draws, Mapping) else _read_array(name, draws)
    shape = sample.chains.shape
    if shape[0] * shape[1] < at_least:
        raise InvalidArgument(f"{name} of shape {shape} (chain, draw, coordinate) must hold at least {at_least} draws")
    if shape[2] < 1:
        raise InvalidArgument(f"{name} of shape {shape} (chain, draw, coordinate) must have at least one coordinate")
    return sample


def read_pair(draws: Draws, reference: Draws) -> tuple[Sample, Sample]:
    """Check draws and a reference of the same parameters; named ones are matched by name, in the order of `draws`."""
    if isinstance(draws, Mapping) and isinstance(reference, Mapping):
        if set(draws) != set(reference):
            raise InvalidArgument(
                f"reference with names {sorted(reference)} must have the names of draws, {sorted(draws)}"
            )
        reference = {name: reference[name] for name in draws}
    elif isinstance(draws, Mapping) or isinstance(reference, Mapping):
        raise InvalidArgument("draws and reference must both be arrays or both be mappings from names to arrays")
    first, second = read("draws", draws), read("reference", reference)
    if first.labels != second.labels:
        raise InvalidArgument(
            f"reference with {len(second.labels)} coordinates must have those of draws, which has {len(first.labels)}"
        )
    return first, second


def generator(name: str, rng: object) -> np.random.Generator:
    """Return a numpy generator; there is no default, so that no result hangs on a hidden seed."""
    if not isinstance(rng, np.random.Generator):
        validation.refuse(name, rng, "must be a numpy generator, such as numpy.random.default_rng()")
    return rng


def _read_array(name: str, draws: ArrayLike) -> Sample:
    values = _numbers(name, draws)
    if values.ndim not in {2, 3}:
        raise InvalidArgument(
            f"{name} of shape {values.shape} must be (draw, coordinate) or (chain, draw, coordinate); "
            f"draws of a single number are {name}[:, None]"
        )
    chains = values[None] if values.ndim == 2 else values
    return Sample(chains, tuple(f"coordinate {i}" for i in range(chains.shape[2])), None)


def _read_mapping(name: str, draws: Mapping[str, ArrayLike]) -> Sample:
    if not draws:
        raise InvalidArgument(f"{name}={{}} must have at least one parameter")
    arrays = {key: _numbers(f"{name}[{key!r}]", value) for key, value in draws.items()}
    leading = {key: value.shape[:2] for key, value in arrays.items()}
    if any(value.ndim < 2 for value in arrays.values()) or len(set(leading.values())) > 1:
        raise InvalidArgument(f"{name} must all be (chain, draw, ...) with the same chains and draws; got {leading}")
    shapes = {key: value.shape[2:] for key, value in arrays.items()}
    labels = tuple(
        key + (f"[{','.join(map(str, index))}]" if index else "")
        for key, shape in shapes.items()
        for index in product(*map(range, shape))
    )
    flat = [value.reshape(*value.shape[:2], -1) for value in arrays.values()]
    return Sample(np.concatenate(flat, axis=2), labels, shapes)


def _numbers(name: str, values: ArrayLike) -> Array:
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise InvalidArgument(f"{name} of type {array.dtype} must be real numbers")
    array = array.astype(np.float64, copy=False)
    if not np.isfinite(array).all():
        count = int(array.size - np.isfinite(array).sum())
        raise InvalidArgument(f"{name} must be finite, but {count} of {array.size} numbers are NaN or infinite")
    return array
