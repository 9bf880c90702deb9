"""C3: an empty table.

The attack: n = 0 and n = 1 are neighbours under add-or-remove-one. If the one is an error and the other is not, the
error tells them apart with certainty.

What must happen: under add-or-remove-one every mechanism releases from an empty table what it releases from a table of
records that add nothing: noise. Under replace-one, where the number is public and there is nobody to protect, it is an
InvalidArgument.

False alarms: noise is longer than sd * (sqrt(d) + 8) with a probability of 1.3e-14 a check.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from exact_sums import assert_within
from toy import Book
from vaults import STATED, add_or_remove_vault, free_vault

from dpmcmc.enclave import (
    BarkerBit,
    CurvatureSum,
    GradientSum,
    LogRatio,
    NoisyCount,
    PenaltyTest,
    PrivateData,
    RemainderTest,
    SubsampledGradientSum,
    Sum,
)
from dpmcmc.errors import InvalidArgument
from dpmcmc.schema import Column, Schema

PLACES, D = 50, 3
T, EYE = jnp.full(D, 0.5), jnp.eye(D)


def rows(n):
    return {"x": np.full((n, D), 0.1, np.float32), "y": np.ones(n, np.float32)}


class Logistic:
    temperature = 1.0

    def log_prior(self, t):
        return 0.0 * jnp.sum(t)

    def log_likelihood(self, t, r):
        return jax.nn.log_sigmoid(r["y"] * (r["x"] @ t))


class Mixture(Logistic):
    def log_likelihood(self, t, r):
        return jnp.logaddexp(-jnp.sum((r["x"] - t) ** 2), -jnp.sum((r["x"] + t) ** 2))


SUMS = {
    "Sum": lambda o: o.sum(Sum(1.0, 2.0), lambda r: r["x"]),
    "NoisyCount": lambda o: o.sum(NoisyCount(1.0, 2.0), lambda r: r["x"] + 5),
    "GradientSum": lambda o: o.force(GradientSum(1.0, 2.0), T),
    "CurvatureSum": lambda o: o.curvature(CurvatureSum(1.0, 2.0), T, EYE),
    "LogRatio": lambda o: o.log_posterior_ratio(LogRatio(1.0, 2.0), T, 2 * T),
    "SubsampledGradientSum": lambda o: o.force(SubsampledGradientSum.poisson(1.0, 2.0, 0.2), T),
}
DECISIONS = {
    "PenaltyTest": PenaltyTest(1.0, 2.0),
    "RemainderTest": RemainderTest(1.0, 2.0),
    "BarkerBit": BarkerBit(0.5),
}


@pytest.mark.parametrize("model", [Logistic, Mixture])
@pytest.mark.parametrize("kind", SUMS)
def test_sums_release_noise(kind, model):
    noisy = add_or_remove_vault(rows(0), PLACES).run(SUMS[kind], model=model())
    assert_within(noisy, 1e-6, kind)


@pytest.mark.parametrize("kind", DECISIONS)
def test_decisions_are_made(kind):
    """Of nobody the ratio is zero: with a public rest of 60 every test accepts, with -60 none, but with e^-30."""
    vault = add_or_remove_vault(rows(0), PLACES)
    ask = lambda o, rest: o.accept(DECISIONS[kind], T, 2 * T, rest)  # noqa: E731
    assert vault.run(ask, jnp.float32(60), model=Logistic())
    assert not vault.run(ask, jnp.float32(-60), model=Logistic())


def test_prices_are_those_of_a_table_with_records():
    vaults = [add_or_remove_vault(rows(n), PLACES) for n in (0, 1, 40)]
    for ask in SUMS.values():
        prices = [vault.price(ask, model=Logistic()) for vault in vaults]
        assert prices[0] == prices[1] == prices[2]


@pytest.mark.parametrize("person", [None, "who"])
def test_a_file_with_a_header_alone(person):
    schema = Schema(
        {"x": Column(kind="number", lower=-1, upper=1)}, person=person, max_rows_per_person=2 if person else 1
    )
    frame = pd.DataFrame({"who": pd.Series([], dtype=object), "x": pd.Series([], dtype=float)})
    vault = PrivateData.from_table(
        frame if person else frame[["x"]],
        schema=schema,
        ledger=Book(),
        dataset="people",
        adjacency="add_or_remove_one",
        **{STATED: PLACES},
    )
    noisy = vault.run(lambda oracle: oracle.sum(Sum(1.0, 2.0), lambda r: r["x"]))
    assert_within(noisy, 1e-6)


def test_under_replace_one_it_is_an_error():
    with pytest.raises(InvalidArgument, match="row"):
        free_vault(rows(0))
