"""The observed sites of a NumPyro model: the laws of a record's responses, given the rest of the record.

With the law one knows the mean of any function of the response under the model, such as that of a bounded score. A site
may observe several numbers that are independent given its parameters, the components of a vector, say: each is a term
of its own. Masked terms are not there, and neither are missing responses of a table. The law of a site may read the
response of another one, which it is then conditional on, as long as there is an order in which none reads a later one;
it may not read its own. Factors and scales have no law.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import Distribution, ExpandedDistribution, Independent, MaskedDistribution, MixtureSameFamily

from dpmcmc.model.examination import Question
from dpmcmc.model.missing import is_missing
from dpmcmc.model.reads import Reads, Sites, as_rows, has_order
from dpmcmc.model.replay import replay

RowsOf = Callable[[Any], tuple[Any, jax.Array]]
"""Returns the rows of a person, along the first axis, and which of the person's places hold one."""

MOST_TERMS = 64
"""The most numbers of a record, or of all rows of a person, that are told apart."""

SAME = 1e-3
"""How far the densities of all terms together may be from the likelihood, relative to one or to its size."""


class LawOfRecord(NamedTuple):
    """The laws of the numbers that a site observes of a record, along the first axis, and the numbers themselves."""

    parameters: jax.Array
    """Real ones, one after the other: (terms, parameters)."""
    others: tuple[jax.Array, ...]
    """Whole numbers, such as numbers of trials."""
    response: jax.Array
    is_there: jax.Array
    """Whether a term counts: it is not masked, and its response is not missing."""
    is_row: jax.Array
    """Whether its row is there, which for all but persons it always is."""


@dataclass(frozen=True, eq=False)
class ObservedSite:
    """How the law of one number of a site is put together."""

    law: Callable[[jax.Array, Sequence[jax.Array]], Any]
    """``law(parameters, others)``: a NumPyro distribution, with a batch of one."""
    example: Any
    """The same distribution, with shapes in the place of its numbers."""


@dataclass(frozen=True, eq=False)
class Observed:
    """All that a model observes of a record.

    Attributes:
        sites: how the laws are put together.
        at: ``at(position, record)``, for each site.
        is_chained: whether the law of a site reads the response of another.
        has_covariates: whether a law or a mask reads the record at all.
        is_of_persons: whether a record is a person with several rows.
        is_drawn: whether the law of a record is one to draw from, by the record's seed.
    """

    sites: tuple[ObservedSite, ...]
    at: Callable[[Any, Any], tuple[LawOfRecord, ...]]
    is_chained: bool
    has_covariates: bool
    is_of_persons: bool = False
    is_drawn: bool = False

    def of_rows(self, rows_of: RowsOf) -> Self:
        """Return what is observed of a person.

        Args:
            rows_of: the person's rows, along the first axis, and which of its places hold one.
        """

        def of_person(position: Any, person: Any) -> tuple[LawOfRecord, ...]:
            rows, present = rows_of(person)
            found = jax.vmap(self.at, in_axes=(None, 0))(position, rows)

            def joined(leaf: jax.Array) -> jax.Array:
                return leaf.reshape(-1, *leaf.shape[2:])

            def one(law: LawOfRecord) -> LawOfRecord:
                is_row = jnp.broadcast_to(present[:, None], law.is_there.shape)
                return jax.tree.map(joined, law._replace(is_there=law.is_there & is_row, is_row=is_row))

            return tuple(map(one, found))

        return replace(self, at=of_person, is_of_persons=True)


class _Form(NamedTuple):
    """How the law of one term is put together from its arrays."""

    structure: Any
    shapes: list[tuple[int, ...]]
    is_real: list[bool]


class _NoTerms(Exception):
    """A distribution cannot be taken apart into terms."""


def find_observed(
    sites: Sites,
    reads: Mapping[str, Reads],
    required: Mapping[str, Sequence[str]],
    position: Any,
    record: Any,
) -> Observed | None:
    """Return what a model observes of a record, or None if its likelihood is not made of laws of responses.

    Args:
        sites: the sites of the model.
        reads: what the observed sites in the data plate read, by their names; all of them.
        required: the columns without which a site says nothing, by the names of sites.
        position: the shapes of a position.
        record: the shapes of a record.
    """
    if not has_order(list(reads.values())):
        return None
    forms: dict[str, _Form] = {}

    def of_record(position: Any, record: Any) -> tuple[LawOfRecord, ...]:
        found = sites(position, as_rows(record))
        return tuple(_of_site(name, found[name], forms) for name in reads)

    try:
        shapes = jax.eval_shape(of_record, position, record)
    except _NoTerms:
        return None
    if sum(each.response.shape[0] for each in shapes) > MOST_TERMS or not all(each.parameters.size for each in shapes):
        return None
    replayed = replay(of_record, position=position, record=record)
    names = list(reads)

    def at(position: Any, record: Any) -> tuple[LawOfRecord, ...]:
        found = replayed(position, without_marks(record))
        there = [is_there(required[name], record) for name in names]
        return tuple(law._replace(is_there=law.is_there & own) for law, own in zip(found, there, strict=True))

    made = tuple(_site(forms[name], shape) for name, shape in zip(names, shapes, strict=True))
    responses = frozenset[int]().union(*(each.response for each in reads.values()))
    return Observed(
        made,
        at,
        is_chained=any(each.law & responses for each in reads.values()),
        has_covariates=any(each.law for each in reads.values()),
    )


def is_there(columns: Iterable[str], record: Any) -> jax.Array:
    """Say whether none of some columns was missing in a row of a table."""
    found = jnp.bool_(True)
    for column in columns:
        found = found & ~is_missing(column, record)
    return found


def without_marks(record: Any) -> Any:
    """Return a record without what a table says of missing cells: a NumPyro model knows columns alone."""
    from dpmcmc.missing_cells import is_hidden

    if not isinstance(record, Mapping):
        return record
    return {name: leaf for name, leaf in record.items() if not is_hidden(str(name))}


def density_question(
    observed: Observed, log_likelihood: Callable[[Any, Any], jax.Array], position: Any, rows: Any
) -> Question | None:
    """Return what asks for the densities of all terms, and the likelihood, on synthetic rows at synthetic positions.

    None if a law has no density to ask for.
    """
    number = len(jax.tree.leaves(rows)[0])
    random = np.random.default_rng(0)
    positions = jax.tree.map(
        lambda leaf: np.asarray(random.normal(0, 0.3, (number, *leaf.shape)), leaf.dtype), position
    )

    def both(position: Any, row: Any) -> tuple[jax.Array, jax.Array]:
        total = jnp.zeros(())
        for site, found in zip(observed.sites, observed.at(position, row), strict=True):

            def density(parameters: Any, others: Any, response: Any, site: ObservedSite = site) -> jax.Array:
                return jnp.sum(site.law(parameters, others).log_prob(response[None]))

            terms = jax.vmap(density)(found.parameters, found.others, found.response)
            total = total + jnp.sum(jnp.where(found.is_there, terms, 0.0))
        return total, log_likelihood(position, row)

    traced = jax.jit(jax.vmap(both))
    try:
        jax.eval_shape(traced, positions, rows)
    except (TypeError, ValueError, NotImplementedError, AttributeError):
        return None
    return Question(traced, (positions, rows))


def is_whole(observed: Observed, densities: Any, position: Any, record: Any) -> bool:
    """Say whether the densities of all terms add up to the likelihood, as the answer to `density_question` has them."""
    first, second = (np.asarray(each, float) for each in densities)
    known = np.isfinite(second)
    if not known.any():  # synthetic counts do not add up to a total, say
        return all(site.example.event_shape for site in observed.sites) and _is_one_term(observed, position, record)
    off = np.abs(first[known] - second[known])
    return bool(np.all(off <= SAME * np.maximum(np.abs(second[known]), 1.0)))


def _is_one_term(observed: Observed, position: Any, record: Any) -> bool:
    """Say whether one number, or one vector, is observed of a record."""
    return sum(law.is_there.shape[0] for law in jax.eval_shape(observed.at, position, record)) == 1


def _of_site(name: str, site: Any, forms: dict[str, _Form]) -> LawOfRecord:
    if site["scale"] is not None:
        raise _NoTerms
    law, mask = _bare(site["fn"], jnp.ones((), bool))
    try:
        shape = np.broadcast_shapes(law.batch_shape, site["fn"].batch_shape + _independent(site["fn"]))
        law, number = _with_batch(law, shape), prod(shape)
        response = jnp.broadcast_to(site["value"], shape + law.event_shape).reshape(number, *law.event_shape)
        mask = jnp.broadcast_to(mask, shape).reshape(number)
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise _NoTerms from error
    leaves = [jnp.asarray(leaf) for leaf in jax.tree.leaves(law)]
    is_real = [bool(jnp.issubdtype(leaf.dtype, jnp.floating)) for leaf in leaves]
    one = _with_batch(law, (1,), first=True)
    shapes = [jnp.shape(leaf) for leaf in jax.tree.leaves(one)]
    forms[name] = _Form(jax.tree.structure(one), shapes, is_real)
    by_term = [
        jnp.broadcast_to(leaf, (number,)) if not shape else leaf.reshape(number, -1)
        for leaf, shape in zip(leaves, shapes, strict=True)
    ]
    reals = [leaf.reshape(number, -1) for leaf, real in zip(by_term, is_real, strict=True) if real]
    others = tuple(leaf for leaf, real in zip(by_term, is_real, strict=True) if not real)
    parameters = jnp.concatenate(reals, axis=1) if reals else jnp.zeros((number, 0))
    return LawOfRecord(parameters, others, response, mask, jnp.ones(number, bool))


def _site(form: _Form, shapes: LawOfRecord) -> ObservedSite:
    def law(parameters: jax.Array, others: Sequence[jax.Array]) -> Any:
        leaves: list[jax.Array] = []
        start, rest = 0, iter(others)
        for shape, real in zip(form.shapes, form.is_real, strict=True):
            if real:
                leaves.append(parameters[start : start + prod(shape)].reshape(shape))
                start += prod(shape)
            else:
                leaves.append(jnp.reshape(next(rest), shape))
        return jax.tree.unflatten(form.structure, leaves)

    def of_term(leaf: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype)

    return ObservedSite(law, jax.eval_shape(law, of_term(shapes.parameters), tuple(map(of_term, shapes.others))))


def _bare(law: Any, mask: jax.Array) -> tuple[Any, jax.Array]:
    """Return a distribution without layers that say how large its batch is and which of it is masked, and the mask."""
    if isinstance(law, ExpandedDistribution):
        return _bare(law.base_dist, mask)
    if isinstance(law, MaskedDistribution):
        own = jnp.asarray(vars(law)["_mask"], bool)
        return _bare(law.base_dist, mask & own)
    if isinstance(law, Independent):
        inner = mask.reshape(mask.shape + (1,) * law.reinterpreted_batch_ndims) if mask.ndim else mask
        return _bare(law.base_dist, inner)
    return law, mask


def _independent(law: Any) -> tuple[int, ...]:
    """Return the axes of an event whose entries are independent."""
    if isinstance(law, Independent):
        own = law.base_dist.batch_shape
        return own[len(own) - law.reinterpreted_batch_ndims :] + _independent(law.base_dist)
    if isinstance(law, (ExpandedDistribution, MaskedDistribution)):
        return _independent(law.base_dist)
    return ()


def _with_batch(law: Any, shape: tuple[int, ...], *, first: bool = False, inner: tuple[int, ...] = ()) -> Any:
    """Return a distribution all of whose arrays have a batch shape, or a batch of one with the first of each.

    Args:
        law: with a batch that broadcasts to `shape`.
        shape: of the batch.
        first: take the first entry of a batch that was brought to a shape before.
        inner: further axes of a batch that belong to one number, the components of a mixture.
    """
    depth = len(law.batch_shape) - len(inner)
    fields = type(law).gather_pytree_data_fields()
    parts: list[Any] = []
    for name in fields:
        value = vars(law).get(name)
        if isinstance(value, Distribution):
            own = inner
            if isinstance(law, MixtureSameFamily) and name == "_component_distribution":
                own = (*inner, law.mixture_size)
            parts.append(_with_batch(value, shape, first=first, inner=own))
            continue

        def moved(leaf: Any, event_dim: int = _event_dim(law, name)) -> Any:
            if jnp.ndim(leaf) == 0:
                return leaf
            leaf = jnp.asarray(leaf)
            event = leaf.shape[leaf.ndim - event_dim :]
            if first:
                return leaf.reshape(-1, *leaf.shape[depth:])[:1] if leaf.ndim > event_dim else leaf
            return jnp.broadcast_to(leaf, (*shape, *inner, *event))

        parts.append(jax.tree.map(moved, value))
    made = type(law).tree_unflatten(
        tuple(vars(law).get(name) for name in type(law).gather_pytree_aux_fields()), tuple(parts)
    )
    vars(made)["_batch_shape"] = (*shape, *inner)
    return made


def _event_dim(law: Any, name: str) -> int:
    """Return how many axes of a parameter belong to one number: those of an ordered vector, say."""
    for kind in type(law).__mro__:
        constraint = vars(kind).get("arg_constraints", {}).get(name)
        if constraint is not None:
            return constraint.event_dim
    return 0
