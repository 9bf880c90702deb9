"""How long one clipped, noisy gradient sum takes against version 0.1, which had no gate; writes a table.

    python benchmarks/against_0_1.py --output benchmarks/results/clipped_sums_cpu_against_0_1.csv
    python benchmarks/against_0_1.py --old FOLDER --models logistic --sizes 100000 --widths 10 --chains 1

The cells are those of `clipped_sums.py`. Each version has a process of its own, which runs the `clipped_sums.py` of its
own tree, on the same cores; the two take turns of a few calls, the first of which is not counted, and the first turn of
a round goes to each of them alternately. Seconds are medians of the turns' medians, and a spread is the distance
between the quartiles of the rounds' quotients. Without `--old` the tree of version 0.1 is taken from the repository.
`--table` writes what was measured of this version in the columns of `clipped_sums.py`, too.
"""

import argparse
import csv
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

VERSION_0_1 = "7a1e55b"
COLUMNS = ["date", "device", "model", "n", "d", "chains", "seconds_0_1", "seconds", "quotient", "spread", "at_most"]
COLUMNS += ["ratio_to_plain_gradient_0_1", "ratio_to_plain_gradient"]
AT_MOST = {"logistic": 1.15, "gaussian": 1.3, "mixture": 1.3}
TABLE = [
    "date",
    "device",
    "model",
    "n",
    "d",
    "chains",
    "method",
    "seconds",
    "reads",
    "ratio_to_plain_gradient",
    "peak_mb",
]
OTHERS = ("plain read", "plain gradient", "ours, preparing")
LONGEST_TURN = 0.1
"""Seconds after which a turn ends, at the latest after the call at hand."""


# --- one version, in a process of its own -----------------------------------------------------------------------------


def work(tree: Path) -> None:
    """Answer the requests on the standard input, one a line, with what `clipped_sums.py` of one tree has."""
    import jax

    spec = importlib.util.spec_from_file_location("clipped_sums", tree / "benchmarks" / "clipped_sums.py")
    assert spec is not None
    assert spec.loader is not None
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    sys.stdout.flush()
    records, of, functions = None, None, {}
    for line in sys.stdin:
        request = json.loads(line)
        answer: Any = None
        if "make" in request:
            (model, n, d, chains), methods, answer = request["make"], request["methods"], {}
            functions.clear()
            jax.clear_caches()
            if of != (n, d):
                records, of = None, (n, d)
                records = jax.block_until_ready(benchmark.table(n, d))
            positions = 0.1 * jax.random.normal(jax.random.key(chains), (chains, d))
            for method in methods:
                functions[method], answer[method] = benchmark.METHODS[method](
                    benchmark.MODELS[model], records, positions
                )
                jax.block_until_ready(functions[method]())
        else:
            answer, start = [], time.perf_counter()
            jax.block_until_ready(functions[request["time"]]())
            while not answer or (len(answer) < 10 and time.perf_counter() - start < LONGEST_TURN):
                begin = time.perf_counter()
                jax.block_until_ready(functions[request["time"]]())
                answer.append(time.perf_counter() - begin)
        print(json.dumps(answer), flush=True)


class Worker:
    """One version."""

    def __init__(self, tree: Path) -> None:
        command = [sys.executable, __file__, "--worker", str(tree)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603

    def ask(self, **request: Any) -> None:
        """Send a request."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        """Wait for the answer."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"a worker stopped with {self.process.wait()}")
        return json.loads(line)

    def turn(self, method: str) -> float:
        """Return the median seconds of a few calls of a method."""
        self.ask(time=method)
        return statistics.median(self.answer())


# --- both -------------------------------------------------------------------------------------------------------------


def cell(
    old: Worker, new: Worker, case: tuple[str, int, int, int], seconds: float
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Measure both versions in one cell; return the comparison, and the rows of the new one."""
    model, n, d, chains = case
    methods = {old: ["ours", "plain gradient"], new: ["ours", *(OTHERS if chains == 1 else OTHERS[:2])]}
    for worker in (old, new):
        worker.ask(make=case, methods=methods[worker])
    peaks = {worker: worker.answer() for worker in (old, new)}
    times: dict[Worker, list[float]] = {old: [], new: []}
    start = time.perf_counter()
    while len(times[new]) < 5 or (time.perf_counter() - start < seconds and len(times[new]) < 31):
        for worker in (old, new) if len(times[new]) % 2 else (new, old):
            times[worker].append(worker.turn("ours"))
    medians = {worker: {"ours": statistics.median(values)} for worker, values in times.items()}
    for worker, found in medians.items():
        found |= {method: statistics.median(worker.turn(method) for _ in range(3)) for method in methods[worker][1:]}
    quartiles = statistics.quantiles([b / a for a, b in zip(times[old], times[new], strict=True)], n=4)
    row = {"date": datetime.now(UTC).date().isoformat(), "device": "cpu", "model": model, "n": n, "d": d}
    row |= {"chains": chains}
    comparison = {
        "seconds_0_1": f"{medians[old]['ours']:.3e}",
        "seconds": f"{medians[new]['ours']:.3e}",
        "quotient": f"{medians[new]['ours'] / medians[old]['ours']:.3f}",
        "spread": f"{quartiles[2] - quartiles[0]:.3f}",
        "at_most": AT_MOST[model],
        "ratio_to_plain_gradient_0_1": f"{medians[old]['ours'] / medians[old]['plain gradient']:.2f}",
        "ratio_to_plain_gradient": f"{medians[new]['ours'] / medians[new]['plain gradient']:.2f}",
    }
    own = [
        {
            "method": method,
            "seconds": f"{median:.3e}",
            "reads": f"{median / medians[new]['plain read']:.2f}",
            "ratio_to_plain_gradient": f"{median / medians[new]['plain gradient']:.2f}",
            "peak_mb": f"{peaks[new][method] / 2**20:.0f}" if peaks[new][method] else "",
        }
        for method in (*OTHERS[:2], "ours", OTHERS[2])
        if (median := medians[new].get(method))
    ]
    return row | comparison, [row | one for one in own]


def tree_of_0_1(folder: str) -> Path:
    """Return the tree of version 0.1, as the repository has it."""
    repository = Path(__file__).parents[1]
    archive = Path(folder) / "tree.tar"
    for command in (
        ["git", "-C", str(repository), "archive", "-o", str(archive), VERSION_0_1, "src", "benchmarks"],
        ["tar", "-xf", str(archive), "-C", folder],
    ):
        subprocess.run(command, check=True)  # noqa: S603
    return Path(folder)


def write(output: Path | None, columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> None:
    """Write a table, if it is wanted."""
    if output is None:
        return
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    """Measure, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worker", type=Path, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--old", type=Path, default=None, help="a tree of version 0.1")
    parser.add_argument("--new", type=Path, default=Path(__file__).parents[1], help="the tree to compare: this one")
    parser.add_argument("--output", type=Path, default=None, help="where the table goes")
    parser.add_argument("--table", type=Path, default=None, help="where the table of this version alone goes")
    parser.add_argument("--models", nargs="+", choices=sorted(AT_MOST), default=list(AT_MOST), help="only these models")
    for name, values in (("sizes", [10**5, 10**6]), ("widths", [10, 100, 2, 32]), ("chains", [1, 16, 4])):
        parser.add_argument(f"--{name}", nargs="+", type=int, default=values, help=f"only these {name}")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long a cell is measured")
    parser.add_argument("--minutes", type=float, default=60.0, help="start no new cell after so many")
    options = parser.parse_args()
    os.environ["JAX_PLATFORMS"] = "cpu"
    if options.worker:
        work(options.worker)
        return
    begin, rows, own = time.perf_counter(), [], []
    with tempfile.TemporaryDirectory() as folder:
        old, new = Worker(options.old or tree_of_0_1(folder)), Worker(options.new)
        for n in options.sizes:
            for d in options.widths:
                for model in options.models:
                    for chains in options.chains:
                        if time.perf_counter() - begin > 60 * options.minutes:
                            print(f"left out for lack of time: {model}, n={n}, d={d}, chains={chains}")
                            continue
                        comparison, more = cell(old, new, (model, n, d, chains), options.seconds)
                        rows.append(comparison)
                        own += more
                        print(" ".join(f"{rows[-1][name]!s:>10}" for name in COLUMNS[2:]), flush=True)
                        write(options.output, COLUMNS, rows)
                        write(options.table, TABLE, own)
        for worker in (old, new):
            worker.process.communicate()
    above = [row for row in rows if float(row["quotient"]) > row["at_most"]]
    print(f"{len(rows)} cells, {len(above)} of them above what is allowed")


if __name__ == "__main__":
    main()
