"""Bounded scores of times whose logarithm is a location, the predictor, plus a scale times a residual.

Where few events are seen all of them come early, and location and scale are told apart by little: what is known is
where the last time stands among the residuals. In location and scale that is a curve along which much less is known at
one end than at the other. `scaled` scores have the distance of the location from the last time in scales as their
predictor instead, in which the curve is straight and about as much is known everywhere (Olsen 1978, for the like).
"""

import copy
from abc import abstractmethod
from functools import lru_cache
from typing import Any, Self

import jax.numpy as jnp
import numpy as np
from scipy import optimize

from dpmcmc.model.bounded_scores.base import Floats
from dpmcmc.model.bounded_scores.spread import Spread
from dpmcmc.model.bounded_scores.survival import CELLS, Integrals, SurvivalScores

ROWS, FINE = 257, 16
"""Residuals at which integrals over the hazard are tabled, and into how many steps each of those between is divided."""

DIRECTIONS, BETWEEN, STARTS = 32, 1.01, 6
"""Directions in which the longest score is looked for, by how much those between them may be longer, and how many times
of entry are tried."""

FURTHEST = 12.0
"""How far from the last time the predictor may be that a fit starts with, in logarithms."""

PENALTY = 1e-2
"""Of the square of the logarithm of a scale, to start from, for each event; noise of their number counts as events."""


class LogTimes(SurvivalScores):
    """The residual z = rate (log t - predictor) has a law of its own; the first shape is plus or minus log rate."""

    sign: float = 1.0
    """Of log rate in the shape: 1 where the shape is its logarithm, -1 where it is that of the scale."""

    lowest: float
    highest: float
    """Between what the residuals of the table lie."""

    is_scaled: bool = False
    """Whether the predictor is the distance of the location from the last time, in scales."""

    def __init__(self, last: float, has_entry: bool = False) -> None:
        super().__init__(last, has_entry)
        self.usual_predictor = last

    def scaled(self) -> Self:
        """Return the same scores by the distance of the location from the last time."""
        found = copy.copy(self)
        found.is_scaled, found.usual_predictor = True, 0.0
        return found

    def location(self, xp: Any, predictor: Any, shapes: Any) -> Any:
        """Return the location, given the predictor."""
        return self.last + predictor / self.rate(xp, shapes) if self.is_scaled else predictor

    @abstractmethod
    def window(self, bound: float) -> tuple[float, float]:
        """Return up to which residual a record is looked at, and how far down from there weights are its scores."""

    @abstractmethod
    def log_hazard(self, residual: Floats) -> Floats:
        """Return the logarithm of the hazard of a residual, on the host."""

    @abstractmethod
    def of_residual(self, residual: Floats) -> Floats:
        """Return the cumulative hazard of a residual, on the host."""

    @abstractmethod
    def scores(self, xp: Any, residual: Any) -> Any:
        """Return the derivatives of the log-hazard by the predictor, at a rate of one, and by the shape."""

    def rate(self, xp: Any, shapes: Any) -> Any:
        """Return what logarithms of times are multiplied with."""
        return xp.exp(self.sign * shapes[0]) if self.num_shapes else 1.0

    def residual_of(self, xp: Any, log_time: Any, predictor: Any, shapes: Any) -> Any:
        """Return the residual of the logarithm of a time."""
        return self.rate(xp, shapes) * (log_time - self.location(xp, predictor, shapes))

    # the table: the window, integrals up to each residual, and extreme scores of windows that end there

    @property
    def grid(self) -> Floats:
        """The residuals of the table."""
        return np.linspace(self.lowest, self.highest, ROWS)

    def table(self, shapes: Floats, bound: float) -> Floats:
        """Return a row for each residual; the law of residuals does not depend on the shapes."""
        del shapes
        return _table(type(self), self.has_entry, bound)

    def made(self, bound: float) -> Floats:
        """Return the table, made anew."""
        top, width = self.window(bound)
        window = np.tile([min(top, self.highest), width], (ROWS, 1))
        integrals = self._integrals()
        return np.concatenate([window, integrals, self._extremes(integrals, width)], axis=1)

    def _integrals(self) -> Floats:
        """Return the integrals of one, of scores and of their products over the hazard, up to each residual."""
        fine = np.linspace(self.lowest, self.highest, FINE * (ROWS - 1) + 1)
        scores, hazard = self.scores(np, fine), np.exp(self.log_hazard(fine))
        rows, columns = np.triu_indices(self.size)
        ones = np.ones((len(fine), 1))
        values = np.concatenate([ones, scores, scores[:, rows] * scores[:, columns]], axis=1) * hazard[:, None]
        step = fine[1] - fine[0]  # by Simpson's rule
        each = step / 3 * (values[:-2:2] + 4 * values[1:-1:2] + values[2::2])
        total = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(each, axis=0)])
        return total[:: FINE // 2]

    def _extremes(self, integrals: Floats, width: float) -> Floats:
        """Return the scores that are longest in each of some directions, for windows that end at each residual."""
        grid, size = self.grid, self.size
        scores, up_to = self.scores(np, grid), integrals[:, 1 : 1 + size]
        angles = np.pi * np.arange(DIRECTIONS) / DIRECTIONS  # to both sides of the origin
        found = np.zeros((ROWS, 2 * DIRECTIONS, size))
        steps = int(np.ceil(width / (grid[1] - grid[0])))
        for end in range(ROWS):
            first = max(0, end - steps)
            events = scores[np.maximum(np.arange(end + 1), first)]
            before = events[0] * np.minimum(integrals[: end + 1, :1], integrals[first, 0])
            passed_to = before + np.maximum(np.arange(end + 1) - first, 0)[:, None].clip(0, 1) * (
                up_to[: end + 1] - up_to[first]
            )
            starts = np.append(0, np.linspace(first, end, STARTS).astype(int)) if self.has_entry else np.array([0])
            points: list[Floats] = [np.zeros((1, size))]
            for start in starts:
                passed = passed_to[start:] - passed_to[start]
                points += [-passed, events[start:] - passed]
            every = np.concatenate(points)
            units = np.maximum(np.abs(every).max(axis=0), 1e-30)
            ways = np.stack([np.cos(angles), np.sin(angles)], axis=1)[:, :size] / units
            lengths = every @ ways.T
            found[end] = every[np.append(lengths.argmax(axis=0), lengths.argmin(axis=0))]
        return found.reshape(ROWS, -1)

    def _between(self, xp: Any, residual: Any, table: Any) -> Any:
        """Return the integrals up to a residual: the cubic through the four nearest rows."""
        place = (xp.clip(residual, self.lowest, self.highest) - self.lowest) * (
            (ROWS - 1) / (self.highest - self.lowest)
        )
        index = xp.clip(xp.floor(place).astype("int32"), 1, ROWS - 3)
        x = (place - index)[..., None]
        rows = table[:, 2 : 3 + self.size + self.size * (self.size + 1) // 2]
        return (
            -x * (x - 1) * (x - 2) / 6 * rows[index - 1]
            + (x + 1) * (x - 1) * (x - 2) / 2 * rows[index]
            - (x + 1) * x * (x - 2) / 2 * rows[index + 1]
            + (x + 1) * x * (x - 1) / 6 * rows[index + 2]
        )

    def _window(self, xp: Any, predictor: Any, shapes: Any, table: Any) -> tuple[Any, Any]:
        """Return between which residuals weights are scores."""
        last = xp.minimum(table[0, 0], self.residual_of(xp, self.last, predictor, shapes))
        return xp.maximum(last - table[0, 1], self.lowest), last

    # one record

    def integrals(self, xp: Any, predictor: Any, shapes: Any, response: Any, table: Any) -> Integrals:
        """Return the integrals over the window, and with what weights are at its beginning over what is before it."""
        first, last = self._window(xp, predictor, shapes, table)
        residual = self.residual_of(xp, response[..., 0], predictor, shapes)
        entry = self.residual_of(xp, response[..., 2], predictor, shapes)
        end = xp.clip(residual, first, last)
        start = xp.minimum(xp.maximum(entry, first), end)
        middle, to_first = self._between(xp, first, table), self.scores(xp, first)
        inside = self._between(xp, end, table) - self._between(xp, start, table)
        early = xp.minimum(residual, first)
        before = self._between(xp, early, table) - self._between(xp, xp.minimum(entry, early), table)
        event = xp.where((residual <= last) & (residual > entry), response[..., 1], 0.0)
        passed = inside[..., 1 : 1 + self.size] + before[..., :1] * to_first
        turn = self._turn(xp, predictor, shapes)
        whole = self._between(xp, last, table) - middle
        frozen = to_first[:, None] * to_first  # the product of the two is at most the mean of their squares
        return Integrals(
            (event[..., None] * self.scores(xp, end) - passed) @ turn.T,
            turn @ (self._square(inside) + self._product(to_first, before)) @ turn.T,
            turn @ (self._square(inside) + before[..., :1, None] * frozen) @ turn.T,
            turn @ (self._square(whole) + (self._square(middle) + middle[..., :1, None] * frozen) / 2) @ turn.T,
        )

    def longest(self, predictor: Any, shapes: Any, table: Any, gram: Any) -> Any:
        """Return the length of the longest of the extreme scores."""
        _, last = self._window(jnp, predictor, shapes, table)
        place = (last - self.lowest) * ((ROWS - 1) / (self.highest - self.lowest))
        index = jnp.clip(jnp.ceil(place).astype(jnp.int32), 0, ROWS - 1)
        extremes = table[index, -2 * DIRECTIONS * self.size :].reshape(-1, self.size)
        extremes = extremes @ self._turn(jnp, predictor, shapes).T
        squares = jnp.sum((extremes @ gram) * extremes, axis=1)
        return BETWEEN * jnp.sqrt(jnp.maximum(jnp.max(squares), 0.0))

    def _turn(self, xp: Any, predictor: Any, shapes: Any) -> Any:
        """Return the matrix that scores are multiplied with, whose rate is one: a predictor moves with the scale."""
        one, none = xp.ones(()), xp.zeros(())
        if not self.is_scaled:
            return xp.diag(xp.append(self.rate(xp, shapes), xp.ones(self.num_shapes)))
        return xp.stack([xp.stack([one, none]), xp.stack([-self.sign * xp.asarray(predictor), one])])

    def _product(self, weight: Any, integrals: Any) -> Any:
        """Return the integral of the product of a constant weight and the score, made symmetric."""
        product = weight[:, None] * integrals[..., None, 1 : 1 + self.size]
        return (product + product.swapaxes(-1, -2)) / 2

    def _square(self, integrals: Any) -> Any:
        """Return the integrals of products as a matrix."""
        places = np.zeros((self.size, self.size), int)
        rows, columns = np.triu_indices(self.size)
        places[rows, columns] = places[columns, rows] = 1 + self.size + np.arange(len(rows))
        return integrals[..., places]

    # the host

    def edges(self, predictor: float, shapes: Floats) -> Floats:
        """Return times evenly by their logarithms."""
        last = min(float(self.residual_of(np, self.last, predictor, shapes)), self.highest)
        first = min(self.window(20.0)[0], last) - self.window(20.0)[1]
        location = float(self.location(np, predictor, shapes))
        return np.linspace(first, last, CELLS) / float(self.rate(np, shapes)) + location

    def cumulative(self, predictor: float, shapes: Floats, logs: Floats) -> Floats:
        """Return the cumulative hazard."""
        return self.of_residual(self.residual_of(np, logs, predictor, shapes))

    def start(self, response: Spread, floor: float) -> tuple[Floats, Floats]:
        """Return what is most likely by the histogram, were all records alike and there from the start."""
        logs, events, censored = self.histogram(response)
        events = events + floor * (events.sum() <= floor) / len(events)

        def minus_log_likelihood(vector: Floats) -> float:
            location, shapes = float(vector[0]), vector[1:]
            residual = np.clip(self.rate(np, shapes) * (logs - location), 2 * self.lowest, self.highest)
            log_rate = self.sign * float(shapes.sum())
            density = self.log_hazard(residual) + log_rate - self.of_residual(residual)
            inside = events @ density - censored @ self.of_residual(residual)
            return float((PENALTY * events.sum() + response.noise) * shapes @ shapes - inside)

        usual = float(events @ logs + censored @ logs) + 1.0
        first = np.append(usual, np.zeros(self.num_shapes))
        found = np.asarray(optimize.minimize(minus_log_likelihood, first, method="Nelder-Mead").x, np.float64)
        constant, shapes = np.clip(found[:1] - self.last, -FURTHEST, FURTHEST), np.clip(found[1:], -2.5, 2.5)
        return constant * self.rate(np, shapes) if self.is_scaled else self.last + constant, shapes


@lru_cache(maxsize=64)
def _table(law: type[LogTimes], has_entry: bool, bound: float) -> Floats:
    """Return the table of a law, which is asked for again and again."""
    return law(0.0, has_entry).made(bound)
