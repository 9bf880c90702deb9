"""What the public knows of the records: stated bounds, sizes and types; and records made to fit the bounds.

Bounds are public statements of the owner, never read off the data. Whatever lies outside is moved to the nearest bound
without a word: an error, a warning or a count would tell something about a record.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.core
import numpy as np

from dpmcmc.accounting.adjacency import Adjacency
from dpmcmc.errors import InvalidArgument, RecordsRefused

Bounds = Mapping[str, tuple[float, float]]
"""The lowest and the highest value of a leaf of the records, by the leaf's name."""

ENTRIES_IN_CACHE, FEWEST_AT_ONCE = 2**20, 64
"""How many entries of contributions a mechanism holds at once at most, unless the second so many records have more."""

CLIPS_MOVED = {Adjacency.REPLACE_ONE: 2, Adjacency.ADD_OR_REMOVE_ONE: 1}
"""By how many clips a neighbour moves a clipped sum: one record leaves and another enters, or only one of the two."""


@dataclass(frozen=True, eq=False)
class Facts:
    """What the public knows about a data set. Compared by identity: it also tells the releases of two vaults apart."""

    adjacency: Adjacency
    size: int
    """Number of records under replace-one; under add-or-remove-one the stated capacity."""

    record: Any
    """One record: the pytree of the shapes and types of its leaves."""

    bounds: Bounds
    chunk_size: int
    """How many records a mechanism holds at once at most: a matter of speed and memory."""

    noise: str = "exact"
    """How privacy noise is drawn: one of `noise.modes.MODES`."""

    paths: tuple[Callable[..., Any], ...] = ()
    """Faster ways to add records up, tried in this order; none where the owner wants the reference path alone."""

    share: Callable[..., Any] | None = None
    """Makes the numbers of a program its arguments, so that others share its executable; none by the same wish."""

    places: str | None = ""
    """Which places records stand in, by a public id; empty for a table as it is; None if rows may move."""

    extra_mechanisms: frozenset[type] = frozenset()
    """Mechanisms without a proof of this library that the owner accepts: for tests, and on the certificate."""

    @property
    def shown(self) -> "Facts":
        """The same for whoever asks: an object of its own, which may be written to."""
        record = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), self.record)
        return replace(self, record=record, bounds=dict(self.bounds))

    @property
    def clips_moved(self) -> int:
        """By how many clips a neighbour moves a clipped sum."""
        return CLIPS_MOVED[self.adjacency]


def at_once(chunk_size: int, entries: int) -> int:
    """Return how many records to hold at once at most where each adds so many entries: large ones only a few."""
    return min(chunk_size, max(ENTRIES_IN_CACHE // max(entries, 1), FEWEST_AT_ONCE))


def admit(name: str, leaf: Any, bounds: Bounds) -> np.ndarray:
    """Return a private copy of one leaf, in JAX's own precision, clamped to its bounds.

    Nothing here may depend on a value: NaN stays NaN (its contribution will count as zero), everything else is clamped.
    """
    if isinstance(leaf, jax.core.Tracer):
        raise RecordsRefused("PrivateData is built inside a transformation of JAX; build it outside jit, vmap and grad")
    array = np.asarray(leaf)
    if array.dtype.kind not in "biuf":
        raise InvalidArgument(
            f"records[{name!r}] has the type {array.dtype}; expected booleans, integers or real numbers. "
            "Encode text and categories as integers by a public list"
        )
    if array.ndim == 0:
        raise InvalidArgument(f"records[{name!r}] is a single value; expected an array with one row per record")
    if array.dtype.kind == "b":
        return array.copy()
    target = np.dtype(jax.dtypes.canonicalize_dtype(array.dtype))
    lower, upper = bounds.get(name, (-np.inf, np.inf))
    with np.errstate(all="ignore"):
        if target.kind == "f":
            return np.clip(array.astype(target), target.type(lower), target.type(upper))
        least, most = _integer_bounds(name, lower, upper, target)
        return np.clip(array, array.dtype.type(least), array.dtype.type(most)).astype(target)


def _integer_bounds(name: str, lower: float, upper: float, target: np.dtype) -> tuple[int, int]:
    """Return the integers within the bounds and within the type; comparing them is exact."""
    limits = np.iinfo(target)
    least = max(int(limits.min), math.ceil(lower)) if math.isfinite(lower) else int(limits.min)
    most = min(int(limits.max), math.floor(upper)) if math.isfinite(upper) else int(limits.max)
    if least > most:
        raise InvalidArgument(f"bounds[{name!r}]={(lower, upper)} hold no value of the type {target}")
    return least, most
