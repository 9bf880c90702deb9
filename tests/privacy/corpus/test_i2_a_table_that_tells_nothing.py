"""I2: tables on which a fit has nothing to go by, where warnings are errors.

The attack: a table in which no row has what a formula reads, a time, a label, a grade. Noise alone then leads the fit
far out, where numbers overflow, and NumPy warned of it on the host, after the charge. Who turns warnings into errors
had paid for nothing; and whether there is a result depended on the table.

What must happen: a result, finite, at the same price as on any other table, in the same words, and no warning.

False alarms: none that noise can make: draws are looked at for being finite alone. The control warns where the guard is
not.
"""

import warnings

import numpy as np
import pandas as pd
import pytest

import dpmcmc as dp
from dpmcmc.fitting import prepare

SIZE, SITES = 2_000, tuple(f"s{number}" for number in range(70))
SCHEMA = dp.Schema(
    {
        "x": dp.Column(kind="number", lower=-1, upper=1, missing="fill", fill=0),
        "u": dp.Column(kind="number", lower=-1, upper=1, missing="integrate", mean=0, sd=0.5),
        "grade": dp.Column(kind="integer", lower=0, upper=4, missing="fill", fill=0),
        "site": dp.Column(kind="category", categories=SITES, missing="fill", fill="s0"),
        "y": dp.Column(kind="boolean"),
        "months": dp.Column(kind="number", lower=0.1, upper=30),
        "relapsed": dp.Column(kind="boolean"),
    }
)
NOTHING = {
    "no time": ("Surv(months, relapsed) ~ x", "weibull", {"months": None}),
    "no event is known": ("Surv(months, relapsed) ~ x", "weibull", {"relapsed": None}),
    "times that are infinite": ("Surv(months, relapsed) ~ x", "weibull", {"months": np.inf}),
    "labels that nobody stated": ("y ~ x + (1|site)", "bernoulli", {"site": "elsewhere"}),
    "everybody in one group, and all the same": ("y ~ x + (1|site)", "bernoulli", {"site": "s7", "y": True}),
    "no response in any group": ("y ~ x + (1|site)", "bernoulli", {"y": None}),
    "texts for grades": ("y ~ x + mo(grade)", "bernoulli", {"grade": "much"}),
    "nothing but missing cells": ("y ~ x + u", "bernoulli", {"u": None, "x": np.nan}),
}
QUICK = ("no time", "labels that nobody stated")


def table(changes):
    rng = np.random.default_rng(4)
    columns = {
        "x": rng.uniform(-1, 1, SIZE),
        "u": rng.uniform(-1, 1, SIZE),
        "grade": rng.integers(0, 5, SIZE),
        "site": rng.choice(SITES, SIZE),
        "y": rng.random(SIZE) < 0.4,
        "months": rng.exponential(8, SIZE),
        "relapsed": rng.random(SIZE) < 0.6,
    }
    return pd.DataFrame({**columns, **{name: [cell] * SIZE for name, cell in changes.items()}}, dtype=object)


def fitted(formula, family, changes):
    data = dp.PrivateData.from_table(table(changes), schema=SCHEMA, budget=dp.Budget(10.0, 1e-5))
    return dp.fit(formula, data, family=family, epsilon=3.0, progress=False, allow_low_accuracy=True)


@pytest.mark.parametrize(
    "name", [one if one in QUICK else pytest.param(one, marks=pytest.mark.slow) for one in NOTHING]
)
def test_a_fit_ends_with_a_result_and_without_a_word(name):
    formula, family, changes = NOTHING[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = fitted(formula, family, changes)
    assert all(np.isfinite(np.asarray(values, float)).all() for values in found.draws.values())
    usual = fitted(formula, family, {})
    assert found.certificate.epsilon == usual.certificate.epsilon
    assert found.settings["request"] == usual.settings["request"]


def test_numpy_would_warn_and_does_not_while_a_fit_draws():
    """The control: what overflows says so outside, and nothing inside of what draws."""
    seen = []

    class Ended(Exception):
        """It has drawn."""

    class Strategy:
        def draw(self, *_):
            seen.append(float(np.exp(np.float64(1e4))))
            raise Ended

    class Overflows(prepare.PreparedFit):
        strategy, seed = Strategy(), 0

        def __init__(self):
            pass

    with pytest.warns(RuntimeWarning, match="overflow"):
        np.exp(np.float64(1e4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(Ended):
            Overflows().draw(None, None, lambda: False)
    assert seen == [np.inf]
