"""A2: what a record adds depends on where it stands, and a neighbour moves everybody.

The attack: rows with x[0]^2 rounded in x[1], so that x[0]^2 - x[1] is zero where the compiler rounds the product and a
clip where it does not: in the vector body of a loop and in its remainder, in one half of an unrolled body and in the
other. Under add-or-remove-one the rows behind a removed one move up; under replace-one with persons, who are sorted by
their names, those between the old name and the new one do.

What must happen: the program runs, and neighbours differ by no more than the sensitivity: one clip, or two. Where
places are drawn at random, there is one draw of them for each pair of neighbours under which all other records keep
theirs, so the *means* of the sums over fresh vaults differ by no more than the sensitivity. (That the draw can be
paired so is tested beside it.) What is measured: the difference of the means over VAULTS fresh vaults a side, with
noise of 1/32 of a clip.

False alarms: the difference may exceed the sensitivity by ERRORS of its own standard errors, which a t distribution of
2 * VAULTS - 2 = 22 degrees of freedom does with a probability of 1.6e-6, if the sums are about normal.
"""

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from exact_sums import QUIET
from toy import Book
from vaults import add_or_remove_vault

from dpmcmc.enclave import LogRatio, PrivateData, Sum
from dpmcmc.schema import Column, Schema

VAULTS, ERRORS = 12, 6.5


def cancelling_number():
    """A float32 whose square is rounded by more than a thousand, downward: a fused x * x - fl(x * x) is above 1000."""
    numbers = np.random.default_rng(0).uniform(1e6, 2e6, 4096).astype(np.float32)
    errors = numbers.astype(np.float64) ** 2 - (numbers * numbers).astype(np.float64)
    return numbers[errors > 1000][0]


A = cancelling_number()


def rows_of(n, cancelling):
    """Six columns, of which the statistic reads two: rows under the mask cancel, the others add nothing at all."""
    rows = np.zeros((n, 6), np.float32)
    rows[cancelling, 0], rows[cancelling, 1] = A, A * A
    return rows


def statistic(x):
    return x[0] ** 2 - x[1]


class Ratio:
    """Its log-ratio between 0 and 1 is the statistic."""

    temperature = 1.0

    def log_prior(self, t):
        return 0.0 * t[0]

    def log_likelihood(self, t, x):
        return t[0] * statistic(x)


def released(vault, kind):
    """The sum in clips, next to no noise."""
    if kind == "sum":
        return float(vault.run(lambda oracle: oracle.sum(Sum(1.0, 2 * QUIET), statistic).value)[0])
    return float(
        vault.run(
            lambda oracle, a, b: oracle.log_posterior_ratio(LogRatio(1.0, 2 * QUIET), a, b).value,
            np.zeros(1, np.float32),
            np.ones(1, np.float32),
            model=Ratio(),
        )
    )


def assert_neighbours(ones, others, sensitivity):
    ones, others = np.asarray(ones), np.asarray(others)
    error = np.sqrt((ones.var(ddof=1) + others.var(ddof=1)) / len(ones))
    moved = abs(ones.mean() - others.mean())
    assert moved <= sensitivity + ERRORS * error, f"moved by {moved:.3f} +- {error:.3f} clips of {sensitivity}"


@pytest.mark.parametrize("kind", ["sum", "ratio"])
def test_a_removed_row_at_the_clip(kind):
    """n = 203 with default settings: three rows are in the remainder of a loop, and one of them leaves it."""
    rows = rows_of(203, np.arange(1, 203))
    rows[0, 1] = -1e6  # at the clip, of the sign that adds to what the shift does
    pairs = [
        [released(add_or_remove_vault(one, 203), kind) for one in (rows, np.delete(rows, 0, 0))] for _ in range(VAULTS)
    ]
    assert_neighbours(*zip(*pairs, strict=True), 1.0)


@pytest.mark.parametrize("kind", ["sum", "ratio"])
def test_a_removed_row_that_adds_nothing(kind):
    """n = 1603 in chunks of 16: a hundred rows move from one half of a body to the other."""
    rows = rows_of(1603, np.arange(8, 1603, 16))
    pairs = [
        [released(add_or_remove_vault(one, 1603, chunk_size=16), kind) for one in (rows, np.delete(rows, 0, 0))]
        for _ in range(VAULTS)
    ]
    assert_neighbours(*zip(*pairs, strict=True), 1.0)


def test_a_person_who_is_replaced_by_one_of_another_name():
    """203 persons of two rows, default settings: p000 becomes q999, and everybody else is who he was."""
    wide = Column(kind="number", lower=-1e13, upper=1e13)
    schema = Schema(dict.fromkeys("abc", wide), person="who", max_rows_per_person=2)

    def table(first):
        """Of the person who is replaced, name and what he adds: one clip of either sign."""
        persons = [(f"p{number:03}", float(A), float(A * A)) for number in range(1, 203)]
        rows = [(who, a, b, 0.0) for who, a, b in [*persons, first] for _ in range(2)]
        return pd.DataFrame(rows, columns=["who", *"abc"])

    def total(first):
        vault = PrivateData.from_table(table(first), schema=schema, ledger=Book(), dataset="people")
        noisy = vault.run(lambda oracle: oracle.sum(Sum(1.0, QUIET), lambda r: jnp.sum(r["a"] ** 2 - r["b"])))
        return float(noisy.value[0])

    pairs = [[total(("p000", 0.0, -1e6)), total(("q999", 0.0, 1e6))] for _ in range(VAULTS)]
    assert_neighbours(*zip(*pairs, strict=True), 2.0)
