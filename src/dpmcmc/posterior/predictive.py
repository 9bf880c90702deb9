"""What can be asked of the draws of a formula, from the posterior or from the prior alike.

Nothing here reads a private record, and nothing is charged: draws were paid for, and new rows are public or the
business of whoever asks.
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
    """Draws of the parameters of a formula, and what follows from them."""

    @property
    @abstractmethod
    def fitted(self) -> Fitted:
        """The formula's model with its draws; raises `InvalidArgument` where there is no formula."""

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

        Cells are read as the schema states them, texts and categories as they are. A value outside its bounds counts as
        the bound, with a warning; a blank cell counts as the schema says, and is refused where it says nothing; an
        unknown category is refused.

        Args:
            new_rows: a mapping from columns to values, a list of such rows, a DataFrame of pandas or polars, a Table of
                pyarrow, or the path of a CSV or Parquet file. The response is not needed; other columns are not read.
            kind: ``"mean"``, the expected response, or the probability of each class; or ``"response"``, what a new
                record would show: the interval of numbers, or the most probable class and how probable each is;
                or ``"survival"``, the probability that the event has not come by each of some times.
            prob: how much the intervals hold.
            seed: fixes the draws of new responses; another one each time unless stated.
            times: of survival curves; even ones up to the longest that the schema states unless stated.

        Returns:
            A row for each row, with its mean, standard deviation and interval; for more than two classes a row for
            each row and class, of survival curves for each row and time.
        """
        if kind == "survival":
            return survival.predict(self.fitted, new_rows, times, prob)
        if times is not None:
            validation.refuse("times", list(times), "is for kind='survival'")
        return predictions.predict(self.fitted, new_rows, kind, prob, seed)

    def poststratify(
        self, population: Any, count: str = "count", *, by: str | Sequence[str] = (), prob: float = PROB
    ) -> SummaryTable:
        """Estimate the mean response of a population, or of parts of it, from how many people are in each cell.

        The records need not be a random sample of the population, as long as they are one within the cells. With random
        intercepts, ``(1|region)``, this is multilevel regression and poststratification (MRP).

        Args:
            population: the cells as rows, as for `predict`, with a column that says how many people each has.
            count: that column.
            by: columns for each of whose values there is an estimate; of the whole population unless stated.
            prob: how much the intervals hold.
        """
        return poststratification.poststratify(self.fitted, population, count, by, prob)

    def simulate(self, rows: Any, num_draws: int = 1, *, seed: int | None = None) -> pd.DataFrame:
        """Simulate responses of stated covariates: the rows with a response each, from a draw of the parameters.

        The rows come back as they are, so they must be public, or yours; only their responses are new.

        Args:
            rows: the covariates, as for `predict`.
            num_draws: how many tables to simulate, each with parameters of its own, which the column ``draw`` numbers.
            seed: fixes the simulation; another one each time unless stated.
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
        """Return the expected response over the range of one column, the others held.

        Unless stated, numbers are held at what the schema fills in for missing ones, else at the middle of their
        bounds; truth values at false; categories at the first. The title says where.

        Args:
            name: the column.
            by: a second column, for each of whose values there is a curve.
            at: where other columns are held.
            rows: rows to average over, instead of holding the others: each with the column replaced.
            values: the values of the column to look at; over its stated range unless stated.
            prob: how much the intervals hold.
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
        """Compare two values of a column: by how much the response is higher at `first` than at `second`.

        There is a row for each scale: the linear predictor (log-odds), the ratio that its exponential is (an odds
        ratio), and the expected response itself, which depends on where the other columns are held.

        Args:
            name: the column.
            first: a category, a truth value or a number.
            second: what it is compared with.
            at: where other columns are held, as for `effects`.
            rows: rows to average over instead.
            prob: how much the intervals hold.
        """
        return effects.contrast(self.fitted, name, first, second, at or {}, rows, prob)

    def odds_ratios(self, *, per: Mapping[str, float] | None = None, prob: float = PROB) -> SummaryTable:
        """Return the exponentials of the coefficients: odds ratios, for counts ratios of means.

        Of times to an event they are ratios of times, or of hazards where the predictor is the log-hazard.

        Args:
            per: by how many units a number changes, one unless stated: ``per={"age": 10}``.
            prob: how much the intervals hold.
        """
        return effects.ratios(self.fitted, per or {}, prob)

    def hazard_ratios(self, *, per: Mapping[str, float] | None = None, prob: float = PROB) -> SummaryTable:
        """Return by what the hazard is multiplied: for times to an event whose hazards are proportional.

        Args:
            per: by how many units a number changes, one unless stated: ``per={"age": 10}``.
            prob: how much the intervals hold.
        """
        return survival.hazard_ratios(self.fitted, per or {}, prob)

    def plot_survival(self, rows: Any, *, times: Sequence[float] | None = None, prob: float = PROB) -> "Figure":
        """Draw the survival curve of each row, with its band. Returns a matplotlib Figure.

        Args:
            rows: the rows, as for `predict`.
            times: even ones up to the longest that the schema states unless stated.
            prob: how much the bands hold.
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
        """Draw the expected response over columns, a panel each, on one scale. Returns a matplotlib Figure.

        Args:
            names: the columns; all that the formula reads unless some are named.
            by: a column for each of whose values there is a curve.
            at: where other columns are held, as for `effects`.
            rows: rows to average over instead.
            prob: how much the bands hold.
        """
        from dpmcmc.posterior.plots import plot_effects  # with matplotlib, for which a fit does not wait

        return plot_effects(self.fitted, names, by, at or {}, rows, prob)
