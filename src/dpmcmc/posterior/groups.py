"""ArviZ's groups of what a posterior predicts for public rows."""

from typing import TYPE_CHECKING, Any

import numpy as np

from dpmcmc.posterior.fitted import Fitted
from dpmcmc.posterior.new_rows import read_rows

if TYPE_CHECKING:
    import xarray as xr

ROW = "__obs__"
"""What bambi calls the dimension of rows."""


def predictive_groups(fitted: Fitted, source: Any, shape: tuple[int, int], seed: int | None) -> "dict[str, xr.Dataset]":
    """Return new responses (chain, draw, row), what they were predicted from, and responses that the rows have."""
    import xarray as xr  # it takes a while to load, and a fit does not need it

    response = fitted.model.response
    rows = read_rows(source, fitted.model, fitted.schema, also=[response])
    observed = rows.records.pop(response, None)
    drawn = fitted.responses(rows, seed).reshape(*shape, len(rows))
    coords: dict[str, Any] = {"chain": range(shape[0]), "draw": range(shape[1]), ROW: np.asarray(rows.frame.index)}
    groups = {
        "posterior_predictive": xr.Dataset({response: (("chain", "draw", ROW), drawn)}, coords=coords),
        "constant_data": xr.Dataset(
            {name: (ROW, np.asarray(leaf)) for name, leaf in rows.records.items()}, coords={ROW: coords[ROW]}
        ),
    }
    if observed is not None:
        groups["observed_data"] = xr.Dataset({response: (ROW, observed)}, coords={ROW: coords[ROW]})
    return groups
