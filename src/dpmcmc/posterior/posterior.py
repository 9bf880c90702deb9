"""The result of a run: draws, statistics of the chains, and the privacy certificate.

All of it may be published. It consists of releases; it contains no record and no exact function of records.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpmcmc import diagnostics
from dpmcmc.accounting import Certificate
from dpmcmc.diagnostics.quality import Quality, judge_chains
from dpmcmc.diagnostics.table import SummaryTable
from dpmcmc.errors import InvalidArgument
from dpmcmc.html import card, line
from dpmcmc.model import FormulaModel, from_formula
from dpmcmc.posterior import combine, files, summaries
from dpmcmc.posterior.fitted import Fitted
from dpmcmc.posterior.groups import predictive_groups
from dpmcmc.posterior.intervals import PROB
from dpmcmc.posterior.predictive import Predictive
from dpmcmc.posterior.structure import dataset, written
from dpmcmc.schema import Schema

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class Posterior(Predictive):
    """Draws from a posterior, with its certificate, its verdict and methods for summaries and predictions.

    Attributes:
        draws: every step of every chain by parameter, with the axes (chain, step, ...), in the order of the formula.
        is_accepted: whether each step was accepted, (chain, step).
        num_warmup: the number of warm-up steps, which are not counted as draws.
        certificate: the certificate of its privacy cost.
        settings: the settings of the run: sampler, model temperature, public facts of the data.
        prior: draws from the prior by parameter, with the axes (1, draw, ...); empty if it cannot be sampled.
        sample_stats: further statistics of each step, (chain, step), for ArviZ's group of that name: ``diverging``,
            and if ratios are released, ``log_alpha`` and ``energy_change``.
    """

    draws: Mapping[str, np.ndarray]
    is_accepted: np.ndarray
    num_warmup: int
    certificate: Certificate
    settings: Mapping[str, Any]
    prior: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    sample_stats: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])

    def __post_init__(self) -> None:
        if self.model is not None:  # programs of JAX return parameters in the order of the alphabet
            order = {name: place for place, name in enumerate(self.model.parameter_names)}
            ordered = sorted(self.draws, key=lambda name: order.get(name, len(order)))
            object.__setattr__(self, "draws", {name: self.draws[name] for name in ordered})

    def __reduce__(self) -> tuple[Any, ...]:
        """Say what `pickle` keeps: what was stated. A model holds functions, and is built again from the settings."""
        stated = (
            self.draws,
            self.is_accepted,
            self.num_warmup,
            self.certificate,
            self.settings,
            self.prior,
            self.sample_stats,
        )
        return type(self), stated

    def __repr__(self) -> str:
        marked = sum(1 for grade in self.quality.parameters.values() if grade.verdict != "good")
        notes = f", {marked} of {len(self._columns())} parameters marked" if marked else ""
        why = f" {self.quality.reasons[0]}" if self.quality.reasons else ""
        return (
            "\n".join(
                line(words)
                for words in (
                    f"Posterior: {self._what}",
                    f"{self._made}",
                    f"Quality: {self.quality.verdict}{notes}.{why}",
                )
            )
            + f"\n{self.certificate.claim}"
        )

    def _repr_html_(self) -> str:
        """Show verdict, summary and privacy cost in a notebook."""
        rows = [("Draws", self._made), ("Quality", " ".join([f"{self.quality.verdict}.", *self.quality.reasons]))]
        table: Any = self.summary()
        return card(f"Posterior: {self._what}", rows, body=table._repr_html_(), notes=[self.certificate.statement])

    @property
    def _what(self) -> str:
        request = self.settings.get("request", {})
        return f"{request['formula']}, {request['family']}" if "formula" in request else ", ".join(self.draws)

    @property
    def _made(self) -> str:
        chains, steps = self.is_accepted.shape
        if self.is_independent:
            return f"{chains * steps:,} independent draws of {len(self._columns())} parameters"
        return (
            f"{chains} chains of {steps} steps, {self.num_warmup} of them warm-up, {self.acceptance_rate:.0%} accepted"
        )

    def __getitem__(self, name: str) -> np.ndarray:
        """Return the draws of one parameter after the warm-up, (chain, draw, ...)."""
        name = name if name in self.draws else written(self.model, name)
        if name not in self.draws:
            raise KeyError(f"there is no parameter {name!r}; there are {', '.join(self.draws)}")
        return self.draws[name][:, self.num_warmup :]

    @property
    def model(self) -> FormulaModel | None:
        """The model, if it came from a formula: rebuilt from the settings, without the records."""
        return self._built[0]

    @cached_property
    def _built(self) -> tuple[FormulaModel | None, str]:
        """The model, or the reason why there is none: a formula of another version must not make the draws unusable."""
        request = self.settings.get("request", {})
        if "formula" not in request or "schema" not in request:
            return None, (
                "this posterior was not fitted by `fit` from a formula, so it is not known how to predict from rows; "
                "take `posterior.matrix()` or `posterior[name]` and your own model (a `FormulaModel` has "
                "`predict`, NumPyro has infer.Predictive)"
            )
        try:
            schema = Schema.from_dict(request["schema"])
            model = from_formula(request["formula"], schema, family=request["family"], priors=request["priors"])
        except InvalidArgument as error:
            return None, f"the formula of this posterior is not understood by this version: {error}"
        return model, ""

    @property
    def fitted(self) -> Fitted:
        """The formula's model with its draws; raises `InvalidArgument` if there is no formula."""
        return self._fitted

    @cached_property
    def _fitted(self) -> Fitted:
        model, problem = self._built
        if model is None:
            raise InvalidArgument(problem)
        pooled = {name: self[name].reshape(-1, *self.draws[name].shape[2:]) for name in self.draws}
        return Fitted(model, Schema.from_dict(self.settings["request"]["schema"]), pooled)

    @property
    def quality(self) -> Quality:
        """The quality of the result: a verdict with its reasons, overall and for each parameter."""
        return self._quality

    @cached_property
    def _quality(self) -> Quality:
        if "quality" in self.settings:
            return Quality.from_plain(self.settings["quality"])
        return judge_chains({name: self[name] for name in self.draws})

    @property
    def is_independent(self) -> bool:
        """Whether the draws are independent: then R-hat and effective sample sizes say nothing."""
        return any(grade.shares for grade in self.quality.parameters.values())

    @property
    def acceptance_rate(self) -> float:
        """The share of the steps after warm-up that were accepted."""
        return float(np.mean(self.is_accepted[:, self.num_warmup :]))

    def matrix(self) -> np.ndarray:
        """Return all draws after warm-up, chains pooled, with one row per draw and one column per coordinate."""
        parts = [self[name].reshape(-1, int(np.prod(self.draws[name].shape[2:], dtype=int))) for name in self.draws]
        return np.concatenate(parts, axis=1)

    @cached_property
    def datasets(self) -> "dict[str, xr.Dataset]":
        """The draws and the statistics of the chains as xarray data sets, in ArviZ's groups."""
        classes, response = ((), "") if self.model is None else (self.model.classes[1:], self.model.response)
        steps = {"posterior": slice(self.num_warmup, None), "warmup_posterior": slice(0, self.num_warmup)}
        groups = {group: dataset(self.draws, kept, classes, response) for group, kept in steps.items()}
        moved = {"accepted": self.is_accepted, **self.sample_stats}
        groups["sample_stats"] = dataset(moved, steps["posterior"])
        groups["warmup_sample_stats"] = dataset(moved, steps["warmup_posterior"])
        if self.prior:
            groups["prior"] = dataset(self.prior, slice(None), classes, response)
        return groups

    def to_arviz(self, rows: Any = None, *, seed: int | None = None) -> Any:
        """Return the draws as ArviZ's DataTree (from version 1 on) or InferenceData.

        The coefficients of a category are one variable, with its levels as a coordinate.

        Args:
            rows: public rows, as for `predict`; adds a group ``posterior_predictive`` for them, with
                ``constant_data``, and ``observed_data`` if they include the response.
            seed: fixes the predictive draws (default: different each time).
        """
        groups = {name: group for name, group in self.datasets.items() if group.sizes["draw"]}
        predicted = {} if rows is None else predictive_groups(self.fitted, rows, self._shape, seed)
        return diagnostics.to_arviz({**groups, **predicted})

    @property
    def _shape(self) -> tuple[int, int]:
        chains, steps = self.is_accepted.shape
        return chains, steps - self.num_warmup

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per draw after warm-up: its chain, its number, and a column for each scalar parameter.

        The columns are named like the rows of `summary`: ``age``, ``beta[0]``, ``beta[1, 2]``.
        """
        chain, draw = np.indices(self._shape)
        columns = {"chain": chain, "draw": draw, **self._columns()}
        return pd.DataFrame({label: values.reshape(-1) for label, values in columns.items()})

    def summary(
        self, *, prob: float = PROB, exponentiate: bool = False, var_names: str | Sequence[str] | None = None
    ) -> SummaryTable:
        """Return mean, standard deviation, interval and verdict of every scalar parameter, in the order of the formula.

        For chains also the effective sample size and R-hat; for independent draws, for which these are always
        perfect, the shares of the variance that come from the data, from privacy noise and from the prior.
        The table prints only meaningful digits; its cells have all of them.

        Args:
            prob: the probability that the intervals contain.
            exponentiate: whether to show odds ratios, or for counts ratios of means, instead of the coefficients.
            var_names: which parameters: their names, or names of terms (``"ward"`` for all its categories).
        """
        return summaries.summary(self, prob, exponentiate, var_names)

    def plot_forest(
        self,
        *,
        var_names: str | Sequence[str] | None = None,
        exponentiate: bool = False,
        per: Mapping[str, float] | None = None,
        prob: float = PROB,
    ) -> "Figure":
        """Plot a line for each parameter: its interval, the central half of the draws, and the mean.

        Parameters whose verdict is not good are grey. The intercept, and parameters that are not coefficients, are left
        out unless `var_names` has them. Returns a matplotlib Figure.

        Args:
            var_names: which parameters, as for `summary`.
            exponentiate: whether to draw odds ratios, or ratios of means, on a logarithmic axis.
            per: the change of each number in units (default: one): ``per={"age": 10}``.
            prob: the probability that the outer intervals contain.
        """
        return summaries.forest(self, prob, exponentiate, var_names, per)

    def compare(self, other: "Posterior", *, rows: Any = None, prob: float = PROB) -> SummaryTable:
        """Compare another posterior with this one. This is post-processing and costs nothing.

        Differences are between independent draws of the two. If both come from the same records they are correlated,
        and the intervals of the differences are too wide.

        Args:
            other: the other posterior; parameters that both have are compared.
            rows: instead of parameters, compare predictions for these rows, as for `predict`.
            prob: the probability that the intervals of the differences contain.
        """
        return summaries.compare(self, other, rows, prob)

    def combine(self, earlier: "Posterior", *, seed: int | None = None) -> "Posterior":
        """Return the posterior given both runs' records: the result of `earlier` becomes the prior of this one.

        For the same formula on the records of other persons, such as last year's; the same persons would be counted
        twice. This is post-processing and costs nothing. Both are assumed normal in sampler coordinates, so models with
        random intercepts are refused. The certificate covers a person who is in both tables; the certificate of a
        single run covers a person who is only in that table. If the ledger has the tables as parts of one dataset,
        nobody is in both, and the certificate states the larger of the two costs.

        Args:
            earlier: the posterior that serves as the prior.
            seed: fixes the draws (default: different each time).
        """
        return Posterior(**combine.combine(self, earlier, seed))

    def _columns(self) -> dict[str, np.ndarray]:
        """Return the draws of every number by its label, (chain, draw)."""
        return diagnostics.coordinates({name: self[name] for name in self.draws})

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write a run folder, which must be new: draws, summary, certificate, settings and the report.

        The draws are in draws.nc for ArviZ, and in draws.parquet and draws.csv for R and others. The folder is written
        under a temporary name and renamed when complete. If the report or a copy of the draws cannot be
        written, it is left out with a warning; `report` and ``dpmcmc report`` write the report later.

        Args:
            folder: the folder to write.
        """
        return files.save(self, folder)

    def report(self, path: str | os.PathLike[str], *, known: Mapping[str, float] | None = None) -> Path:
        """Write the report: a single, self-contained HTML file that may be published.

        Args:
            path: the file to write.
            known: for simulated records, the true values by the names of the summary; the report marks them.
        """
        from dpmcmc.report.page import write_report  # with what draws pictures, for which a fit does not wait

        return write_report(self, path, known=known)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "Posterior":
        """Read a run folder; the certificate is checked by recomputing its epsilon.

        Warns if the version that made the run has a known problem that weakens the certificate's claim.

        Args:
            folder: the folder that `save`, or `fit` with `output`, wrote.
        """
        return cls(**files.load(folder))
