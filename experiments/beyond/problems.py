"""The problems, with records of their own in every repeat, and draws of their exact posteriors."""

from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from scipy.special import expit

from dpmcmc import zoo
from dpmcmc.zoo.banana import BentNormal
from dpmcmc.zoo.normal import Normal
from experiments.machinery.study import Cell

PRIOR_VARIANCE, NEWTON_STEPS = 10.0, 12
"""Of the zoo's regression."""

SLOPES = 2.0
"""The length of the vector of coefficients that the records of the regressions are made with."""

CIRCLE = 5.0
"""The flat prior of the circle has no centre: where to look is stated, as the standard deviation of a normal law."""

REGRESSION = "logistic_regression"


def made(cell: Cell) -> zoo.Problem:
    """Return the problem with the records of the repeat; the coefficients of a regression are those of its seed."""
    options: dict[str, Any] = {"num_records": cell["num_records"]}
    if cell["name"] == REGRESSION:
        truth = np.random.default_rng(cell["seed"]).normal(size=cell["dimension"])
        options["truth"] = SLOPES * truth / np.linalg.norm(truth)
        options["prior_variance"] = PRIOR_VARIANCE
    problem = zoo.problem(cell["name"], np.random.default_rng([cell["seed"], cell["repeat"], 0]), **options)
    if problem.model.sample_prior is not None:
        return problem
    model = replace(problem.model, sample_prior=lambda key: CIRCLE * jax.random.normal(key, (problem.dimension,)))
    return replace(problem, model=model)


@dataclass(frozen=True)
class Regular:
    """A posterior that is normal in coordinates z, or as good as: N(centre, F F^T), and the scores of the records."""

    centre: np.ndarray
    factor: np.ndarray
    scores: np.ndarray
    """Of each record at the centre, in coordinates in which the posterior is round: shape (n, d)."""
    bend: Any = None

    def draw(self, rng: np.random.Generator, num_draws: int, shift: np.ndarray | float = 0.0) -> np.ndarray:
        """Return draws of the posterior, moved in round coordinates by the shift."""
        z = rng.normal(size=(num_draws, len(self.centre))) + shift
        straight = self.centre + z @ self.factor.T
        return straight if self.bend is None else self.bend.bent(straight)


def regular(problem: zoo.Problem) -> Regular | None:
    """Return the normal law behind a problem, if there is one: of a regression, whose records are many, at its mode."""
    if problem.name == REGRESSION:
        return _regression(problem)
    law, bend = problem.law, None
    if isinstance(law, BentNormal):
        law, bend = law.normal, law.bend
    if not isinstance(law, Normal):
        return None
    factor = np.linalg.cholesky(law.covariance)
    # the likelihood of a record is normal around the centre with the precision of a posterior of n such records
    precision = np.linalg.inv(law.covariance) / len(problem.records)
    scores = (problem.records - problem.records.mean(axis=0, dtype=np.float64)) @ precision @ factor
    return Regular(law.mean, factor, scores, bend)


def _regression(problem: zoo.Problem) -> Regular:
    rows = np.column_stack([np.ones(len(problem.records["x"])), problem.records["x"]]).astype(float)
    position, prior_precision = problem.centre.copy(), np.eye(problem.dimension) / PRIOR_VARIANCE
    for _ in range(NEWTON_STEPS):
        chance = expit(rows @ position)
        precision = rows.T @ (rows * (chance * (1 - chance))[:, None]) + prior_precision
        position += np.linalg.solve(precision, rows.T @ (problem.records["y"] - chance) - prior_precision @ position)
    factor = np.linalg.cholesky(np.linalg.inv(precision))
    scores = (rows * (problem.records["y"] - expit(rows @ position))[:, None]) @ factor
    return Regular(position, factor, scores)
