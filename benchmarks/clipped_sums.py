"""How fast one clipped, quantised, noisy gradient sum is, against its peers in the same run; writes a table.

    python benchmarks/clipped_sums.py --device cpu --output benchmarks/results/clipped_sums_cpu.csv
    python benchmarks/clipped_sums.py --quick
    python benchmarks/clipped_sums.py --models gaussian mixture --sizes 1000000 --widths 100 --chains 1 16

Needs jax and numpy; peers that are not installed are left out. Methods take turns, so that a load on the machine falls
on all of them; seconds are medians. `reads` is the time in units of one plain read of the data, the ratio is to the
gradient of the summed log-likelihood without privacy, for the same number of chains.
"""

import argparse
import csv
import importlib.util
import statistics
import sys
import time
import types
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

# The events need nothing that the accountants do: import them without the rest of their package, so that a machine with
# jax and numpy alone, and this tree on it, can run the benchmark.
SOURCE = Path(__file__).parents[1] / "src"
sys.path.insert(0, str(SOURCE))
package = types.ModuleType("dpmcmc.accounting")
package.__path__ = [str(SOURCE / "dpmcmc" / "accounting")]
sys.modules["dpmcmc.accounting"] = package
if importlib.util.find_spec("tomli_w") is None:
    sys.modules["tomli_w"] = types.ModuleType("tomli_w")  # writes schemas to files; none is written here

from dpmcmc.accounting.adjacency import Adjacency  # noqa: E402
from dpmcmc.enclave.accelerate import PATHS  # noqa: E402
from dpmcmc.enclave.accelerate.linear.rows import Rows  # noqa: E402
from dpmcmc.enclave.core.mechanism import ReleasePlan, Term, contribution_of, plan_of  # noqa: E402
from dpmcmc.enclave.core.metadata import Facts  # noqa: E402
from dpmcmc.enclave.core.places import Slots, tile_rows  # noqa: E402
from dpmcmc.enclave.core.vault import CHUNK_SIZE  # noqa: E402
from dpmcmc.enclave.data import PrivateData  # noqa: E402
from dpmcmc.enclave.mechanisms.gradient import GradientSum  # noqa: E402
from dpmcmc.enclave.mechanisms.log_ratio import LogRatio  # noqa: E402
from dpmcmc.enclave.noise.chacha20 import insecure_key  # noqa: E402

COLUMNS = ["date", "device", "model", "n", "d", "chains", "method", "seconds", "reads", "ratio_to_plain_gradient"]
COLUMNS += ["peak_mb"]
CLIP, NOISE = 2.0, 3.0
LARGEST_NAIVE = {"cpu": 4e9, "h200": 6e10}  # bytes of per-record gradients

Records = dict[str, jax.Array]


def logistic(position: jax.Array, record: Records) -> jax.Array:
    """Logistic regression: a linear predictor."""
    predictor = record["x"] @ position
    return record["y"] * predictor - jnp.logaddexp(0.0, predictor)


def gaussian(position: jax.Array, record: Records) -> jax.Array:
    """A Gaussian mean: nothing to gain from a linear predictor."""
    return -0.5 * jnp.sum(jnp.square(record["x"] - position))


def mixture(position: jax.Array, record: Records) -> jax.Array:
    """A location with outliers: two Gaussians, one of them wide. A general model."""
    square = jnp.sum(jnp.square(record["x"] - position))
    return jnp.logaddexp(-0.5 * square, -0.02 * square - 3.0)


MODELS = {"logistic": logistic, "gaussian": gaussian, "mixture": mixture}


def table(n: int, d: int) -> Records:
    """Return simulated records, made on the device."""
    of_x, of_y = jax.random.split(jax.random.key(n + d))
    return {"x": jax.random.normal(of_x, (n, d)), "y": jax.random.bernoulli(of_y, 0.5, (n,)).astype(jnp.float32)}


def facts_of(records: Records) -> Facts:
    """Return what is public about the records."""
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), records)
    return Facts(Adjacency.REPLACE_ONE, len(records["x"]), one, {}, CHUNK_SIZE, paths=PATHS)


def slots_of(records: Records) -> Slots:
    """Return the records in their slots, on the device."""
    size = len(records["x"])
    missing = -size % tile_rows()
    rows = jax.tree.map(lambda leaf: jnp.pad(leaf, [(0, missing), *[(0, 0)] * (leaf.ndim - 1)]), records)
    return Slots(rows, jnp.arange(size + missing) < size, jnp.int32(1))


def plan_for(model: Any, facts: Facts, position: jax.Array) -> ReleasePlan:
    """Return the plan of the gradient sum."""
    mechanism = GradientSum(CLIP, NOISE)
    term = Term(model, jax.tree.structure((0,)))
    return plan_of(mechanism, facts, contribution_of(mechanism, term), [position])


def peak_of(compiled: Any) -> float:
    """Return the bytes that a compiled program holds."""
    memory = compiled.memory_analysis()
    return memory.argument_size_in_bytes + memory.temp_size_in_bytes + memory.output_size_in_bytes if memory else 0


# --- the methods: each returns a function without arguments, and the bytes it holds or zero ---------------------------


def ours(model: Any, records: Records, positions: jax.Array) -> tuple[Callable[[], Any], float]:
    """The clipped, quantised, gated and noisy gradient sum, on records that the run prepared before its loop."""
    plan = plan_for(model, facts_of(records), positions[0])
    prepared = jax.block_until_ready(jax.jit(plan.prepare)(slots_of(records)))
    keys = jax.random.split(insecure_key(0), len(positions))
    draw = jax.jit(lambda prepared, positions, keys: plan.draw(prepared, [positions], keys))
    compiled = draw.lower(prepared, positions, keys).compile()
    return lambda: compiled(prepared, positions, keys), peak_of(compiled)


def preparation(model: Any, records: Records, positions: jax.Array) -> tuple[Callable[[], Any], float]:
    """What ours does once a run: rows in integers, where the model has rows."""
    plan, slots = plan_for(model, facts_of(records), positions[0]), slots_of(records)

    def made(slots: Slots) -> Any:
        prepared = plan.prepare(slots)
        return (prepared.tiles, prepared.units) if isinstance(prepared, Rows) else ()  # the records stay where they are

    compiled = jax.jit(made).lower(slots).compile()
    return lambda: compiled(slots), peak_of(compiled)


def plain_read(model: Any, records: Records, positions: jax.Array) -> tuple[Callable[[], Any], float]:  # noqa: ARG001
    """(a) One pass over the data."""
    compiled = jax.jit(lambda records: jax.tree.map(jnp.sum, records))
    return lambda: compiled(records), 0


def plain_gradient(model: Any, records: Records, positions: jax.Array) -> tuple[Callable[[], Any], float]:
    """(b) The gradient of the summed log-likelihood."""

    def gradient(position: jax.Array, records: Records) -> jax.Array:
        return jax.grad(lambda position: jnp.sum(jax.vmap(model, (None, 0))(position, records)))(position)

    compiled = jax.jit(jax.vmap(gradient, (0, None)))
    return lambda: compiled(positions, records), 0


def jax_privacy(model: Any, records: Records, positions: jax.Array) -> tuple[Callable[[], Any], float]:
    """(c) jax_privacy's clipped_grad, in microbatches, without noise."""
    from jax_privacy.clipping import clipped_grad

    size = next(size for size in (1000, 1) if len(records["x"]) % size == 0)
    clipped = clipped_grad(model, l2_clip_norm=CLIP, keep_batch_dim=False, microbatch_size=size)
    compiled = jax.jit(jax.vmap(lambda position, records: clipped(position, records), (0, None)))
    return lambda: compiled(positions, records), 0


def naive(model: Any, records: Records, positions: jax.Array) -> tuple[Callable[[], Any], float]:
    """(e) vmap(grad), clip and sum, all records at once, without noise."""

    def of_chain(position: jax.Array, records: Records) -> jax.Array:
        gradients = jax.vmap(jax.grad(model), (None, 0))(position, records)
        norms = jnp.linalg.norm(gradients, axis=1, keepdims=True)
        return jnp.sum(gradients * jnp.minimum(1.0, CLIP / jnp.maximum(norms, 1e-12)), axis=0)

    compiled = jax.jit(jax.vmap(of_chain, (0, None)))
    return lambda: compiled(positions, records), 0


def opacus(model: Any, records: Records, positions: jax.Array) -> tuple[Callable[[], Any], float]:  # noqa: ARG001
    """(d) Opacus' per-sample gradients of a linear layer, clipped and summed, chain after chain, without noise."""
    import torch
    from opacus import GradSampleModule

    x, y = (torch.tensor(np.asarray(records[name])) for name in ("x", "y"))
    layer = GradSampleModule(torch.nn.Linear(x.shape[1], 1, bias=False))
    loss = torch.nn.BCEWithLogitsLoss(reduction="sum")

    def run() -> None:
        for _ in range(len(positions)):
            layer.zero_grad()
            loss(layer(x)[:, 0], y).backward()
            gradients = next(layer.parameters()).grad_sample.reshape(len(x), -1)
            factors = (CLIP / gradients.norm(dim=1).clamp(min=1e-12)).clamp(max=1.0)
            torch.einsum("n,nd->d", factors, gradients)

    return run, 0


PEERS = {"jax_privacy": "jax_privacy", "opacus": "opacus"}
METHODS = {
    "plain read": plain_read,
    "plain gradient": plain_gradient,
    "ours": ours,
    "ours, preparing": preparation,
    "jax_privacy": jax_privacy,
    "opacus": opacus,
    "naive vmap(grad)": naive,
}


def methods_for(model: str, n: int, d: int, chains: int, device: str) -> list[str]:
    """Return which methods are measured in one cell of the table."""
    left_out = {method for method, package in PEERS.items() if importlib.util.find_spec(package) is None}
    if device != "cpu" or n > 10**5 or model != "logistic":
        left_out.add("opacus")
    if n * d * chains * 4 > LARGEST_NAIVE[device]:
        left_out.update({"naive vmap(grad)"})
    if chains > 1:
        left_out.add("ours, preparing")
    return [method for method in METHODS if method not in left_out]


def measure(functions: dict[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """Return the median seconds of each function; they take turns, at least three and at most fifteen times."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        jax.block_until_ready(function())
    start = time.perf_counter()
    while len(times["ours"]) < 3 or (time.perf_counter() - start < seconds and len(times["ours"]) < 15):
        for name, function in functions.items():
            begin = time.perf_counter()
            jax.block_until_ready(function())
            times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(values) for name, values in times.items()}


def cell(model: str, records: Records, chains: int, device: str, seconds: float) -> list[dict[str, Any]]:
    """Measure all methods for one model, one table and one number of chains."""
    n, d = records["x"].shape
    positions = 0.1 * jax.random.normal(jax.random.key(chains), (chains, d))
    made = {
        method: METHODS[method](MODELS[model], records, positions)
        for method in methods_for(model, n, d, chains, device)
    }
    medians = measure({method: function for method, (function, _) in made.items()}, seconds)
    row = {"date": datetime.now(UTC).date().isoformat(), "device": device, "model": model, "n": n, "d": d}
    return [
        row
        | {
            "chains": chains,
            "method": method,
            "seconds": f"{median:.3e}",
            "reads": f"{median / medians['plain read']:.2f}",
            "ratio_to_plain_gradient": f"{median / medians['plain gradient']:.2f}",
            "peak_mb": f"{made[method][1] / 2**20:.0f}" if made[method][1] else "",
        }
        for method, median in medians.items()
    ]


# --- the primitive -------------------------------------------------------------------------------------------------


class Model:
    """Logistic regression as the oracle sees it."""

    temperature = 1.0

    @staticmethod
    def log_prior(position: jax.Array) -> jax.Array:
        """Return the log-density of a standard normal prior."""
        return -0.5 * jnp.sum(jnp.square(position))

    log_likelihood = staticmethod(logistic)


MODEL = Model()


def leapfrogs(oracle: Any, start: jax.Array) -> jax.Array:
    """A hundred noisy gradient steps."""

    def step(position: jax.Array, _: Any) -> tuple[jax.Array, None]:
        return position + 1e-6 * oracle.force(GradientSum(CLIP, NOISE), position).value, None

    return jax.lax.scan(step, start, None, length=100)[0]


def without_primitive(slots: Slots, size: int, start: jax.Array, key: jax.Array) -> jax.Array:
    """The same hundred steps, written by hand around the mechanism's arithmetic."""
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), slots.rows)
    plan = plan_for(logistic, Facts(Adjacency.REPLACE_ONE, size, one, {}, CHUNK_SIZE, paths=PATHS), start)
    prepared = plan.prepare(slots)

    def step(position: jax.Array, key: jax.Array) -> tuple[jax.Array, None]:
        (total,) = plan.draw(prepared, [position[None]], key[None])
        return position + 1e-6 * (total[0] + jax.grad(Model.log_prior)(position)), None

    return jax.lax.scan(step, start, jax.random.split(key, 100))[0]


def dp_hmc(oracle: Any, start: jax.Array, key: jax.Array) -> jax.Array:
    """A thousand steps of DP-HMC with five leapfrogs each."""
    gradient, log_ratio = GradientSum(CLIP, NOISE), LogRatio(CLIP, NOISE)

    def step(position: jax.Array, key: jax.Array) -> tuple[jax.Array, None]:
        of_momentum, of_test = jax.random.split(key)
        momentum = jax.random.normal(of_momentum, position.shape)
        kicked = momentum + 5e-5 * oracle.force(gradient, position).value

        def leap(state: Any, _: Any) -> tuple[Any, None]:
            moved, kicked = state
            moved = moved + 1e-4 * kicked
            return (moved, kicked + 1e-4 * oracle.force(gradient, moved).value), None

        (moved, kicked), _ = jax.lax.scan(leap, (position, kicked), None, length=5)
        ratio = oracle.log_posterior_ratio(log_ratio, position, moved)
        energy = 0.5 * (momentum @ momentum - kicked @ kicked)
        accepted = jnp.log(jax.random.uniform(of_test)) < ratio.value + energy - 0.5 * ratio.variance
        return jnp.where(accepted, moved, position), None

    return jax.lax.scan(step, start, jax.random.split(key, 1000))[0]


def primitive(device: str, n: int, d: int = 10, repeats: int = 7) -> list[dict[str, Any]]:
    """Measure a program with and without the primitive, and how long tracing and auditing DP-HMC takes."""
    records = table(n, d)
    data = PrivateData.without_guarantee(jax.tree.map(np.asarray, records))
    start, key = jnp.zeros(d), insecure_key(0)
    by_hand, slots = jax.jit(without_primitive, static_argnums=1), slots_of(records)
    functions = {
        "ours": lambda: data.run(leapfrogs, start, model=MODEL),
        "without the primitive": lambda: by_hand(slots, n, start, key),
    }
    for function in functions.values():
        jax.block_until_ready(function())
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            begin = time.perf_counter()
            jax.block_until_ready(function())
            times[name].append(time.perf_counter() - begin)
    medians = {name: statistics.median(values) for name, values in times.items()}
    audits = []
    for _ in range(repeats):
        begin = time.perf_counter()
        data.audit(lambda *arguments: dp_hmc(*arguments), start, jax.random.key(0), model=MODEL)
        audits.append(time.perf_counter() - begin)
    row = {"date": datetime.now(UTC).date().isoformat(), "device": device, "n": n, "d": d, "chains": 1}
    ratio = f"{medians['ours'] / medians['without the primitive']:.3f}"
    return [
        row
        | {"model": "100 gradients", "method": "with the primitive (ratio: to without)"}
        | {"seconds": f"{medians['ours']:.3e}", "ratio_to_plain_gradient": ratio},
        row
        | {"model": "100 gradients", "method": "without the primitive"}
        | {"seconds": f"{medians['without the primitive']:.3e}"},
        row
        | {"model": "DP-HMC, 1000 steps", "method": "trace and audit"}
        | {"seconds": f"{statistics.median(audits):.3e}"},
    ]


def main() -> None:
    """Measure, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=sorted(LARGEST_NAIVE), default="cpu", help="the name in the table")
    parser.add_argument("--output", type=Path, default=None, help="where the table goes")
    parser.add_argument("--quick", action="store_true", help="one small cell a model")
    parser.add_argument("--models", nargs="+", choices=sorted(MODELS), default=list(MODELS), help="only these models")
    for name, what in (("sizes", "numbers of records"), ("widths", "dimensions"), ("chains", "numbers of chains")):
        parser.add_argument(f"--{name}", nargs="+", type=int, default=None, help=f"only these {what}")
    parser.add_argument("--minutes", type=float, default=None, help="start no new cell after so many")
    arguments = parser.parse_args()
    minutes = arguments.minutes or {"cpu": 60.0, "h200": 6.5}[arguments.device]
    sizes = [10**7, 10**6, 10**5] if arguments.device == "h200" else [10**5, 10**6]
    widths, counts, seconds = [10, 100, 2, 32], [1, 16, 4], 1.0
    if arguments.quick:
        sizes, widths, counts, seconds = [20_000], [10], [1, 4], 0.2
    sizes, widths = arguments.sizes or sizes, arguments.widths or widths
    counts = arguments.chains or counts
    for method, package in PEERS.items():
        if importlib.util.find_spec(package) is None:
            print(f"{method} is not installed: left out")
    begin, rows = time.perf_counter(), primitive(arguments.device, sizes[-1] if not arguments.quick else 20_000)
    for row in rows:
        print(f"{row['model']:>20} {row['method']:40} {row['seconds']} {row.get('ratio_to_plain_gradient', '')}")
    for n in sizes:
        for d in widths:
            records = jax.block_until_ready(table(n, d))
            for model in arguments.models:
                for chains in counts:
                    if time.perf_counter() - begin > 60 * minutes:
                        print(f"left out for lack of time: {model}, n={n}, d={d}, chains={chains}")
                        continue
                    for row in cell(model, records, chains, arguments.device, seconds):
                        rows.append(row)
                        print(" ".join(f"{row[name]!s:>10}" for name in COLUMNS[2:]), flush=True)
                    jax.clear_caches()
    if arguments.output:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        with arguments.output.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, restval="")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
