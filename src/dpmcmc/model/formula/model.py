"""A model from a formula and the schema of a table: no data is read to build it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc import validation
from dpmcmc.errors import InvalidArgument
from dpmcmc.html import card, line
from dpmcmc.model.formula.bounds import GradientBound, Region, gradient_bound
from dpmcmc.model.formula.columns import Columns
from dpmcmc.model.formula.coordinates import Coordinates
from dpmcmc.model.formula.description import describe, prior_words
from dpmcmc.model.formula.families.family import Family
from dpmcmc.model.formula.host import constrain_all, draw_prior
from dpmcmc.model.formula.links import IDENTITY, LOG_MEDIAN, Link
from dpmcmc.model.formula.persons import OfPersons
from dpmcmc.model.formula.simulation import Simulation, draw_columns, draw_response
from dpmcmc.model.model import Model


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class FormulaModel(Model):
    """A `Model` that knows its columns: what `from_formula` returns. Everything about it is public.

    Attributes:
        formula: as it was written.
        family: what the response is distributed like.
        columns: the columns of a record that it reads, the response among them.
        coordinates: the parameters, scaled and as people read them.
        known: the columns that the formula could have named.
        law: the family's record.
        integrated: the columns whose missing cells are integrated over.
        own: effects of persons' own, should there be some.
    """

    formula: str
    family: str
    columns: tuple[str, ...]
    coordinates: Coordinates = field(repr=False)
    known: Columns = field(repr=False)
    law: Family = field(repr=False)
    integrated: tuple[str, ...] = ()
    own: OfPersons | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        names = f"{len(self.parameter_names)} parameters: {', '.join(self.parameter_names)}"
        lines = (f"FormulaModel: {self.formula}, {self.family}", names, f"reads {', '.join(self.columns)}")
        return "\n".join(map(line, lines)) + "\ndescribe() says how columns are scaled, and every prior"

    def _repr_html_(self) -> str:
        """Show it in a notebook."""
        rows = [("family", self.family), ("reads", ", ".join(self.columns)), *self.priors.items()]
        return card(f"Model: {self.formula}", rows, notes=["Priors are on the scaled columns; describe() says more."])

    @property
    def is_as_read(self) -> bool:
        """Whether nobody put another prior or another way to read positions in the place of the formula's own."""
        own = self.coordinates
        return (self.constrain, self.sample_prior) == (own.constrain, own.sample_prior)

    @property
    def is_mixture(self) -> bool:
        """Whether something of a record is integrated over, so that its law has no one predictor."""
        return bool(self.integrated) or self.own is not None

    @property
    def response(self) -> str:
        """The column of the response."""
        return self.coordinates.response.name

    @property
    def predictor_columns(self) -> tuple[str, ...]:
        """The columns that a record must have to be predicted: without the response, its event, entry and weights."""
        own = self.coordinates.response.own
        return tuple(name for name in self.columns if name not in own)

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes of the response, where it has some; `predict` gives a probability for each, in this order."""
        return self.coordinates.response.classes

    @property
    def link(self) -> Link:
        """What the linear predictor is: the family's link; of the logarithm of a column, with medians as they are."""
        return LOG_MEDIAN if self.law.link == IDENTITY and self.coordinates.response.is_log else self.law.link

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The columns of the design that have coefficients, such as ``intercept``, ``age``, ``ward[b]``."""
        return self.coordinates.names

    @property
    def priors(self) -> dict[str, str]:
        """The prior of every parameter on the scaled columns, in words that ``priors=`` takes."""
        return prior_words(self.coordinates)

    @property
    def row_bound(self) -> float:
        """The largest norm of a row of features, those of random intercepts not counted.

        Of the columns of a term at most one is not zero, and none is larger than one: the root of the number of terms.
        """
        return len(self.coordinates.blocks) ** 0.5

    def features(self, record: Mapping[str, Any]) -> jax.Array:
        """Return the scaled features of one record, each between -1 and 1."""
        return self.coordinates.row(record)

    def describe(self) -> str:
        """Say in words what the model is: scales, references, priors."""
        return describe(self.formula, self.law, self.coordinates, self.known, self.columns)

    def gradient_bound(self, region: Region | None = None) -> GradientBound:
        """Return a bound on the norm of one record's gradient, and where it holds.

        Args:
            region: intervals for some of the positive parameters, on the model's scale, as in ``{"sigma": (0.1, 1)}``;
                for ``cutpoints`` the distance of the last from the first. The others come from the priors.
        """
        bound = gradient_bound(self.coordinates, self.law, region)
        return replace(bound, value=self.temperature * bound.value)

    def suggested_clip(
        self, key: jax.Array, *, quantile: float = 0.95, num_draws: int = 64, num_records: int = 128
    ) -> float:
        """Return a clip that few records exceed, found by simulation; no private record is touched.

        For parameters from the prior, the norm that a share `quantile` of the simulated records stays below; and of
        these numbers the median over the prior. Never more than a bound that holds everywhere. Records whose predicted
        mean lies outside the bounds of the response are left out: a wide prior has many, a posterior few.

        Args:
            key: for the simulation.
            quantile: the share of the records that are not longer.
            num_draws: how often parameters are drawn from the prior.
            num_records: how many records are drawn for each of them.
        """

        def norms(one: jax.Array) -> jax.Array:
            position, records = self.simulate(one, num_records)
            usual = jax.vmap(lambda record: self._is_usual(position, record))(records)
            gradients = jax.vmap(jax.grad(self.log_likelihood), in_axes=(None, 0))(position, records)
            squares = [jnp.sum(leaf.reshape(num_records, -1) ** 2, axis=1) for leaf in jax.tree.leaves(gradients)]
            norm = jnp.sqrt(sum(squares, start=jnp.zeros(())))
            return jnp.nanquantile(jnp.where(usual, norm, jnp.nan), quantile)

        validation.probability("quantile", quantile)
        found = self.temperature * float(jnp.nanmedian(jax.lax.map(norms, jax.random.split(key, num_draws))))
        bound = self.gradient_bound()
        return min(found, bound.value) if bound.everywhere else found

    def simulate(self, key: jax.Array, num_records: int, position: Any = None) -> Simulation:
        """Draw parameters from the prior, unless they are given, and records from the schema's ranges and the model.

        Args:
            key: for the draws.
            num_records: how many records there shall be.
            position: the parameters, as a sampler has them; from the prior unless stated.
        """
        prior, columns, response = jax.random.split(key, 3)
        if position is None:
            position = self.coordinates.sample_prior(prior)
        num_records = validation.integer("num_records", num_records, at_least=1)
        weights = self.coordinates.response.weights
        names = [*self.predictor_columns, *([] if weights is None else [weights])]
        records = draw_columns(columns, names, self.known, num_records)
        drawn = draw_response(
            response, position, records or {"": jnp.zeros(num_records)}, self.coordinates, self.law, self.own
        )
        followed = self.coordinates.response.followed(drawn)
        return Simulation(position, {**records, **followed, self.response: drawn})

    def predict(self, parameters: Mapping[str, Any], records: Mapping[str, Any]) -> jax.Array:
        """Return the expected response, or the probabilities of its classes, for every draw and record.

        Args:
            parameters: as `constrain` returns them, with any axes of draws in front.
            records: an array for each column, one entry per record; the response is not read.

        Returns:
            An array with the axes of the draws, then the records; then the classes, for categorical and ordinal ones.
            For bernoulli the probability of the second class, for student_t the location.
        """
        axes, flat, table = self._flat(parameters, records)
        found = self._predict(flat, table)
        return found.reshape(*axes, *found.shape[1:])

    def survival(self, parameters: Mapping[str, Any], records: Mapping[str, Any], times: Any) -> jax.Array:
        """Return the probability that the event has not come by each of some times, for every draw and record.

        Args:
            parameters: as `constrain` returns them.
            records: as for `predict`, whose axes the result has; the times come last.
            times: the times.
        """
        if self.law.survival is None:
            _no_survival()
        axes, flat, table = self._flat(parameters, records)
        at = jnp.asarray(times, jnp.float32)
        found = jnp.where(at > 0, self._survival(flat, table, jnp.log(jnp.maximum(at, 1e-30))), 1.0)
        return found.reshape(*axes, *found.shape[1:])

    def respond(self, key: jax.Array, parameters: Mapping[str, Any], records: Mapping[str, Any]) -> jax.Array:
        """Draw a new response for every draw and record, as a table holds it: the posterior predictive distribution.

        Args:
            key: for the draws.
            parameters: as `constrain` returns them.
            records: as for `predict`, whose axes the result has, without that of classes.
        """
        axes, flat, table = self._flat(parameters, records)

        def one(own_key: jax.Array, draw: Any) -> jax.Array:
            return draw_response(
                own_key, self.coordinates.unconstrain(draw), table, self.coordinates, self.law, self.own
            )

        found = jax.jit(jax.vmap(one))(jax.random.split(key, len(next(iter(flat.values())))), flat)
        return found.reshape(*axes, *found.shape[1:])

    def linear_predictor(self, parameters: Mapping[str, Any], records: Mapping[str, Any]) -> jax.Array:
        """Return the linear predictor for every draw and record, on the scale of the response where that is a number.

        Args:
            parameters: as `constrain` returns them.
            records: as for `predict`, whose axes the result has; the last one has each class but the first.
        """
        axes, flat, table = self._flat(parameters, records)
        found = self._linear(flat, table)
        return found.reshape(*axes, *found.shape[1:])

    def _flat(
        self, parameters: Mapping[str, Any], records: Mapping[str, Any]
    ) -> tuple[tuple[int, ...], dict[str, jax.Array], dict[str, jax.Array]]:
        """Return the axes of the draws, the draws along one axis, and the columns; refuse if something is missing."""
        missing = [name for name in self.predictor_columns if name not in records]
        if missing:
            raise InvalidArgument(f"records has no {', '.join(missing)}; expected {', '.join(self.columns)}")
        needed = jax.eval_shape(self.coordinates.constrain, dict(self.coordinates.shapes))
        absent = [name for name in needed if name not in parameters]
        if absent:
            raise InvalidArgument(f"parameters has no {', '.join(absent)}; expected all of {', '.join(needed)}")
        draws = {name: jnp.asarray(parameters[name], jnp.float32) for name in needed}
        name, first = next(iter(draws.items()))
        axes = first.shape[: first.ndim - len(needed[name].shape)]
        flat = {name: leaf.reshape(-1, *needed[name].shape) for name, leaf in draws.items()}
        read = [name for name in self.columns if name in records] or list(records)  # an intercept reads no column
        return axes, flat, {name: jnp.asarray(records[name]) for name in read}

    def scaled(self, parameters: Mapping[str, Any]) -> dict[str, jax.Array]:
        """Return the coefficients on the scale on which their priors are stated: of the scaled columns and response.

        Args:
            parameters: as `constrain` returns them, each with one axis of draws in front.
        """
        coordinates = self.coordinates

        def one(draw: Any) -> dict[str, jax.Array]:
            found = coordinates.natural(coordinates.unconstrain(draw)).coefficients
            rows = {} if found is None else dict(zip(coordinates.names, found, strict=True))
            for term in coordinates.monotone:  # of its steps the coefficient of all together has a prior
                steps = [rows.pop(coordinates.names[place]) for place in term.places]
                rows[term.name] = jnp.sum(jnp.stack(steps), axis=0)
            return {
                label: value for name, row in rows.items() for label, value in coordinates.by_class(name, row).items()
            }

        needed = jax.eval_shape(coordinates.constrain, dict(coordinates.shapes))
        return jax.jit(jax.vmap(one))({name: jnp.asarray(parameters[name], jnp.float32) for name in needed})

    @cached_property
    def _predict(self) -> Callable[[Any, Any], jax.Array]:
        """Predictions on the original scale, (draws, records, ...), compiled once for each shape."""
        response, mean = self.coordinates.response, self.law.mean

        def one(draw: Any, record: Any) -> jax.Array:
            natural = self.coordinates.natural(self.coordinates.unconstrain(draw))
            others, trials = self.coordinates.others_of(natural, record), response.read_trials(record)
            if self.own is None:
                predicted = mean(self.coordinates.predictor(natural, record), trials, others)
            else:
                predicted = self.own.mean(natural, record, trials)
            return response.centre + response.half * predicted

        return jax.jit(jax.vmap(jax.vmap(one, in_axes=(None, 0)), in_axes=(0, None)))

    @cached_property
    def _survival(self) -> Callable[[Any, Any, Any], jax.Array]:
        """Probabilities of no event, (draws, records, times), compiled once for each shape."""
        own, survival = self.coordinates, self.law.survival or _no_survival

        def one(draw: Any, record: Any, log_time: Any) -> jax.Array:
            natural = own.natural(own.unconstrain(draw))
            return survival(own.predictor(natural, record), log_time, own.others_of(natural, record))

        over_times = jax.vmap(one, in_axes=(None, None, 0))
        return jax.jit(jax.vmap(jax.vmap(over_times, in_axes=(None, 0, None)), in_axes=(0, None, None)))

    @cached_property
    def _linear(self) -> Callable[[Any, Any], jax.Array]:
        """Linear predictors, (draws, records, ...), compiled once for each shape."""
        own = self.coordinates

        def one(draw: Any, record: Any) -> jax.Array:
            eta = own.predictor(own.natural(own.unconstrain(draw)), record)
            return own.response.centre + own.response.half * eta

        return jax.jit(jax.vmap(jax.vmap(one, in_axes=(None, 0)), in_axes=(0, None)))

    @cached_property
    def parameter_names(self) -> tuple[str, ...]:
        """The parameters as people read them, in the order of the formula."""
        one = draw_prior(self.coordinates, np.random.default_rng(0), 1)  # for its names alone
        return tuple(constrain_all(self.coordinates, one))

    def _is_usual(self, position: Any, record: Any) -> jax.Array:
        """Say whether the predicted mean of a record is one that the response could have."""
        response, natural = self.coordinates.response, self.coordinates.natural(position)
        if response.classes:
            return jnp.bool_(True)
        eta = self.coordinates.predictor(natural, record)
        mean = response.centre + response.half * self.law.mean(
            eta, response.read_trials(record), self.coordinates.others_of(natural, record)
        )
        return (response.bounds[0] <= mean) & (mean <= response.bounds[1])


def _no_survival(*_: Any) -> NoReturn:
    raise InvalidArgument(
        "the response is not a time to an event; expected a formula such as 'Surv(time, event) ~ ...'"
    )
