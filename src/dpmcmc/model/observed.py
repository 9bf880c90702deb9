"""The observed site of a NumPyro model: the law of a record's response, given the rest of the record.

With the law one knows the mean of any function of the response under the model, such as that of a bounded score. Models
have such a site here if exactly one number of each record is observed, without mask, scale or factor beside it, and if
what the law is made of does not read that number.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from numpyro.distributions import ExpandedDistribution, Independent

from dpmcmc.model.replay import replay

Sites = Callable[[Any, Any], Mapping[str, Any]]
"""``sites(position, rows)``: the sites of a model at a position, as NumPyro's `trace` has them."""


class LawOfRecord(NamedTuple):
    """The parameters of a record's law, the numbers that it has besides, and the response itself."""

    parameters: jax.Array
    """Real ones, one after the other."""
    others: tuple[jax.Array, ...]
    """Whole numbers, such as numbers of trials."""
    response: jax.Array


@dataclass(frozen=True, eq=False)
class ObservedSite:
    """The one number that a model observes of each record."""

    at: Callable[[Any, Any], LawOfRecord]
    """``at(position, record)``."""
    law: Callable[[jax.Array, Sequence[jax.Array]], Any]
    """``law(parameters, others)``: a NumPyro distribution, with a batch of one."""
    example: Any
    """The same distribution, with shapes in the place of its numbers."""


class _Form(NamedTuple):
    """How a distribution is put together from its arrays."""

    structure: Any
    shapes: list[tuple[int, ...]]
    is_real: list[bool]


def find_observed(sites: Sites, name: str, position: Any, record: Any) -> ObservedSite | None:
    """Return the observed site of that name, or None if it is not the law of one number.

    Args:
        sites: the sites of the model.
        name: of the only observed site in the data plate.
        position: the shapes of a position.
        record: the shapes of a record.
    """
    forms: list[_Form] = []

    def of_record(position: Any, record: Any) -> LawOfRecord | None:
        site = sites(position, jax.tree.map(lambda leaf: leaf[None], record))[name]
        law = _bare(site["fn"])
        if law.event_dim or site["scale"] is not None or jnp.size(site["value"]) != 1 or prod(law.batch_shape) != 1:
            return None
        leaves, structure = jax.tree.flatten(law)
        arrays = [jnp.asarray(leaf) for leaf in leaves]
        is_real = [bool(jnp.issubdtype(array.dtype, jnp.floating)) for array in arrays]
        forms.append(_Form(structure, [array.shape for array in arrays], is_real))
        reals = [jnp.ravel(array) for array, real in zip(arrays, is_real, strict=True) if real]
        others = tuple(array for array, real in zip(arrays, is_real, strict=True) if not real)
        response = jnp.reshape(site["value"], law.batch_shape)
        return LawOfRecord(jnp.concatenate(reals) if reals else jnp.zeros(0), others, response)

    traced, shapes = jax.make_jaxpr(of_record, return_shape=True)(position, record)
    if shapes is None or not shapes.parameters.size or _reads_response(traced.jaxpr, len(jax.tree.leaves(record))):
        return None
    form = forms[0]

    def law(parameters: jax.Array, others: Sequence[jax.Array]) -> Any:
        leaves: list[jax.Array] = []
        start, rest = 0, iter(others)
        for shape, real in zip(form.shapes, form.is_real, strict=True):
            if real:
                leaves.append(parameters[start : start + prod(shape)].reshape(shape))
                start += prod(shape)
            else:
                leaves.append(next(rest))
        return jax.tree.unflatten(form.structure, leaves)

    example = jax.eval_shape(law, shapes.parameters, shapes.others)
    return ObservedSite(replay(of_record, position=position, record=record), law, example)


def _bare(law: Any) -> Any:
    """Return a distribution without layers that only say how large its batch is."""
    while isinstance(law, ExpandedDistribution) and prod(law.batch_shape) == prod(law.base_dist.batch_shape):
        law = law.base_dist
    is_idle = isinstance(law, Independent) and prod(law.event_shape) == 1
    return _bare(law.base_dist) if is_idle else law


def _reads_response(jaxpr: Any, num_leaves: int) -> bool:
    """Say whether the parameters of a law are computed from an array that its response is computed from."""
    sources: dict[Any, frozenset[int]] = {}
    for place, variable in enumerate(jaxpr.invars[len(jaxpr.invars) - num_leaves :]):
        sources[variable] = frozenset([place])

    def read(atom: Any) -> frozenset[int]:
        return frozenset() if hasattr(atom, "val") else sources.get(atom, frozenset())

    for equation in jaxpr.eqns:
        union = frozenset[int]().union(*(read(atom) for atom in equation.invars))
        sources.update(dict.fromkeys(equation.outvars, union))
    *law, response = jaxpr.outvars
    return bool(read(response).intersection(*[frozenset[int]().union(*(read(atom) for atom in law))]))
