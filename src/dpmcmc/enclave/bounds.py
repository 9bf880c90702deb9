"""Names of columns, and the owner's bounds as they are stated. Privacy does not rest on this file."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import jax
import numpy as np

from dpmcmc.enclave.core.metadata import Bounds
from dpmcmc.errors import InvalidArgument


def as_tree(records: Any) -> Any:
    """Return a table (pandas, polars, pyarrow, a structured array) as its columns by name, and a pytree as it is."""
    structured = isinstance(records, np.ndarray) and records.dtype.names
    names = structured or getattr(records, "column_names", None) or getattr(records, "columns", None)
    if names is None or isinstance(records, Mapping):
        return records
    return {str(name): np.asarray(records[name]) for name in list(names)}


def leaf_names(tree: Any) -> list[str]:
    """Return a name for each leaf: its path with dots, ``records`` for a bare array."""
    paths = [path for path, _ in jax.tree_util.tree_flatten_with_path(tree)[0]]
    return [jax.tree_util.keystr(path, simple=True, separator=".") or "records" for path in paths]


def parse_bounds(bounds: Mapping[str, Any] | None, names: list[str]) -> Bounds:
    """Return the stated bounds as pairs of numbers, in an order that does not depend on the caller."""
    if not isinstance(bounds, Mapping | None):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        example = f"{{{names[0]!r}: (lower, upper)}}"
        raise InvalidArgument(f"bounds={bounds!r} must give a pair for each leaf by its name, as in bounds={example}")
    stated = dict(bounds or {})
    unknown = sorted(set(stated) - set(names))
    if unknown:
        raise InvalidArgument(f"bounds has no such leaf: {', '.join(unknown)}; the records have {', '.join(names)}")
    return MappingProxyType({name: _pair(name, stated[name]) for name in names if name in stated})


def _pair(name: str, pair: Any) -> tuple[float, float]:
    try:
        lower, upper = (float(side) for side in pair)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"bounds[{name!r}]={pair!r} must be a pair (lower, upper) of numbers") from error
    if not lower < upper:
        raise InvalidArgument(f"bounds[{name!r}]={(lower, upper)} must have lower < upper")
    return lower, upper
