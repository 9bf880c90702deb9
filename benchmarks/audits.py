"""How much of the claimed epsilon an attacker can see of every mechanism: the audit table.

    python benchmarks/audits.py --output benchmarks/results/audits.csv                      # a CPU, a million runs
    python benchmarks/audits.py --runs 3e8 --chains 1048576 --workers 8 --tile 16 --seconds 440 --output audits_gpu.csv

Each row is a mechanism on its worst pair of tables: `runs` runs of each, with fresh keys of the vault, by the
functions that any other run executes. Lower bounds hold together with a confidence of 1 - 1e-6 for the whole table;
those in the columns of `95` at 95 % each. `attainable` is what the best bets show without assumption, at the table's
confidence, of so many releases of the claimed law that fall as they do on average; it is there where that law is
normal, or normal on a sample. `--seconds` stops in time, with fewer runs where it must; rows are written as they are
found, and `--go-on` leaves out those that are there already. `--into` puts the rows into another table at the end, in
the place of those of the same mechanism, path and kind of device; `--page` writes rows into the tables of a page.
`--workers` compiles several at once, which a machine with many cores and a GPU can use. Tables are padded to `--tile`
places and not to a vault's own 512, or 16,384 on a GPU: places without a record add zero, and most of the time would go
into them.
"""

import argparse
import csv
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import jax

from dpmcmc.audits.audit import CONFIDENCE_ERROR, Tally, attainable_of, collect, judge
from dpmcmc.audits.catalogue import DELTA, catalogue
from dpmcmc.audits.pairs import Pair
from dpmcmc.enclave.core import places
from dpmcmc.enclave.core.self_test import check_machine

COLUMNS = ["mechanism", "adjacency", "path", "device", "runs", "claimed_epsilon", "lower_no_assumption"]
COLUMNS += [
    "lower_trade_off",
    "noise",
    "delta",
    "lower_no_assumption_95",
    "lower_trade_off_95",
    "seconds",
    "attainable",
]


@dataclass
class Clock:
    """Shares the time that is left among the rows that are left."""

    seconds: float
    rows_left: int
    workers: int
    start: float = field(default_factory=time.perf_counter)
    lock: Any = field(default_factory=Lock)

    def stop_of_next(self) -> Any:
        """Return what tells the next row that its time is over."""
        with self.lock:
            now = time.perf_counter()
            share = (self.start + self.seconds - now) * min(self.workers / max(self.rows_left, 1), 1.0)
            self.rows_left -= 1
        return lambda: time.perf_counter() - now > share


def row_of(pair: Pair, tally: Tally, error: float, seconds: float) -> dict[str, Any]:
    """Return one row of the table."""
    strict, usual = judge(pair, tally, DELTA, error), judge(pair, tally, DELTA, 0.05)
    best = attainable_of(pair, strict.claimed, strict.runs, DELTA, error)
    device = jax.devices()[0]
    paths = pair.paths()
    if pair.path not in {*paths, "numbers as arguments"}:
        raise RuntimeError(f"{pair.words} went by {paths}")
    return {
        "mechanism": pair.mechanism,
        "adjacency": pair.adjacency.value,
        "path": pair.path,
        "device": f"{device.platform}: {device.device_kind}",
        "runs": strict.runs,
        "claimed_epsilon": f"{strict.claimed:.6f}",
        "lower_no_assumption": f"{strict.lower_no_assumption:.4f}",
        "lower_trade_off": f"{strict.lower_trade_off:.4f}",
        "noise": pair.noise,
        "delta": DELTA,
        "lower_no_assumption_95": f"{usual.lower_no_assumption:.4f}",
        "lower_trade_off_95": f"{usual.lower_trade_off:.4f}",
        "seconds": f"{seconds:.1f}",
        "attainable": "" if best is None else f"{best:.4f}",
    }


def main() -> None:
    """Audit all pairs, or those whose words hold a text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=float, default=1e6, help="of each table")
    parser.add_argument("--chains", type=int, default=100_000, help="runs that are made at once")
    parser.add_argument("--epsilon", type=float, default=1.0, help="what is claimed")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--tile", type=int, default=64)
    parser.add_argument("--only", default="", help="pairs whose words hold this")
    parser.add_argument("--go-on", action="store_true", help="keep the rows that the output has")
    parser.add_argument("--into", type=Path, help="a table that the rows are put into at the end")
    parser.add_argument(
        "--page", type=Path, help="a page whose tables are written anew from --output, and nothing else"
    )
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    if options.page is not None:
        options.page.write_text(with_tables(options.page.read_text(), rows_in(options.output)))
        return
    options.start = time.perf_counter()
    places.ROWS_IN_TILE = places.ROWS_IN_TILE_ON_GPU = options.tile
    # the two tables of a pair have one program: it is compiled once, and found again
    with tempfile.TemporaryDirectory() as compiled:
        jax.config.update("jax_compilation_cache_dir", compiled)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        check_machine()  # once, and not by all workers at the same time
        run(options)


def rows_in(file: Path) -> list[dict[str, str]]:
    """Return the rows of a table that was written before."""
    if not file.exists():
        return []
    with file.open() as opened:
        return list(csv.DictReader(opened))


def with_tables(page: str, rows: list[dict[str, str]]) -> str:
    """Return a page with the rows of a kind of device in the table behind the comment that names it."""
    for kind, size, words in (("gpu", 1e6, "million runs"), ("cpu", 1.0, "runs of each table")):
        before, comment, after = page.partition(f"<!-- rows of {kind} -->\n")
        lines = after.splitlines(keepends=True)
        number = next((place for place, line in enumerate(lines) if not line.startswith("|")), len(lines))
        head = ["mechanism", "adjacency", "added up by", words, "no assumption", "attainable", "trade-off"]
        head += ["at 95 %: no assumption", "trade-off"]
        table = [head, ["---"] * len(head)]
        table += [_cells(row, size) for row in rows if row["device"].startswith(kind)]
        made = "".join(f"| {' | '.join(cells)} |\n" for cells in table)
        page = before + comment + (made + "".join(lines[number:]) if comment else after)
    return page


def _cells(row: dict[str, str], size: float) -> list[str]:
    """Return a row as a page shows it."""
    runs, adjacency = int(row["runs"]) / size, row["adjacency"].replace("_", " ")
    best = row.get("attainable") or ""
    shown = [row["lower_no_assumption"], best, row["lower_trade_off"]]
    shown += [row["lower_no_assumption_95"], row["lower_trade_off_95"]]
    return [
        row["mechanism"],
        adjacency,
        row["path"],
        f"{runs:,.0f}",
        *(f"{float(one):.3f}" if one else "" for one in shown),
    ]


def put_into(file: Path, rows: list[dict[str, str]]) -> None:
    """Put rows into a table, in the place of those of the same mechanism, adjacency, path, noise and kind of device."""

    def name_of(row: dict[str, str]) -> tuple[str, ...]:
        return row["device"].split(":")[0], *(row[name] for name in ("mechanism", "adjacency", "path", "noise"))

    found = {name_of(row): row for row in (*rows_in(file), *rows)}
    with file.open("w", newline="") as opened:
        writer = csv.DictWriter(opened, COLUMNS)
        writer.writeheader()
        writer.writerows(found.values())


def run(options: Any) -> None:
    """Audit, and write the rows as they come."""
    kept = rows_in(options.output) if options.go_on else []
    known = {tuple(row[name] for name in ("mechanism", "adjacency", "path", "noise")) for row in kept}
    with ThreadPoolExecutor(options.workers) as pool:
        made = list(pool.map(lambda make: make(), catalogue(options.epsilon)))
    pairs = [pair for pair in made if options.only in pair.words]
    pairs = [pair for pair in pairs if (pair.mechanism, pair.adjacency.value, pair.path, pair.noise) not in known]
    clock, lock = Clock(options.seconds, len(pairs), options.workers, options.start), Lock()
    error = CONFIDENCE_ERROR / (2 * len(made))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    with options.output.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(kept)

        def one(pair: Pair) -> bool | None:
            try:
                return audited(pair)
            except Exception as error:  # the other rows are worth having; --go-on makes this one again
                print(f"{pair.words}: no row, for {type(error).__name__}: {error}", flush=True)
                return None

        def audited(pair: Pair) -> bool:
            start = time.perf_counter()
            tally = collect(pair, int(options.runs), options.chains, clock.stop_of_next())
            row = row_of(pair, tally, error, time.perf_counter() - start)
            with lock:
                writer.writerow(row)
                file.flush()
                print(", ".join(f"{name} {row[name]}" for name in COLUMNS if name != "device"), flush=True)
            return max(float(row["lower_no_assumption"]), float(row["lower_trade_off"])) > float(row["claimed_epsilon"])

        with ThreadPoolExecutor(options.workers) as pool:
            found = list(pool.map(one, pairs))
    broken, missing = found.count(True), found.count(None)
    print(f"{broken} of {len(pairs)} lower bounds lie above their claim, {missing} rows are missing")
    if options.into is not None:
        put_into(options.into, rows_in(options.output))
    raise SystemExit(bool(broken or missing))


if __name__ == "__main__":
    main()
