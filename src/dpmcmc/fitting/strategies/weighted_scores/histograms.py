"""Noisy histograms of the response and of the columns, for the starting point and the coordinates of a fit.

They precede anything that is clipped: they estimate scales wherever in their bounds the values lie.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from dpmcmc.enclave import Counts, Oracle, Sum
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.fitting.strategies.weighted_scores.seen_counts import SEEN, of_times, shares_of, shares_of_number
from dpmcmc.fitting.strategies.weighted_scores.stated_weights import EDGES, LOGS, Stated, stated
from dpmcmc.model.bounded_scores.log_times import LogTimes
from dpmcmc.model.bounded_scores.spread import Spread

BINS, FEW_BINS, MANY = 64, 24, 24
"""Bins of a number; fewer where there are many numbers."""

MOST_DOUBT = 1.5
"""How uncertain the square of a column is at most, beside itself."""

EVEN = 0.58
"""The standard deviation of an even distribution between -1 and 1."""

FEW, FEW_EVENTS = 0.01, 0.03
"""Shares of responses at a bound above which this is reported; a larger one for events, since times in whole months
include the last one."""


class Counted(NamedTuple):
    """Counts, with the standard deviation of their noise."""

    counts: Any
    sd: Any


class Moments(NamedTuple):
    """Of the columns: means, standard deviations, and the number of records."""

    means: Floats
    sds: Floats
    size: float
    """How many records there are, about."""
    doubts: Floats
    """How uncertain the square of a column is, beside itself: that of a level with few rows or none."""
    rows: Floats
    """For each column a row that is informative on it: for a level only that level, for a number a value far out."""
    numbers: tuple[Spread | None, ...] = ()
    """The histogram of each column that is a number."""
    offsets: Spread | None = None
    """That of the offset, where there is one."""
    stated: Stated = Stated()
    """What the weights come to that rows state."""
    clamped: float = 0.0
    """Estimated number of responses at a stated bound."""
    unseen: float = 0.0
    """Number of rows that a bin of a column may have without standing out of noise."""
    shared: Floats | None = None
    """Covariances of the columns made of one date; zero for all others, None without such columns."""

    @property
    def worth(self) -> float:
        """The effective number of records, given stated weights."""
        return self.size * self.stated.worth

    @property
    def offset_mean(self) -> float:
        """The mean offset."""
        return 0.0 if self.offsets is None else self.offsets.mean

    @property
    def offset_sd(self) -> float:
        """Its standard deviation."""
        return 0.0 if self.offsets is None else float(np.sqrt(self.offsets.variance))


_ANY = Counts(1.0, 1.0)


@dataclass(frozen=True)
class _Counts:
    """The contribution of one record, which does not depend on the noise."""

    histograms: "Histograms"

    def __call__(self, record: Any) -> jax.Array:
        return self.histograms.counts(record)


@dataclass(frozen=True)
class Histograms:
    """Counts of the rows: ``histograms(oracle)``. A person's rows share one count."""

    regression: Regression
    sums: Counts | Sum
    shares: tuple[float, float]
    """What of the release's budget goes to the response with the offset, and to the columns; they add up to one."""

    def __call__(self, oracle: Oracle) -> tuple[Counted, Counted]:
        """Return the counts of the response and of the columns."""
        found = oracle.sum(self.sums, _Counts(replace(self, sums=_ANY)))
        return self.counted(found.value, jnp.sqrt(found.variance))

    def counted(self, values: Any, sd: Any) -> tuple[Counted, Counted]:
        """Return what was released as counts of the response and of the columns."""
        units, size = self._units, self._size
        return Counted(values[:size] * units[0], sd * units[0]), Counted(values[size:] * units[1], sd * units[1])

    @property
    def _size(self) -> int:
        """How many counts the response and the offset have."""
        offsets = self.regression.model.coordinates.offsets
        size = self._num_of_response + (len(self.offset_edges) + 1 if offsets else 0)
        return size + len(LOGS) * self._has_weights

    @property
    def _num_of_response(self) -> int:
        """How many counts there are of the response: all, by bins, and where it lies at a bound."""
        return 2 + len(self.edges) + 2 * self._has_ends

    @property
    def _has_ends(self) -> bool:
        return any(self.regression.model.coordinates.response.has_ends)

    @property
    def _has_weights(self) -> bool:
        return self.regression.model.coordinates.response.weights is not None

    @property
    def _units(self) -> tuple[float, float]:
        """What the two blocks are divided by: each is then as long as the root of its share at most."""
        others = bool(self.regression.model.coordinates.offsets) + self._has_weights
        return float(np.sqrt((2 + others) / self.shares[0])), self.length / float(np.sqrt(self.shares[1]))

    @cached_property
    def numeric(self) -> np.ndarray:
        """Which columns are numbers; the others are indicators of levels, of which a block has one."""
        return self._where(lambda block: any(not number.is_flag for number in block.term.numbers.values()))

    @cached_property
    def of_level(self) -> np.ndarray:
        """Which columns are products of numbers with the indicators of levels: zero in the rows of all others."""
        has_level = self._where(
            lambda block: bool(block.categories) or any(number.is_flag for number in block.term.numbers.values())
        )
        return self.numeric & has_level

    def _where(self, holds: Callable[[Any], bool]) -> np.ndarray:
        """Return which columns are of blocks of which something holds; those of groups are not."""
        blocks = [block.block for block in self.regression.model.coordinates.blocks]
        flags = [flag for block in blocks for flag in [holds(block)] * len(list(block.names()))]
        return np.array(flags + [False] * (self.regression.num_columns - len(flags)), bool)

    @cached_property
    def edges(self) -> Floats:
        """The edges of the bins of the response, inner ones alone."""
        return self.regression.model.coordinates.response.bins.edges

    @cached_property
    def column_edges(self) -> Floats:
        """The edges of the bins of numeric columns, inner ones alone."""
        return np.linspace(-1.0, 1.0, (BINS if self.numeric.sum() <= MANY else FEW_BINS) + 1)[1:-1]

    @property
    def length(self) -> float:
        """The longest that a row's counts of columns are: one for each number, and one for each block of indicators."""
        coordinates = self.regression.model.coordinates
        blocks = sum(
            not any(not number.is_flag for number in block.block.term.numbers.values()) for block in coordinates.blocks
        )
        return float(np.sqrt(int(self.numeric.sum()) + blocks + len(coordinates.groups)))

    @cached_property
    def offset_edges(self) -> Floats:
        """The edges of the bins of the offset, inner ones alone."""
        low = sum(offset.bounds[0] for offset in self.regression.model.coordinates.offsets)
        high = sum(offset.bounds[1] for offset in self.regression.model.coordinates.offsets)
        return np.linspace(low, high, BINS + 1)[1:-1]

    def counts(self, record: Any) -> jax.Array:
        """Return the mean over the rows of a record."""
        rows, is_there = self.regression.rows(record)
        shares = is_there.astype(jnp.float32)
        units = self._units

        def of_row(row: Any) -> jax.Array:
            parts = [part / units[0] for part in self._response(row)] + [part / units[1] for part in self._columns(row)]
            return jnp.concatenate(parts)  # once: XLA writes down every array that is put together

        found = jax.vmap(of_row)(rows)
        if len(shares) == 1:  # without a product, which takes longer
            return shares[0] * found[0]
        return shares @ found / jnp.maximum(jnp.sum(shares), 1.0)

    def _response(self, row: Any) -> list[jax.Array]:
        coordinates = self.regression.model.coordinates
        response = coordinates.response
        parts = [jnp.ones(1), _one_hot(response.measure(row), self.edges)]
        if self._has_ends:  # what lies at a bound is counted there, and not in its bin
            ends = response.at_ends(row).astype(jnp.float32)
            parts = [parts[0], parts[1] * (1 - jnp.sum(ends)), ends]
        if coordinates.offsets:
            parts.append(_one_hot(coordinates.offset(row), self.offset_edges / response.half))
        if self._has_weights:
            parts.append(_one_hot(response.read_weight(row) / response.most_weight, EDGES))
        return parts

    def _columns(self, row: Any) -> list[jax.Array]:
        """Return the counts of the columns in pieces, one for each number where these are few.

        A compiler for CPUs fills a piece several entries at a time, but not the whole of them, which has two axes.
        """
        columns = self.regression.counted_row(row)
        flags, numbers = columns[~self.numeric], columns[self.numeric]
        if len(numbers) > MANY:
            return [flags, jax.vmap(lambda one: _one_hot(one, self.column_edges))(numbers).ravel()]
        return [flags, *(_one_hot(one, self.column_edges) for one in numbers)]

    def response(self, counted: Counted) -> Spread:
        """Return the histogram of the response; all counts of a few classes are used, of bins those above the noise."""
        counts, sd = np.asarray(counted.counts, float)[1 : 2 + len(self.edges)], float(counted.sd)
        response = self.regression.model.coordinates.response
        middles = response.bins.middles
        if response.needs == "survival":
            return of_times(middles, counts, self._ends(counted), sd)
        counts[[0, -1]] += self._ends(counted)
        if response.classes:
            kept = np.maximum(counts, sd / 2)
            return Spread(middles, kept / kept.sum())
        return Spread(middles, shares_of(counts, sd))

    def _ends(self, counted: Counted) -> Floats:
        """Return how many responses lie at their lower bound, and at their upper one."""
        first = 2 + len(self.edges)
        return np.asarray(counted.counts, float)[first : first + 2] if self._has_ends else np.zeros(2)

    def clamped(self, counted: Counted) -> float:
        """Return the number of responses at a bound, if it is above the noise and not small."""
        counts = np.asarray(counted.counts, float)
        ends, few = self._ends(counted), FEW * counts[0]
        if self.regression.model.coordinates.response.needs == "survival":
            half = (1 + len(self.edges)) // 2
            few = FEW_EVENTS * float(counts[1 : 1 + half].sum() + ends.sum())
            ends = ends * [self._is_held_below, 1.0]
        return float(np.sum(np.where(ends > max(SEEN * float(counted.sd), few), ends, 0.0)))

    @property
    def _is_held_below(self) -> bool:
        """Whether a time at its lower bound is moved by it: one of zero is as early as any if hazards are constant."""
        has_shape = isinstance(self.regression.scores, LogTimes) and self.regression.scores.num_shapes > 0
        return has_shape or self.regression.model.coordinates.response.bounds[0] > 0

    def _offsets(self, counted: Counted) -> Spread | None:
        """Return the histogram of the offset."""
        if not self.regression.model.coordinates.offsets:
            return None
        middles = _middles(self.offset_edges / self.regression.model.coordinates.response.half)
        first = self._num_of_response
        counts = np.asarray(counted.counts, float)[first : first + len(middles)]
        return Spread(middles, shares_of(counts, float(counted.sd)))

    def stated(self, counted: Counted) -> Stated:
        """Return what the weights come to that rows state."""
        if not self._has_weights:
            return Stated()
        return stated(shares_of(np.asarray(counted.counts, float)[-len(LOGS) :], float(counted.sd)))

    def moments(self, response: Counted, columns: Counted) -> Moments:
        """Return means and standard deviations of the columns, and how many records there are."""
        size = max(float(np.asarray(response.counts)[0]), 5 * float(response.sd), 1.0)
        counts, sd = np.asarray(columns.counts, float), float(columns.sd)
        flags = int((~self.numeric).sum())
        means, sds, doubts, reaches = (np.zeros(len(self.numeric)) for _ in range(4))
        least = min(sd / 2, size / 4)
        kept = np.clip(counts[:flags], least, size - least)
        is_constant = (np.flatnonzero(~self.numeric) == 0) & self._has_intercept
        means[~self.numeric] = np.where(is_constant, 1.0, kept / size)
        means = self._shared(means)
        sds[~self.numeric] = np.sqrt(means * (1 - means))[~self.numeric]
        doubts[~self.numeric] = np.where(is_constant, 0.0, np.minimum(sd / kept, MOST_DOUBT))
        middles = _middles(self.column_edges)
        numbers: list[Spread | None] = [None] * len(self.numeric)
        for place, row in zip(np.flatnonzero(self.numeric), counts[flags:].reshape(-1, len(middles)), strict=True):
            spread = Spread(middles, shares_of_number(row, sd, size, is_product=bool(self.of_level[place])))
            means[place], sds[place] = spread.mean, np.sqrt(spread.variance + (middles[1] - middles[0]) ** 2 / 12)
            reaches[place] = max(spread.reach, sds[place])
            numbers[place] = spread
        told, unseen = np.ones(len(means)), SEEN * sd
        for places, mean, sd in self._slopes(means, sds):
            shares = means[places]
            told[places], means[places] = np.hypot(mean, sd), mean * shares
            sds[places] = np.sqrt(np.maximum(shares * (mean**2 + sd**2) - means[places] ** 2, 0.0))
        offsets, stated = self._offsets(response), self.stated(response)
        told = self._rows(means, reaches) * np.where(np.eye(len(means)) > 0, told, 1.0)
        return Moments(means, sds, size, doubts, told, tuple(numbers), offsets, stated, self.clamped(response), unseen)

    def _rows(self, means: Floats, reaches: Floats) -> Floats:
        """Return an informative row for each column, given how far out the value of a number should be."""
        same = self.regression.blocks[:, None] == self.regression.blocks
        levels = np.where(same, np.eye(len(means)), means)
        return np.where(self.numeric[:, None], means + np.diag(reaches), levels)

    def _slopes(self, means: Floats, sds: Floats) -> Iterator[tuple[NDArray[np.int_], float, float]]:
        """Yield the columns of slopes of groups, and mean and standard deviation of the number that they are of."""
        start = len(self.regression.model.coordinates.names)
        for groups, _ in self.regression.model.coordinates.groups.values():
            places = np.arange(start, start + len(groups.levels))
            start += len(groups.levels)
            if groups.number is not None:
                fixed = self.regression.fixed_place(groups)
                yield places, *((0.0, EVEN) if fixed is None else (float(means[fixed]), float(sds[fixed])))

    def _shared(self, means: Floats) -> Floats:
        """Return the shares of levels, none of which meet: those of groups add up to one."""
        found, blocks, num_terms = means.copy(), self.regression.blocks, len(self.regression.model.coordinates.blocks)
        for block in set(blocks[~self.numeric]) - {0} if self._has_intercept else set(blocks[~self.numeric]):
            own = (blocks == block) & ~self.numeric
            total = float(means[own].sum())
            found[own] = means[own] / (total if block >= num_terms else max(total, 1.0))
        return found

    @property
    def _has_intercept(self) -> bool:
        return bool(self.regression.model.coordinates.names) and "intercept" in self.regression.model.coordinates.names


def _one_hot(value: jax.Array, edges: Floats) -> jax.Array:
    lower, upper = np.append(-np.inf, edges).astype(np.float32), np.append(edges, np.inf).astype(np.float32)
    return ((value > lower) & (value <= upper)).astype(jnp.float32)


def _middles(edges: Floats) -> Floats:
    """Return the middles of even bins, given their inner edges."""
    width = edges[1] - edges[0]
    return np.append(edges - width / 2, edges[-1] + width / 2)
