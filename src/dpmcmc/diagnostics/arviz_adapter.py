"""The one place that knows which ArviZ is installed: versions 0.23 and 1 differ in what holds draws."""

import warnings
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import xarray as xr


def arviz() -> ModuleType:
    """Import ArviZ. Versions 0.23 and 1 agree on `rhat` and `ess` of one coordinate's (chain, draw) array."""
    with warnings.catch_warnings():
        # once a day, version 0.23 announces version 1
        warnings.filterwarnings("ignore", r"\s*ArviZ is undergoing a major refactor", FutureWarning)
        return import_module("arviz")


def to_arviz(groups: "Mapping[str, xr.Dataset]") -> Any:
    """Return groups of draws in ArviZ's own structure: a DataTree from version 1 on, InferenceData before."""
    module = arviz()
    if hasattr(module, "InferenceData"):
        return module.InferenceData(**groups)
    import xarray as xr

    return xr.DataTree.from_dict(groups)
