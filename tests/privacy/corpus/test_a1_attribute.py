"""A1 as an attacker would use it: one attribute of one person, or whether he is in the table at all.

The attack: a clipped sum at the price of next to nothing, whose statistic cancels for the record in question and
overflows for all others, which then add nothing. Any predicate will do: HUGE times its opposite is added. If the
record is there and its clip does not hold, the release is far from zero. The attacker says "yes" where its norm is
above sd * (sqrt(d) + 3), fixed beforehand.

What must happen: the programs run, at their price, and the attacker is right no more often than the price allows: with
(epsilon, delta) the chances of a right "yes" and a right "no" add up to at most 2 e^epsilon / (1 + e^epsilon) + delta.

False alarms: the number of right answers is a sum of independent coins, whose tail above its mean is at most that of a
binomial with the mean chance (Hoeffding 1956). The test fails beyond the 1e-5 quantile of that binomial.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binom
from vaults import add_or_remove_vault

from dpmcmc.accounting import Budget, epsilon
from dpmcmc.enclave import PrivateData, Sum

DELTA, RUNS, FALSE_ALARM = 1e-6, 20, 1e-5
QUERY = (1e8 * np.random.default_rng(3).uniform(1, 2, 7)).astype(np.float32)
HUGE = np.float32(3e38)


def yes(noisy):
    sd = float(np.sqrt(noisy.variance))
    return bool(np.linalg.norm(noisy.value) > sd * (np.sqrt(len(QUERY)) + 3))


def assert_no_better_than(price, right):
    """`right` answers of 2 * RUNS, half of them to either side, are what a price of epsilon allows."""
    chance = 1 / (1 + np.exp(-price)) + DELTA
    most = int(binom.isf(FALSE_ALARM, 2 * RUNS, chance))
    assert right <= most, f"{right} of {2 * RUNS} answers are right; epsilon={price:.3f} allows {most}"


def has_disease(oracle, query, product):
    """Ask for person 137, whose id alone is known: everybody else, and a healthy 137, overflows."""

    def statistic(q, product, person):
        others = HUGE * jnp.abs(person["id"] - 137.0) + HUGE * (1.0 - person["disease"])
        return q * q - (product + others)

    return oracle.sum(Sum(1.0, 77.0), statistic, query, product)


def table(disease):
    draws = np.random.default_rng(5)
    people = {
        "id": np.arange(1000, dtype=np.float32),
        "age": draws.integers(18, 95, 1000).astype(np.float32),
        "ward": draws.integers(0, 9, 1000).astype(np.float32),
        "disease": draws.integers(0, 2, 1000).astype(np.float32),
    }
    people["disease"][137] = disease
    return people


BOUNDS = {"id": (0, 1000), "age": (0, 120), "ward": (0, 10), "disease": (0, 1)}


def test_an_attribute_of_one_person():
    right = 0
    for disease in (0, 1):
        vault = PrivateData(table(disease), bounds=BOUNDS, budget=Budget(epsilon=1.0, delta=DELTA))
        price = epsilon(vault.price(has_disease, QUERY, QUERY * QUERY), delta=DELTA)
        assert price < 0.06
        with vault.reserve(vault.price(has_disease, QUERY, QUERY * QUERY) * RUNS) as paid:
            right += sum(yes(paid.run(has_disease, QUERY, QUERY * QUERY)) == bool(disease) for _ in range(RUNS))
    assert_no_better_than(price, right)


def is_member(oracle, query, product, target):
    def statistic(q, product, target, person):
        return q * q - (product + HUGE * jnp.sum(jnp.abs(person - target)))

    return oracle.sum(Sum(1.0, 40.0), statistic, query, product, target)


@pytest.mark.parametrize("adjacency", ["replace_one", "add_or_remove_one"])
def test_membership(adjacency):
    rows = np.random.default_rng(6).integers(0, 100, (1000, 4)).astype(np.float32)
    target, stranger = rows[400].copy(), np.float32([101, 101, 101, 101])
    if adjacency == "replace_one":
        without = rows.copy()
        without[400] = stranger
        budget = Budget(epsilon=2.0, delta=DELTA)
        vaults = [PrivateData(table, budget=budget) for table in (without, rows)]
    else:
        without, budget = np.delete(rows, 400, axis=0), Budget(epsilon=2.0, delta=DELTA)
        vaults = [add_or_remove_vault(table, 1000, budget=budget) for table in (without, rows)]
    right, asked = 0, (QUERY, QUERY * QUERY, target)
    for is_there, vault in enumerate(vaults):
        price = epsilon(vault.price(is_member, *asked), delta=DELTA)
        assert price < 0.11
        with vault.reserve(vault.price(is_member, *asked) * RUNS) as paid:
            right += sum(yes(paid.run(is_member, *asked)) == bool(is_there) for _ in range(RUNS))
    assert_no_better_than(price, right)
