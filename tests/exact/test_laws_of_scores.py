"""The law of scores on the host has the slope, the variance and the longest score that those of a record have."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.model import FAMILIES
from experiments.stress.coverage import TABLES
from experiments.stress.emulated import Emulated

CUT, EXACTLY = 2.0, 2e-3


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_the_law_on_the_host_is_that_of_the_records(family) -> None:
    regression = Regression.of(Emulated(TABLES[family], 1.0).model)
    scores, outputs = regression.scores, regression.num_outputs
    shapes = np.full(scores.num_shapes, 0.3)
    table = jnp.asarray(scores.table(shapes, CUT), jnp.float32)
    trials, gram = jnp.float32(TABLES[family].trials), np.diag(np.linspace(1.0, 2.0, outputs + scores.num_shapes))

    @jax.jit
    def own(predictors):
        found = scores.at(predictors, jnp.asarray(shapes, jnp.float32), jnp.float32(1.0), trials, table)
        return found.slope, found.variance, found.longest(jnp.asarray(gram, jnp.float32))

    grid = getattr(scores, "grid", np.array([-0.7, 0.4]))  # between two of its predictors counts are as at the nearer
    for predictor in (grid[np.abs(grid - wanted).argmin()] for wanted in (-0.7, 0.4)):
        predictors = np.full(outputs, predictor)
        law = scores.under_model(predictors, shapes, CUT)
        slope, variance, longest = (np.asarray(each) for each in own(jnp.asarray(predictors, jnp.float32)))
        np.testing.assert_allclose(law.slope, slope, atol=EXACTLY * np.abs(slope).max())
        np.testing.assert_allclose(law.variance, variance, atol=EXACTLY * np.abs(variance).max())
        assert law.longest(gram[None])[0] == pytest.approx(longest, rel=0.02)
        assert law.probabilities @ law.bounded == pytest.approx(0.0, abs=1e-9)
