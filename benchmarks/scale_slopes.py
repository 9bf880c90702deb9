"""What the slope of one row in every few does to the last step of a fit, without noise; writes a table.

    python benchmarks/scale_slopes.py --rows 4e6 --spacings 8

The tables are those of `scale_orders.py`. From points that are as far from the maximum of the likelihood as a pilot on
a ninth of the rows would end, a Newton step with the slope halfway is made twice: with the slope of all rows, and with
that of one in every few at the places of `SpacedSum`, times that number. `error` is the distance between the ends, in
posterior standard deviations, root mean square over parameters and points; `worst` is the largest of a parameter;
`predicted` is what the choice of the spacing expects. The control, `blocks`, takes as many rows from 80 blocks.
"""

import argparse
import csv
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

if __package__ in (None, ""):  # run as a file
    sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.scale_orders import ORDERS, table
from dpmcmc.enclave.mechanisms.spaced_sum import places_read
from dpmcmc.fitting.strategies.weighted_scores.spacing import sampling_variance, usual_squares

FIELDS = ["date", "rows", "order", "spacing", "rows_of_slope", "points", "error", "worst", "predicted"]
AWAY, POINTS, BLOCKS = 7.5, 3, 80
"""How far the points are, in variances of the posterior, how many there are, and how many blocks the control has."""


def sums(design: np.ndarray, outcome: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the slope and the score of all rows."""
    slope, score = np.zeros((len(theta), len(theta))), np.zeros(len(theta))
    for start in range(0, len(outcome), 2**16):
        part = design[:, start : start + 2**16].astype(float)
        share = 1 / (1 + np.exp(-theta @ part))
        slope += (part * (share * (1 - share))) @ part.T
        score += part @ (outcome[start : start + 2**16] - share)
    return slope, score


def measured(rows: int, order: str, spacing: int) -> list[dict[str, object]]:
    """Return the errors of both ways to choose the rows of the slope."""
    columns, outcome = table(rows, order)
    scaled = columns[:-1].astype(np.float32) / np.float32(127.5) - 1
    design = np.vstack([scaled, columns[-1:].astype(np.float32), np.ones((1, rows), np.float32)])
    theta = np.zeros(len(design))
    for _ in range(9):
        slope, score = sums(design, outcome, theta)
        theta += np.linalg.solve(slope, score)
    covariance = np.linalg.inv(sums(design, outcome, theta)[0])
    size, rng = len(theta), np.random.default_rng(1)
    length = rows // (spacing * BLOCKS)
    starts = np.arange(BLOCKS) * (rows // BLOCKS) + rng.integers(0, rows // BLOCKS - length, BLOCKS)
    chosen = {
        "spaced": np.asarray(places_read(spacing, rows)),
        "blocks": (starts[:, None] + np.arange(length)).ravel(),
    }
    errors: dict[str, list[np.ndarray]] = {name: [] for name in chosen}
    for _ in range(POINTS):
        point = theta + np.sqrt(AWAY) * np.linalg.cholesky(covariance) @ rng.normal(size=size)
        halfway, (_, score) = (point + theta) / 2, sums(design, outcome, point)
        whole = np.linalg.solve(sums(design, outcome, halfway)[0], score)
        for name, places in chosen.items():
            some = sums(design[:, places], outcome[places], halfway)[0] * (rows / len(places))
            errors[name].append((np.linalg.solve(some, score) - whole) / np.sqrt(np.diag(covariance)))
    expected = np.sqrt(size * sampling_variance(spacing, usual_squares(size, rows), size) * AWAY / 2)
    return [
        {
            "spacing": spacing,
            "rows_of_slope": name,
            "points": POINTS,
            "error": f"{np.sqrt(np.mean(np.square(found))):.4f}",
            "worst": f"{np.sqrt(np.mean(np.square(found), axis=0)).max():.4f}",
            "predicted": f"{expected:.4f}",
        }
        for name, found in errors.items()
    ]


def main() -> None:
    """Measure every order."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=4 * 10**6)
    parser.add_argument("--spacings", type=int, nargs="*", default=[8, 16])
    parser.add_argument("--only", nargs="*", choices=ORDERS, default=list(ORDERS))
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/scale_slopes.csv"))
    arguments = parser.parse_args()
    common = {"date": datetime.now(UTC).date().isoformat(), "rows": arguments.rows}
    with arguments.output.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        for order in arguments.only:
            for spacing in arguments.spacings:
                for found in measured(arguments.rows, order, spacing):
                    writer.writerow({**common, "order": order, **found})
                    file.flush()
                    print({"order": order, **found}, flush=True)


if __name__ == "__main__":
    main()
