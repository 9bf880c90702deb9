"""Tables that no memory holds, from files to a private posterior; writes a table of ratios.

    python benchmarks/scale.py --rows 1e7 --output benchmarks/results/scale.csv
    python benchmarks/scale.py --rows 1e8 --growth 1e6 1e7 --accuracy 4e6 --seeds 10
    python benchmarks/scale.py --rows 1e9 --format raw --processes 16 --only write plain fit

Each step has a process of its own, whose peak memory is measured; beside seconds stand those that processors worked
for it, which others' work on a shared machine changes less. `scan` is one PyArrow scan of all columns; `plain`
one plain pass in JAX, gradient and Hessian of a logistic regression without clipping, gate or noise, over chunks that
are in memory; `fit` opens the files and fits at epsilon 1, reading all rows once; `fit again` the same in the same
process, where nothing is compiled. `one sum` is the least that a private posterior of these files can take in the
present gate: one release of the gradient alone, without its matrices, without a step before it and without draws,
compiled before. `vw` is Vowpal Wabbit, one pass over a text of the first rows (--peer-rows), which
was written before; `sgd` scikit-learn's SGDClassifier, one pass over the Parquet files. Both are scaled to all rows,
since they are linear. `slots` opens the files under add-or-remove-one, for which their rows are scattered into secret
slots of a private file, a tenth more of them than rows; `fit of slots` fits from there. `accuracy` is the distance of
posterior means from the maximum of the likelihood of the same rows, in posterior standard deviations, root mean square
over seeds, one pass over files against the fit of the same rows in memory; of so many draws that their number does not
matter beside the noise.
Aimed at: fit at most 1.5 times scan and plain together (not reached: docs/scale.md), in at most 1.5 GB; faster than
both peers; accuracy within 1.05; time linear in the rows and memory flat; 1e9 rows in at most 90 s on an H200.
"""

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

if __package__ in (None, ""):  # run as a file
    sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.scale_files import COLUMNS, EFFECTS, OUTCOME, ROWS_IN_FILE, SCHEMA, RawSource, files, made, write

FIELDS = ["date", "device", "cores", "rows", "step", "seconds", "cpu_seconds", "peak_mb", "value", "goal", "note"]
FORMULA = f"{OUTCOME} ~ {' + '.join(COLUMNS)}"
CHUNK, EPSILON = 2**18, 1.0
ACCURATE = 50_000
"""How many draws of each of two chains tell where the posterior is."""
STEPS = ("write", "scan", "plain", "one sum", "fit", "slots", "vw", "sgd")


def vault(arguments: Any, rows: int, in_memory: bool = False, is_seeded: bool = False) -> Any:
    """Return the first rows as a vault."""
    import dpmcmc as dp
    from dpmcmc.enclave.engines import LocalEngine
    from dpmcmc.enclave.sources import FileSource
    from dpmcmc.enclave.tables import read_table
    from dpmcmc.schema import Schema

    schema, delta = Schema.read(SCHEMA), 0.1 / rows
    if in_memory:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = read_table(pa.concat_tables(map(pq.read_table, files(arguments.folder, rows, "parquet"))), schema)
        return dp.PrivateData.without_guarantee(table.records, bounds=table.bounds, schema=schema)
    if arguments.format == "raw":
        source: Any = RawSource(arguments.folder, rows, max((os.cpu_count() or 2) // 2, 1))
    else:
        source = FileSource(files(arguments.folder, rows, "parquet"), schema)
    if is_seeded:
        return dp.PrivateData.without_guarantee(LocalEngine(source), schema=schema)
    return dp.PrivateData(source, budget=dp.Budget(EPSILON, delta), schema=schema, rows_keep_place=True)


def fitted(data: Any, rows: int, **options: Any) -> Any:
    """Fit the table at epsilon 1."""
    import dpmcmc as dp

    return dp.fit(FORMULA, data, family="bernoulli", epsilon=EPSILON, delta=0.1 / rows, progress=False, **options)


class Clock:
    """Seconds, and seconds that the processors worked for this process, since it was made."""

    def __init__(self) -> None:
        self._start, self._worked = time.perf_counter(), time.process_time()

    def read(self, factor: float = 1.0, prefix: str = "") -> dict[str, float]:
        """Return both, times a factor."""
        seconds, worked = time.perf_counter() - self._start, time.process_time() - self._worked
        return {f"{prefix}seconds": seconds * factor, f"{prefix}cpu_seconds": worked * factor}


def fit(arguments: Any) -> dict[str, float]:
    """Open the files and fit, twice."""
    clock = Clock()
    posterior = fitted(vault(arguments, arguments.rows), arguments.rows, passes=1, allow_low_accuracy=True)
    first, clock = clock.read(), Clock()
    fitted(vault(arguments, arguments.rows), arguments.rows, passes=1, allow_low_accuracy=True)
    again = clock.read(prefix="again_")
    means, deviations = _moments(posterior)
    distance = float(np.sqrt(np.mean(((means - _true()) / deviations) ** 2)))
    return {**first, **again, "value": distance}


def one_sum(arguments: Any) -> dict[str, float]:
    """Release one gradient of a logistic regression over the files; the second time, when nothing is compiled."""
    import jax
    import jax.numpy as jnp

    from dpmcmc.enclave import Sum

    def contribution(theta: Any, record: Any) -> Any:
        row = jnp.stack([*(record[name] / 127.5 - 1 for name in COLUMNS), jnp.float32(1)])
        return row * (record[OUTCOME] - jax.nn.sigmoid(theta @ row))

    def ask(oracle: Any, theta: Any) -> Any:
        return oracle.sum(Sum(4.0, 5.0), contribution, theta).value

    data, theta = vault(arguments, arguments.rows, is_seeded=True), jnp.zeros(len(COLUMNS) + 1)
    for seed in (1, 2):
        clock = Clock()
        jax.block_until_ready(data.run(ask, theta, insecure_seed=seed))
    return clock.read()


def slots(arguments: Any) -> dict[str, float]:
    """Scatter the rows into secret slots, and fit from there."""
    import dpmcmc as dp

    clock, rows = Clock(), arguments.rows
    data = dp.PrivateData.from_table(
        files(arguments.folder, rows, "parquet"),
        schema=SCHEMA,
        budget=dp.Budget(EPSILON, 0.1 / rows),
        adjacency="add_or_remove_one",
        capacity=rows + rows // 10,
        scratch=arguments.folder,
    )
    opened, clock = clock.read(), Clock()
    fitted(data, rows, passes=1, allow_low_accuracy=True)
    return {**opened, **clock.read(prefix="again_")}


def _moments(posterior: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return means and standard deviations of the effects of the columns."""
    draws = [np.asarray(posterior.draws[name]).ravel() for name in COLUMNS]
    return np.array([one.mean() for one in draws]), np.array([one.std() for one in draws])


def _true() -> np.ndarray:
    return EFFECTS / 127.5


def scan(arguments: Any) -> dict[str, float]:
    """Read all columns with PyArrow, and nothing else."""
    import pyarrow.dataset as ds

    clock = Clock()
    rows = sum(batch.num_rows for batch in ds.dataset(files(arguments.folder, arguments.rows, "parquet")).to_batches())
    assert rows == arguments.rows
    return clock.read()


def plain(arguments: Any) -> dict[str, float]:
    """Pass over chunks that are in memory: gradient and Hessian of a logistic regression."""
    import jax
    import jax.numpy as jnp

    @jax.jit
    def one(total: Any, theta: Any, rows: Any, outcome: Any) -> Any:
        columns = jnp.concatenate([rows / 127.5 - 1, jnp.ones_like(rows[:1])])
        share = jax.nn.sigmoid(theta @ columns)
        return total[0] + columns @ (outcome - share), total[1] + (columns * (share * (1 - share))) @ columns.T

    columns, outcome = made(0, CHUNK)
    chunk = [np.asarray(columns, np.float32), outcome.astype(np.float32)]
    size = len(COLUMNS) + 1
    theta, total = jnp.zeros(size), (jnp.zeros(size), jnp.zeros((size, size)))
    jax.block_until_ready(one(total, theta, *chunk))
    clock = Clock()
    for _ in range(-(-arguments.rows // CHUNK)):
        total = one(total, theta, *map(jnp.array, chunk))
    jax.block_until_ready(total)
    return clock.read()


def vw(arguments: Any) -> dict[str, float]:
    """Have Vowpal Wabbit pass once over a text of the first rows."""
    from vowpalwabbit import Workspace

    text = arguments.folder / f"{arguments.peer_rows}.vw"
    if not text.exists():
        _write_text(text, arguments.peer_rows)
    clock = Clock()
    Workspace(f"-d {text} --loss_function logistic --quiet", quiet=True).finish()
    return clock.read(arguments.rows / arguments.peer_rows)


def _write_text(path: Path, rows: int) -> None:
    with path.open("w") as file:
        for start in range(0, rows, ROWS_IN_FILE):
            columns, outcome = made(start // ROWS_IN_FILE, min(ROWS_IN_FILE, rows - start))
            for values, label in zip(columns.T.tolist(), outcome.tolist(), strict=True):
                features = " ".join(
                    f"{name}:{value / 127.5 - 1:.4f}" for name, value in zip(COLUMNS, values, strict=True)
                )
                file.write(f"{1 if label else -1} | {features}\n")


def sgd(arguments: Any) -> dict[str, float]:
    """Have scikit-learn's SGD pass once over the first rows of the files."""
    import pyarrow.dataset as ds
    from sklearn.linear_model import SGDClassifier

    model, clock, seen = SGDClassifier(loss="log_loss", random_state=0), Clock(), 0
    for batch in ds.dataset(files(arguments.folder, arguments.peer_rows, "parquet")).to_batches():
        rows = np.stack([batch.column(name).to_numpy() for name in COLUMNS], 1) / 127.5 - 1
        model.partial_fit(rows, batch.column(OUTCOME).to_numpy(zero_copy_only=False), classes=[False, True])
        seen += batch.num_rows
    return clock.read(arguments.rows / seen)


def accuracy(arguments: Any) -> dict[str, float]:
    """Compare one pass over files with the fit in memory, by their distance from the maximum of the likelihood."""
    clock, rows = Clock(), arguments.rows
    maximum, deviations = _maximum(rows)
    squares: dict[bool, list[float]] = {True: [], False: []}
    for seed in range(arguments.seeds):
        for in_memory in (True, False):
            data = vault(arguments, rows, in_memory, is_seeded=True)
            found = fitted(data, rows, insecure_seed=seed, passes=None if in_memory else 1, num_steps=ACCURATE)
            squares[in_memory].append(float(np.mean(((_moments(found)[0] - maximum) / deviations) ** 2)))
    distance = {in_memory: float(np.sqrt(np.mean(each))) for in_memory, each in squares.items()}
    return {**clock.read(), "value": distance[False], "memory": distance[True]}


def _maximum(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the maximum of the likelihood of the first rows, and standard deviations around it, by Newton steps."""
    theta = np.zeros(len(COLUMNS) + 1)
    for _ in range(6):
        gradient, hessian = np.zeros_like(theta), np.zeros((theta.size, theta.size))
        for start in range(0, rows, ROWS_IN_FILE):
            columns, outcome = made(start // ROWS_IN_FILE, min(ROWS_IN_FILE, rows - start))
            design = np.vstack([columns / 127.5 - 1, np.ones(columns.shape[1])])
            share = 1 / (1 + np.exp(-theta @ design))
            gradient += design @ (outcome - share)
            hessian += (design * (share * (1 - share))) @ design.T
        theta += np.linalg.solve(hessian, gradient)
    return theta[:-1] / 127.5, np.sqrt(np.diag(np.linalg.inv(hessian)))[:-1] / 127.5


def measured(arguments: Any, step: str, rows: int) -> dict[str, Any]:
    """Have a process of its own do a step; return what it measured, and its peak memory."""
    command = [
        sys.executable,
        str(Path(__file__)),
        "--step",
        step,
        "--rows",
        str(rows),
        "--folder",
        str(arguments.folder / str(rows)),
    ]
    command += ["--format", arguments.format, "--peer-rows", str(min(arguments.peer_rows, rows))]
    command += ["--seeds", str(arguments.seeds), "--processes", str(arguments.processes)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603
    if done.returncode:
        return {"seconds": float("nan"), "note": f"left with code {done.returncode}"}
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure, or do one step."""
    arguments = parsed()
    if arguments.step:
        steps = {
            "fit": fit,
            "slots": slots,
            "scan": scan,
            "plain": plain,
            "one sum": one_sum,
            "vw": vw,
            "sgd": sgd,
            "accuracy": accuracy,
        }
        found = steps[arguments.step](arguments)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({**found, "peak_mb": peak}))
        return
    rows = table(arguments)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    with arguments.output.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def table(arguments: Any) -> list[dict[str, Any]]:
    """Return the rows of the table, each of which is shown as it is measured."""
    shown: list[dict[str, Any]] = []
    common = {"date": datetime.now(UTC).date().isoformat(), "device": _device(), "cores": os.cpu_count()}

    def add(step: str, rows: int, found: dict[str, Any], goal: str = "") -> dict[str, Any]:
        numbers = {name: f"{found[name]:.4g}" for name in FIELDS if isinstance(found.get(name), float)}
        shown.append({**common, "rows": rows, "step": step, **numbers, "goal": goal, "note": found.get("note", "")})
        print({name: value for name, value in shown[-1].items() if value != ""}, flush=True)
        return found

    for rows in sorted({arguments.rows, *arguments.growth, *([arguments.accuracy] if arguments.accuracy else [])}):
        if "write" in arguments.only:
            start = time.perf_counter()
            write(arguments.folder / str(rows), rows, arguments.format, arguments.processes)
            add("write", rows, {"seconds": time.perf_counter() - start})
    taken = {
        step: add(step, arguments.rows, measured(arguments, step, arguments.rows))
        for step in ("scan", "plain", "one sum")
        if step in arguments.only
    }
    for rows in sorted({arguments.rows, *arguments.growth}) if "fit" in arguments.only else []:
        found = add("fit", rows, measured(arguments, "fit", rows), "peak_mb <= 1500")
        again = {name.removeprefix("again_"): value for name, value in found.items() if name.startswith("again_")}
        add("fit again", rows, again)
        if rows == arguments.rows:
            taken |= {"fit": found, "fit again": again}
    for rows in sorted({arguments.rows, *arguments.growth}) if "slots" in arguments.only else []:
        found = add("slots", rows, measured(arguments, "slots", rows), "peak_mb <= 1500")
        fit_of = {name.removeprefix("again_"): value for name, value in found.items() if name.startswith("again_")}
        add("fit of slots", rows, fit_of)
    for step in ("vw", "sgd"):
        if step in arguments.only:
            taken[step] = add(step, arguments.rows, measured(arguments, step, arguments.rows))
    for step in ("one sum", "fit", "fit again"):
        for others, goal in ((("scan", "plain"), "<= 1.5"), (("vw",), "< 1"), (("sgd",), "< 1")):
            for clock in ("seconds", "cpu_seconds"):
                numbers = [taken.get(each, {}).get(clock) for each in (step, *others)]
                if None not in numbers:
                    name = f"{step} / {others[0]}" if len(others) == 1 else f"{step} / (scan + plain)"
                    ratio = {"value": numbers[0] / sum(numbers[1:])}
                    add(f"{name}, {clock.replace('_', ' ')}", arguments.rows, ratio, goal if clock == "seconds" else "")
    if arguments.accuracy:
        found = add("accuracy", arguments.accuracy, measured(arguments, "accuracy", arguments.accuracy))
        add("accuracy in memory", arguments.accuracy, {"value": found["memory"]})
        add("accuracy ratio", arguments.accuracy, {"value": found["value"] / found["memory"]}, "<= 1.05")
    return shown


def _device() -> str:
    import jax

    return jax.devices()[0].device_kind


def parsed() -> Any:
    """Return what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)

    def count(text: str) -> int:
        return int(float(text))

    parser.add_argument("--rows", type=count, default=10**7)
    parser.add_argument("--growth", type=count, nargs="*", default=[])
    parser.add_argument("--accuracy", type=count, default=0)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--peer-rows", type=count, default=10**6)
    parser.add_argument("--format", choices=("parquet", "raw"), default="parquet")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--only", nargs="*", choices=STEPS, default=list(STEPS))
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "dpmcmc_scale")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/scale.csv"))
    parser.add_argument("--step", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
