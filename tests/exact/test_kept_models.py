"""Models of formulas are kept, so that what is compiled for one serves the next fit."""

import pandas as pd
import pytest

import dpmcmc as dp
from dpmcmc.fitting.models import as_model

COLUMNS = {"x": dp.Column(kind="number", lower=-1, upper=1), "y": dp.Column(kind="boolean")}
ROWS = pd.DataFrame({"x": [0.1, -0.2, 0.3], "y": [True, False, True], "id": ["a", "a", "b"]})


@pytest.mark.parametrize("formula", ["y ~ x", "y ~ x + (1|id)"])
def test_another_table_of_persons_has_the_same_model(formula):
    schema = dp.Schema(COLUMNS, person="id", max_rows_per_person=3)
    first, second = (dp.PrivateData.from_table(ROWS, schema=schema, budget=dp.Budget(1.0, 1e-6)) for _ in range(2))
    assert as_model(formula, first) is as_model(formula, second)
    other = dp.Schema(COLUMNS, person="id", max_rows_per_person=2)
    third = dp.PrivateData.from_table(ROWS, schema=other, budget=dp.Budget(1.0, 1e-6))
    assert as_model(formula, third) is not as_model(formula, first)
