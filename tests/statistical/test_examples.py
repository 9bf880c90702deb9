"""The examples: the script works on synthetic rows in seconds; on the real tables, which are downloaded, slowly."""

import sys
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest

import dpmcmc as dp
from dpmcmc.fitting import RECIPES

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def script():
    sys.path.insert(0, str(EXAMPLES))
    import run

    yield run
    sys.path.remove(str(EXAMPLES))


def made_up(example, num_rows: int) -> pd.DataFrame:
    """Return rows that the example's own model makes up."""
    model = dp.from_formula(example.formula, example.schema, family=example.family)
    rows = {name: np.asarray(leaf) for name, leaf in model.simulate(jax.random.key(2), num_rows).records.items()}
    return pd.DataFrame({**rows, "person": np.arange(num_rows) // 3})


@pytest.mark.slow
def test_the_script_compares_with_the_posterior_without_privacy(script) -> None:
    example = script.EXAMPLES["doctor_visits"]
    table = made_up(example, 3600)
    exact = script.reference(example, table)
    row = script.compare(example, table, exact, 8.0, "auto")
    assert row["outcome"] == "fitted"
    assert row["median_error"] < 1.0
    assert script.compare(example, table, exact, 0.1, "auto")["outcome"] == "announced useless"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adult", "wages", "doctor_visits"])
def test_a_real_table_without_a_knob(script, name) -> None:
    example = script.EXAMPLES[name]
    table = pd.read_parquet(script.fetch(name, script.SOURCES[name]))
    exact = script.cached_reference(example, table)
    row = script.compare(example, table, exact, 4.0, "auto")
    assert row["outcome"] == "announced useless" or row["median_error"] < 1.0
    for sampler in RECIPES:
        row = script.compare(example, table, exact, 4.0, sampler)
        assert row["outcome"] == "announced useless" or np.isfinite(row["largest_error"])
