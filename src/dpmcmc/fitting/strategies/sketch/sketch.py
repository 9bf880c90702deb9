"""A public sketch of a likelihood: a few numbers per record that determine its log-likelihood at every position."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.enclave import Noisy, Oracle, Sum
from dpmcmc.errors import InvalidArgument
from dpmcmc.fitting.strategies.sketch.density import Likelihood
from dpmcmc.fitting.strategies.sketch.skeleton import Decomposition, Matrix, Skeleton, balance

SMALL = 0.02
"""Negligible error of the log-likelihood of all records, in nats."""

BELOW_NOISE = 0.3
"""Errors below this fraction of the effect of the noise are negligible as well."""


@dataclass(frozen=True, eq=False)
class Sketch:
    """The log-likelihood of a record x as base(theta) + <c(x), b(theta)>, up to a function of x; |c(x)| is clipped.

    The sketch is public: it was made from positions and synthetic records. The likelihood of a data set depends on it
    only through the sum of its c(x), one short vector, and its number of records.

    Attributes:
        likelihood: the sketched likelihood.
        origin: the reference position of log-likelihood differences.
        nodes: the positions at which a record's log-likelihood is evaluated, one row each.
        anchors: the synthetic records at which a position's log-likelihood is evaluated.
        skeleton: the maps from these values to c and b, scaled so that the clip is one.
        error: a bound on the error of the log-likelihood of all records, in nats, if errors never cancel.
        noise: the effect of the noise on its differences, in nats.
        covered: the share of the synthetic records that are not clipped.
    """

    likelihood: Likelihood
    origin: Matrix
    nodes: Matrix
    anchors: Any
    skeleton: Skeleton
    error: float
    noise: float
    covered: float

    @property
    def tolerance(self) -> float:
        """The negligible error, in nats."""
        return tolerance(self.noise)

    @property
    def rank(self) -> int:
        """How many coefficients a record has."""
        return self.skeleton.rank

    def query(self, room: int) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Return what a `Release` asks the records: positions, and the map from what is added there to coefficients.

        There is `room` for so many, zeros after the last one, as the price of a release is fixed before its sketch.
        """
        matrix = np.zeros((len(self.nodes), room))
        matrix[:, : self.rank] = self.skeleton.to_coefficients
        middle = np.append(self.skeleton.middle, np.zeros(room - self.rank))
        asked = (np.vstack([self.origin, self.nodes]), matrix, middle)
        first, second, third = (jnp.asarray(part, jnp.float32) for part in asked)
        return first, second, third

    def basis(self, positions: Matrix) -> Matrix:
        """Return (base, b) of positions, one row each."""
        return self.skeleton.basis(self.likelihood.differences(self.anchors, positions, self.origin))


@dataclass(frozen=True)
class Release:
    """The noisy sum of all coefficients: ``release(oracle, *sketch.query(room))``."""

    of_record: Callable[[jax.Array, Any], jax.Array]
    mechanism: Sum

    def __call__(self, oracle: Oracle, nodes: jax.Array, matrix: jax.Array, middle: jax.Array) -> Noisy:
        """Return the sum, with zeros after the last coefficient before the noise."""
        return oracle.sum(self.mechanism, self.coefficients, nodes, matrix, middle)

    def coefficients(self, nodes: jax.Array, matrix: jax.Array, middle: jax.Array, record: Any) -> jax.Array:
        """Return those of one record."""
        values = jax.vmap(self.of_record, in_axes=(0, None))(nodes, record)
        return (values[1:] - values[0]) @ matrix - middle


CUT_SHARE = 0.02
"""Share of a checked release for the number of clipped records."""


class Checked(NamedTuple):
    """A noisy sum of coefficients, and how many records the clip cut, with noise of its own."""

    total: Noisy
    cut: Noisy


@dataclass(frozen=True)
class CheckedRelease:
    """The same with the number of records that are longer than the clip, which is one: they add both to a vector."""

    release: Release

    def __call__(self, oracle: Oracle, nodes: jax.Array, matrix: jax.Array, middle: jax.Array) -> Checked:
        """Return the sum and the number."""
        kept, share = np.float32(np.sqrt(1 - CUT_SHARE)), np.float32(np.sqrt(CUT_SHARE))

        def both(nodes: jax.Array, matrix: jax.Array, middle: jax.Array, record: Any) -> jax.Array:
            own = self.release.coefficients(nodes, matrix, middle, record)
            length = jnp.sqrt(jnp.sum(own**2))
            held = own * jnp.minimum(1.0, 1.0 / jnp.maximum(length, 1e-30))
            return jnp.append(kept * held, jnp.where(length > 1.0, share, 0.0))

        found = oracle.sum(self.release.mechanism, both, nodes, matrix, middle)
        total = Noisy(found.value[:-1] / kept, found.variance / kept**2)
        return Checked(total, Noisy(found.value[-1] / share, found.variance / share**2))


def make_sketch(
    likelihood: Likelihood,
    records: Any,
    positions: Matrix,
    pairs: tuple[Matrix, Matrix],
    *,
    num_records: int,
    noise: float,
    covered: Sequence[float],
    centred: bool,
    most: int,
) -> Sketch:
    """Return the sketch with the fewest coefficients that is good enough on synthetic records and positions.

    One half of both is used to make it, the other half to evaluate it. No private record is read.

    Args:
        likelihood: the likelihood to sketch.
        records: synthetic records that cover the possible data; the first of them are rows of the matrix.
        positions: positions that cover the possible posterior, one row each.
        pairs: pairs of positions that the posterior compares, for instance two draws from it, row by row.
        num_records: the number of records of the data.
        noise: the standard deviation of the noise on a coefficient, in clips.
        covered: candidate shares of the synthetic records that are not clipped; the best is chosen.
        centred: whether the number of records is public, so that the mean coefficients need not be released.
        most: the largest number of coefficients.
    """
    positions, *sides = (np.asarray(np.asarray(part, np.float32), np.float64) for part in (positions, *pairs))
    origin, half = positions[-1:], len(positions) // 2
    records = jax.tree.map(_double, records)
    table = likelihood.differences(_rows(records, slice(2 * half)), np.vstack([positions, *sides]), origin)
    if not np.isfinite(table).all() or not table.any():
        raise InvalidArgument(
            "the log-likelihood is not finite at every synthetic record within the stated bounds and every position "
            "from the prior, or is the same at all of them: state bounds and a prior under which it is neither"
        )
    ends = np.cumsum([len(positions), *map(len, sides)])
    made, judged, *compared = np.split(table, [half, *ends[:-1]], axis=1)
    decomposition = Decomposition(made[:half], centred=centred)
    trials: list[Trial] = []
    for rank in range(1, min(most, half) + 1):
        trials.append(_tried(decomposition.cut(rank), made, judged, compared, num_records, noise, max(covered)))
        if trials[-1].is_good:
            break
    skeleton, error, _, harm = min(trials, key=lambda trial: trial.error)
    nodes = positions[skeleton.columns]
    coefficients = skeleton.coefficients(likelihood.differences(records, nodes, origin))
    if centred:
        middle = coefficients.mean(axis=0)
        skeleton, coefficients = skeleton.centred(middle), coefficients - middle
    clip, lost = _best_clip(coefficients, num_records, noise, covered)
    return Sketch(
        likelihood,
        origin,
        nodes,
        _rows(records, skeleton.rows),
        skeleton.refilled(lost).scaled(np.eye(skeleton.rank) / clip),
        error,
        harm * clip,
        float(np.mean(np.linalg.norm(coefficients, axis=1) <= clip)),
    )


class Trial(NamedTuple):
    """A skeleton with its error and the effect of noise, in nats; the latter also for a clip of one."""

    skeleton: Skeleton
    error: float
    noise: float
    noise_a_clip: float

    @property
    def is_good(self) -> bool:
        """Whether more coefficients would not help."""
        return self.error <= tolerance(self.noise)


def _tried(
    skeleton: Skeleton,
    made: Matrix,
    judged: Matrix,
    compared: Sequence[Matrix],
    num_records: int,
    noise: float,
    covered: float,
) -> Trial:
    coefficients, basis = skeleton.coefficients(made[:, skeleton.columns]), skeleton.basis(judged[skeleton.rows])
    half = len(made) // 2
    rebuilt = basis[:, 0] + coefficients[half:] @ basis[:, 1:].T
    error = num_records * float(np.sqrt(np.mean((rebuilt - judged[half:]) ** 2)))
    first, second = (skeleton.basis(side[skeleton.rows])[:, 1:] for side in compared)
    by = balance(coefficients, first - second)
    moved = noise * float(np.sqrt(np.mean(np.sum(((first - second) @ np.linalg.inv(by)) ** 2, axis=1))))
    clip = float(np.quantile(np.linalg.norm(coefficients @ by.T, axis=1), covered))
    return Trial(skeleton.scaled(by), error, moved * clip, moved)


def tolerance(noise: float) -> float:
    """Return the error of the log-likelihood of all records that is negligible beside the noise, both in nats."""
    return max(SMALL, BELOW_NOISE * noise)


def _best_clip(coefficients: Matrix, num_records: int, noise: float, covered: Sequence[float]) -> tuple[float, Matrix]:
    """Return a clip, and the mean reduction of a record's coefficients by it, which is added back.

    A short clip needs less noise, but its mean reduction is only known from these synthetic records.
    """
    lengths = np.linalg.norm(coefficients, axis=1)

    def tried(clip: float) -> tuple[float, float, Matrix]:
        off = coefficients * (1 - np.minimum(1, clip / np.maximum(lengths, 1e-300)))[:, None]
        mean, unsure = off.mean(axis=0), np.var(off, axis=0) / len(off)
        # what may as well be nothing is left alone (James and Stein)
        sure = mean * np.maximum(0, 1 - unsure / np.maximum(mean**2, 1e-300))
        return (noise * clip) ** 2 * coefficients.shape[1] + num_records**2 * float(unsure.sum()), clip, sure

    _, clip, lost = min((tried(float(clip)) for clip in np.quantile(lengths, covered)), key=lambda trial: trial[0])
    return clip, lost


def _rows(records: Any, rows: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[rows], records)


def _double(leaf: Any) -> Any:
    array = np.asarray(leaf)
    return array.astype(np.float64) if array.dtype.kind == "f" else array
