"""One small table in all the forms that it can come in."""

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from dpmcmc.enclave.tables import DuckDBQuery
from dpmcmc.schema import Column, Schema

AGE = Column(kind="number", lower=0, upper=120, missing="indicator", fill=40)
VISITS = Column(kind="integer", lower=0, upper=10, missing="fill", fill=2)
SMOKER = Column(kind="boolean")
WARD = Column(kind="category", categories=("a", "b", "c"), missing="category")
COLUMNS = {"age": AGE, "visits": VISITS, "smoker": SMOKER, "ward": WARD}
SCHEMA = Schema(COLUMNS)
PERSONS = Schema(COLUMNS, person="patient", max_rows_per_person=2)

FRAME = pd.DataFrame(
    {
        "patient": [7, 7, 3, 3, 3, 12],
        "name": ["Ann", "Ann", "Bob", "Bob", "Bob", "Cleo"],
        "age": [31.5, 131.0, -4.0, None, 55.25, 0.0],
        "visits": [1, 99, -3, 4, 10, 0],
        "smoker": [True, False, True, True, False, False],
        "ward": ["a", "b", None, "unknown", "c", "a"],
    }
)
CSV = FRAME.to_csv(index=False)


def write_arrow(table: pa.Table, path, new=pa.ipc.new_file):
    with pa.OSFile(str(path), "wb") as file, new(file, table.schema) as writer:
        writer.write_table(table)


def sources(folder, frame: pd.DataFrame = FRAME) -> dict[str, object]:
    """Return the table as every kind of source."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    frame.to_csv(folder / "t.csv", index=False)
    frame.to_csv(folder / "t.tsv", index=False, sep="\t")
    pq.write_table(table, folder / "t.parquet")
    write_arrow(table, folder / "t.feather")
    write_arrow(table, folder / "t.arrow", pa.ipc.new_stream)
    many = folder / "many"
    (many / "deeper").mkdir(parents=True)
    half = len(frame) // 2
    pq.write_table(table[:half], many / "0.parquet")
    pq.write_table(table[half:], many / "deeper" / "1.parquet")
    (many / "_SUCCESS").touch()
    connection = duckdb.connect()
    connection.register("people", table)
    return {
        "csv": folder / "t.csv",
        "tsv": str(folder / "t.tsv"),
        "parquet": folder / "t.parquet",
        "feather": folder / "t.feather",
        "arrow": folder / "t.arrow",
        "folder": many,
        "pandas": frame,
        "pandas objects": frame.astype(object),
        "pandas categories": frame.astype({"ward": "category"} if "ward" in frame else {}),
        "polars": pl.DataFrame(
            {name: pl.Series([None if pd.isna(cell) else cell for cell in frame[name]]) for name in frame.columns}
        ),
        "pyarrow": table,
        "duckdb": (connection, "SELECT * FROM people;"),
        "duckdb object": DuckDBQuery(connection, 'SELECT *, 1 AS "more" FROM people'),
    }


def check_same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    assert one.keys() == other.keys()
    for name in one:
        assert one[name].dtype == other[name].dtype
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)
