"""Prior predictive checks: draws from the prior of a formula, and responses simulated from them."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
import pandas as pd

from dpmcmc import diagnostics, validation
from dpmcmc.diagnostics.table import SummaryTable, titled
from dpmcmc.html import card, line
from dpmcmc.model import from_formula
from dpmcmc.model.formula.host import constrain_all, draw_prior
from dpmcmc.model.formula.simulation import draw_columns
from dpmcmc.posterior.fitted import Fitted
from dpmcmc.posterior.intervals import PROB, summarise_draws
from dpmcmc.posterior.new_rows import NewRows, read_rows
from dpmcmc.posterior.predictive import Predictive
from dpmcmc.schema import Schema

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NUM_ROWS = 200
"""Number of rows drawn from the ranges of the schema by default."""


@dataclass(frozen=True, eq=False, repr=False)
class PriorPredictive(Predictive):
    """Draws from the prior of a formula, with `predict`, `effects`, `contrast` and `simulate` as for a posterior.

    Attributes:
        source: the model with draws from its prior.
        rows: the rows for which responses were simulated.
        responses: the simulated response of each draw and row, as a table stores it, (draw, row).
    """

    source: Fitted
    rows: NewRows
    responses: np.ndarray

    @property
    def fitted(self) -> Fitted:
        """The formula's model with draws from its prior."""
        return self.source

    @property
    def draws(self) -> Mapping[str, np.ndarray]:
        """Draws from the prior by parameter, (draw, ...)."""
        return self.source.draws

    def __repr__(self) -> str:
        model = self.source.model
        return line(f"Prior predictive: {model.formula}, {model.family}") + (
            f"\n{self.source.num_draws} draws from the prior, {len(self.rows)} rows\n{self.statistics}"
        )

    def _repr_html_(self) -> str:
        """Show it in a notebook."""
        table: Any = self.statistics
        return card(f"Prior predictive: {self.source.model.formula}", [], body=table._repr_html_())

    def summary(self, *, prob: float = PROB) -> SummaryTable:
        """Return mean, standard deviation and interval of every parameter under the prior, on the original scale.

        Args:
            prob: the probability that the intervals contain.
        """
        columns = diagnostics.coordinates({name: values[None] for name, values in self.draws.items()})
        drawn = np.stack([values.reshape(-1) for values in columns.values()], axis=1)
        return titled(summarise_draws(drawn, prob, list(columns)), "The prior, on the scale of the results")

    @cached_property
    def statistics(self) -> SummaryTable:
        """Statistics of simulated tables: mean, spread and range of the response, over draws from the prior."""
        classes = self.source.model.classes
        if classes:
            first = (
                self.responses.min() if self.source.schema.columns[self.source.model.response].kind == "integer" else 0
            )
            found = {f"share of {name}": np.mean(self.responses == first + k, axis=1) for k, name in enumerate(classes)}
        else:
            found = {
                "mean": np.mean(self.responses, axis=1),
                "standard deviation": np.std(self.responses, axis=1),
                "lowest": np.min(self.responses, axis=1),
                "highest": np.max(self.responses, axis=1),
            }
        table = summarise_draws(np.stack(list(found.values()), axis=1), PROB, list(found))
        return titled(table, f"{self.source.model.response} in tables that the prior makes")

    def plot(self) -> "Figure":
        """Plot the responses simulated from the prior, with the stated bounds. Returns a matplotlib Figure."""
        from dpmcmc.diagnostics.effect_plots import draw_responses

        model = self.source.model
        column = self.source.schema.columns[model.response]
        unit = f" ({column.unit})" if column.unit else ""
        return draw_responses(self.responses, model.classes, column.bounds, f"{model.response}{unit}")


def prior_predictive(
    formula: str,
    schema: Any,
    *,
    family: str | None = None,
    priors: Mapping[str, Any] | None = None,
    rows: Any = None,
    num_draws: int = 500,
    seed: int | None = None,
) -> PriorPredictive:
    """Simulate responses from the prior of a formula: a check of the prior that costs no privacy budget.

    Args:
        formula: the formula, as for `fit`.
        schema: the columns with their bounds and categories: a `Schema`, a dictionary for one, or a TOML file.
        family: the family of the response, as for `fit`.
        priors: priors by parameter, as for `fit`.
        rows: public rows to simulate responses for (default: rows drawn uniformly within the bounds of the schema).
        num_draws: the number of draws from the prior.
        seed: fixes the draws (default: different each time).
    """
    stated = Schema.read(schema)
    model = from_formula(formula, stated, family=family, priors=priors)
    number = validation.integer("num_draws", num_draws, at_least=2)
    chosen = secrets.randbits(31) if seed is None else validation.integer("seed", seed, at_least=0)
    drawn = draw_prior(model.coordinates, np.random.default_rng(chosen), number)
    fitted = Fitted(model, stated, constrain_all(model.coordinates, drawn))
    read = _anywhere(fitted, chosen) if rows is None else read_rows(rows, model, stated)
    return PriorPredictive(fitted, read, fitted.responses(read, chosen))


def _anywhere(fitted: Fitted, seed: int) -> NewRows:
    """Return rows whose columns are uniform over what the schema allows, independent of each other."""
    model = fitted.model
    names = list(model.predictor_columns)
    drawn = draw_columns(jax.random.key(seed), names, model.known, NUM_ROWS)
    return NewRows({name: np.asarray(leaf) for name, leaf in drawn.items()}, pd.DataFrame(index=range(NUM_ROWS)))
