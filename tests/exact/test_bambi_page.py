"""The page for bambi's users shows what its script found, and the two packages agree there."""

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bambi_models", ROOT / "examples" / "bambi_models.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_shows_the_results(script) -> None:
    page = (ROOT / "docs" / "coming_from_bambi.md").read_text()
    assert script.formulas() in page
    assert script.page() in page


def test_fits_are_where_bambi_is(script) -> None:
    """Within four and a half standard deviations of the fit, privacy's noise among them; priors differ a little."""
    exact = pd.read_csv(script.HERE / "bambi.csv").set_index(["model", "name"])
    fits = pd.read_csv(script.HERE / "results.csv")
    assert set(fits["model"]) == set(script.PAIRS) == set(exact.index.get_level_values("model"))
    assert len(script.PAIRS) >= 6
    for row in fits.to_dict("records"):
        its = exact.loc[row["model"], row["name"]]
        assert abs(row["mean"] - its["mean"]) < 4.5 * np.hypot(row["sd"], 0.1 * its["sd"]), row
    assert (fits["verdict"] == "bad").sum() <= 4  # a curve of eight columns at epsilon 2, which says so


def test_rows_are_within_the_stated_bounds(script) -> None:
    for name, pair in script.PAIRS.items():
        table = script.rows_of(name)
        assert set(pair.schema) == set(table.columns)
        for column, stated in pair.schema.items():
            if "lower" in stated:
                assert table[column].between(stated["lower"], stated["upper"]).all(), (name, column)
