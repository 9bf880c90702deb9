"""A regression with many groups, taken apart: what is common to all records, and a few effects of each group.

Beside the effects of its group a record moves the common parameters. Those whose column the columns of the groups add
up to, the intercept for ``(1|g)``, no record tells of by themselves: what records see is their sum with the effects.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from dpmcmc.fitting.strategies.weighted_scores.regression import Group, Regression
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats, Scores
from dpmcmc.model import FormulaModel
from dpmcmc.model.formula.groups import Groups


@dataclass(frozen=True)
class Grouped:
    """A regression whose terms with a bar all have the same groups."""

    whole: Regression
    common: Regression
    """The same without groups."""

    @classmethod
    def of(cls, model: FormulaModel) -> "Grouped":
        """Take a model apart."""
        coordinates = replace(model.coordinates, groups={})
        plain = replace(model, coordinates=coordinates, formula=f"{model.formula}, without groups")
        return cls(Regression.of(model), Regression.of(plain, may_scale=False))

    @property
    def of_intercept(self) -> list[int]:
        """Which of a group's effects is that of the intercept, if one is."""
        return [place for place, term in enumerate(self.terms) if term.number is None]

    @property
    def model(self) -> FormulaModel:
        """The model, groups and all."""
        return self.whole.model

    @property
    def scores(self) -> Scores:
        """The bounded scores of the family."""
        return self.whole.scores

    @cached_property
    def terms(self) -> tuple[Groups, ...]:
        """The terms with a bar."""
        return tuple(groups for groups, _ in self.model.coordinates.groups.values())

    @cached_property
    def spreads(self) -> tuple[Group, ...]:
        """The same, with the prior of the standard deviation of each."""
        return self.whole.groups

    @property
    def num_groups(self) -> int:
        """How many groups there are."""
        return len(self.terms[0].levels)

    @property
    def size(self) -> int:
        """How many effects a group has."""
        return len(self.terms)

    @property
    def num_common(self) -> int:
        """How many parameters all groups share."""
        return self.common.dimension

    @cached_property
    def fixed(self) -> tuple[int | None, ...]:
        """The common parameter of which records see the sum with each effect alone, if there is one."""
        return tuple(self.whole.fixed_place(term) for term in self.terms)

    @cached_property
    def told(self) -> NDArray[np.int_]:
        """The common parameters that records tell of by themselves."""
        return np.array([place for place in range(self.num_common) if place not in self.fixed], int)

    @cached_property
    def means_of_fixed(self) -> Floats:
        """How the sums that records see move with the common parameters, the means of their columns left out."""
        means = np.zeros((self.size, self.num_common))
        for effect, place in enumerate(self.fixed):
            if place is not None:
                means[effect, place] = 1.0
        return means

    def vectors(self, effects: Floats, common: Floats) -> Floats:
        """Return effects (..., groups, size) and common parameters (..., common) as vectors of the whole regression."""
        number, linear = self.whole.dimension, self.common.num_linear
        found = np.zeros((*common.shape[:-1], number))
        found[..., :linear] = common[..., :linear]
        found[..., self.whole.num_linear :] = common[..., linear:]
        for place, group in enumerate(self.spreads):
            found[..., group.places] = effects[..., place]
        return found

    # one record, in JAX

    def place_and_values(self, row: Any) -> tuple[jax.Array, jax.Array]:
        """Return a row's group, and what its effects are multiplied with: nothing, in any group, if it is in none."""
        place = self.terms[0].place(row)
        values = jnp.stack([term.multiplier(row) for term in self.terms])
        return jnp.maximum(place, 0), jnp.where(place >= 0, values, 0.0)

    # as a check of the residuals reads it: the common parameters, then the effects

    def rows(self, record: Any) -> tuple[Any, Any]:
        """Return the row of a record with a leading axis, and whether it is there, with a response."""
        return self.common.rows(record)

    def row(self, record: Any) -> jax.Array:
        """Return the columns that all groups share."""
        return self.common.row(record)

    def shapes(self, xp: Any, vector: Any, columns: Any = None) -> Any:
        """Return the shape parameters."""
        return self.common.shapes(xp, vector[: self.num_common], columns)

    def predictors(self, vector: jax.Array, record: Any) -> jax.Array:
        """Return the predictors of one row."""
        place, values = self.place_and_values(record)
        effects = vector[self.num_common :].reshape(self.num_groups, self.size)[place]
        return self.common.predictors(vector[: self.num_common], record) + values @ effects
