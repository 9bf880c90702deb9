"""How long a fit makes one wait: the first in a process, and others of its shape; writes a table.

    python benchmarks/latency.py --output benchmarks/results/latency.csv
    python benchmarks/latency.py --sizes 100000 --nuts 100000

Each size has a process of its own. Compilations are XLA's, counted by JAX's own events; those of the vault's self-test,
which runs when the data are loaded, are a row of their own. Beside the fits, in the same process: one plain pass over
the records, compiled and then again (loss and gradient of a logistic regression, one fused program), and NumPyro's NUTS
with 500 + 500 steps. What is promised: the first fit compiles at most 6 programs and takes at most 4 times as long as
to import JAX and compile a plain pass; others of its shape compile none, within 30 plain passes and half a second.
"""

import argparse
import compileall
import csv
import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

COLUMNS = ["date", "device", "n", "d", "step", "wall_seconds", "cpu_seconds", "compilations", "plain_passes"]
SIZES = (100_000, 1_000_000, 10_000_000)
NUTS_UP_TO = 100_000
REPEATS = 7
PACKAGE = Path(__file__).parents[1] / "src" / "dpmcmc"


class Watch:
    """Times steps and counts compilations."""

    def __init__(self) -> None:
        self.rows: list[dict[str, object]] = []
        self.compilations = 0
        self._start()

    def listen(self) -> None:
        """Count compilations from here on."""
        import jax.monitoring

        def heard(event: str, duration: float, **_: object) -> None:
            del duration
            self.compilations += event.endswith("backend_compile_duration")

        jax.monitoring.register_event_duration_secs_listener(heard)

    def step(self, name: str) -> None:
        """End a step and begin the next."""
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        self.rows.append({"step": name, "wall_seconds": wall, "cpu_seconds": cpu, "compilations": self.compilations})
        self._start()

    def _start(self) -> None:
        self.compilations, self._wall, self._cpu = 0, time.perf_counter(), time.process_time()


def worker(size: int, nuts: bool) -> None:
    """Measure one size, and print the rows."""
    watch = Watch()
    import jax
    import jax.numpy as jnp
    import numpy as np

    watch.step("import jax")
    watch.listen()
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (size, 4)).astype(np.float32)
    y = (rng.random(size) < 1 / (1 + np.exp(-(x @ [0.5, -0.5, 0.2, 1.0] - 1)))).astype(np.float32)
    on_device = jnp.asarray(np.c_[np.ones(size, np.float32), x]), jnp.asarray(y)
    watch._start()

    @jax.jit
    @jax.value_and_grad
    def plain(b: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.sum(jnp.logaddexp(0.0, x @ b) - y * (x @ b))

    jax.block_until_ready(plain(jnp.zeros(5), *on_device))
    watch.step("compile and run a plain pass")
    times: list[float] = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        jax.block_until_ready(plain(jnp.zeros(5), *on_device))
        times.append(time.perf_counter() - start)
    watch.step(f"{REPEATS} plain passes")
    import pandas as pd

    import dpmcmc as dp

    watch.step("import dpmcmc")
    columns = {f"x{number}": dp.Column(kind="number", lower=-1, upper=1) for number in range(4)}
    schema = dp.Schema({**columns, "y": dp.Column(kind="boolean"), "z": dp.Column(kind="boolean")})

    def load(rows: slice) -> dp.PrivateData:
        columns = {**{f"x{number}": x[rows, number] for number in range(4)}, "y": y[rows] > 0, "z": y[rows] < 1}
        return dp.PrivateData.from_table(pd.DataFrame(columns), schema=schema, budget=dp.Budget(100.0, 1e-8))

    data = load(slice(None))
    watch.step("load the data, with the vault's self-test")
    other = load(slice(None, None, -1))
    watch.step("load another table")

    def fit(formula: str, epsilon: float, data: dp.PrivateData) -> None:
        dp.fit(formula, data, family="bernoulli", epsilon=epsilon, delta=1e-9, progress=False)

    for name, formula, epsilon, table in (
        ("first fit", "y ~ x0 + x1 + x2 + x3", 4.0, data),
        ("the same again", "y ~ x0 + x1 + x2 + x3", 4.0, data),
        ("another epsilon", "y ~ x0 + x1 + x2 + x3", 3.0, data),
        ("another formula of the shape", "z ~ x3 + x1 + x0 + x2", 4.0, data),
        ("another table of the size", "y ~ x0 + x1 + x2 + x3", 4.0, other),
    ):
        fit(formula, epsilon, table)
        watch.step(name)

    import numpyro
    import numpyro.distributions as dist

    def logistic(x0: Any, x1: Any, x2: Any, x3: Any, y: Any) -> None:
        b = numpyro.sample("b", dist.Normal(0, 2.5).expand([5]).to_event(1))
        with numpyro.plate("records", len(y)):
            eta = b[0] + b[1] * x0 + b[2] * x1 + b[3] * x2 + b[4] * x3
            numpyro.sample("y", dist.Bernoulli(logits=eta), obs=y)

    for name, epsilon in (("first fit of a NumPyro model", 4.0), ("that with another epsilon", 3.0)):
        dp.fit(logistic, data, epsilon=epsilon, delta=1e-9, progress=False)
        watch.step(name)
    if nuts:
        from numpyro.infer import MCMC, NUTS

        def model(x: jax.Array, y: jax.Array) -> None:
            b = numpyro.sample("b", dist.Normal(0, 2.5).expand([5]).to_event(1))
            numpyro.sample("y", dist.Bernoulli(logits=x @ b), obs=y)

        sampler = MCMC(NUTS(model), num_warmup=500, num_samples=500, progress_bar=False)
        sampler.run(jax.random.key(0), *on_device)
        watch.step("NumPyro's NUTS, 500 + 500, not private")
    pass_seconds = sorted(times)[REPEATS // 2]
    device = jax.devices()[0].device_kind
    for row in watch.rows:
        sys.stdout.write(
            json.dumps({**row, "device": device, "plain_passes": row["wall_seconds"] / pass_seconds}) + "\n"
        )


def main() -> None:
    """Measure every size and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--nuts", type=int, default=NUTS_UP_TO, help="NUTS up to so many records")
    parser.add_argument("--output", type=Path, default=None)
    parser.add_argument("--worker", type=int, default=None, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker is not None:
        worker(arguments.worker, arguments.worker <= arguments.nuts)
        return
    compileall.compile_dir(PACKAGE, quiet=1)  # as an installation does
    kept = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    rows: list[dict[str, object]] = []
    for size in arguments.sizes:
        command = [sys.executable, __file__, "--worker", str(size), "--nuts", str(arguments.nuts)]
        start = time.perf_counter()
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=kept)  # noqa: S603
        print(f"{size:,}: {time.perf_counter() - start:.0f} s", file=sys.stderr)
        for line in done.stdout.splitlines():
            if line.startswith("{"):
                row = json.loads(line)
                for name in ("wall_seconds", "cpu_seconds", "plain_passes"):
                    row[name] = f"{row[name]:.3g}"
                rows.append({"date": datetime.now(UTC).date().isoformat(), "n": size, "d": 5, **row})
                print(rows[-1], file=sys.stderr)
    if arguments.output is not None:
        with arguments.output.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
