"""Estimators with scikit-learn's interface: ``fit``, ``predict``, ``predict_proba``; predictions average over draws.

Bounds and classes are stated in the constructor and never computed from ``X`` or ``y``. Every ``fit`` is charged to
the ledger, including those of clones in a search or a cross-validation.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Self, cast

import numpy as np
import pandas as pd

from dpmcmc import missing_cells, validation
from dpmcmc.accounting import Budget
from dpmcmc.enclave import PrivateData
from dpmcmc.enclave.tables import read_table
from dpmcmc.errors import InvalidArgument
from dpmcmc.fitting import fit
from dpmcmc.model import FAMILIES, FormulaModel, from_formula
from dpmcmc.posterior import Posterior
from dpmcmc.schema import Column, Schema

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin  # pyright: ignore[reportUnknownVariableType]  # it has no types
    from sklearn.utils.validation import check_is_fitted  # pyright: ignore[reportUnknownVariableType]
except ImportError as error:
    raise ImportError(
        'estimators need scikit-learn, which is not installed; run: pip install "dpmcmc[sklearn]"'
    ) from error

REGRESSIONS = {
    name: "integer" if family.response == "count" else "number"
    for name, family in FAMILIES.items()
    if family.response in {"number", "positive", "zero_or_positive", "share", "count"}
}
"""The families of a regressor, with the kind of their response."""

MOST_NUMBERS = 2**24
"""How many predictions, one a draw and row, are held at once."""


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateBayes(BaseEstimator):  # pyright: ignore[reportUntypedBaseClass]
    """Base class of the regressor and the classifier: a generalised linear model of all features.

    Args:
        bounds: for each feature its public bounds, ``(lower, upper)``, or a `Column`: a mapping by name for a data
            frame, whose other columns are not read, or a sequence in the order of the columns for an array. Values
            outside the bounds are clamped to them, in ``fit`` and in ``predict``.
        epsilon: epsilon of one ``fit``.
        ledger: the ledger to charge, or its URL; it must be the URL where fits run in several processes.
        dataset: the name of the records in the ledger.
        budget: the budget that the ledger grants the records, if it has not granted it already.
        delta: delta of one ``fit`` (default: that of the budget).
        priors: priors as for `from_formula`, by the names of the features; those of an array are ``x0``, ``x1``, ...
        sampler: ``"auto"`` (recommended), or the name of a sampler.
        num_chains: the number of chains; each is charged.
        num_steps: steps per chain (default: depends on the sampler).
        allow_low_accuracy: run even if the expected error is above one posterior standard deviation.
        progress: whether to show a progress bar.

    Attributes:
        posterior_: the `Posterior` of the last ``fit``, with its certificate.
    """

    bounds: Mapping[str, Any] | Sequence[Any]
    epsilon: float
    ledger: Any
    dataset: str | None
    budget: Budget | None = None
    delta: float | None = None
    priors: Mapping[str, Any] | None = None
    sampler: str = "auto"
    num_chains: int = 2
    num_steps: int | None = None
    allow_low_accuracy: bool = False
    progress: bool = False

    def __init_subclass__(cls) -> None:
        """Let `help` of an estimator show all arguments: its own, then those that both share."""
        super().__init_subclass__()
        _, _, shared = (PrivateBayes.__doc__ or "").partition("    Args:\n")
        cls.__doc__ = f"{(cls.__doc__ or '').rstrip()}\n{shared}"

    def _fit(self, rows: Any, target: Any, column: Column, family: str) -> Self:
        """Fit a generalised linear model of all features."""
        if self.ledger is None or self.dataset is None:
            raise InvalidArgument(
                "ledger= and dataset= must be given: every fit is charged there, including those of a search or a "
                "cross-validation, and a budget that started afresh with each would bound nothing"
            )
        features = _features(self.bounds)
        frame = _frame(rows, self.bounds, features)
        response = "y"
        while response in features.bounds:
            response += "_"
        schema = Schema({**features.columns, response: column})
        terms = " + ".join(f"`{name}`" for name in features.bounds if not missing_cells.is_hidden(name))
        recipe = (f"{response} ~ {terms}", schema.to_toml(), family, tuple((self.priors or {}).items()))
        data = PrivateData.from_table(
            frame.assign(**{response: _target(target, len(frame))}),
            schema=schema,
            ledger=self.ledger,
            dataset=self.dataset,
            budget=self.budget,
        )
        self.posterior_: Posterior = fit(
            _model(*recipe),
            data,
            epsilon=self.epsilon,
            delta=self.delta,
            sampler=self.sampler,
            num_chains=self.num_chains,
            num_steps=self.num_steps,
            allow_low_accuracy=self.allow_low_accuracy,
            progress=self.progress,
        )
        self._recipe = recipe
        self.n_features_in_ = int(np.shape(rows)[1])
        return self

    @property
    def model_(self) -> FormulaModel:
        """The formula model of `posterior_`."""
        check_is_fitted(self, "posterior_")
        return _model(*self._recipe)

    def _predict(self, rows: Any) -> np.ndarray:
        """Return the predictions for each row, averaged over all draws."""
        model, features = self.model_, _features(self.bounds)
        records = read_table(_frame(rows, self.bounds, features), features).records
        draws = {name: self.posterior_[name] for name in self.posterior_.draws}
        classes = max(1, len(model.classes))
        step = max(1, MOST_NUMBERS // (classes * self.posterior_.is_accepted.size))
        parts = [
            {name: leaf[start : start + step] for name, leaf in records.items()}
            for start in range(0, len(next(iter(records.values()))), step)
        ]
        return np.concatenate([np.mean(np.asarray(model.predict(draws, part)), axis=(0, 1)) for part in parts])


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateBayesRegressor(RegressorMixin, PrivateBayes):  # pyright: ignore[reportUntypedBaseClass]
    """A private Bayesian regression.

    Args:
        target_bounds: bounds of ``y``, to which values are clamped; a row without a ``y`` contributes nothing.
        family: the family of the response, one of `REGRESSIONS`: those with a numeric or count response.
    """

    target_bounds: tuple[float, float]
    family: str = "gaussian"

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803  # scikit-learn's name
        """Spend `epsilon` on the posterior of private rows.

        Args:
            X: the features: a data frame, or an array with a column for each.
            y: the response.
        """
        kind = REGRESSIONS[validation.choice("family", self.family, REGRESSIONS)]
        return self._fit(X, y, _column("target_bounds", self.target_bounds, kind), self.family)

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the expected response for each row.

        Args:
            X: the features, as for `fit`.
        """
        return self._predict(X)


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateBayesClassifier(ClassifierMixin, PrivateBayes):  # pyright: ignore[reportUntypedBaseClass]
    """A private Bayesian classifier: logistic for two classes, softmax for more.

    Args:
        classes: all classes that ``y`` may have, in the order of the columns of ``predict_proba``; a row with any
            other label contributes nothing, silently, since an error would disclose it.
    """

    classes: Sequence[Any]

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Spend `epsilon` on the posterior of private rows.

        Args:
            X: the features: a data frame, or an array with a column for each.
            y: the class of each row.
        """
        texts = {label: str(label) for label in self.classes}
        column = Column(kind="category", categories=tuple(texts.values()))
        labels = [texts.get(label) for label in np.asarray(y).reshape(-1).tolist()]
        self.classes_ = np.asarray(self.classes)
        return self._fit(X, labels, column, "bernoulli" if len(texts) == 2 else "categorical")

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the probability of each class for each row.

        Args:
            X: the features, as for `fit`.
        """
        found = self._predict(X)
        return np.stack([1 - found, found], axis=1) if found.ndim == 1 else found

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the most probable class for each row.

        Args:
            X: the features, as for `fit`.
        """
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]


@cache
def _model(formula: str, schema: str, family: str, priors: tuple[tuple[str, str], ...]) -> FormulaModel:
    """Return a model by what it is made of, which unlike the model itself can be pickled."""
    return from_formula(formula, Schema.from_dict(tomllib.loads(schema)), family=family, priors=dict(priors))


def _features(bounds: Any) -> Schema:
    """Return what is stated of the features, those of an array by the names x0, x1, ..."""
    if isinstance(bounds, Mapping):
        stated = {str(name): value for name, value in cast(Mapping[Any, Any], bounds).items()}
    else:
        in_order = cast(Any, bounds if isinstance(bounds, list | tuple | np.ndarray) else ())
        stated = {f"x{place}": value for place, value in enumerate(in_order)}
    if not stated:
        raise InvalidArgument(
            "bounds must state (lower, upper) of every feature, by name or in order: facts that are known without X"
        )
    return Schema({name: _column(f"bounds of {name}", value, "number") for name, value in stated.items()})


def _column(name: str, stated: Any, kind: str) -> Column:
    """Return a column as it is, or that of two bounds."""
    if isinstance(stated, Column):
        return stated
    if np.shape(stated) != (2,):
        validation.refuse(name, stated, "must be (lower, upper)")
    try:
        return Column(kind=kind, lower=float(stated[0]), upper=float(stated[1]))
    except InvalidArgument as refusal:
        raise InvalidArgument(f"{name}: {refusal}") from refusal


def _frame(rows: Any, bounds: Any, features: Schema) -> pd.DataFrame:
    """Return the rows under the names of the features. What is wrong with them is said of their shape alone."""
    if isinstance(bounds, Mapping):
        if not isinstance(rows, pd.DataFrame):
            raise InvalidArgument("bounds names the features, but X is not a pandas DataFrame; give bounds in order")
        return rows
    table = rows.to_numpy(dtype=object) if isinstance(rows, pd.DataFrame) else np.asarray(rows)
    if table.ndim != 2 or table.shape[1] != len(features.columns):
        raise InvalidArgument(f"X has the shape {table.shape}; bounds states {len(features.columns)} features")
    return pd.DataFrame(table, columns=list(features.columns))


def _target(target: Any, num_rows: int) -> np.ndarray:
    """Return y as a column."""
    column = np.asarray(target)
    if column.size != num_rows or column.size != len(column):
        raise InvalidArgument(
            f"y has the shape {column.shape}; expected one entry for each of the {num_rows} rows of X"
        )
    return column.reshape(-1)
