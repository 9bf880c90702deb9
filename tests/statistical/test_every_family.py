"""Every family and every term at a large epsilon beside NUTS on the same records.

At epsilon 64 noise and bounds move parameters by a tenth of a standard deviation of the posterior, of counts with two
shapes by a third: half of one, or two and a half times what is predicted, root mean square over four parameters or
more, is met by chance in one of 20,000 cases at most. Sums and noise are emulated. A wrong scale, sign or column is
many standard deviations off, as the last test shows.
"""

from dataclasses import replace

import numpy as np
import pytest

from experiments.stress.coverage import OF_FAMILIES
from experiments.stress.emulated import Emulated
from experiments.stress.judge import Priors, judged
from experiments.stress.problems import PROBLEMS, Problem
from experiments.stress.reference import Reference, exact
from experiments.stress.terms import TERMS

EPSILON, SIZE, NEAR, SEED = 64.0, 4_000, 0.5, 3
OTHERS = (
    "weibull censored",
    "exponential censored",
    "lognormal censored",
    "piecewise_exponential censored",
    "weibull late entry",
    "gaussian sigma ~ x0",
    "bernoulli 5 sites",
    "bernoulli slopes of 8 sites",
    "bernoulli persons",
)
CASES: dict[str, Problem] = {**OF_FAMILIES, **TERMS, **{name: PROBLEMS[name] for name in OTHERS}}


def judgement(name: str, reference: Reference | None = None) -> tuple[dict, Reference]:
    """How a fit is judged beside the exact posterior, and that."""
    emulated = Emulated(replace(CASES[name], size=SIZE), EPSILON)
    records = emulated.records(SEED)
    drawn = emulated.fit(records, SEED)
    found = exact(emulated, records) if reference is None else reference
    assert found.is_valid
    priors = Priors(emulated.problem, emulated.model)
    return judged(emulated.problem, drawn.quality, drawn.draws, found, priors), found


@pytest.mark.parametrize("name", list(CASES))
def test_a_fit_is_the_posterior_of_nuts(name: str) -> None:
    result, _ = judgement(name)
    assert result["right"], result
    assert result["error_of_all"] < max(NEAR, 2.5 * result["predicted"]), result


def test_a_posterior_that_is_another_is_told() -> None:
    """The negative control: one coefficient has the other sign, or all are known half as well."""
    _, found = judgement("gaussian")
    turned = replace(found, means={**found.means, "x0": -found.means["x0"]})
    wide = replace(found, sds={name: 2 * sd for name, sd in found.sds.items()})
    for other in (turned, wide):
        result, _ = judgement("gaussian", other)
        assert not result["right"]
    assert np.isfinite(result["off"])
