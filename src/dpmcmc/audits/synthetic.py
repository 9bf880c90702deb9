"""Synthetic tables that fit a schema: what an audit needs to know of the columns, and no row of anybody."""

from typing import Any

import numpy as np
import pandas as pd

from dpmcmc.accounting import Budget
from dpmcmc.column import Column
from dpmcmc.enclave import PrivateData
from dpmcmc.schema import Schema

ROWS = 16


def vault_of_schema(schema: Any) -> PrivateData:
    """Return a vault around synthetic rows, for its public facts: shapes, types and bounds of a record."""
    stated, random = Schema.read(schema), np.random.default_rng(0)
    columns: dict[str, Any] = {name: _column(random, column) for name, column in stated.columns.items()}
    if stated.person is not None:
        columns[stated.person] = [f"person {number}" for number in range(ROWS)]
    return PrivateData.from_table(pd.DataFrame(columns), schema=stated, budget=Budget(1.0, 1e-6))


def _column(random: np.random.Generator, column: Column) -> Any:
    if column.kind == "category":
        return random.choice(np.array(column.categories), ROWS)
    if column.kind == "boolean":
        return random.random(ROWS) < 0.5
    values = random.uniform(*column.bounds, ROWS)
    return values if column.kind == "number" else np.rint(values)
