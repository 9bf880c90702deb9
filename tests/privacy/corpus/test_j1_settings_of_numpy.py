"""J1: one cell that is too small for single precision, and NumPy told to raise or to warn where a number underflows.

The attack: `np.seterr(under="raise")`, which any user may set, and two tables in memory that differ in one cell, 1e-45.
Of the one NumPy said "underflow encountered in cast" while it was opened, of the other nothing.

What must happen: nothing is told of a cell, whatever NumPy does about its errors. Nor is a fit refused, or ended after
the charge, by the underflow of public or released numbers: it works with NumPy's own settings.

False alarms: none; nothing is random that is looked at. The control underflows where the guard is not.
"""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpmcmc as dp
from dpmcmc.accounting import Budget

TINY = 1e-45
SCHEMA = {
    "columns": {"x": {"kind": "number", "lower": 0, "upper": 100}, "y": {"kind": "integer", "lower": 0, "upper": 9}}
}
OF_PERSONS = {**SCHEMA, "person": "who", "max_rows_per_person": 2}
FORMS = ["frame", "frame of objects", "Arrow", "CSV", "Parquet"]


def table(cell: float) -> pd.DataFrame:
    x = np.linspace(1, 99, 40)
    x[5] = cell
    return pd.DataFrame({"x": x, "y": np.arange(40) % 10, "who": [f"p{row // 2}" for row in range(40)]})


def in_form(rows: pd.DataFrame, form: str, folder: Path) -> object:
    match form:
        case "frame of objects":
            return rows.astype(object)
        case "Arrow":
            return pa.Table.from_pandas(rows, preserve_index=False)
        case "CSV":
            rows.to_csv(folder / "a.csv", index=False)
            return folder / "a.csv"
        case "Parquet":
            rows.to_parquet(folder / "a.parquet", index=False)
            return folder / "a.parquet"
        case _:
            return rows


@pytest.mark.parametrize("schema", [SCHEMA, OF_PERSONS], ids=["rows", "persons"])
@pytest.mark.parametrize("form", FORMS)
def test_no_cell_is_told_of(form: str, schema: dict, tmp_path: Path) -> None:
    told: list[object] = []
    source = in_form(table(TINY), form, tmp_path)
    with np.errstate(all="raise"):
        dp.PrivateData.from_table(source, schema=schema, budget=Budget(1.0, 1e-6))
    with np.errstate(all="call", call=lambda *error: told.append(error)):
        dp.PrivateData.from_table(source, schema=schema, budget=Budget(1.0, 1e-6))
    assert not told


def test_numpy_would_have_told() -> None:
    """The control: the cast that a column makes, unguarded."""
    with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="underflow"):
        np.array([TINY]).astype(np.float32)


def test_a_fit_does_not_depend_on_them() -> None:
    rows = pd.concat([table(TINY)] * 150)
    data = dp.PrivateData.from_table(rows, schema=SCHEMA, budget=Budget(9.0, 1e-5))
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        posterior = dp.fit("y ~ x", data, family="poisson", epsilon=8.0, allow_low_accuracy=True, progress=False)
    assert posterior.quality.verdict in ("good", "fair", "bad")
