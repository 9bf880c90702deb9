"""A formula's model as a regression: one vector of parameters, a row of predictors, and a prior on the host.

The vector holds the coefficients of the scaled columns, then random intercepts themselves (not in units of their
standard deviation, which is drawn on the host), then the free shape parameters of the family. Where times to an event
have a scale, coefficients are in its units, and the intercept is less the last time (`log_times`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from dpmcmc.fitting.strategies.weighted_scores.prior_terms import term_of, width_of
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats, Scores
from dpmcmc.model import FormulaModel
from dpmcmc.model.bounded_scores.log_times import LogTimes
from dpmcmc.model.formula.coordinates import Coordinates
from dpmcmc.model.formula.groups import Groups
from dpmcmc.model.formula.monotone import to_values
from dpmcmc.model.formula.priors import Prior
from dpmcmc.schema import OF_PERSON, PRESENT

FLATTEST = 0.1
"""Smallest precision of a prior, in its own scale; where it is flatter it is not approximately normal."""

FARTHEST = 30.0
"""Logarithms of a scale count as this beyond it."""

STEP = 1e-4
"""Of the differences that give the prior's slope and bend."""


@dataclass(frozen=True)
class Group:
    """The effects of groups: where they stand in the vector, and the prior of their spread."""

    name: str
    places: slice
    shape: tuple[int, ...]
    """Levels, and classes where there are some."""
    prior: Prior

    @property
    def num_spreads(self) -> int:
        """One standard deviation, or one a class."""
        return int(np.prod(self.shape[1:], dtype=int))

    def members(self, which: int) -> np.ndarray:
        """Return the places of the effects that share a standard deviation."""
        return np.arange(self.places.start, self.places.stop).reshape(self.shape[0], -1)[:, which]


@dataclass(frozen=True, eq=False)
class Regression:
    """The parts of a formula's model: design, scores, prior.

    Two are equal if they compute the same function of a record: same formula, family, fixed shapes and schema.
    """

    model: FormulaModel
    scores: Scores

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Regression) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[Any, ...]:
        fixed = tuple(prior.fixed for prior in self._coordinates.others.values())
        return self.model.formula, self.model.family, fixed, tuple(sorted(self.model.known.known.items()))

    @classmethod
    def of(cls, model: FormulaModel, may_scale: bool = True) -> "Regression":
        """Take a model apart; coefficients may be in units of the scale of times, unless that is ruled out."""
        of, scores = model.coordinates, model.law.scores(model.coordinates.response)
        is_free = all(prior.fixed is None for prior in of.others.values()) and "intercept" in of.names
        if may_scale and is_free and not (of.groups or of.offsets or of.monotone) and isinstance(scores, LogTimes):
            return cls(model, scores.scaled() if scores.num_shapes else scores)
        return cls(model, scores)

    def coefficients(self, vectors: Floats) -> Floats:
        """Return vectors (..., dimension) with their coefficients as the formula has them."""
        if not (isinstance(self.scores, LogTimes) and self.scores.is_scaled):
            return vectors
        found = vectors * np.exp(np.clip(-self.scores.sign * vectors[..., -1:], -FARTHEST, FARTHEST))
        found[..., self._coordinates.names.index("intercept")] += self.scores.last
        found[..., -1] = vectors[..., -1]
        return found

    @property
    def _coordinates(self) -> Coordinates:
        return self.model.coordinates

    @cached_property
    def num_outputs(self) -> int:
        """How many predictors there are."""
        return int(np.prod(self._coordinates.outputs, dtype=int))

    @cached_property
    def num_columns(self) -> int:
        """How many columns a row has, those of groups among them."""
        return len(self._coordinates.names) + sum(len(of.levels) for of, _ in self._coordinates.groups.values())

    @cached_property
    def num_linear(self) -> int:
        """How many parameters the predictors have."""
        return self.num_columns * self.num_outputs

    @cached_property
    def dimension(self) -> int:
        """How many parameters there are, standard deviations of groups not counted."""
        return self.num_linear + self.num_of_scale + len(self.free) - (self.num_of_scale > 0)

    @cached_property
    def free(self) -> tuple[int, ...]:
        """Which shape parameters are not fixed."""
        if self._coordinates.cutpoints is not None:
            return tuple(range(self.scores.num_shapes))
        first = 1 if self.num_of_scale else 0  # a scale with a formula comes first
        priors = self._coordinates.others.values()
        rest = tuple(first + place for place, prior in enumerate(priors) if prior.fixed is None)
        return (0, *rest) if first else rest

    @property
    def num_of_scale(self) -> int:
        """How many parameters the logarithm of a scale has that has a formula; else none."""
        return 0 if self._coordinates.scale is None else len(self._coordinates.scale.places)

    def shape_moves(self, factor: Any, columns: Any) -> Any:
        """Return how the free shapes of a record move with the coordinates, given its columns."""
        scale = self._coordinates.scale
        if scale is None:
            return factor[self.num_linear :]
        own = columns[np.array(scale.places)] @ factor[self.num_linear : self.num_linear + self.num_of_scale]
        return jnp.concatenate([own[None], factor[self.num_linear + self.num_of_scale :]])

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The effects of groups."""
        groups: list[Group] = []
        start = len(self._coordinates.names) * self.num_outputs
        for name, (category, prior) in self._coordinates.groups.items():
            size = len(category.levels) * self.num_outputs
            shape = (len(category.levels), *self._coordinates.outputs)
            groups.append(Group(name, slice(start, start + size), shape, prior))
            start += size
        return tuple(groups)

    @cached_property
    def blocks(self) -> NDArray[np.int_]:
        """The term that each column is of; of the columns of one term at most one is not zero."""
        coordinates = self._coordinates
        sizes = [len(list(block.block.names())) for block in coordinates.blocks]
        sizes += [len(category.levels) for category, _ in coordinates.groups.values()]
        return np.repeat(np.arange(len(sizes)), sizes)

    @cached_property
    def unseen(self) -> Floats:
        """Directions that no data can identify, as rows: random intercepts raised, the intercept lowered by as much.

        So it is with slopes, and with groups that divide those of another term.
        """
        rows: list[Floats] = []

        def add(raised: np.ndarray, lowered: int) -> None:
            row = np.zeros(self.dimension)
            row[raised], row[lowered] = 1.0, -1.0
            rows.append(row / np.linalg.norm(row))

        for group in self.groups:
            own = self._coordinates.groups[group.name][0]
            coarser = ((each, own.within(self._coordinates.groups[each.name][0])) for each in self.groups)
            parent, parts = next(((each, parts) for each, parts in coarser if parts is not None), (None, []))
            place = self.fixed_place(own)
            for which in range(group.num_spreads):
                if parent is not None:
                    for level, part in enumerate(parts):
                        add(group.members(which)[part], int(parent.members(which)[level]))
                elif place is not None:
                    add(group.members(which), place * self.num_outputs + which)
        return np.array(rows).reshape(-1, self.dimension)

    def fixed_place(self, groups: Groups) -> int | None:
        """Return the column that the columns of groups add up to; None if there is none."""
        names = self._coordinates.names
        wanted = ("intercept",) if groups.number is None else (groups.number, f"{groups.number}[True]")
        if "intercept" not in names:
            return None
        return next((names.index(name) for name in wanted if name in names), None)

    # one record, in JAX

    def row(self, record: Any) -> jax.Array:
        """Return the columns of one row of the table."""
        of_groups = [groups.values(record) for groups, _ in self._coordinates.groups.values()]
        return jnp.concatenate([self._coordinates.row(record), *of_groups])

    def counted_row(self, record: Any) -> jax.Array:
        """Return the same with ones for the slopes of a row's groups: what groups it is in."""
        hots = [groups.one_hot(record) for groups, _ in self._coordinates.groups.values()]
        return jnp.concatenate([self._coordinates.row(record), *hots])

    def rows(self, record: Any) -> tuple[Any, Any]:
        """Return the rows of a record with a leading axis, and which of them are there, with a response."""
        if PRESENT in record:
            rows = {name: leaf for name, leaf in record.items() if name not in OF_PERSON}
            is_present = record[PRESENT] > 0
        else:
            rows = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], dict(record))
            is_present = jnp.ones(1, bool)
        return rows, is_present & jax.vmap(self._coordinates.response.is_there)(rows)

    def predictors(self, vector: jax.Array, record: Any, columns: jax.Array | None = None) -> jax.Array:
        """Return the predictors of one row, whose columns may be known already."""
        linear = vector[: self.num_linear].reshape(self.num_columns, self.num_outputs)
        return (self.row(record) if columns is None else columns) @ linear + self._coordinates.offset(record)

    def shapes(self, xp: Any, vector: Any, columns: Any = None) -> Any:
        """Return the shape parameters, fixed ones among them; of a record with these columns, or of a middle one."""
        if self._coordinates.cutpoints is not None:
            return vector[self.num_linear :]
        places = iter(range(self.num_linear + self.num_of_scale, self.dimension))
        values = [
            vector[next(places)] if prior.fixed is None else prior.to_line(np, prior.fixed)
            for prior in self._coordinates.others.values()
        ]
        if self._coordinates.scale is not None:
            own = vector[self.num_linear : self.num_linear + self.num_of_scale]
            values.insert(0, own[0] if columns is None else columns[np.array(self._coordinates.scale.places)] @ own)
        return xp.stack([xp.asarray(value, vector.dtype) for value in values]) if values else xp.zeros(0)

    def log_prior(self, vectors: Floats, first: int = 0) -> Floats:
        """Return the log-density of the prior from a place on, without random intercepts, for (..., dimension)."""
        terms = (term(vectors) for places, term in self._prior_terms if places[0] >= first)
        return sum(terms, start=np.zeros(vectors.shape[:-1]))

    def prior_at(self, vector: Floats) -> tuple[Floats, Floats]:
        """Return gradient and minus the Hessian of that log-density, each block by differences."""
        gradient, bend = np.zeros(self.dimension), np.zeros((self.dimension, self.dimension))
        for places, term in self._prior_terms:
            steps = STEP * np.maximum(1.0, np.abs(vector[places]))
            moves = np.zeros((len(places), self.dimension))
            moves[np.arange(len(places)), places] = steps
            up, down, here = term(vector + moves), term(vector - moves), float(term(vector[None])[0])
            gradient[places] += (up - down) / (2 * steps)
            for one, place in enumerate(places):
                bend[place, place] -= (up[one] - 2 * here + down[one]) / steps[one] ** 2
                for two in range(one):
                    corners = np.stack([a * moves[one] + b * moves[two] for a in (1, -1) for b in (1, -1)])
                    value = term(vector + corners) @ [1, -1, -1, 1] / (4 * steps[one] * steps[two])
                    bend[place, places[two]] -= value
                    bend[places[two], place] -= value
        return gradient, bend

    def prior_precision(self, bend: Floats) -> Floats:
        """Return minus a Hessian of the log-prior without directions in which it is flat, or bends upward."""
        scales = np.array(self._prior_scales)
        values, vectors = np.linalg.eigh(scales[:, None] * (bend + bend.T) / 2 * scales)
        inner = (vectors * np.maximum(values, FLATTEST)) @ vectors.T
        return inner / np.outer(scales, scales)

    @cached_property
    def _prior_scales(self) -> list[float]:
        """How wide the prior is in each parameter, in those that it is a density of: logarithms of positive ones."""
        coordinates = self._coordinates
        scales = [scale for prior in coordinates.coefficients.priors for scale in [width_of(prior)] * self.num_outputs]
        scales += [1.0] * (self.num_linear - len(scales))
        if coordinates.cutpoints is not None:
            return scales + [1.0] * len(self.free)
        if coordinates.scale is not None:
            scales += [width_of(prior) for prior in coordinates.scale.prior.priors]
        positive = [prior for prior in coordinates.others.values() if prior.fixed is None]
        return scales + [width_of(prior, on_line=True) for prior in positive]

    @cached_property
    def _prior_terms(self) -> list[tuple[Any, Any]]:
        """Independent parts of the prior: the places that each reads, and its log-density at vectors."""
        return list(self._terms())

    def _terms(self) -> Iterator[tuple[Any, Any]]:
        coordinates = self._coordinates
        scores = self.scores
        for row, prior in enumerate(coordinates.coefficients.priors):
            for output in range(self.num_outputs):
                place = row * self.num_outputs + output
                sign = scores.sign if isinstance(scores, LogTimes) and scores.is_scaled else None
                yield term_of(place, prior) if sign is None else self._scaled_term(place, prior, sign)
        if coordinates.cutpoints is not None:
            places = list(range(self.num_linear, self.dimension))
            density = coordinates.cutpoints.density

            def ordered(vectors: Floats) -> Floats:
                first, logs = vectors[..., places[:1]], vectors[..., places[1:]]
                cutpoints = np.concatenate([first, first + np.cumsum(np.exp(logs), axis=-1)], axis=-1)
                return np.sum(density(cutpoints), axis=-1) + np.sum(logs, axis=-1)

            yield np.array(places), ordered
            return
        place = self.num_linear
        for prior in () if coordinates.scale is None else coordinates.scale.prior.priors:
            yield term_of(place, prior)
            place += 1
        for prior in coordinates.others.values():
            if prior.fixed is None:
                yield term_of(place, prior, on_line=True)
                place += 1

    def _scaled_term(self, place: int, prior: Prior, sign: float) -> tuple[Any, Any]:
        """Return the prior of a coefficient that is in units of a scale, which it moves with."""

        def density(vectors: Floats) -> Floats:
            return prior.density(self.coefficients(vectors)[..., place]) - sign * vectors[..., -1]

        return np.array([place, self.dimension - 1]), density

    # draws

    def positions(self, vectors: Floats, spreads: Mapping[str, Floats]) -> dict[str, Floats]:
        """Return vectors (..., dimension) as positions of the model, given the standard deviations (..., spreads)."""
        axes, coordinates, vectors = vectors.shape[:-1], self._coordinates, self.coefficients(vectors)
        position: dict[str, Floats] = {}
        size = len(coordinates.names) * self.num_outputs
        if size:
            linear = vectors[..., :size].reshape(*axes, -1, *coordinates.outputs)
            if coordinates.monotone:
                moved = to_values(np, coordinates.monotone, np.moveaxis(linear, len(axes), 0))
                linear = np.moveaxis(moved, 0, len(axes))
            position["coefficients"] = linear
        if coordinates.cutpoints is not None:
            position["cutpoints"] = vectors[..., self.num_linear :]
        else:
            first = self.num_linear + self.num_of_scale
            if coordinates.scale is not None:
                position[coordinates.scale.name] = vectors[..., self.num_linear : first]
            names = [name for name, prior in coordinates.others.items() if prior.fixed is None]
            position.update({name: vectors[..., first + place] for place, name in enumerate(names)})
        for group in self.groups:
            spread = spreads[group.name].reshape(*axes, *group.shape[1:])
            effects = vectors[..., group.places].reshape(*axes, *group.shape)
            position[group.name] = effects / np.expand_dims(spread, len(axes))
            if group.prior.fixed is None:
                position[f"{group.name}_sigma"] = np.log(spread)
        return {name: position[name] for name in coordinates.shapes}
