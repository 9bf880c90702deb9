"""What the observed sites of a NumPyro model read of a record, for their laws and for their responses."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax

from dpmcmc.model.jaxprs import through

Sites = Callable[[Any, Any], Mapping[str, Any]]
"""``sites(position, rows)``: the sites of a model at a position, as NumPyro's `trace` has them."""


class Reads(NamedTuple):
    """Which leaves of a record, by their places, a site reads for its law and for its response."""

    law: frozenset[int]
    response: frozenset[int]


def find_reads(sites: Sites, names: Sequence[str], position: Any, record: Any) -> dict[str, Reads]:
    """Return what each observed site of a model reads of a record."""

    def of_record(position: Any, record: Any) -> list[Any]:
        found = sites(position, as_rows(record))
        laws = [(jax.tree.leaves(found[name]["fn"]), found[name]["scale"]) for name in names]
        return [(law, found[name]["value"]) for law, name in zip(laws, names, strict=True)]

    traced, shapes = jax.make_jaxpr(of_record, return_shape=True)(position, record)
    sources = sources_of(traced.jaxpr, len(jax.tree.leaves(record)))
    start, reads = 0, {}
    for name, (law, response) in zip(names, shapes, strict=True):
        ends = start + len(jax.tree.leaves(law)), start + len(jax.tree.leaves(law)) + len(jax.tree.leaves(response))
        parts = sources[start : ends[0]], sources[ends[0] : ends[1]]
        reads[name] = Reads(*(frozenset[int]().union(*part) for part in parts))
        start = ends[1]
    return reads


def has_order(reads: Sequence[Reads]) -> bool:
    """Say whether sites can be ordered so that no law reads its own response, or one of a later site."""
    if not all(each.response for each in reads):
        return False
    if sum(len(each.response) for each in reads) != len(frozenset[int]().union(*(each.response for each in reads))):
        return False  # two sites observe the same column
    left = list(reads)
    while left:
        open_ones = frozenset[int]().union(*(each.response for each in left))
        settled = [each for each in left if not each.law & open_ones]
        if not settled:
            return False
        left = [each for each in left if each.law & open_ones]
    return True


def as_rows(record: Any) -> Any:
    """Return a record as a table of one row."""
    return jax.tree.map(lambda leaf: leaf[None], record)


def sources_of(jaxpr: Any, num_leaves: int) -> list[frozenset[int]]:
    """Return for each result of a jaxpr from which of its last arguments it is computed."""
    nowhere, num_others = frozenset[int](), len(jaxpr.invars) - num_leaves
    inputs = [nowhere] * num_others + [frozenset([place]) for place in range(num_leaves)]

    def united(equation: Any, operands: list[frozenset[int]]) -> list[frozenset[int]]:
        return [nowhere.union(*operands)] * len(equation.outvars)

    constants = [nowhere] * len(jaxpr.constvars)
    return through(jaxpr, inputs, constants, literal=lambda _: nowhere, perform=united)
