"""A streamed run that is resumed, under the same noise, with other rows or another executable.

The attacks: (a) the middle of a file is rewritten and its time set back, as `cp -p` and `rsync -t` do; (b) k.csv is
renamed to k.tsv, and read with another delimiter; (c) the vault is opened with accelerators, and resumed without: the
program that was compared was one that is never executed. In each case the result of the first run is lost, and the
difference of the second from it has no noise in it.

What must happen: refused. A source is known by a digest of all its rows, as they were prepared; a program by the texts
of everything that is executed. The control: the same rows in a file of another kind, or staged, are resumed, bit for
bit.

False alarms: none; nothing is compared but identities and bits.
"""

import os
import shutil

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from dpmcmc.accounting import Budget, Ledger
from dpmcmc.enclave import Journal, PrivateData, Sum
from dpmcmc.enclave.sources import FileSource, MemorySource, Scratch
from dpmcmc.errors import ResumeRefused

SCHEMA = {"columns": {"x": {"kind": "number", "lower": 0, "upper": 9}}}


class Stopped(BaseException):
    """The process is no more."""


@pytest.fixture
def resumed(tmp_path, monkeypatch):
    """Executes a program in one and the same run, whose result is lost each time."""
    monkeypatch.setenv("DPMCMC_STATE", str(tmp_path / "private"))
    ledger, folder = Ledger.in_memory(), tmp_path / "run"
    ledger.register("people", Budget(1000.0, 1e-6), "replace_one")

    def execute(source, program=lambda oracle: oracle.sum(Sum(9.0, 60.0), lambda r: r["x"]).value, **options):
        data = PrivateData(source, ledger=ledger, dataset="people", **options)
        found = []
        with pytest.raises(Stopped):  # noqa: PT012, SIM117
            with Journal.open(folder) if folder.exists() else Journal.create(folder, {}) as journal:
                with data.reserve_resumable(data.price(program), journal) as paid:
                    found.append(np.asarray(paid.run(program)))
                    raise Stopped
        (folder / "unfinished" / "00000.npz").unlink()
        return found[0]

    return execute


def test_the_middle_of_a_file(resumed, tmp_path):
    rows, file = [f"{row % 9:.3f}" for row in range(60_000)], tmp_path / "m.csv"
    file.write_text("x\n" + "\n".join(rows) + "\n")
    shutil.copy2(file, tmp_path / "kept.csv")
    times = file.stat()
    first = resumed(FileSource(file, SCHEMA))
    rows[30_000] = "7.000"
    file.write_text("x\n" + "\n".join(rows) + "\n")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(ResumeRefused, match="begun with other records"):
        resumed(FileSource(file, SCHEMA))
    np.testing.assert_array_equal(resumed(FileSource(tmp_path / "kept.csv", SCHEMA)), first)


def test_another_delimiter(resumed, tmp_path):
    file = tmp_path / "k.csv"
    file.write_text("x\tq,x\n" + "".join(f"{row % 5}\t0,{row % 7}\n" for row in range(3_000)))
    resumed(FileSource(file, SCHEMA))
    file.rename(tmp_path / "k.tsv")
    with pytest.raises(ResumeRefused, match="begun with other records"):
        resumed(FileSource(tmp_path / "k.tsv", SCHEMA))


def test_the_same_rows_from_elsewhere_are_the_same(resumed, tmp_path):
    frame = pd.DataFrame({"x": np.random.default_rng(0).uniform(0, 9, 70_000).astype(np.float32)})
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_feather(tmp_path / "t.arrow")
    sources = [
        lambda: FileSource(tmp_path / "t.parquet", SCHEMA),
        lambda: FileSource(tmp_path / "t.arrow", SCHEMA),
        lambda: MemorySource(frame, SCHEMA),
        lambda: Scratch(FileSource(tmp_path / "t.parquet", SCHEMA), tmp_path),
    ]
    assert len({source().identity for source in sources}) == 1
    first = resumed(sources[0]())
    for source in sources[1:]:
        np.testing.assert_array_equal(resumed(source()), first)


def test_accelerators_and_chunks_are_those_of_the_beginning(resumed):
    rows = np.random.default_rng(3).random(3_000)
    source = MemorySource(pd.DataFrame({"x": rows}), SCHEMA)

    def cancelling(oracle):
        def statistic(record):
            root = jnp.power(record["x"] * 0.1 + 0.5, jnp.float32(0.5))
            return (root * root - (record["x"] * 0.1 + 0.5)) * 2.0**22

        return oracle.sum(Sum(9.0, 60.0), statistic).value

    resumed(source, cancelling)
    for options in ({"accelerate": False}, {"chunk_size": 64}):
        with pytest.raises(ResumeRefused, match="begun with"):
            resumed(source, cancelling, **options)
    resumed(source, cancelling)


def test_the_text_of_a_stream_is_that_of_what_is_executed():
    source = MemorySource(pd.DataFrame({"x": np.zeros(3_000)}), SCHEMA)

    def ask(oracle):
        return oracle.sum(Sum(9.0, 60.0), lambda r: r["x"]).value * 2.0

    one, other = (
        PrivateData.without_guarantee(source, accelerate=accelerate)._ready(ask, (), None).text()
        for accelerate in (True, False)
    )
    assert one != other
    assert one.count("module @jit_function") == other.count("module @jit_function") > 0  # segments
    assert one.count("module @jit_sums") == one.count("module @jit_finish") == 1
