"""One pass over files in several orders, against the fit of the same rows in memory; writes a table of errors.

    python benchmarks/scale_orders.py --rows 4e6 --seeds 4

The rows are ten numbers and one truth value, `site`, which is true for a fiftieth of the rows, and an outcome. Orders:
`random`; `outcome`, sorted by it; `site`, the site in one place; `cycle`, the site at every 50th place; `rare`, random
with 1 % of the outcomes true. The error is the distance of posterior means from the maximum of the likelihood of the
same rows, in posterior standard deviations, root mean square over parameters and seeds; `worst` is the largest of a
parameter, root mean square over seeds. Aimed at: at most 1.05 times the error in memory, beside chance.
"""

import argparse
import csv
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

if __package__ in (None, ""):  # run as a file
    sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.scale import ACCURATE, EPSILON
from benchmarks.scale_files import COLUMNS, EFFECTS, OUTCOME, ROWS_IN_GROUP

ORDERS = ("random", "outcome", "site", "cycle", "rare")
SITE, SHARE, RARE = "site", 50, 0.01
NAMES = (*COLUMNS, SITE)
FORMULA = f"{OUTCOME} ~ {' + '.join(NAMES)}"
SCHEMA = {
    "columns": {
        **{name: {"kind": "number", "lower": 0, "upper": 255} for name in COLUMNS},
        SITE: {"kind": "number", "lower": 0, "upper": 1},
        OUTCOME: {"kind": "boolean"},
    }
}
FIELDS = ["date", "rows", "order", "seeds", "spacing", "files", "memory", "ratio", "worst", "worst_memory", "verdicts"]


def table(rows: int, order: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns, as bytes, and the outcomes, in an order."""
    rng = np.random.default_rng(ORDERS.index(order))
    site = (np.arange(rows) % SHARE == 0).astype(np.uint8)
    columns = np.vstack([rng.integers(0, 256, (len(COLUMNS), rows), np.uint8), site])
    eta = EFFECTS @ (columns[:-1].astype(np.float32) / 127.5 - 1) - 0.5 + 0.7 * site
    if order == "rare":
        eta += np.float32(np.log(RARE) + 0.3)
    outcome = rng.random(rows, np.float32) < 1 / (1 + np.exp(-eta))
    if order in ("outcome", "site"):
        sorted_by = np.argsort(outcome if order == "outcome" else site, kind="stable")
        columns, outcome = columns[:, sorted_by], outcome[sorted_by]
    return columns, outcome


def write(path: Path, columns: np.ndarray, outcome: np.ndarray) -> None:
    """Write a table as one Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = dict(zip(NAMES, columns, strict=True))
    pq.write_table(pa.table({**names, OUTCOME: outcome}), path, row_group_size=ROWS_IN_GROUP, compression="none")


def maximum(columns: np.ndarray, outcome: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the maximum of the likelihood, of all but the intercept, and standard deviations around it."""
    theta = np.zeros(len(columns) + 1)
    for _ in range(9):
        gradient, hessian = np.zeros_like(theta), np.zeros((theta.size, theta.size))
        for start in range(0, len(outcome), 2**18):
            part = columns[:, start : start + 2**18].astype(float)
            part[:-1] = part[:-1] / 127.5 - 1
            design = np.vstack([part, np.ones(part.shape[1])])
            share = 1 / (1 + np.exp(-theta @ design))
            gradient += design @ (outcome[start : start + 2**18] - share)
            hessian += (design * (share * (1 - share))) @ design.T
        theta += np.linalg.solve(hessian, gradient)
    scale = np.append(np.full(len(COLUMNS), 127.5), 1.0)
    return theta[:-1] / scale, np.sqrt(np.diag(np.linalg.inv(hessian)))[:-1] / scale


def fitted(path: Path, rows: int, seed: int, in_memory: bool) -> Any:
    """Return a fit of the file, with noise from a seed."""
    import pyarrow.parquet as pq

    import dpmcmc as dp
    from dpmcmc.enclave.engines import LocalEngine
    from dpmcmc.enclave.sources import FileSource
    from dpmcmc.enclave.tables import read_table
    from dpmcmc.schema import Schema

    schema = Schema.read(SCHEMA)
    if in_memory:
        read = read_table(pq.read_table(path), schema)
        data = dp.PrivateData.without_guarantee(read.records, bounds=read.bounds, schema=schema)
    else:
        data = dp.PrivateData.without_guarantee(LocalEngine(FileSource([path], schema)), schema=schema)
    terms = {"family": "bernoulli", "epsilon": EPSILON, "delta": 0.1 / rows, "progress": False, "num_steps": ACCURATE}
    return dp.fit(FORMULA, data, insecure_seed=seed, passes=None if in_memory else 1, **terms)


def measured(folder: Path, rows: int, order: str, seeds: int) -> dict[str, Any]:
    """Return the errors of one order."""
    path, (columns, outcome) = folder / f"{order}.parquet", table(rows, order)
    write(path, columns, outcome)
    best, deviations = maximum(columns, outcome)
    errors: dict[bool, list[np.ndarray]] = {True: [], False: []}
    verdicts, spacing = [], "1"
    for seed in range(seeds):
        for in_memory in (False, True):
            found = fitted(path, rows, seed, in_memory)
            means = np.array([np.asarray(found.draws[name]).mean() for name in NAMES])
            errors[in_memory].append((means - best) / deviations)
            if not in_memory:
                verdicts.append(found.quality.verdict)
                spacing = found.settings["pilot"]["final_release"].partition("step=")[2].rstrip(")") or "1"
    path.unlink()
    root = {kind: np.sqrt(np.mean(np.square(each), axis=0)) for kind, each in errors.items()}
    all_of = {kind: float(np.sqrt(np.mean(np.square(each)))) for kind, each in errors.items()}
    return {
        "spacing": spacing,
        "files": f"{all_of[False]:.4f}",
        "memory": f"{all_of[True]:.4f}",
        "ratio": f"{all_of[False] / all_of[True]:.3f}",
        "worst": f"{root[False].max():.4f}",
        "worst_memory": f"{root[True].max():.4f}",
        "verdicts": " ".join(sorted(set(verdicts))),
    }


def main() -> None:
    """Measure every order, and write each as it is measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=4 * 10**6)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--only", nargs="*", choices=ORDERS, default=list(ORDERS))
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/scale_orders.csv"))
    arguments = parser.parse_args()
    common = {"date": datetime.now(UTC).date().isoformat(), "rows": arguments.rows, "seeds": arguments.seeds}
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, arguments.output.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        for order in arguments.only:
            found = {**common, "order": order, **measured(Path(folder), arguments.rows, order, arguments.seeds)}
            writer.writerow(found)
            file.flush()
            print(found, flush=True)


if __name__ == "__main__":
    main()
