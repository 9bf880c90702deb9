"""Rows that the workers of a real Dask cluster hold: the bits of one process, whoever dies, and nothing said of rows.

Nothing here is drawn at random that could fail: noise is that of stated seeds, and compared with itself.
"""

import re
import secrets
import sys
from itertools import pairwise

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import dpmcmc as dp
from cluster import Cluster, kill
from dpmcmc.cli.main import run
from dpmcmc.enclave import Counts, NoisyCount, PrivateData, SpacedSum, Sum
from dpmcmc.enclave.engines import LocalEngine
from dpmcmc.enclave.engines.dask import DaskEngine, worker
from dpmcmc.enclave.engines.dask import engine as engine_module
from dpmcmc.enclave.sources import FileSource, MemorySource
from dpmcmc.enclave.tables import read_table
from dpmcmc.errors import EngineUnavailable, InvalidArgument, SourceChanged

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")

N, ROWS, CANARY = 6_000, 512, 48.151626
SCHEMA = dp.Schema(
    {
        "age": dp.Column(kind="number", lower=0, upper=100),
        "smoker": dp.Column(kind="boolean"),
        "sick": dp.Column(kind="boolean"),
    }
)
FORMULA = "sick ~ smoker"
FIT = {"family": "bernoulli", "epsilon": 6.0, "delta": 1e-6, "passes": 1, "allow_low_accuracy": True, "progress": False}


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(4)
    smoker = rng.random(N) < 0.4
    sick = rng.random(N) < np.where(smoker, 0.7, 0.3)
    return pd.DataFrame({"age": rng.uniform(0, 100, N), "smoker": smoker, "sick": sick}).assign(age=CANARY)


FRAME = frame()


@pytest.fixture
def lake(tmp_path):
    """Files of uneven length, for partitions that end within them."""
    (tmp_path / "lake").mkdir()
    cuts = (0, 700, 2_900, 3_000, N)
    for number, (low, high) in enumerate(pairwise(cuts)):
        FRAME[low:high].to_parquet(tmp_path / "lake" / f"{number}.parquet", row_group_size=400)
    return tmp_path / "lake"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("dask")) as started:
        yield started


def ask(oracle, scale):
    mean = oracle.sum(Sum(1.0, 3.0), lambda scale, record: scale * record["age"] / 100, scale).value
    count = oracle.sum(NoisyCount(0.7, 3.0), lambda record: record["sick"] * 1.0).value
    bins = oracle.sum(Counts(1.0, 3.0), lambda record: jnp.stack([1.0 - record["sick"], 1.0 * record["sick"]])).value
    shard = oracle.shard(oracle.partition((600, 1_500, 4_000)), (1, 3))
    return mean, count, bins, shard.sum(Sum(1.0, 3.0), lambda record: record["smoker"] * 1.0).value


def released(records, **options) -> list[np.ndarray]:
    """Four passes over the records: over all of them, and over some cells, twice."""
    vault = PrivateData.without_guarantee(records, schema=SCHEMA, **options)
    return [np.asarray(one) for seed in (2, 3) for one in vault.run(ask, jnp.float32(0.7), insecure_seed=seed)]


def drawn(records, **options) -> list[np.ndarray]:
    """The same, and the draws of a fit that reads all rows once."""
    vault = PrivateData.without_guarantee(records, schema=SCHEMA, **options)
    fitted = dp.fit(FORMULA, vault, **FIT, insecure_seed=3)
    return [*released(records, **options), *(np.asarray(fitted.draws[name]) for name in sorted(fitted.draws))]


def check_same(one, other) -> None:
    assert len(one) == len(other) > 5
    for first, second in zip(one, other, strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.fixture(scope="module")
def expected():
    return released(LocalEngine(MemorySource(FRAME, SCHEMA), ROWS))


def test_memory_files_and_any_number_of_workers_give_the_same_draws(cluster, lake) -> None:
    table = read_table(FRAME, SCHEMA)
    in_one_program = drawn(table.records, bounds=table.bounds, chunk_size=ROWS)
    for source in (MemorySource(FRAME, SCHEMA), FileSource(lake, SCHEMA)):
        check_same(drawn(LocalEngine(source, ROWS)), in_one_program)
    known = DaskEngine(lake, SCHEMA, cluster.with_workers(1).client, ROWS).identity
    for count in (1, 2, 4):
        engine = DaskEngine(lake, SCHEMA, cluster.with_workers(count).client, ROWS)
        assert len(set(engine._homes)) == count, "every worker has rows"
        assert engine.identity == known
        check_same(drawn(engine), in_one_program)


def test_sums_of_some_places_are_those_of_one_machine(cluster, lake) -> None:
    """With chunks of one shape: chunks that are this short begin the pattern of places anew, as pages say."""

    def of_some(oracle):
        return oracle.sum(SpacedSum(1.0, 3.0, 4), lambda record: record["age"] / 100 - record["sick"]).value

    def run(engine):
        return np.asarray(PrivateData.without_guarantee(engine, schema=SCHEMA).run(of_some, insecure_seed=5))

    expected = run(LocalEngine(MemorySource(FRAME, SCHEMA), ROWS))
    for count in (1, 2):
        np.testing.assert_array_equal(run(DaskEngine(lake, SCHEMA, cluster.with_workers(count).client, ROWS)), expected)


class Struck(DaskEngine):
    """In the middle of its second pass a process is killed: its tasks are under way, and none has been waited for."""

    def __init__(self, source, schema, client, rows, victim) -> None:
        super().__init__(source, schema, client, rows)
        self.victim, self.passes = victim, 0

    def partial_sum(self, program, public, cells):
        self.passes += 1
        return super().partial_sum(program, public, cells)

    def _wait(self, future):
        if getattr(self, "passes", 0) == 2 and self.victim.poll() is None:
            kill(self.victim)
        return super()._wait(future)


def test_a_worker_killed_in_the_middle_of_a_pass_changes_nothing(cluster, lake, expected) -> None:
    client = cluster.with_workers(2).client
    victim = next(one for one in cluster.workers if one.poll() is None)
    before = len(client.scheduler_info(n_workers=-1)["workers"])
    engine = Struck(lake, SCHEMA, client, ROWS, victim)
    check_same(released(engine), expected)
    assert engine.passes > 3
    assert len(client.scheduler_info(n_workers=-1)["workers"]) == before - 1


def test_rows_that_have_no_room_are_read_in_every_pass(cluster, lake, expected) -> None:
    client = cluster.with_workers(1).client
    client.run(set_share, 0.0)
    check_same(released(DaskEngine(lake, SCHEMA, client, ROWS)), expected)
    client.run(set_share, 0.4)


def set_share(share) -> None:
    worker._SHARE = share


# --- what others see --------------------------------------------------------------------------------------------------


def shown(cluster) -> str:
    """Everything that Dask logs, lists and keeps of tasks, in words."""
    client = cluster.client
    told = [client.get_scheduler_logs(), client.get_worker_logs(), client.has_what(), client.who_has()]
    told += [client.run_on_scheduler(of_scheduler), client.get_task_stream()]
    return cluster.words() + repr(told)


def of_scheduler(dask_scheduler):
    tasks = dask_scheduler.tasks.values()
    return [(repr(task), task.key, task.exception_text, task.traceback_text, repr(task.type)) for task in tasks], repr(
        dask_scheduler.get_events()
    )


def test_names_logs_and_what_fails_tell_nothing_of_rows(cluster, lake) -> None:
    client = cluster.with_workers(1).client
    client.get_task_stream()  # which is kept from here on: it is what the dashboard shows
    engine = DaskEngine(lake, SCHEMA, client, ROWS)
    released(engine)
    (lake / "1.parquet").write_bytes((lake / "1.parquet").read_bytes()[:-90])
    client.run(forget_all)
    with pytest.raises(SourceChanged, match=r"1\.parquet' is not what it was"):
        released(engine)
    told = shown(cluster)
    assert "dpmcmc-partial" in told
    assert str(CANARY)[:6] not in told
    assert not re.search(r"Compute Failed|Run Failed", told), "what fails is handed back"


def forget_all() -> None:
    worker._HERE.partitions.clear()
    worker._HERE.sources.clear()


def test_an_error_of_another_library_loses_its_words() -> None:
    def fail():
        raise ValueError(f"cannot read {CANARY}")

    result = worker.guarded(fail)
    assert str(CANARY) not in repr(result)
    with pytest.raises(EngineUnavailable, match=r"\(ValueError\)") as caught:
        result.get()
    assert str(CANARY) not in str(caught.value)


# --- what is refused --------------------------------------------------------------------------------------------------


def opened(source, client, tmp_path, **options):
    return PrivateData.from_table(
        source,
        schema=SCHEMA,
        ledger=f"sqlite:///{tmp_path}/book.db",
        dataset="people",
        budget=dp.Budget(8.0, 1e-6),
        client=client,
        **options,
    )


def test_what_no_worker_can_hold_is_refused_before_anything_is_granted(cluster, lake, tmp_path) -> None:
    client = cluster.with_workers(1).client
    persons = {"adjacency": "add_or_remove_one", "capacity": 9_000}
    empty = tmp_path / "empty"
    empty.mkdir()
    for source, chosen, options, words in (
        (FRAME, client, {}, "has workers read files"),
        (lake, "tcp://nowhere:1", {}, "client is a str"),
        (lake, client, {"in_memory": True}, "without in_memory="),
        (lake, client, persons, "needs adjacency='replace_one'"),
        (empty, client, {}, "is a folder without"),
        (lake / "*.csv", client, {}, "matches no file"),
    ):
        with pytest.raises(InvalidArgument, match=words):
            opened(source, chosen, tmp_path, **options)
    assert not (tmp_path / "book.db").exists()


@pytest.mark.parametrize("package", ["dpmcmc", "jax"])
def test_workers_with_another_version_are_refused(package, lake, tmp_path, monkeypatch) -> None:
    other = tmp_path / "other"
    (other / f"{package}-9.9.9.dist-info").mkdir(parents=True)
    (other / f"{package}-9.9.9.dist-info" / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {package}\nVersion: 9.9.9\n"
    )
    with Cluster(tmp_path) as started:
        monkeypatch.setattr("dpmcmc.enclave.engines.dask.machines._WAIT", 1)
        with pytest.raises(InvalidArgument, match="without workers"):
            opened(lake, started.client, tmp_path)
        paths = ":".join([str(other), *filter(None, sys.path)])
        started.with_workers(1, PYTHONPATH=paths)
        with pytest.raises(InvalidArgument, match=rf"workers with {package} 9\.9\.9, and here it is"):
            opened(lake, started.client, tmp_path)
    assert not (tmp_path / "book.db").exists()


# --- one charge -------------------------------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder to be in; runs in it have the same noise, so that they can be compared."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPMCMC_STATE", str(tmp_path / "private"))
    usual = secrets.token_bytes
    monkeypatch.setattr(secrets, "token_bytes", lambda count: bytes(range(32)) if count == 32 else usual(count))
    monkeypatch.setattr(secrets, "randbits", lambda _: 5)
    (tmp_path / "lake.toml").write_text(SCHEMA.to_toml())
    return tmp_path


def at_shell(monkeypatch, *words) -> int:
    monkeypatch.setattr(sys, "argv", ["dpmcmc", *words])
    with pytest.raises(SystemExit) as left:
        run()
    return left.value.code


def command(book, output, *more):
    return (
        *("fit", FORMULA, "--family", "bernoulli", "--data", "lake/*.parquet", "--schema", "lake.toml"),
        *("--ledger", f"sqlite:///{book}.db", "--grant-epsilon", "8", "--grant-delta", "1e-6", "--epsilon", "6"),
        *("--passes", "1", "--rows-keep-place", "--allow-low-accuracy", "--output", output, *more),
    )


@pytest.mark.slow
@pytest.mark.usefixtures("lake")
def test_a_scheduler_that_is_killed_is_a_refusal_of_one_charge_and_the_run_goes_on(place, monkeypatch, capsys) -> None:
    assert at_shell(monkeypatch, *command("none", "none", "--scheduler", "tcp://127.0.0.1:9")) == 2
    assert "--scheduler 'tcp://127.0.0.1:9' does not answer" in capsys.readouterr().err
    assert not (place / "none.db").exists()
    in_time = {0, 5}  # good, or bad: it is a small table
    monkeypatch.setattr(engine_module.Shape, "__init__", small_chunks(engine_module.Shape.__init__))
    with Cluster(place) as first:
        first.with_workers(2)
        whole = ("--scheduler", first.address)
        assert at_shell(monkeypatch, *command("one", "whole", *whole)) in in_time
        usual, passes = DaskEngine.partial_sum, []

        def dying(self, *arguments):
            passes.append(arguments)
            if len(passes) == 4:
                kill(first.scheduler)
            return usual(self, *arguments)

        with monkeypatch.context() as patched:
            patched.setattr(DaskEngine, "partial_sum", dying)
            assert at_shell(monkeypatch, *command("two", "stopped", *whole)) == 2
    assert "no longer answers" in (told := capsys.readouterr().err)
    assert "dpmcmc resume stopped" in told
    charged = dp.Ledger("sqlite:///two.db").account("lake")
    assert 5.9 < charged.epsilon_spent <= 6.0
    (place / "again").mkdir()
    with Cluster(place / "again") as second:
        second.with_workers(1)
        assert at_shell(monkeypatch, "resume", "stopped", "--scheduler", second.address) in in_time
    whole, resumed = (dp.Posterior.load(place / name) for name in ("whole", "stopped"))
    assert all(np.array_equal(whole.draws[name], resumed.draws[name]) for name in whole.draws)
    assert {"dask", "streamed"} <= set(resumed.certificate.paths)
    assert dp.Ledger("sqlite:///two.db").account("lake").epsilon_spent == pytest.approx(charged.epsilon_spent)


def small_chunks(usual):
    return lambda self, num_records, record, rows=None: usual(self, num_records, record, rows or ROWS)
