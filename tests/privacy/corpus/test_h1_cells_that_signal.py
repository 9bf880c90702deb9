"""H1: one cell with the bits of a signalling NaN, of which NumPy warns.

The attack: tables that differ in one cell, which is such a NaN in single precision (or R's NA in double precision, for
integers). Where rows come from files or a query NumPy warned of "invalid value encountered" while they were opened or
read, before anything was charged; with warnings turned into errors the run of the one table failed, after the charge.

What must happen: no warning, and a result, whatever a cell holds.

False alarms: none; nothing is random. The control warns where the guard is not.
"""

import warnings

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import dpmcmc as dp
from dpmcmc.accounting import Budget
from dpmcmc.enclave import Sum
from dpmcmc.enclave.tables.flags import read_flags
from dpmcmc.enclave.tables.guard import in_own_words

SIGNALS = {"number": ("f4", np.uint32, 0x7F800001), "integer": ("f8", np.uint64, 0x7FF00000000007A2)}
OPENED = {
    "one file": ("a.parquet", {}),
    "several files": ("*.parquet", {}),
    "scratch": ("a.parquet", {"scratch": True}),
    "chunk by chunk": ("a.parquet", {"in_memory": False}),
}


@pytest.fixture(params=SIGNALS)
def table(request, tmp_path):
    """A table with such a cell, and its schema."""
    kind, bits, signal = SIGNALS[request.param]
    values = np.random.default_rng(0).uniform(0, 100, 2000).astype(kind)
    values.view(bits)[5] = signal
    parquet.write_table(pa.table({"x": pa.array(values)}), tmp_path / "a.parquet")
    return tmp_path, dp.Schema({"x": dp.Column(kind=request.param, lower=0, upper=100)})


def ask(oracle):
    return oracle.sum(Sum(1.0, 20.0), lambda record: record["x"] / 100).value


@pytest.mark.parametrize("opened", OPENED)
def test_no_cell_is_warned_of(table, opened):
    folder, schema = table
    name, how = OPENED[opened]
    how = {"scratch": str(folder)} if "scratch" in how else how
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = dp.PrivateData.from_table(str(folder / name), schema=schema, budget=Budget(5.0, 1e-6), **how)
        assert np.isfinite(data.run(ask))
        read_flags(str(folder / "a.parquet"), schema)


def test_numpy_would_warn_and_does_not_in_a_thread_of_its_own():
    """The control: the same arithmetic, unguarded, warns."""
    cell = np.array([0x7F800001], np.uint32).view(np.float32)
    with pytest.warns(RuntimeWarning, match="invalid value"):
        np.add(cell, np.float32(0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        in_own_words("it cannot be read", lambda: np.add(cell, np.float32(0)))
