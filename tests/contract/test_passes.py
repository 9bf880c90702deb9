"""A fit that reads all rows once, from the vault to the ledger: charged once, streamed, stopped and resumed."""

import secrets
from dataclasses import replace

import numpy as np
import pytest
from test_fit import SCHEMA, TABLE

import dpmcmc as dp
from dpmcmc.accounting import Parallel
from dpmcmc.enclave.engines import LocalEngine
from dpmcmc.enclave.resume.session import ResumableRun
from dpmcmc.enclave.sources import FileSource
from dpmcmc.enclave.tables import read_table
from dpmcmc.errors import RunInterrupted
from dpmcmc.fitting import prepare_fit
from dpmcmc.fitting.strategies.weighted_scores import one_pass

FIT = {"family": "bernoulli", "epsilon": 6.0, "passes": 1, "allow_low_accuracy": True}
FORMULA = "readmitted ~ smoker"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a table and a schema, to be in; runs in it have the same noise, so that they can be compared."""
    monkeypatch.chdir(tmp_path)
    usual = secrets.token_bytes
    monkeypatch.setattr(secrets, "token_bytes", lambda count: bytes(range(32)) if count == 32 else usual(count))
    monkeypatch.setattr(secrets, "randbits", lambda _: 5)
    TABLE.to_parquet("patients.parquet")
    (tmp_path / "patients.toml").write_text(SCHEMA.to_toml())
    return tmp_path


def vault(ledger: str, **options):
    return dp.PrivateData.from_table(
        "patients.parquet",
        schema="patients.toml",
        ledger=f"sqlite:///{ledger}",
        dataset="patients",
        budget=dp.Budget(8.0, 1e-6),
        **options,
    )


@pytest.mark.usefixtures("place")
def test_a_run_is_charged_what_its_dearest_rows_were_asked() -> None:
    data = vault("one.db")
    prepared = prepare_fit(FORMULA, data, **FIT)
    assert isinstance(prepared.event, Parallel)
    posterior = prepared.run(progress=False)
    spent = dp.Ledger("sqlite:///one.db").account("patients").epsilon_spent
    assert 5.9 < spent <= 6.0
    assert posterior.certificate.epsilon == pytest.approx(spent)
    assert posterior.settings["request"]["description"].count("All rows are read once") == 1


@pytest.mark.parametrize(
    "options",
    [{}, {"in_memory": False, "rows_keep_place": True}, {"scratch": "."}],
    ids=["memory", "files", "secret slots"],
)
def test_a_run_that_is_stopped_in_the_middle_goes_on_with_the_same_blocks(place, monkeypatch, options) -> None:
    whole = dp.fit(FORMULA, vault("one.db", **options), **FIT, output=place / "whole", progress=False)
    execute, asked = ResumableRun._execute, []

    def stopping(self, ready):
        asked.append(ready)
        if len(asked) == 5:
            raise OSError(28, "No space left on device")
        return execute(self, ready)

    with monkeypatch.context() as patched:
        patched.setattr(ResumableRun, "_execute", stopping)
        with pytest.raises(RunInterrupted):
            dp.fit(FORMULA, vault("two.db", **options), **FIT, output=place / "stopped", progress=False)
    monkeypatch.setattr(secrets, "randbits", lambda _: 6)  # blocks are those of the run, and are not drawn again
    resumed = dp.resume(place / "stopped", vault("two.db", **options), progress=False)
    assert all(np.array_equal(whole.draws[name], resumed.draws[name]) for name in whole.draws)
    assert dp.Ledger("sqlite:///two.db").account("patients").epsilon_spent <= 6.0


@pytest.mark.usefixtures("place")
def test_rows_that_are_read_chunk_by_chunk_are_asked_the_same_at_the_same_price() -> None:
    options = ({"in_memory": True}, {"in_memory": False, "rows_keep_place": True})
    in_memory, streamed = (
        prepare_fit(FORMULA, vault(f"{number}.db", **each), **FIT) for number, each in enumerate(options)
    )
    assert not streamed.data.is_in_memory
    assert streamed.event == in_memory.event
    posterior = streamed.run(progress=False)
    assert 5.9 < dp.Ledger("sqlite:///1.db").account("patients").epsilon_spent <= 6.0
    assert "streamed" in posterior.certificate.paths
    assert all(np.isfinite(values).all() for values in posterior.draws.values())


@pytest.mark.usefixtures("place")
def test_rows_that_may_be_more_or_fewer_are_read_once_from_secret_slots() -> None:
    """Blocks are cells of the slots, of which nobody knows who stands in them; nothing tells how many rows they are."""
    hidden = {"adjacency": "add_or_remove_one", "capacity": 5_000}
    streamed, held = (
        prepare_fit(FORMULA, vault(f"{number}.db", in_memory=number > 0, **hidden), **FIT) for number in range(2)
    )
    assert streamed.event == held.event
    assert "5,000 records, add-or-remove-one adjacency. They stand in secret slots of a private" in streamed.describe()
    assert "All rows are read once." in streamed.describe()
    assert str(len(TABLE)) not in streamed.describe().replace(",", "")
    certificate = streamed.run(progress=False).certificate
    assert {"scattered", "streamed"} <= set(certificate.paths)
    assert certificate.assumptions == ("the table has at most 5000 records, whatever happens",)


def with_spacing(spacing: int):
    """Stands for the choice of the rows of the last slope, of which there would be too few in such a table."""

    def made(split, *_):
        shares = replace(split.schedule.shares, spacing=spacing)
        return replace(split, blocks=replace(split.schedule, shares=shares))

    return made


@pytest.mark.parametrize("spacing", [1, 4])
@pytest.mark.usefixtures("place")
def test_draws_from_files_are_those_from_memory_bit_for_bit(spacing: int, monkeypatch) -> None:
    """Where nobody pays rows stand as they came, in memory too; the same noise, and chunks of one shape."""
    monkeypatch.setattr(one_pass, "_with_spacing", with_spacing(spacing))
    table, schema = read_table("patients.parquet", SCHEMA), {"schema": SCHEMA}
    engine = LocalEngine(FileSource("patients.parquet", SCHEMA))
    vaults = (
        dp.PrivateData.without_guarantee(table.records, bounds=table.bounds, chunk_size=engine.rows(None), **schema),
        dp.PrivateData.without_guarantee(engine, **schema),
    )
    held, streamed = (dp.fit(FORMULA, each, **FIT, delta=1e-6, insecure_seed=7, progress=False) for each in vaults)
    assert held.draws
    assert ("SpacedSum" in held.settings["pilot"]["final_release"]) == (spacing > 1)
    for name, values in held.draws.items():
        np.testing.assert_array_equal(streamed.draws[name], values)


@pytest.mark.usefixtures("place")
def test_every_row_is_computed_once_in_each_pass_that_asks_it() -> None:
    """Blocks that lead the way lie all over the table: their passes have the chunks that hold their rows, no more."""
    counted: list[tuple[int, int, int]] = []

    class Counting(LocalEngine):
        def chunks(self, cells):
            for leaves, occupied in super().chunks(cells):
                computed.append((len(occupied), int(occupied.sum())))
                yield leaves, occupied

        def partial_sum(self, program, public, cells):
            computed.clear()
            found = super().partial_sum(program, public, cells)
            counted.append((self.num_records if cells is None else cells.size, *map(sum, zip(*computed, strict=True))))
            return found

    computed: list[tuple[int, int]] = []
    engine = Counting(FileSource("patients.parquet", SCHEMA), 512)
    data = dp.PrivateData.without_guarantee(engine, schema=SCHEMA)
    dp.fit(FORMULA, data, **FIT, delta=1e-6, insecure_seed=7, progress=False)
    pilot, refinement = counted[0][0], counted[-1][0]
    assert [asked for asked, _, _ in counted] == [pilot] * 8 + [refinement] * 2 + [len(TABLE), refinement]
    assert pilot < refinement < len(TABLE) / 2
    for asked, slots, rows in counted:
        assert rows == asked
        assert slots == -(-asked // 512) * 512
