"""A formula with draws of its parameters: what it predicts for rows, draw by draw."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from dpmcmc import validation
from dpmcmc.model import FormulaModel
from dpmcmc.model.formula.links import IDENTITY
from dpmcmc.posterior.new_rows import NewRows
from dpmcmc.schema import Schema

MOST_NUMBERS = 2**24
"""How many predictions, one a draw and row, are made at once."""

SIZES = (64, 512, 4096)
"""Numbers of rows that programs are compiled for: fewer rows are filled up, and find what was compiled before."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """A model with draws.

    Attributes:
        model: the formula's model.
        schema: what was stated of the columns.
        draws: by parameter, as `FormulaModel.constrain` names them, (draw, ...).
    """

    model: FormulaModel
    schema: Schema
    draws: Mapping[str, np.ndarray]

    @property
    def num_draws(self) -> int:
        """How many draws there are."""
        return len(next(iter(self.draws.values())))

    @property
    def target(self) -> str:
        """What is predicted, in words: an expected value, or the probability of a class."""
        model = self.model
        classes = list(model.classes)
        if not classes:
            return f"expected {model.coordinates.response.label}"
        if len(classes) > 2 or model.law.response in {"classes", "order"}:
            return f"probability of each {model.response}"
        is_boolean = self.schema.columns[model.response].kind == "boolean"
        return f"probability of {model.response}" + ("" if is_boolean else f" {classes[-1]}")

    @property
    def coefficients_are(self) -> str:
        """What coefficients are where their exponentials mean nothing."""
        label, link = self.model.coordinates.response.label, self.model.link
        return f"differences of {label}" if link == IDENTITY else f"on the {link.name} scale"

    def means(self, rows: NewRows) -> np.ndarray:
        """Return the expected response, or the probabilities of classes, (draw, row) or (draw, row, class)."""
        return self._by_parts(rows, lambda part: self.model.predict(self.draws, part))

    def predictors(self, rows: NewRows) -> np.ndarray:
        """Return the linear predictor, (draw, row), or (draw, row, class but the first)."""
        return self._by_parts(rows, lambda part: self.model.linear_predictor(self.draws, part))

    def survival(self, rows: NewRows, times: np.ndarray) -> np.ndarray:
        """Return the probability that the event has not come by each time, (draw, row, time)."""
        return self._by_parts(rows, lambda part: self.model.survival(self.draws, part, times), len(times))

    def responses(self, rows: NewRows, seed: int | None) -> np.ndarray:
        """Return a new response for each draw and row, as a table stores it, (draw, row)."""
        keys = _keys(seed)
        return self._by_parts(rows, lambda part: self.model.respond(next(keys), self.draws, part))

    def probabilities(self, rows: NewRows) -> np.ndarray:
        """Return the probability of each class for each row, over all draws, (row, class)."""
        found = np.mean(self.means(rows), axis=0)
        return np.stack([1 - found, found], axis=1) if found.ndim == 1 else found

    def in_words(self, stored: Any) -> Any:
        """Return responses as a table of people has them: classes by name, truth values, whole numbers."""
        column = self.schema.columns[self.model.response]
        if column.kind == "category":
            return np.asarray(column.levels, object)[np.asarray(stored).astype(int)]
        kinds: dict[str, Any] = {"boolean": bool, "integer": int}
        return np.asarray(stored).astype(kinds.get(column.kind, float))

    def _by_parts(self, rows: NewRows, predict: Callable[[dict[str, Any]], Any], each: int = 1) -> np.ndarray:
        """Predict some rows at a time, so that memory is bounded whatever their number."""
        records = rows.records or {"": np.zeros(len(rows))}  # a formula without predictors
        most = max(1, MOST_NUMBERS // (self.num_draws * max(each, len(self.model.classes))))
        step = min(most, next((size for size in SIZES if size >= len(rows)), SIZES[-1]))
        parts: list[np.ndarray] = []
        for start in range(0, len(rows), step):
            part = {name: leaf[start : start + step] for name, leaf in records.items()}
            length = min(step, len(rows) - start)
            padded = {name: np.concatenate([leaf, leaf[:1].repeat(step - length)]) for name, leaf in part.items()}
            parts.append(np.asarray(predict(padded))[:, :length])
        return np.concatenate(parts, axis=1)


def _keys(seed: int | None) -> Any:
    """Return keys without an end: from a stated seed, or from one that nobody knows."""
    chosen = secrets.randbits(31) if seed is None else validation.integer("seed", seed, at_least=0)
    key = jax.random.key(chosen)
    while True:
        key, one = jax.random.split(key)
        yield one
