"""The numbers of a posterior as a page shows them: in one or two units, beside their priors."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from markupsafe import Markup

from dpmcmc.diagnostics import coordinates, summarise
from dpmcmc.diagnostics.summary import INTERVAL, summarise_moments
from dpmcmc.model import FormulaModel
from dpmcmc.report import pictures
from dpmcmc.report.run import Run

MOST_PICTURED = 40
"""Numbers that have pictures; all are in the table."""


@dataclass(frozen=True)
class Number:
    """One number of the posterior, with its pictures."""

    name: str
    density: Markup
    beside_prior: Markup


@dataclass(frozen=True)
class Units:
    """All numbers in one kind of units."""

    key: str
    label: str
    note: str
    table: pd.DataFrame
    numbers: list[Number]

    @property
    def is_cut(self) -> bool:
        """Whether some numbers have no pictures."""
        return len(self.numbers) < len(self.table)


def units(run: Run, model: FormulaModel | None, known: Mapping[str, float]) -> list[Units]:
    """Return the numbers as they are reported, and for a formula also on the scale of its priors."""
    drawn = {name: values[:, run.num_warmup :] for name, values in run.draws.items()}
    shown = [_units("original", "Original units", "", run.summary(), drawn, run.prior, known)]
    if model is not None:
        scaled = _scaled(model, drawn)
        if scaled:
            note = (
                "Predictors run from −1 to 1 over their stated bounds: a coefficient is the effect of half the range, "
                "so coefficients can be compared with each other and with their priors."
            )
            prior = _scaled(model, run.prior) if run.prior else {}
            table = (summarise_moments if run.is_independent else summarise)(scaled).drop(columns="q50")
            shown.append(_units("scaled", "Scaled predictors", note, table, scaled, prior, {}))
    return shown


def _units(
    key: str,
    label: str,
    note: str,
    table: pd.DataFrame,
    drawn: Mapping[str, np.ndarray],
    prior: Mapping[str, np.ndarray],
    known: Mapping[str, float],
) -> Units:
    values, before = coordinates(drawn), coordinates(prior)
    names = list(values)[:MOST_PICTURED]
    numbers = [_number(name, values[name], before.get(name), known.get(name)) for name in names]
    return Units(key, label, note, table, numbers)


def _number(name: str, values: np.ndarray, prior: np.ndarray | None, known: float | None) -> Number:
    found = _quantiles(values)
    picture = pictures.density(name, values, prior, found, known)
    beside = Markup("") if prior is None else pictures.prior_and_posterior(name, _quantiles(prior), found)
    return Number(name, picture, beside)


def _quantiles(values: np.ndarray) -> tuple[float, float, float]:
    low, middle, high = (float(np.quantile(values, level)) for level in INTERVAL)
    return low, middle, high


def _scaled(model: FormulaModel, drawn: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    chains, length = next(iter(drawn.values())).shape[:2]
    flat = {name: values.reshape(chains * length, *values.shape[2:]) for name, values in drawn.items()}
    return {
        name: np.asarray(values, float).reshape(chains, length, *values.shape[1:])
        for name, values in model.scaled(flat).items()
    }
