"""A public sketch of a likelihood: a few numbers of a record from which its log-likelihood follows, at any position."""

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
"""The error of the log-likelihood of all records that is no matter, in nats."""

BELOW_NOISE = 0.3
"""An error below this part of what the noise does is no matter either."""


@dataclass(frozen=True, eq=False)
class Sketch:
    """What a record x adds is about base(theta) + <c(x), b(theta)>, up to what depends on x alone; |c(x)| is clipped.

    All of it is public: it was made from positions and from records that nobody owns. What a data set says of theta is
    the sum of its c(x), one short vector, and its number of records.

    Attributes:
        likelihood: what is sketched.
        origin: the position to which log-likelihoods are compared.
        nodes: the positions at which a record is asked, one row each.
        anchors: the synthetic records at which a position is asked.
        skeleton: the maps from the answers to c and b, so scaled that the clip is one.
        error: by how much the log-likelihood of all records is off, in nats, if what is off never cancels out.
        noise: by how much noise moves differences of it, in nats.
        covered: the share of the synthetic records that the clip leaves alone.
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
        """The error that is no matter, in nats."""
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
"""What of a checked release goes to the number of records that are cut."""


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

    Half of both make it, the other half judges it. It reads no private record.

    Args:
        likelihood: what to sketch.
        records: synthetic records, from where the data may be; the first of them enter the table.
        positions: from where the posterior may be, one row each.
        pairs: positions whose log-likelihoods the posterior compares, for instance two draws from it, row by row.
        num_records: how many records the data has.
        noise: the standard deviation of the noise on a coefficient, in clips.
        covered: the shares of the synthetic records that the clip may leave alone; the best is taken.
        centred: whether the number of records is public, so that what is common to all need not be released.
        most: the most coefficients that a record may have.
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
    """A skeleton with what it gets wrong and what noise does to it, in nats; the latter also with a clip of one."""

    skeleton: Skeleton
    error: float
    noise: float
    noise_a_clip: float

    @property
    def is_good(self) -> bool:
        """Whether more coefficients are of no use."""
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
    """Return the error of the log-likelihood of all records that is no matter beside the noise, both in nats."""
    return max(SMALL, BELOW_NOISE * noise)


def _best_clip(coefficients: Matrix, num_records: int, noise: float, covered: Sequence[float]) -> tuple[float, Matrix]:
    """Return a clip, and what it takes off the coefficients of a record in the mean, which is put back.

    A short clip takes little noise; but what it takes off is known no better than from these synthetic records.
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
