"""The parameters of a formula: where a sampler moves, and how people read them.

A sampler moves in the coefficients of the scaled columns, the logarithms of positive parameters, the log-odds of those
between zero and one, the cutpoints as the first one and the logarithms of the gaps, the effects of groups in units of
their standard deviation, and monotonic effects as `monotone` says. People read coefficients on the original scale, by
the names of their columns.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.errors import InvalidArgument
from dpmcmc.model.formula.columns import Record
from dpmcmc.model.formula.design import Design
from dpmcmc.model.formula.expression import Expression
from dpmcmc.model.formula.groups import Groups, unit_of
from dpmcmc.model.formula.monotone import CoefficientPrior, Monotone, to_coefficients, with_shares
from dpmcmc.model.formula.priors import Prior, VectorPrior, log_density_on_line
from dpmcmc.model.formula.response import Response
from dpmcmc.model.formula.scaling import ScaledBlock

Position: TypeAlias = dict[str, Any]
_EXACT = "highest"
"""Precision of products: coefficients go back to the original scale once, in full float32 on every device."""


class Natural(NamedTuple):
    """Parameters on the scale of the model: scaled columns, scaled response."""

    coefficients: Any
    effects: Mapping[str, Any]
    others: Mapping[str, Any]


@dataclass(frozen=True)
class Scale:
    """A scale whose logarithm is a sum of columns.

    Attributes:
        name: the parameter.
        places: which columns of the design it has, the intercept first.
        prior: of their coefficients.
    """

    name: str
    places: tuple[int, ...]
    prior: VectorPrior


@dataclass(frozen=True)
class Coordinates:
    """The parameters of one model.

    Attributes:
        design: the columns.
        response: the response.
        coefficients: the priors of the coefficients, one a column that is not dropped, and the monotonic effects.
        others: the priors of the other parameters of the family: positive, or between zero and one.
        cutpoints: the prior of the cutpoints of an ordinal response, which replace the intercept.
        groups: those that have effects of their own, by the name of the parameter, and the prior of their spread.
        offsets: what is added to the predictor.
        has_classes: whether there is a predictor for each class but the first.
        scale: the formula of a scale, should it have one.
        persons: effects of persons' own; their standard deviations are among the other parameters.
    """

    design: Design
    response: Response
    coefficients: CoefficientPrior
    others: Mapping[str, Prior]
    cutpoints: Prior | None
    groups: Mapping[str, tuple[Groups, Prior]]
    offsets: tuple[Expression, ...]
    has_classes: bool
    scale: "Scale | None" = None
    persons: Mapping[str, Groups] = field(default_factory=dict[str, Groups])

    @property
    def monotone(self) -> tuple[Monotone, ...]:
        """The monotonic effects."""
        return self.coefficients.terms

    @property
    def drops_intercept(self) -> bool:
        """Whether the cutpoints stand for the intercept."""
        return self.cutpoints is not None

    @property
    def outputs(self) -> tuple[int, ...]:
        """The shape of a predictor: one number, or one a class but the first."""
        return (len(self.response.classes) - 1,) if self.has_classes else ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the coefficients."""
        return self.design.names[1:] if self.drops_intercept else self.design.names

    @cached_property
    def read_names(self) -> tuple[str, ...]:
        """The coefficients that people read: of the steps of a monotonic effect there is one."""
        of_step = {place: term.name for term in self.monotone for place in term.places}
        return tuple(dict.fromkeys(of_step.get(place, name) for place, name in enumerate(self.names)))

    @cached_property
    def shapes(self) -> Mapping[str, jax.ShapeDtypeStruct]:
        """The shapes of a position."""
        shapes: dict[str, tuple[int, ...]] = {}
        if self.names:
            shapes["coefficients"] = (len(self.names), *self.outputs)
        if self.cutpoints is not None:
            shapes["cutpoints"] = (len(self.response.classes) - 1,)
        shapes.update({name: () for name, prior in self.others.items() if prior.fixed is None})
        if self.scale is not None:
            shapes[self.scale.name] = (len(self.scale.places),)
        for name, (category, prior) in self.groups.items():
            shapes[name] = (len(category.levels), *self.outputs)
            if prior.fixed is None:
                shapes[f"{name}_sigma"] = self.outputs
        return {name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in shapes.items()}

    def natural(self, position: Position) -> Natural:
        """Return the parameters at a position, on the scale of the model."""
        others = {
            name: prior.from_line(jnp, position[name]) if prior.fixed is None else jnp.float32(prior.fixed)
            for name, prior in self.others.items()
        }
        if self.cutpoints is not None:
            gaps = jnp.exp(position["cutpoints"][1:])
            others["cutpoints"] = position["cutpoints"][0] + jnp.concatenate([jnp.zeros(1), jnp.cumsum(gaps)])
            others["gaps"] = gaps
        if self.scale is not None:
            others[self.scale.name] = position[self.scale.name]
        effects = {name: self.spread(name, position) * position[name] for name in self.groups}
        own = position.get("coefficients")
        return Natural(to_coefficients(jnp, self.monotone, own) if self.monotone else own, effects, others)

    def spread(self, name: str, position: Position) -> jax.Array:
        """Return the standard deviation of the effects of groups."""
        fixed = self.groups[name][1].fixed
        return jnp.exp(position[f"{name}_sigma"]) if fixed is None else jnp.float32(fixed)

    @property
    def blocks(self) -> tuple[ScaledBlock, ...]:
        """The columns that have coefficients, term by term."""
        return self.design.blocks[1:] if self.drops_intercept else self.design.blocks

    def row(self, record: Record) -> jax.Array:
        """Return the columns of one record that have coefficients.

        They lie between -1 and 1 but for rounding, which is cut off. The cut has a second use: whoever reads the
        program sees a row of entries, not what they are made of, and so in its gradient one residual times this row.
        """
        return jnp.clip(jnp.concatenate([jnp.zeros(0), *(block.values(record) for block in self.blocks)]), -1.0, 1.0)

    def predictor(self, natural: Natural, record: Record) -> jax.Array:
        """Return the linear predictor of one record."""
        eta = jnp.zeros(self.outputs)
        if natural.coefficients is not None:
            eta = eta + self.row(record) @ natural.coefficients
        for name, (groups, _) in self.groups.items():
            eta = eta + groups.values(record) @ natural.effects[name]
        return eta + self.offset(record)

    def others_of(self, natural: Natural, record: Record) -> Mapping[str, Any]:
        """Return the other parameters of one record: the same for all, unless a scale has a formula."""
        if self.scale is None:
            return natural.others
        logarithm = self.row(record)[np.array(self.scale.places)] @ natural.others[self.scale.name]
        return {**natural.others, self.scale.name: jnp.exp(logarithm)}

    def offset(self, record: Record) -> jax.Array:
        """Return what is added to the predictor without a coefficient."""
        return sum((offset.evaluate(record) for offset in self.offsets), start=jnp.zeros(())) / self.response.half

    def log_prior(self, position: Position) -> jax.Array:
        """Return the log-density of the prior with the log-Jacobians."""
        total = jnp.zeros(())
        if self.names:
            total = total + self.coefficients.log_density(position["coefficients"])
        if self.cutpoints is not None:
            cutpoints = self.natural(position).others["cutpoints"]
            total = total + jnp.sum(self.cutpoints.law.log_prob(cutpoints)) + jnp.sum(position["cutpoints"][1:])
        for name, prior in self._positive():
            total = total + log_density_on_line(prior, position[name])
        if self.scale is not None:
            total = total + self.scale.prior.log_density(position[self.scale.name])
        for name in self.groups:
            total = total - 0.5 * jnp.sum(position[name] ** 2)
        return total

    def sample_prior(self, key: jax.Array) -> Position:
        """Draw a position from the prior."""
        keys = dict(zip(self.shapes, jax.random.split(key, len(self.shapes)), strict=True))
        position: Position = {name: jax.random.normal(keys[name], self.shapes[name].shape) for name in self.groups}
        if self.names:
            position["coefficients"] = self.coefficients.draw(keys["coefficients"], self.shapes["coefficients"].shape)
        if self.cutpoints is not None:
            drawn = jnp.sort(self.cutpoints.law.sample(keys["cutpoints"], self.shapes["cutpoints"].shape))
            position["cutpoints"] = _from_cutpoints(drawn)
        for name, prior in self._positive():
            position[name] = prior.to_line(jnp, prior.law.sample(keys[name], self.shapes[name].shape))
        if self.scale is not None:
            name = self.scale.name
            position[name] = self.scale.prior.draw(keys[name], self.shapes[name].shape)
        return {name: position[name] for name in self.shapes}

    def constrain(self, position: Position) -> dict[str, jax.Array]:
        """Return the parameters on the original scale, by names that people can read."""
        natural, half = self.natural(position), self.response.half
        parameters: dict[str, jax.Array] = {}
        if self.names:
            matrix = self.to_original
            original = jnp.matmul(jnp.asarray(matrix, jnp.float32), natural.coefficients, precision=_EXACT)
            for name, values in self.readable(jnp, original, position["coefficients"]):
                parameters.update(self.by_class(name, values))
            if self.cutpoints is not None:
                parameters["cutpoints"] = natural.others["cutpoints"] - original[0]
        elif self.cutpoints is not None:
            parameters["cutpoints"] = natural.others["cutpoints"]
        for name, prior in self.others.items():
            if prior.fixed is None:
                parameters[name] = natural.others[name] * unit_of(name, half, self.persons)
        if self.scale is not None:
            own = jnp.matmul(jnp.asarray(self.of_scale, jnp.float32), position[self.scale.name], precision=_EXACT)
            own = own.at[0].add(np.log(half))
            parameters.update({name: own[place] for place, name in enumerate(self.scale_names)})
        for name, (groups, prior) in self.groups.items():
            unit = half / groups.half
            for place, level in enumerate(groups.levels):
                parameters.update(self.by_class(f"{name}[{level}]", natural.effects[name][place] * unit))
            if prior.fixed is None:
                parameters.update(self.by_class(f"{name}_sigma", self.spread(name, position) * unit))
        return {name.replace("/", "∕"): value for name, value in parameters.items()}

    def unconstrain(self, parameters: Mapping[str, Any]) -> Position:
        """Return the position of parameters as `constrain` gives them."""
        example = jax.eval_shape(self.constrain, dict(self.shapes))
        missing = [name for name in example if name not in parameters]
        if missing:
            raise InvalidArgument(f"parameters has no {', '.join(missing)}; expected all of {', '.join(example)}")
        half, position = self.response.half, Position()
        cutpoints = jnp.asarray(parameters["cutpoints"]) if self.cutpoints is not None else jnp.zeros(1)
        if self.names:
            read = {name: self._of_class(name, parameters) for name in self.names if name not in self._steps}
            shares = [jnp.stack([self._of_class(label, parameters) for label in each.labels]) for each in self.monotone]
            for term, own in zip(self.monotone, shares, strict=True):
                steps = self._of_class(term.name, parameters) * len(own) * own
                read |= {self.names[place]: step for place, step in zip(term.places, steps, strict=True)}
            rows = [jnp.zeros(self.outputs)] * self.drops_intercept + [read[name] for name in self.names]
            shifted = jnp.stack(rows) - self.shift.reshape(-1, *[1] * len(self.outputs))
            inverse = jnp.asarray(np.linalg.inv(self.design.to_unscaled) / half, jnp.float32)
            scaled = jnp.matmul(inverse, shifted, precision=_EXACT)
            own = scaled[1:] if self.drops_intercept else scaled
            position["coefficients"] = with_shares(self.monotone, own, shares) if self.monotone else own
            cutpoints = cutpoints - scaled[0] if self.drops_intercept else cutpoints
        if self.cutpoints is not None:
            position["cutpoints"] = _from_cutpoints(cutpoints)
        for name, prior in self.others.items():
            if prior.fixed is None:
                own = jnp.asarray(parameters[name]) / unit_of(name, half, self.persons)
                position[name] = prior.to_line(jnp, own)
        if self.scale is not None:
            own = jnp.stack([jnp.asarray(parameters[name.replace("/", "∕")]) for name in self.scale_names])
            inverse = jnp.asarray(np.linalg.inv(self.of_scale), jnp.float32)
            position[self.scale.name] = jnp.matmul(inverse, own.at[0].add(-np.log(half)), precision=_EXACT)
        for name, (groups, prior) in self.groups.items():
            unit = half / groups.half
            if prior.fixed is None:
                position[f"{name}_sigma"] = jnp.log(self._of_class(f"{name}_sigma", parameters) / unit)
            effects = jnp.stack([self._of_class(f"{name}[{level}]", parameters) for level in groups.levels])
            position[name] = effects / unit / self.spread(name, position)
        return {name: position[name] for name in self.shapes}

    def readable(self, xp: Any, original: Any, values: Any) -> Iterator[tuple[str, Any]]:
        """Return coefficients as people read them: of the unscaled columns, and what a sampler moves in beside them."""
        first = {term.places[0]: term for term in self.monotone}
        for place, name in enumerate(self.names):
            row = place + self.drops_intercept
            if place in first:
                at = np.array(first[place].places)
                yield first[place].name, xp.mean(original[at + self.drops_intercept], axis=0)
                yield from zip(first[place].labels, first[place].shares(xp, values[at]), strict=True)
            elif name not in self._steps:
                yield name, original[row] + self.shift[row]

    @cached_property
    def _steps(self) -> frozenset[str]:
        """The names of the steps of monotonic effects, which people do not read."""
        return frozenset(self.names[place] for term in self.monotone for place in term.places)

    @cached_property
    def to_original(self) -> Any:
        """The matrix from the coefficients of the model to those of the unscaled columns and response."""
        matrix = self.design.to_unscaled * self.response.half
        return matrix[:, 1:] if self.drops_intercept else matrix

    @property
    def scale_places(self) -> tuple[int, ...]:
        """Which columns the formula of a scale has."""
        return () if self.scale is None else self.scale.places

    @property
    def scale_names(self) -> list[str]:
        """The names of the coefficients of a scale."""
        scale = self.scale
        return [] if scale is None else [f"{scale.name}: {self.design.names[place]}" for place in scale.places]

    @cached_property
    def of_scale(self) -> Any:
        """The matrix from a scale's coefficients to those of the unscaled columns."""
        places = np.array([] if self.scale is None else self.scale.places, int)
        return self.design.to_unscaled[np.ix_(places, places)]

    @cached_property
    def shift(self) -> Any:
        """What the centre of the response adds to the coefficients."""
        constant = self.design.constant
        centre = 0.0 if constant is None else self.response.centre * constant
        return np.broadcast_to(np.asarray(centre, np.float32), (len(self.design.names),))

    @property
    def positive(self) -> Mapping[str, Prior]:
        """The priors of the parameters that a sampler moves the logarithms or the log-odds of."""
        return dict(self._positive())

    def _positive(self) -> Iterator[tuple[str, Prior]]:
        yield from ((name, prior) for name, prior in self.others.items() if prior.fixed is None)
        yield from ((f"{name}_sigma", prior) for name, (_, prior) in self.groups.items() if prior.fixed is None)

    def labels(self, name: str) -> list[str]:
        """Return the names that people read a parameter by: one, or one a class but the first."""
        return [f"{label}: {name}" for label in self.response.classes[1:]] if self.outputs else [name]

    def by_class(self, name: str, values: jax.Array) -> dict[str, jax.Array]:
        """Return the numbers of a parameter by the names that people read: one, or one a class but the first."""
        return dict(zip(self.labels(name), values, strict=True)) if self.outputs else {name: values}

    def _of_class(self, name: str, parameters: Mapping[str, Any]) -> jax.Array:
        read = [jnp.asarray(parameters[label.replace("/", "∕")]) for label in self.labels(name)]
        return jnp.stack(read) if self.outputs else read[0]


def _from_cutpoints(cutpoints: jax.Array) -> jax.Array:
    return jnp.concatenate([cutpoints[:1], jnp.log(jnp.diff(cutpoints))])
