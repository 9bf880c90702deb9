"""Missing predictors that are integrated over: ``missing="integrate"`` in the schema.

Where such a cell of a row is missing, the likelihood of the row is its mean over the law that is stated for the column,
by a Gauss rule for numbers and one by one for levels; of several columns over all combinations. That is a mixture of
the family's laws. Its bounded scores are those of `centred_scores`, which sum over the law of the response of any
record: their mean is zero at the truth, whatever the bound.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import gammaln, logsumexp
from scipy import special

from dpmcmc.errors import InvalidArgument
from dpmcmc.model.bounded_scores.base import Floats
from dpmcmc.model.formula.columns import Columns, Record
from dpmcmc.model.formula.coordinates import Coordinates
from dpmcmc.model.formula.families.family import Family
from dpmcmc.model.missing import is_missing
from dpmcmc.model.observed import LawOfRecord, Observed, ObservedSite
from dpmcmc.schema import Column

NODES = {1: 7, 2: 4}
"""How many values stand for the law of a number, by how many such numbers a formula has."""

MOST_NODES = 50
"""Combinations of values of all such columns, and values of an integer that are taken one by one."""

FINE = 4001
"""Even places by which the law of a number is known."""


@dataclass(frozen=True)
class Integration:
    """What stands for the missing cells of some columns.

    Attributes:
        names: the columns.
        values: of each, (nodes, columns).
        weights: of the nodes; they add up to one.
    """

    names: tuple[str, ...]
    values: Floats
    weights: Floats

    def at_nodes(self, record: Record, function: Callable[[Record], Any]) -> Any:
        """Return a function of a record for all nodes; where nothing is missing they are alike."""
        changed: dict[str, jax.Array] = {}
        for place, name in enumerate(self.names):
            own = jnp.asarray(record[name])
            changed[name] = jnp.where(is_missing(name, record), jnp.asarray(self.values[:, place], own.dtype), own)
        return jax.vmap(lambda each: function({**record, **each}))(changed)

    def log_mean(self, logs: jax.Array) -> jax.Array:
        """Return the logarithm of a mean over the nodes, given logarithms."""
        return logsumexp(logs, b=jnp.asarray(self.weights, logs.dtype))


def read_integration(names: Sequence[str], columns: Columns) -> Integration:
    """Return what stands for the missing cells of columns with `missing="integrate"`.

    Raises:
        InvalidArgument: there are too many combinations.
    """
    own = {name: columns[name] for name in sorted(names)}
    numbers = sum(_is_number(column) for column in own.values())
    laws = [_law(column, NODES.get(numbers, min(NODES.values()))) for column in own.values()]
    combinations = int(np.prod([len(weights) for _, weights in laws]))
    if numbers not in (0, *NODES) or combinations > MOST_NODES:
        raise InvalidArgument(
            f"the formula has {', '.join(own)} with missing='integrate', too many combinations to integrate over: at "
            f"most two numbers, and {MOST_NODES} values in all. Fill some of them in, or leave them out"
        )
    values = np.array(list(product(*(each for each, _ in laws))))
    weights = np.array([float(np.prod(each)) for each in product(*(each for _, each in laws))], np.float64)
    return Integration(tuple(own), values, weights)


def _is_number(column: Column) -> bool:
    lower, upper = column.bounds
    return column.kind == "number" or (column.kind == "integer" and upper - lower >= MOST_NODES)


def _law(column: Column, nodes: int) -> tuple[Floats, Floats]:
    """Return values of a column and their weights."""
    lower, upper = column.bounds
    if column.kind == "category":
        levels, weights = np.arange(float(len(column.categories))), np.array(column.probabilities)
        return levels[weights > 0], weights[weights > 0]
    mean = float(column.mean or 0.0)
    if column.kind == "boolean":
        return np.array([0.0, 1.0]), np.array([1 - mean, mean])
    sd = float(column.sd or 1.0)
    if not _is_number(column):
        whole = np.arange(lower, upper + 1)
        edges = np.concatenate([[-np.inf], (whole[1:] + whole[:-1]) / 2, [np.inf]])
        weights = np.diff(special.ndtr((edges - mean) / sd))
        return whole[weights > 0], weights[weights > 0] / weights.sum()
    ends = max(lower, mean - 9 * sd), min(upper, mean + 9 * sd)
    places = np.linspace(*ends, FINE)
    density = np.exp(-0.5 * ((places - mean) / sd) ** 2)
    return gauss_rule(places, density / density.sum(), nodes)


def gauss_rule(places: Floats, weights: Floats, number: int) -> tuple[Floats, Floats]:
    """Return nodes and weights of the Gauss rule of a distribution on places, by Stieltjes, Golub and Welsch."""
    centre, scale = float(places.mean()), float(np.ptp(places)) / 2
    x = (places - centre) / scale
    before, here = np.zeros_like(x), np.ones_like(x) / np.sqrt(weights.sum())
    diagonal, beside = np.zeros(number), np.zeros(number)
    for order in range(number):
        diagonal[order] = weights @ (x * here**2)
        after = (x - diagonal[order]) * here - (beside[order - 1] if order else 0.0) * before
        beside[order] = np.sqrt(weights @ after**2)
        before, here = here, after / beside[order]
    values, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(beside[:-1], 1) + np.diag(beside[:-1], -1))
    return centre + scale * values, vectors[0] ** 2


def _weibull(eta: Any, others: Mapping[str, Any]) -> Any:
    shape = others["shape"]
    return dist.Weibull(jnp.exp(eta - gammaln(1 + 1 / shape)), shape * jnp.ones_like(eta))


def _beta(eta: Any, others: Mapping[str, Any]) -> Any:
    mean = jax.nn.sigmoid(eta)
    return dist.Beta(mean * others["phi"], (1 - mean) * others["phi"])


def _read(value: jax.Array) -> jax.Array:
    return value


_LAWS: Mapping[str, tuple[Callable[[Any, Mapping[str, Any]], Any], Callable[[jax.Array], jax.Array]]] = {
    "gaussian": (lambda eta, others: dist.Normal(eta, others["sigma"]), _read),
    "student_t": (lambda eta, others: dist.StudentT(others["nu"], eta, others["sigma"]), _read),
    "laplace": (lambda eta, others: dist.Laplace(eta, others["sigma"]), _read),
    "lognormal": (lambda eta, others: dist.Normal(eta, others["sigma"]), _read),
    "gamma": (lambda eta, others: dist.Gamma(others["shape"], others["shape"] * jnp.exp(-eta)), jnp.exp),
    "exponential": (lambda eta, _others: dist.Exponential(jnp.exp(-eta)), jnp.exp),
    "weibull": (_weibull, jnp.exp),
    "beta": (_beta, jax.nn.sigmoid),
    "poisson": (lambda eta, _others: dist.Poisson(jnp.exp(eta)), _read),
    "negative_binomial": (
        lambda eta, others: dist.NegativeBinomial2(jnp.exp(eta), others["concentration"] * jnp.ones_like(eta)),
        _read,
    ),
}
"""The laws of families as NumPyro has them, and their responses, as they are read."""

_FINITE = ("bernoulli", "probit", "categorical", "ordinal")
"""Families with finitely many responses, whose probabilities are averaged."""


def refuse_others(integration: Integration, family: Family, coordinates: Coordinates) -> None:
    """Refuse what cannot be integrated over, before anything is charged."""
    names = ", ".join(integration.names)
    if family.name not in {*_LAWS, *_FINITE} or coordinates.response.needs == "survival":
        raise InvalidArgument(
            f"the formula has {names} with missing='integrate', which family={family.name!r} cannot integrate over; "
            f"expected one of {', '.join((*_LAWS, *_FINITE))}, or another policy for missing values"
        )
    if coordinates.scale is not None or coordinates.response.weights is not None:
        what = "a formula for sigma" if coordinates.scale is not None else "weights(...)"
        raise InvalidArgument(
            f"the formula has {what}, and {names} with missing='integrate'; the two do not go together. State "
            "missing='fill' or 'indicator' in the schema, or leave it out"
        )


def observed_of(integration: Integration, family: Family, coordinates: Coordinates) -> Observed:
    """Return the law of a record's response: a mixture over what its missing cells may be."""
    response = coordinates.response
    shapes = jax.eval_shape(lambda position: dict(coordinates.natural(position).others), dict(coordinates.shapes))
    outputs, weights = (len(integration.weights), *coordinates.outputs), integration.weights
    is_finite = family.name in _FINITE

    def law(parameters: jax.Array, _: Sequence[jax.Array]) -> Any:
        sizes = [int(np.prod(shape, dtype=int)) for shape in (outputs, *(one.shape for one in shapes.values()))]
        eta, *rest = jnp.split(parameters, np.cumsum(sizes)[:-1])
        eta = eta.reshape(outputs)
        natural = {name: part.reshape(shapes[name].shape) for name, part in zip(shapes, rest, strict=True)}
        if is_finite:
            each = jax.vmap(lambda one: family.mean(one, jnp.float32(1.0), natural))(eta)
            mean = jnp.clip(jnp.tensordot(jnp.asarray(weights, each.dtype), each, 1), 1e-7, 1 - 1e-7)
            return dist.CategoricalProbs(mean[None]) if response.needs in {"classes", "order"} else _yes(mean)
        mixing = dist.CategoricalProbs(jnp.asarray(weights, jnp.float32)[None])
        return NearMixture(mixing, _LAWS[family.name][0](eta[None], natural))

    def at(position: Any, record: Any) -> tuple[LawOfRecord, ...]:
        natural = coordinates.natural(position)
        eta = integration.at_nodes(record, lambda one: coordinates.predictor(natural, one))
        parts = [jnp.ravel(eta), *(jnp.ravel(jnp.asarray(natural.others[name], jnp.float32)) for name in shapes)]
        value = response.read(record)
        value = value if is_finite else _LAWS[family.name][1](value)
        return (
            LawOfRecord(
                jnp.concatenate(parts)[None],
                (),
                value[None],
                response.is_there(record)[None],
                jnp.ones(1, bool),
            ),
        )

    size = int(np.prod(outputs)) + sum(int(np.prod(one.shape, dtype=int)) for one in shapes.values())
    of_term = jax.ShapeDtypeStruct((size,), jnp.float32)
    example = jax.eval_shape(law, of_term, ())
    return Observed((ObservedSite(law, example),), at, is_chained=False, has_covariates=True)


class NearMixture(dist.MixtureSameFamily):
    """A mixture whose components are alike but for their places, and not far from each other."""


def _yes(probability: jax.Array) -> Any:
    return dist.BernoulliProbs(probability[None])
