"""Public tables, their models, and their posteriors without privacy: read exactly, which only a public table allows."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jax.flatten_util import ravel_pytree

import dpmcmc as dp
from dpmcmc.enclave.tables.readers import read_table
from experiments.beyond.more_tables import rows_of, schema_of

NEWTON_STEPS, NEAR, LONGEST, SLACK = 200, 1e-8, 1.0, 1e-13
"""Most steps to a mode, how short the last is, how long any, and by what rounding may lower a density."""
NUM_DRAWS = 20_000


@dataclass(frozen=True, eq=False)
class Question:
    """A formula about a public table."""

    table: str
    formula: str
    family: str

    @cached_property
    def schema(self) -> dp.Schema:
        """What is stated of the columns."""
        return dp.Schema.read(schema_of(self.table))

    @cached_property
    def rows(self) -> pd.DataFrame:
        """The table; the package that holds it is downloaded the first time."""
        return rows_of(self.table)

    @cached_property
    def of_row(self) -> dp.model.FormulaModel:
        """The model of one row."""
        return dp.from_formula(self.formula, self.schema, family=self.family)

    @cached_property
    def model(self) -> dp.Model:
        """The model of one record: of a row, or of a person with several."""
        return self.of_row if self.schema.person is None else dp.model.per_person(self.of_row)

    @cached_property
    def records(self) -> Any:
        """The records, exactly."""
        return read_table(self.rows, self.schema).records

    @property
    def num_records(self) -> int:
        """How many records there are: rows, or persons."""
        return len(next(iter(self.records.values())))

    def named(self, positions: Any) -> pd.DataFrame:
        """Return parameters on the scale on which people read them, one row a position."""
        return pd.DataFrame(
            {name: np.asarray(leaf) for name, leaf in jax.vmap(self.model.constrain)(positions).items()}
        )

    @cached_property
    def exact(self) -> pd.DataFrame:
        """Draws of the posterior without privacy: normal at its mode, which `references` holds against NUTS."""
        shapes = jax.eval_shape(self.model.sample_prior, jax.random.key(0))
        with jax.enable_x64(True):
            table = jax.tree.map(
                lambda leaf: jnp.asarray(leaf, jnp.float64) if leaf.dtype.kind == "f" else leaf, self.records
            )
            flat, nest = ravel_pytree(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), shapes))

            def log_density(flat: jax.Array) -> jax.Array:
                terms = jax.vmap(self.model.log_likelihood, in_axes=(None, 0))(nest(flat), table)
                return self.model.log_prior(nest(flat)) + jnp.sum(terms)

            mode, hessian = _mode(jax.jit(jax.value_and_grad(log_density)), jax.jit(jax.hessian(log_density)), flat)
            if mode is None:
                raise RuntimeError(f"Newton's method did not find the mode of the posterior of {self.table}")
            draws = np.random.default_rng(0).multivariate_normal(mode, np.linalg.inv(-hessian), NUM_DRAWS)
            positions = jax.vmap(nest)(jnp.asarray(draws))
        return self.named(jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf), jnp.float32), positions))

    @property
    def coefficients(self) -> list[str]:
        """The coefficients, which every method gives: the scale of the noise is none."""
        return [name for name in self.exact if name in self.of_row.feature_names]


def _mode(value: Any, curvature: Any, flat: Any) -> tuple[np.ndarray | None, np.ndarray]:
    """Return where a log-density is largest, and its Hessian there: Newton steps, uphill in every direction."""
    point = np.asarray(flat, float)
    for _ in range(NEWTON_STEPS):
        (height, gradient), hessian = value(point), np.asarray(curvature(point))
        eigenvalues, directions = np.linalg.eigh(-hessian)
        move = directions @ (directions.T @ np.asarray(gradient) / np.maximum(np.abs(eigenvalues), 1e-6))
        if np.linalg.norm(move) < NEAR:
            return (point + move if eigenvalues[0] > 0 else None), hessian
        share = min(1.0, LONGEST / np.linalg.norm(move))
        while share > NEAR and not value(point + share * move)[0] >= height - SLACK * abs(height):
            share /= 2
        point = point + share * move
    return None, hessian


@lru_cache(maxsize=4)
def question(table: str, formula: str, family: str) -> Question:
    """Return the question, with all that was made of it before in this process."""
    return Question(table, formula, family)
