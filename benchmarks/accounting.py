"""How fast the accountants are, against dp-accounting in the same run; writes results/accounting.csv.

Every figure is the median of five cold calls: caches are cleared in between.
"""

import csv
import platform
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import dp_accounting
import numpy as np
from dp_accounting import pld as peer_pld
from dp_accounting import rdp as peer_rdp

from dpmcmc.accounting import Adjacency, Gaussian, PoissonGaussian, accountants, compose, epsilon, max_steps
from dpmcmc.accounting import pld as our_pld
from dpmcmc.accounting import rdp as our_rdp

DELTA = 1e-6
RATE, NOISE, POISSON_STEPS = 0.01, 1.3, 10_000
REPEATS = 5
RESULTS = Path(__file__).parent / "results" / "accounting.csv"


def clear_caches() -> None:
    """Forget every distribution and curve, so that each call starts cold."""
    our_pld.curve.cache_clear()
    our_pld._step.cache_clear()
    our_rdp._elementary.cache_clear()


def measure(call: Callable[[], float], repeats: int = REPEATS) -> tuple[float, float]:
    """Return the median seconds of `call` and its answer."""
    seconds, answer = [], float("nan")
    for _ in range(repeats):
        clear_caches()
        start = time.perf_counter()
        answer = float(call())
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds), answer


def peer_poisson(interval: float | None, steps: int = POISSON_STEPS) -> float:
    """Return dp-accounting's epsilon of the Poisson composition by privacy loss distributions."""
    options = {} if interval is None else {"value_discretization_interval": interval}
    accountant = peer_pld.PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE, **options)
    step = dp_accounting.PoissonSampledDpEvent(RATE, dp_accounting.GaussianDpEvent(NOISE))
    return accountant.compose(step, steps).get_epsilon(DELTA)


def peer_poisson_rdp() -> float:
    """Return dp-accounting's epsilon of the Poisson composition by Renyi divergences."""
    step = dp_accounting.PoissonSampledDpEvent(RATE, dp_accounting.GaussianDpEvent(NOISE))
    return peer_rdp.RdpAccountant().compose(step, POISSON_STEPS).get_epsilon(DELTA)


def peer_gaussians(noises: np.ndarray) -> float:
    """Return dp-accounting's epsilon of Gaussians of different noise."""
    accountant = peer_pld.PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    for noise in noises:
        accountant.compose(dp_accounting.GaussianDpEvent(float(noise)))
    return accountant.get_epsilon(DELTA)


def peer_max_steps() -> float:
    """Return the steps allowed by dp-accounting, by bisection between 1 and 2^15."""
    low, high = 1, 2**15
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if peer_poisson(None, middle) <= 6.0 else (low, middle)
    return low


def main() -> None:
    """Measure, print and write the table."""
    generator = np.random.default_rng(0)
    million = generator.uniform(1000, 3000, 1_000_000)
    thousand = generator.uniform(30, 100, 1000)
    start = time.perf_counter()
    many = compose(Gaussian(noise) for noise in million.tolist())
    building = time.perf_counter() - start
    few = compose(Gaussian(noise) for noise in thousand.tolist())
    poisson = PoissonGaussian(RATE, NOISE, Adjacency.ADD_OR_REMOVE_ONE)
    schedule = compose(
        PoissonGaussian(RATE, NOISE * t ** (1 / 6), Adjacency.ADD_OR_REMOVE_ONE) for t in range(1, POISSON_STEPS + 1)
    )
    rows: list[tuple[str, str, float, float]] = [("building a million different Gaussians", "dpmcmc", building, 1e6)]

    def record(task: str, method: str, call: Callable[[], float], repeats: int = REPEATS) -> None:
        seconds, answer = measure(call, repeats)
        rows.append((task, method, seconds, answer))
        print(f"{task:55s} {method:38s} {seconds * 1e3:12.2f} ms   {answer:.6g}", flush=True)

    task = "epsilon, a million different Gaussians"
    record(task, "dpmcmc exact", lambda: epsilon(many, DELTA))
    task = "epsilon, 1,000 different Gaussians"
    record(task, "dpmcmc exact", lambda: epsilon(few, DELTA))
    record(task, "dp-accounting pld", lambda: peer_gaussians(thousand), 1)
    task = "epsilon, 10,000 equal Poisson steps"
    record(task, "dpmcmc tight", lambda: epsilon(poisson * POISSON_STEPS, DELTA))
    record(task, "dpmcmc pld", lambda: epsilon(poisson * POISSON_STEPS, DELTA, "pld"))
    record(task, "dp-accounting pld, default grid", lambda: peer_poisson(None))
    record(task, "dp-accounting rdp", peer_poisson_rdp)
    task = "epsilon, 10,000 different Poisson steps"
    record(task, "dpmcmc tight", lambda: epsilon(schedule, DELTA))
    task = "max_steps, Gaussian"
    record(task, "dpmcmc tight", lambda: max_steps(Gaussian(1000.0), 6.0, DELTA))
    task = "max_steps, Poisson"
    record(task, "dpmcmc tight", lambda: max_steps(poisson, 6.0, DELTA))
    record(task, "dp-accounting pld, bisection", peer_max_steps, 1)

    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["date", "machine", "task", "method", "seconds", "answer"])
        machine = f"{platform.machine()} {platform.system()} Python {platform.python_version()}"
        for name, method, seconds, answer in rows:
            writer.writerow([datetime.now(UTC).date(), machine, name, method, f"{seconds:.6f}", f"{answer:.8g}"])
    print(f"wrote {RESULTS.name}; accountants: {', '.join(accountants.ACCOUNTANTS)}")


if __name__ == "__main__":
    main()
