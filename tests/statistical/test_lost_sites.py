"""Random intercepts of sites of which many are too small to be seen: their spread is marked, and only then.

Seeds of tables and of noise are fixed. At epsilon 2 a site with a thousand rows is not seen in fewer than one of 1e4.
"""

import numpy as np
import pandas as pd
import pytest

import dpmcmc as dp
from dpmcmc.enclave.tables import read_table
from dpmcmc.fitting.strategies.weighted_scores.lost_groups import FEW_SEEN

SITES, SIZE = 20, 20_000


@pytest.mark.parametrize(("small", "is_marked"), [(12, True), (0, False)])
def test_a_spread_that_rests_on_few_sites_is_marked(small, is_marked):
    rng = np.random.default_rng(1)
    shares = np.where(np.arange(SITES) < small, 0.01, 1.0)
    site, x = rng.choice(SITES, SIZE, p=shares / shares.sum()), rng.uniform(-1, 1, SIZE)
    eta = 0.5 * x + rng.normal(0, 0.7, SITES)[site]
    levels = tuple(f"s{number}" for number in range(SITES))
    schema = dp.Schema(
        {
            "x": dp.Column(kind="number", lower=-1, upper=1),
            "site": dp.Column(kind="category", categories=levels),
            "y": dp.Column(kind="boolean"),
        }
    )
    y = rng.random(SIZE) < 1 / (1 + np.exp(-eta))
    records = read_table(pd.DataFrame({"x": x, "site": np.array(levels)[site], "y": y}), schema)
    data = dp.PrivateData.without_guarantee(records.records, bounds=schema.bounds, schema=schema)
    found = dp.fit("y ~ x + (1|site)", data, family="bernoulli", epsilon=2.0, insecure_seed=1, progress=False)
    grades = found.quality.parameters
    assert (FEW_SEEN in grades["1|site_sigma"].reasons) == is_marked
    assert not grades["x"].reasons
    assert any("Many groups" in reason for reason in found.quality.reasons) == is_marked
