"""What a fit with many groups asks of the records: counts, and scores with their slope, by groups and in common.

A record's score and slope have entries of its own group alone, and common ones: `BlockSum` adds them up there. As in
`weighted_scores` a weight that does not look at the response holds them to stated lengths. The entries of groups and
the common ones have lengths of their own: a group's are longer, for it has few records.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.enclave import BlockSum, Oracle, Sum
from dpmcmc.fitting.strategies.grouped_scores.arrow import Arrow
from dpmcmc.fitting.strategies.grouped_scores.grouped import Grouped
from dpmcmc.fitting.strategies.weighted_scores.histograms import Counted, Histograms
from dpmcmc.fitting.strategies.weighted_scores.releases import OFF_DIAGONAL

SIDE = 0.5
"""The share of its length with which the variance of a score is added to its slope."""

LENGTH = float(np.sqrt(1 + SIDE**2))

GROUPS = 0.6
"""What of the histograms' budget the counts of groups have."""


class Asked(NamedTuple):
    """Where scores are asked for, and how: all of it public."""

    centre: Any
    """The common parameters."""
    groups: Any
    """Of each group its effects, and the root of their coordinates."""
    means: Any
    """Of the common columns, which are taken off them: how they move with the effects of a group."""
    factor: Any
    """The coordinates of what is common."""
    radii: Any
    """The longest weighted score, of a group's entries and of common ones; both together are an ellipse."""
    slope_radii: Any
    """The same of slopes."""
    shares: Any
    """What of the release's budget goes to the score and to the slope; they add up to one."""
    table: Any
    """The family's own."""


class Told(NamedTuple):
    """The sums over records, with noise, in the coordinates in which they were asked."""

    score: Any
    """Of groups (groups, size) and in common (told)."""
    common_score: Any
    slope: Arrow
    variance: Any
    """The trace of the variance of the groups' sums of scores, given the predictors."""
    common_variance: Any
    """The variance of each common one."""
    sd: Any
    """The standard deviation of the noise of what is released; units say what that is of each part."""


@dataclass(frozen=True)
class ScoresOfGroups:
    """Scores and their slope: ``scores(oracle, asked)``."""

    grouped: Grouped
    sums: BlockSum

    @classmethod
    def of(cls, grouped: Grouped, noise_multiplier: float) -> "ScoresOfGroups":
        """Return the question with so much noise."""
        size, told = grouped.size, len(grouped.told)
        length = size + size * (size + 1) // 2 + size * told
        return cls(grouped, BlockSum(1.0, noise_multiplier, grouped.num_groups, length))

    def __call__(self, oracle: Oracle, asked: Asked) -> Told:
        """Return the sums, as they were divided for the release."""
        found = oracle.sum(self.sums, _Contribution(self.grouped), asked)
        number, length = self.sums.num_blocks, self.sums.block_length
        size, told = self.grouped.size, len(self.grouped.told)
        ends = np.cumsum([size, size * (size + 1) // 2])
        score, own, border = jnp.split(found.value[: number * length].reshape(number, length), ends, axis=1)
        of_score, of_corner, side = jnp.split(found.value[number * length :], [told, told + told * (told + 1) // 2])
        slope = Arrow(
            jax.vmap(lambda entries: _unpacked(entries, size))(own),  # pyright: ignore[reportArgumentType]
            border.reshape(number, size, told) / OFF_DIAGONAL,  # pyright: ignore[reportArgumentType]
            _unpacked(of_corner, told),  # pyright: ignore[reportArgumentType]
        )
        return Told(score, of_score, slope, side[0] / SIDE, side[1:] / SIDE, jnp.sqrt(found.variance))


@dataclass(frozen=True)
class _Contribution:
    """What one record adds: the same for every noise."""

    grouped: Grouped

    def __call__(self, asked: Asked, record: Any) -> jax.Array:
        common, size, told = self.grouped.common, self.grouped.size, self.grouped.told
        response, columns = common.model.coordinates.response, common.row(record)
        place, values = self.grouped.place_and_values(record)
        own = asked.groups[place]
        effects, root = own[:size], own[size:].reshape(size, size)
        shapes = common.shapes(jnp, asked.centre, columns)
        predictors = common.predictors(asked.centre, record, columns) + values @ effects
        found = common.scores.at(predictors, shapes, response.read(record), response.read_trials(record), asked.table)
        kept = np.array([0, *(1 + place for place in common.free)])
        linear = np.flatnonzero(told < common.num_linear)
        rows = np.zeros((len(kept), len(told)), np.float32)
        rows[1:, len(linear) :] = np.eye(len(kept) - 1)  # shapes come last, and are all told of
        first = jnp.concatenate([columns[told[linear]], jnp.zeros(len(kept) - 1)]) - values @ asked.means
        of_common = jnp.concatenate([first[None], rows[1:]]) @ asked.factor
        of_group = jnp.concatenate([(values @ root)[None], jnp.zeros((len(kept) - 1, size))])
        score, slope, variance = found.score[kept], found.slope[kept][:, kept], found.variance[kept][:, kept]
        gram_of_group, gram_of_common = of_group @ of_group.T, of_common @ of_common.T
        all_of = np.eye(1 + common.scores.num_shapes)[kept]

        def gram(radii: Any) -> Any:
            return gram_of_group / radii[0] + gram_of_common / radii[1]

        longest = found.longest(all_of.T @ gram(asked.radii**2) @ all_of)
        by_slope = gram(asked.slope_radii)
        trace = jnp.sum(slope * by_slope)
        most = trace if found.steepest is None else found.steepest(all_of.T @ by_slope @ all_of)
        weight = jnp.minimum(1.0, jnp.minimum(1 / jnp.maximum(longest, 1e-30), 1 / jnp.maximum(most, 1e-30)))
        weight = jnp.where(response.is_there(record), weight, 0.0)
        of_score, of_slope = weight * jnp.sqrt(asked.shares[0]), weight * jnp.sqrt(asked.shares[1]) / LENGTH
        steep_group, steep_common = slope @ of_group, slope @ of_common
        spreads = [jnp.sum((variance @ moves) * moves, axis=0) for moves in (of_group, of_common)]
        side = SIDE * weight * of_slope
        border = OFF_DIAGONAL * of_slope / jnp.sqrt(asked.slope_radii[0] * asked.slope_radii[1])
        return jnp.concatenate(
            [
                place[None].astype(jnp.float32),
                of_score / asked.radii[0] * (of_group.T @ score),
                of_slope / asked.slope_radii[0] * _packed(steep_group.T @ of_group),
                border * (steep_group.T @ of_common).ravel(),
                of_score / asked.radii[1] * (of_common.T @ score),
                of_slope / asked.slope_radii[1] * _packed(steep_common.T @ of_common),
                side / asked.slope_radii[0] * jnp.sum(spreads[0])[None],
                side / asked.slope_radii[1] * spreads[1],
            ]
        )


@dataclass(frozen=True)
class CountsOfGroups:
    """Histograms of the response and of the common columns, and how many records each group has."""

    grouped: Grouped
    noise_multiplier: float
    shares: tuple[float, float]
    """What the response with the offset has, and the columns, of what groups leave; they add up to one."""

    @property
    def histograms(self) -> Histograms:
        """Those without groups."""
        return Histograms(self.grouped.common, Sum(1.0, self.noise_multiplier), self.shares)

    def __call__(self, oracle: Oracle) -> tuple[Counted, Counted, Counted]:
        """Return the counts of the response, of the columns and of the groups."""
        sums, number = BlockSum(1.0, self.noise_multiplier, self.grouped.num_groups, 1), self.grouped.num_groups
        found = oracle.sum(sums, _Counts(self.grouped, self.shares))
        sd, rest = jnp.sqrt(found.variance), float(np.sqrt(1 - GROUPS))
        of_groups = Counted(found.value[:number] / np.sqrt(GROUPS), sd / np.sqrt(GROUPS))
        return *self.histograms.counted(found.value[number:] / rest, sd / rest), of_groups


@dataclass(frozen=True)
class _Counts:
    grouped: Grouped
    shares: tuple[float, float]

    def __call__(self, record: Any) -> jax.Array:
        place, _ = self.grouped.place_and_values(record)
        is_in = (self.grouped.terms[0].place(record) >= 0) & self.grouped.model.coordinates.response.is_there(record)
        others = Histograms(self.grouped.common, Sum(1.0, 1.0), self.shares).counts(record)
        own = jnp.where(is_in, np.float32(np.sqrt(GROUPS)), 0.0)
        return jnp.concatenate([jnp.stack([place.astype(jnp.float32), own]), np.float32(np.sqrt(1 - GROUPS)) * others])


def _packed(matrix: jax.Array) -> jax.Array:
    rows, columns = np.triu_indices(matrix.shape[0])
    weights = np.where(rows == columns, 1.0, OFF_DIAGONAL).astype(np.float32)
    return matrix[rows, columns] * weights


def _unpacked(entries: jax.Array, size: int) -> jax.Array:
    rows, columns = np.triu_indices(size)
    weights = np.where(rows == columns, 1.0, OFF_DIAGONAL).astype(np.float32)
    upper = jnp.zeros((size, size)).at[rows, columns].set(entries / weights)
    return upper + jnp.triu(upper, 1).T
