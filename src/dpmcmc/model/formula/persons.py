"""Effects of persons' own, ``(1|person)`` and ``(x|person)``, where a record is a person with several rows.

The likelihood of a person is the integral over the person's own effects, which are normal around zero and independent
of each other and of those of others: it is a function of that record alone. Only their standard deviations are
parameters. In the law of a person's responses they stand as variances: what a person's rows tell of one is about linear
in it, and stays so where there are no such effects.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from dpmcmc.errors import InvalidArgument
from dpmcmc.model.drawn import DrawnLaw, Rules, normal
from dpmcmc.model.formula.columns import Columns, Record
from dpmcmc.model.formula.coordinates import Coordinates, Natural, Position
from dpmcmc.model.formula.families.binomial import log_coefficients
from dpmcmc.model.formula.families.family import Family
from dpmcmc.model.formula.groups import Groups, GroupTerm, of_number
from dpmcmc.model.formula.integration import Integration
from dpmcmc.model.formula.parse import Parsed
from dpmcmc.model.observed import LawOfRecord, Observed, ObservedSite, RowsOf
from dpmcmc.model.quadrature import log_integral, rule
from dpmcmc.schema import SEED, Schema

ANYBODY = "person"
"""What persons may be called in a formula, whatever their column is."""

MOST_EFFECTS = 2
MOST_COUNT = 500
"""Counts are drawn by adding up the probabilities of all that the schema allows."""

LEAST_VARIANCE = 1e-12

_Draw = Callable[[jax.Array, jax.Array, jax.Array, Mapping[str, Any]], jax.Array]


def persons_terms(parsed: Parsed, schema: Schema, columns: Columns) -> dict[str, Groups]:
    """Return the effects of persons that a formula has, by their names.

    Raises:
        InvalidArgument: they cannot be told from other things, or there are too many.
    """
    own = [term for term in parsed.groups if _is_of_persons(term, schema)]
    if not own:
        return {}
    written = ", ".join(f"({term.name})" for term in own)
    if schema.person is None:
        raise InvalidArgument(
            f"the formula has {written}, but the schema names no person; state person=, the column that says whose row "
            "it is, and max_rows_per_person="
        )
    if any(len(term.factors) > 1 for term in own):
        raise InvalidArgument(
            f"the formula has {written}; expected (1|{schema.person}), with no other column behind it"
        )
    if schema.max_rows_per_person == 1:
        raise InvalidArgument(
            f"the formula has {written}, but the schema says max_rows_per_person=1: with one row per person an "
            "effect of its own cannot be separated. State max_rows_per_person=2 or more, or leave it out"
        )
    if len(own) > MOST_EFFECTS:
        raise InvalidArgument(
            f"the formula has {len(own)} effects of each person, {written}; expected at most {MOST_EFFECTS}, which are "
            "integrated over"
        )
    return {term.name: of_number(term, (), columns) for term in own}


def _is_of_persons(term: GroupTerm, schema: Schema) -> bool:
    known = {schema.person, *([ANYBODY] if ANYBODY not in schema.columns else [])}
    return not known.isdisjoint(term.factors)


def refuse_with_persons(integration: Integration | None, family: Family, coordinates: Coordinates) -> None:
    """Refuse what does not go together with effects of persons, before anything is charged."""
    written = ", ".join(f"({name})" for name in coordinates.persons)
    response, other = coordinates.response, ""
    if family.name not in _DRAWS:
        raise InvalidArgument(
            f"the formula has {written}, which family={family.name!r} cannot have; expected one of {', '.join(_DRAWS)}"
        )
    if response.needs == "count" and response.bounds[1] > MOST_COUNT:
        raise InvalidArgument(
            f"the formula has {written}, and {response.name} an upper bound of {response.bounds[1]:g}; expected "
            f"at most {MOST_COUNT} with effects of persons"
        )
    if response.most_trials > MOST_COUNT:
        other = f"more than {MOST_COUNT} trials"
    elif integration is not None:
        other = f"{', '.join(integration.names)} with missing='integrate'"
    elif response.weights is not None:
        other = "weights(...)"
    elif coordinates.scale is not None:
        other = f"a formula for {coordinates.scale.name}"
    if other:
        raise InvalidArgument(f"the formula has {written}, and {other}; the two do not go together. Leave one out")


class OfPersons:
    """The likelihood of a person, and the law of all responses of one.

    Args:
        coordinates: the parameters.
        family: of the responses.
    """

    def __init__(self, coordinates: Coordinates, family: Family) -> None:
        self.coordinates, self.family = coordinates, family
        self.terms = coordinates.persons
        self.number, self.spreads = len(self.terms), [f"{name}_sigma" for name in self.terms]
        shapes = jax.eval_shape(self._others, dict(coordinates.shapes))
        self.shapes = {name: leaf.shape for name, leaf in shapes.items()}

    def row(self, position: Position, record: Record) -> jax.Array:
        """Return the log-likelihood of a person with one row."""
        return self.person(position, jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], record), jnp.ones(1, bool))

    def rows(self, rows_of: RowsOf) -> tuple[Callable[[Any, Any], jax.Array], Observed]:
        """Return the log-likelihood of a person by its record, and what is observed of one.

        Args:
            rows_of: the person's rows, along the first axis, and which of its places hold one.
        """

        def log_likelihood(position: Position, person: Any) -> jax.Array:
            return self.person(position, *rows_of(person))

        def at(position: Position, person: Any) -> tuple[LawOfRecord, ...]:
            rows, present = rows_of(person)
            parameters, others, responses = self._law(position, rows, present)
            others = (jnp.asarray(person[SEED], jnp.float32), *others)
            law = LawOfRecord(parameters, others, responses, jnp.any(others[2]), jnp.bool_(True))
            return (jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], law),)

        whole = {"is_chained": False, "has_covariates": True, "is_of_persons": True, "is_drawn": True}
        return log_likelihood, Observed((self.site,), at, **whole)

    @property
    def site(self) -> ObservedSite:
        """How the law of a person is put together."""
        rules = Rules(self._log_density, self._draw, lambda others: self.number + others[-1].shape[-1])
        return ObservedSite(lambda *given: DrawnLaw(rules, *given), DrawnLaw(rules, (), ()))

    def person(self, position: Position, rows: Any, present: jax.Array) -> jax.Array:
        """Return the log-likelihood of a person with rows, of which some are there."""
        parameters, others, responses = self._law(position, rows, present)
        return self._log_density(parameters, (jnp.zeros(()), *others), responses)

    def mean(self, natural: Natural, record: Record, trials: jax.Array) -> jax.Array:
        """Return the expected response of a new person."""
        nodes, weights = rule(self.number)
        sds = jnp.sqrt(self._variances(natural))
        eta = self.coordinates.predictor(natural, record) + nodes @ (sds * self._multipliers(record))
        each = jax.vmap(lambda one: self.family.mean(one, trials, natural.others))(eta)
        return jnp.tensordot(jnp.exp(weights), each, 1)

    def effect(self, key: jax.Array, natural: Natural, record: Record) -> jax.Array:
        """Return what a new person's own effects add to the predictor of a row."""
        sds = jnp.sqrt(self._variances(natural))
        return jax.random.normal(key, (self.number,)) @ (sds * self._multipliers(record))

    def _others(self, position: Position) -> dict[str, jax.Array]:
        """Return the family's own parameters, positive ones as logarithms."""
        others, positive = self.coordinates.natural(position).others, self.coordinates.others
        return {
            name: jnp.log(value) if name in positive else value
            for name, value in others.items()
            if name not in self.spreads
        }

    def _variances(self, natural: Natural) -> jax.Array:
        sds = jnp.stack([natural.others[spread] for spread in self.spreads])
        return jnp.maximum(sds**2, LEAST_VARIANCE)

    def _multipliers(self, record: Record) -> jax.Array:
        return jnp.stack([groups.multiplier(record) for groups in self.terms.values()])

    def _law(
        self, position: Position, rows: Any, present: jax.Array
    ) -> tuple[jax.Array, tuple[jax.Array, ...], jax.Array]:
        """Return the parameters of the law of a person's responses, what else it depends on, and the responses."""
        natural, response = self.coordinates.natural(position), self.coordinates.response
        eta = jax.vmap(lambda row: self.coordinates.predictor(natural, row))(rows)
        own = [jnp.ravel(value) for value in self._others(position).values()]
        parameters = jnp.concatenate([eta, self._variances(natural), *own])
        there = present & jax.vmap(response.is_there)(rows)
        trials = jax.vmap(response.read_trials)(rows) * jnp.ones(len(eta))
        multipliers = jax.vmap(self._multipliers)(rows)
        responses = jax.vmap(response.read)(rows).astype(jnp.float32)
        return parameters, (multipliers, there.astype(jnp.float32), trials), responses

    def _read(self, parameters: jax.Array, number: int) -> tuple[jax.Array, jax.Array, dict[str, jax.Array]]:
        """Return the predictors, the standard deviations of effects, and the family's own parameters."""
        sizes = [number, self.number, *(int(np.prod(shape, dtype=int)) for shape in self.shapes.values())]
        eta, variances, *rest = jnp.split(parameters, np.cumsum(sizes)[:-1])
        others = {
            name: jnp.exp(part.reshape(shape)) if name in self.coordinates.others else part.reshape(shape)
            for (name, shape), part in zip(self.shapes.items(), rest, strict=True)
        }
        return eta, jnp.sqrt(variances), others

    def _log_density(self, parameters: jax.Array, others: tuple[jax.Array, ...], responses: jax.Array) -> jax.Array:
        _, multipliers, there, trials = others

        def given_effects(effects: jax.Array, parameters: jax.Array) -> jax.Array:
            eta, sds, own = self._read(parameters, len(there))
            moved = eta + multipliers @ (sds * effects)
            each = jax.vmap(lambda one, y, n: self.family.log_density(one, y, n, own))(moved, responses, trials)
            return jnp.sum(jnp.where(there > 0, each, 0.0))

        return log_integral(given_effects, parameters, self.number)

    def _draw(self, parameters: jax.Array, others: tuple[jax.Array, ...], uniforms: jax.Array) -> jax.Array:
        _, multipliers, _, trials = others
        eta, sds, own = self._read(parameters, len(trials))
        moved = eta + multipliers @ (sds * normal(uniforms[: self.number]))
        draw = _DRAWS[self.family.name]
        if draw is not None:
            return draw(uniforms[self.number :], moved, trials, own)
        response = self.coordinates.response
        most = response.most_trials if response.needs == "proportion" else response.bounds[1]
        counts = np.arange(most + 1.0, dtype=np.float32)
        return jax.vmap(lambda u, one, n: self._count(u, one, n, own, counts))(uniforms[self.number :], moved, trials)

    def _count(self, uniform: Any, eta: Any, trials: Any, own: Mapping[str, Any], counts: np.ndarray) -> jax.Array:
        """Return a count, by adding up the probabilities of all; beyond the largest one it is that."""
        if self.coordinates.response.classes:
            own_class = jnp.cumsum(self.family.mean(eta, trials, own))
            return jnp.sum(own_class[:-1] < uniform).astype(jnp.float32)
        logs = jax.vmap(lambda count: self.family.log_density(eta, count, trials, own))(counts)
        if self.coordinates.response.needs == "proportion":
            logs = jnp.where(counts <= trials, logs + log_coefficients(jnp, counts, trials), -jnp.inf)
        elif self.family.name != "geometric":
            logs = logs - gammaln(counts + 1.0)  # which log-densities leave out
        return jnp.sum(jnp.cumsum(jnp.exp(logs))[:-1] < uniform).astype(jnp.float32)


def _gaussian(uniform: jax.Array, eta: jax.Array, _: jax.Array, others: Mapping[str, Any]) -> jax.Array:
    return eta + others["sigma"] * normal(uniform)


def _log_exponential(uniform: jax.Array, eta: jax.Array, _: jax.Array, others: Mapping[str, Any]) -> jax.Array:
    del others
    return eta + jnp.log(-jnp.log(uniform))


def _log_weibull(uniform: jax.Array, eta: jax.Array, _: jax.Array, others: Mapping[str, Any]) -> jax.Array:
    shape = others["shape"]
    return eta - gammaln(1 + 1 / shape) + jnp.log(-jnp.log(uniform)) / shape


def _yes(uniform: jax.Array, eta: jax.Array, _: jax.Array, others: Mapping[str, Any]) -> jax.Array:
    del others
    return (uniform < jax.nn.sigmoid(eta)).astype(jnp.float32)


def _probit(uniform: jax.Array, eta: jax.Array, _: jax.Array, others: Mapping[str, Any]) -> jax.Array:
    del others
    return (normal(uniform) < eta).astype(jnp.float32)


_DRAWS: Mapping[str, _Draw | None] = {
    "gaussian": _gaussian,
    "lognormal": _gaussian,
    "exponential": _log_exponential,
    "weibull": _log_weibull,
    "bernoulli": _yes,
    "probit": _probit,
    "binomial": None,
    "ordinal": None,
    "poisson": None,
    "negative_binomial": None,
    "geometric": None,
}
"""Families whose responses can be drawn by uniform numbers; None where probabilities are added up."""
