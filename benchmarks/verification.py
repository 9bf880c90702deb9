"""How long `dpmcmc verify` takes for certificates of every kind, and how narrow its enclosures are.

    python benchmarks/verification.py --output benchmarks/results/verification.csv

CPU seconds of one core: of pricing the event once, of checking its certificate, and what was guessed before. `widest`
is the width of the widest enclosure, relative to its number where that is above one.
"""

import argparse
import csv
import time
from pathlib import Path

from dpmcmc.accounting import (
    AcceptBit,
    Adjacency,
    Approximation,
    BarkerTest,
    Certificate,
    Event,
    FixedBatchGaussian,
    Gaussian,
    LogisticBit,
    Parallel,
    Partition,
    PoissonGaussian,
    RatioApproximation,
    SphericalLaplace,
    compose,
    repeat_and_select,
)
from dpmcmc.verification import verify, work

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_OR_REMOVE_ONE
DELTA = 1e-6
NOISE = Approximation(2e-24) + RatioApproximation(8e-14)
PLACES = "0123456789abcdef" * 2


def cells(events: list[Event]) -> Event:
    """Return events of cells beside each other."""
    return Parallel(Partition(tuple(range(len(events) + 1)), PLACES), dict(enumerate(events)))


def poisson(kinds: int, times: int, more: int = 0) -> Event:
    """Return so many noise levels of Poisson batches, and how often each was taken."""
    return compose(PoissonGaussian(0.01, 1.0 + 0.1 * i, ADD) * (times + more * i) for i in range(kinds))


def everything() -> Event:
    """Return releases of all kinds."""
    sampled = [PoissonGaussian(0.01, 1.0 + 0.1 * i, REPLACE) * 100 for i in range(20)]
    batches = [FixedBatchGaussian(100, 10_000, 3.0) * 100, BarkerTest(1_000, 100_000, 2.0, 1.0) * 100]
    whole = [Gaussian(9.0) * 3, AcceptBit(31.0) * 100, LogisticBit(0.05) * 100, SphericalLaplace(6, 40.0) * 5]
    return compose([*sampled, *batches, *whole, NOISE * 10])


EVENTS: dict[str, tuple[Event, Adjacency]] = {
    "a fit": ((Gaussian(9.0) + NOISE) * 3 + (Gaussian(20.0) + NOISE) * 8, REPLACE),
    "30 noise levels of full sums": (compose((Gaussian(31.6 + i) + NOISE) * 100 for i in range(30)), REPLACE),
    "hidden decisions": ((AcceptBit(31.6) + NOISE) * 1_000 + Gaussian(174.0) * 2_600, REPLACE),
    "30 kinds of hidden decisions": (compose((AcceptBit(31.6 + i) + NOISE) * 100 for i in range(30)), REPLACE),
    "10,000 Barker bits": ((LogisticBit(0.01) + NOISE) * 10_000, REPLACE),
    "30 kinds of Barker bits": (compose(LogisticBit(0.01 + 0.001 * i) * 100 for i in range(30)), REPLACE),
    "20,000 Poisson batches": (PoissonGaussian(1e-3, 1.0, ADD) * 20_000, ADD),
    "20,000 Poisson batches, replace-one": (PoissonGaussian(1e-3, 2.0, REPLACE) * 20_000, REPLACE),
    "a million Poisson batches": (PoissonGaussian(1e-4, 1.0, ADD) * 1_000_000, ADD),
    "30 noise levels, 20 batches each": (
        compose(PoissonGaussian(0.05, 2.0 + 0.2 * i, ADD) * 20 for i in range(30)),
        ADD,
    ),
    "30 noise levels, 100 to 1,173 batches": (poisson(30, 100, 37), ADD),
    "100 noise levels, 20 batches each": (poisson(100, 20), ADD),
    "20,000 fixed batches": (FixedBatchGaussian(100, 100_000, 1.0) * 20_000, REPLACE),
    "30 kinds of fixed batches": (
        compose(FixedBatchGaussian(500, 100_000, 1.0 + 0.1 * i) * 200 for i in range(30)),
        REPLACE,
    ),
    "10,000 Barker tests": (BarkerTest(1_000, 100_000, 2.0, 1.0) * 10_000, REPLACE),
    "20 kinds of Barker tests": (
        compose(BarkerTest(1_000 + 100 * i, 100_000, 2.0, 1.0) * 100 for i in range(20)),
        REPLACE,
    ),
    "30 spheres": (compose(SphericalLaplace(6, 4.0 + i) for i in range(30)), REPLACE),
    "spheres of many dimensions": (compose(SphericalLaplace(6 + 10 * i, 4.0 + i) for i in range(20)), REPLACE),
    "all kinds": (everything(), REPLACE),
    "the best of 10 runs": (
        repeat_and_select([(Gaussian(9.0 + i) + NOISE) * 5 + LogisticBit(0.1) * (3 + i) for i in range(10)], 4.0),
        REPLACE,
    ),
    "63 cells of full sums": (cells([(Gaussian(3.0 + 0.1 * i) + NOISE) * 100 for i in range(63)]), ADD),
    "20 cells of hidden decisions": (cells([(AcceptBit(30 + 0.1 * i) + NOISE) * 100 for i in range(20)]), REPLACE),
    "20 cells of spheres": (cells([SphericalLaplace(3, 2 + 0.1 * i) for i in range(20)]), REPLACE),
    "20 cells of Poisson batches and bits": (
        cells(
            [
                PoissonGaussian(0.01, 2 + 0.1 * i, ADD) * 100 + LogisticBit(0.1 + 0.01 * i) * 10 + NOISE
                for i in range(20)
            ]
        ),
        ADD,
    ),
}


def row_of(name: str, event: Event, adjacency: Adjacency) -> dict[str, str]:
    """Check one certificate and return what it took."""
    start = time.process_time()
    document = Certificate(event, adjacency, DELTA).to_json()
    priced = time.process_time()
    found = verify(document)
    done = time.process_time()
    widest = max((one.upper - one.lower) / max(1.0, abs(one.upper)) for one in found.figures if one.lower < one.upper)
    return {
        "certificate": name,
        "epsilon": f"{found.certificate.epsilon:.6f}",
        "pricing_cpu_s": f"{priced - start:.2f}",
        "verify_cpu_s": f"{done - priced:.2f}",
        "guessed_s": f"{work.seconds(event, DELTA):.2f}",
        "widest": f"{widest:.1e}",
    }


def main() -> None:
    """Check all certificates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    verify(Certificate(LogisticBit(0.1), REPLACE, DELTA).to_json())  # what is imported late
    rows = [row_of(name, event, adjacency) for name, (event, adjacency) in EVENTS.items()]
    with options.output.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    for row in rows:
        print(", ".join(f"{name} {value}" for name, value in row.items()))


if __name__ == "__main__":
    main()
