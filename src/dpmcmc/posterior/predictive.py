"""Predictions, effects and contrasts from draws of a formula's parameters, from the posterior or the prior.

All of it is post-processing: no private record is read and nothing is charged. New rows are public, or belong to the
user.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from dpmcmc import validation
from dpmcmc.diagnostics.table import SummaryTable
from dpmcmc.posterior import effects, poststratification, predictions, survival
from dpmcmc.posterior.fitted import Fitted
from dpmcmc.posterior.intervals import PROB

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Predictive(ABC):
    """Draws of a formula's parameters, with methods for predictions, effects and contrasts."""

    @property
    @abstractmethod
    def fitted(self) -> Fitted:
        """The formula's model with its draws; raises `InvalidArgument` if there is no formula."""

    def predict(
        self,
        new_rows: Any,
        kind: str = "mean",
        *,
        prob: float = PROB,
        seed: int | None = None,
        times: Sequence[float] | None = None,
    ) -> SummaryTable:
        """Predict the response of new rows: ``posterior.predict({"age": [40, 70], "ward": ["surgery", "other"]})``.

        Cells are read by the schema. A value outside the bounds is clamped to them, with a warning. A blank cell is
        treated as the schema states for missing values, and is refused if it states nothing. An unknown category is
        refused.

        Args:
            new_rows: a mapping from columns to values, a list of such rows, a DataFrame of pandas or polars, a Table of
                pyarrow, or the path of a CSV or Parquet file. The response is not needed; other columns are not read.
            kind: ``"mean"``, the expected response, or the probability of each class; ``"response"``, a new
                observation: its predictive interval, or its most probable class and the probability of each; or
                ``"survival"``, the probability that the event has not happened by each of `times`.
            prob: the probability that the intervals contain.
            seed: fixes the draws of new responses (default: different each time).
            times: the times of survival curves (default: evenly spaced up to the upper bound in the schema).

        Returns:
            A row for each new row, with its mean, standard deviation and interval; for more than two classes a row for
            each row and class, for survival curves a row for each row and time.
        """
        if kind == "survival":
            return survival.predict(self.fitted, new_rows, times, prob)
        if times is not None:
            validation.refuse("times", list(times), "is for kind='survival'")
        return predictions.predict(self.fitted, new_rows, kind, prob, seed)

    def poststratify(
        self, population: Any, count: str = "count", *, by: str | Sequence[str] = (), prob: float = PROB
    ) -> SummaryTable:
        """Estimate the mean response of a population, or of parts of it, from the number of people in each cell.

        The records need not be a random sample of the population, as long as they are a random sample within cells.
        With random intercepts, ``(1|region)``, this is multilevel regression and poststratification (MRP).

        Args:
            population: the cells as rows, as for `predict`, with a column for the number of people in each.
            count: the name of that column.
            by: columns for each of whose values there is an estimate (default: one for the whole population).
            prob: the probability that the intervals contain.
        """
        return poststratification.poststratify(self.fitted, population, count, by, prob)

    def simulate(self, rows: Any, num_draws: int = 1, *, seed: int | None = None) -> pd.DataFrame:
        """Simulate responses for given covariates; each simulated table uses one draw of the parameters.

        The rows are returned unchanged, so they must be public, or yours; only the responses are simulated.

        Args:
            rows: the covariates, as for `predict`.
            num_draws: the number of tables to simulate, each from its own draw of the parameters; the column ``draw``
                numbers them.
            seed: fixes the simulation (default: different each time).
        """
        return predictions.simulate(self.fitted, rows, num_draws, seed)

    def effects(
        self,
        name: str,
        *,
        by: str | None = None,
        at: Mapping[str, Any] | None = None,
        rows: Any = None,
        values: Sequence[Any] | None = None,
        prob: float = PROB,
    ) -> SummaryTable:
        """Return the expected response over the range of one column, with the other columns fixed.

        By default numbers are fixed at the schema's fill value, or else at the middle of their bounds; booleans at
        false; categories at the first. The title says at which values.

        Args:
            name: the column to vary.
            by: a second column; there is a curve for each of its values.
            at: the values of other columns, as in ``{"age": 50}``.
            rows: public rows to average over, with the column replaced in each, instead of fixing the others.
            values: the values of the column (default: over its stated range).
            prob: the probability that the intervals contain.
        """
        return effects.effects(self.fitted, name, by, at or {}, rows, values, prob)

    def contrast(
        self,
        name: str,
        first: Any,
        second: Any,
        *,
        at: Mapping[str, Any] | None = None,
        rows: Any = None,
        prob: float = PROB,
    ) -> SummaryTable:
        """Compare two values of a column: the response at `first` minus that at `second`.

        There is a row for each scale: the linear predictor (such as log-odds), its exponential (such as an odds
        ratio), and the expected response itself, which depends on the values of the other columns.

        Args:
            name: the column.
            first: a category, true or false, or a number.
            second: the value to compare with.
            at: the values of other columns, as for `effects`.
            rows: public rows to average over instead.
            prob: the probability that the intervals contain.
        """
        return effects.contrast(self.fitted, name, first, second, at or {}, rows, prob)

    def odds_ratios(self, *, per: Mapping[str, float] | None = None, prob: float = PROB) -> SummaryTable:
        """Return the exponentials of the coefficients: odds ratios, or for counts ratios of means.

        For times to an event they are ratios of times, or of hazards if the predictor is the log-hazard.

        Args:
            per: the change of each number in units (default: one): ``per={"age": 10}``.
            prob: the probability that the intervals contain.
        """
        return effects.ratios(self.fitted, per or {}, prob)

    def hazard_ratios(self, *, per: Mapping[str, float] | None = None, prob: float = PROB) -> SummaryTable:
        """Return hazard ratios, for times to an event with proportional hazards.

        Args:
            per: the change of each number in units (default: one): ``per={"age": 10}``.
            prob: the probability that the intervals contain.
        """
        return survival.hazard_ratios(self.fitted, per or {}, prob)

    def plot_survival(self, rows: Any, *, times: Sequence[float] | None = None, prob: float = PROB) -> "Figure":
        """Plot the survival curve of each row, with its credible band. Returns a matplotlib Figure.

        Args:
            rows: the rows, as for `predict`.
            times: the times of the curves (default: evenly spaced up to the upper bound in the schema).
            prob: the probability that the bands contain.
        """
        return survival.plot_survival(self.fitted, rows, times, prob)

    def plot_effects(
        self,
        *names: str,
        by: str | None = None,
        at: Mapping[str, Any] | None = None,
        rows: Any = None,
        prob: float = PROB,
    ) -> "Figure":
        """Plot the expected response over columns, one panel per column, on one scale. Returns a matplotlib Figure.

        Args:
            names: the columns (default: all that the formula reads).
            by: a second column; there is a curve for each of its values.
            at: the values of other columns, as for `effects`.
            rows: public rows to average over instead.
            prob: the probability that the bands contain.
        """
        from dpmcmc.posterior.plots import plot_effects  # with matplotlib, for which a fit does not wait

        return plot_effects(self.fitted, names, by, at or {}, rows, prob)
