"""The radon data: which floor of a house was measured, from the logarithms of its radon and of the county's uranium."""

from dataclasses import dataclass
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

import dpmcmc as dp
from dpmcmc.zoo.softmax import softmax_model
from examples.public_tables import SOURCES, fetch

CLASSES = (0, 1, 2, 3, 9)
"""Basement, first, second and third floor, and not known: the five classes of the thesis.

Rows whose floor is not known are left out unless asked for: with them no softmax regression comes near the accuracies
of the thesis, without them it does. The fifth class is then empty.
"""

REACH = 4.0
"""Covariates, with standard deviation 1/2, are cut at so much."""

SHARE_OF_TRAINING = 0.8


@dataclass(frozen=True, eq=False)
class Radon:
    """Rows (label, x) to train on and to test on."""

    train: dict[str, np.ndarray]
    test: dict[str, np.ndarray]

    @property
    def size(self) -> int:
        """The number of rows to train on."""
        return len(self.train["label"])

    def vault(self) -> dp.PrivateData:
        """Return the training rows in a vault that pays for everything: the table is public."""
        bounds = {"label": (0.0, len(CLASSES) - 1.0), "x": (-REACH, REACH)}
        return dp.PrivateData.without_guarantee(self.train, bounds=bounds, noise="float")

    def model(self, prior_variance: float | None, temperature: float) -> dp.Model:
        """Return softmax regression with the prior N(0, variance), or with a flat one on [-1000, 1000]."""
        wide = softmax_model(len(CLASSES), 2, prior_variance or 1.0, temperature)
        if prior_variance is not None:
            return wide

        def box(position: jax.Array) -> jax.Array:
            return jnp.where(jnp.all(jnp.abs(position) < 1000.0), 0.0, -jnp.inf)

        return dp.Model(box, wide.log_likelihood, temperature=temperature, position=wide.position)

    def accuracy(self, position: np.ndarray) -> float:
        """Return the share of test rows whose class is the most probable one."""
        table = np.asarray(position, np.float64).reshape(len(CLASSES), 3)
        scores = table[:, 0] + self.test["x"] @ table[:, 1:].T
        return float(np.mean(np.argmax(scores, axis=1) == self.test["label"]))


@lru_cache(maxsize=4)
def radon(seed: int, *, keep_unknown: bool = False) -> Radon:
    """Return the data, split at random, covariates with mean 0 and standard deviation 1/2 as in the thesis.

    Means and deviations are those of the rows: not a private procedure, and not charged in the thesis either.
    """
    houses, counties = (
        pd.read_parquet(fetch(name, SOURCES[name])) for name in ("radon_measurements", "radon_counties")
    )
    table = houses.merge(counties, on="fips", validate="many_to_one")
    if not keep_unknown:
        table = table[table["floor"] != CLASSES[-1]]
    # readings of 0 stand for less than 0.1
    x = np.log(np.maximum(table[["radon", "uranium"]].to_numpy(), 0.1))
    x = np.clip((x - x.mean(axis=0)) / x.std(axis=0) / 2, -REACH, REACH)
    label = np.searchsorted(CLASSES, table["floor"].to_numpy())
    order = np.random.default_rng(seed).permutation(len(table))
    cut = round(SHARE_OF_TRAINING * len(table))
    parts = [
        {"label": label[rows].astype(np.int32), "x": x[rows].astype(np.float32)} for rows in (order[:cut], order[cut:])
    ]
    return Radon(*parts)
