"""Table 6.1: the mean of a normal law, by HMC and by stochastic-gradient HMC."""

import math

import jax
import jax.numpy as jnp
import numpy as np

import dpmcmc as dp
from dpmcmc import zoo
from dpmcmc.accounting import Adjacency, PoissonGaussian, epsilon
from experiments.dp_sghmc_thesis.published import sghmc
from experiments.machinery.chains import bench, run_chains, telling
from experiments.machinery.study import Cell, Configuration, Product, Rows, Study, Tables, Target

METHODS = {
    "hmc": ("HMC", 0.9932, 0.0789),
    "naive": ("naive SGHMC, q = 0.01", 71_707.0, 5079.0),
    "small": ("SGHMC as published, q = 0.01", 0.4203, 32.7348),
    "naive_short": ("naive, q = 0.1, steps 0.002 t^(-1/3)", 1.0537, 0.0307),
    "large": ("SGHMC as published, q = 0.1", 1.0596, 2.1496),
    "corrected": ("DP-SGHMC corrected, q = 0.1", math.nan, math.nan),
}
"""Name, printed mean, printed standard deviation."""


def cells(configuration: Configuration) -> list[Cell]:
    """Return one cell a method."""
    return [{"method": name, "seed": configuration["seed"]} | dict(configuration["normal_mean"]) for name in METHODS]


def run(cell: Cell) -> Rows:
    """Return mean and standard deviation of the second half of each chain."""
    place = bench("sghmc_thesis_gaussian", cell["num_records"], cell["seed"], 100)
    exact = place.problem.law
    starts = np.zeros((cell["runs"], 1))
    cost = math.inf
    if cell["method"] == "hmc":
        kernel = dp.kernels.dp_hmc(
            dp.mechanisms.ExactGradientSum(), dp.mechanisms.ExactLogRatio(), step_size=0.1, num_leapfrog=15
        )
        positions = _run(kernel, place, starts, cell)
    elif cell["method"] == "corrected":
        c = cell["corrected"]
        net = c["friction"] - c["batch_noise"]
        gradient = dp.mechanisms.SubsampledGradientSum.for_sghmc(c["clip"], c["rate"], c["step_size"], net)
        kernel = dp.kernels.dp_sghmc(
            gradient,
            step_size=c["step_size"],
            friction=c["friction"],
            num_inner=c["num_inner"],
            batch_noise=c["batch_noise"],
        )
        event = PoissonGaussian(c["rate"], gradient.noise_over_clip, Adjacency.ADD_OR_REMOVE_ONE)
        cost = float(epsilon(event * (c["num_inner"] * cell["num_steps"]), cell["delta"], "pld"))
        positions = _run(kernel, place, starts, cell)
    else:
        problem = zoo.problem(
            "sghmc_thesis_gaussian", np.random.default_rng([cell["seed"], 0]), num_records=cell["num_records"]
        )
        positions = _published(problem.records, starts, cell)
    kept = positions[:, positions.shape[1] // 2 :, 0].astype(np.float64)
    law = {"exact_mean": float(exact.mean[0]), "exact_deviation": float(np.sqrt(exact.covariance[0, 0]))}
    return [{"mean": float(each.mean()), "deviation": float(each.std()), "epsilon": cost} | law for each in kept]


def _run(kernel: object, place: object, starts: np.ndarray, cell: Cell) -> np.ndarray:
    steps = cell["num_steps"]
    chains = run_chains(telling(kernel), place, starts, num_steps=steps, seed=cell["seed"], segment=steps)  # pyright: ignore[reportArgumentType]
    return chains.positions


def _published(points: np.ndarray, starts: np.ndarray, cell: Cell) -> np.ndarray:
    """Run the published sampler: the gradient of a whole batch, scaled to all records, is clipped at 0.7."""
    method, size = cell["method"], cell["num_records"]
    batch = max(1, round((0.01 if method in ("naive", "small") else 0.1) * size))
    weight = size / 4.0

    def gradient(position: jax.Array, rows: jax.Array) -> jax.Array:
        return (weight + 1) * position - weight * jnp.mean(rows)

    sampler = sghmc(gradient, points[:, 0], batch_size=batch, num_inner=size // batch)
    first = 0.002 if method == "naive_short" else 1.0
    steps = first * np.arange(1, cell["num_steps"] + 1) ** (-1 / 3)
    naive = method.startswith("naive")
    clip = 1e30 if naive else cell["clip"]
    return sampler(starts, steps, 0.0 if naive else cell["friction"], clip, cell["seed"])


STUDY = Study("normal_mean", cells, run)


def make(tables: Tables, configuration: Configuration) -> Product:
    """Set Table 6.1."""
    table, c = tables["normal_mean"], configuration["normal_mean"]
    right = c["corrected"]
    found = table.groupby("method", sort=False)[["mean", "deviation", "epsilon", "exact_mean", "exact_deviation"]]
    found = found.median().reset_index()
    lines = ["| method | printed mean | printed s | our mean | our s | epsilon that holds |", "|---" * 6 + "|"]
    for row in found.itertuples():
        name, mean, spread = METHODS[str(row.method)]
        printed = " | ".join("" if math.isnan(each) else f"{each:g}" for each in (mean, spread))
        cost = "no guarantee" if math.isinf(row.epsilon) else f"{row.epsilon:.2f}"
        lines.append(f"| {name} | {printed} | {row.mean:.4g} | {row.deviation:.4g} | {cost} |")
    exact = found.iloc[0]
    wide = math.sqrt(2) / c["clip"]
    summary = (
        f"The exact posterior has the mean {exact.exact_mean:.4f} and the standard deviation "
        f"{exact.exact_deviation:.4f}. **HMC: holds. Naive SGHMC drifts off: holds.** The published SGHMC, whose clip "
        f"of {c['clip']:g} is nearly always active because the gradient is that of all records, does not sample the "
        f"posterior but nearly exp(-{c['clip']:g} |mu - m|), of standard deviation {wide:.2f}, which the thesis "
        "measured as 2.15; at q = 0.01 it printed 32.7, which we do not find. The naive run with short steps has "
        "hardly "
        "left its start, 0 here, and says nothing of the posterior. Clipping each record's gradient instead leaves the "
        "posterior alone.\n\n"
    )
    caption = (
        f"Mean and standard deviation of the second half of {c['num_steps']} steps, medians of {c['runs']} chains; "
        f"{c['num_records']} points N(1, 4), prior N(0, 1); C = {c['friction']:g}, L = {c['clip']:g}, steps t^(-1/3), "
        f"J = 1/q. Corrected: C = {right['friction']:g}, of which {right['batch_noise']:g} for the noise of the "
        "batches, "
        f"L = {right['clip']:g} a record, step {right['step_size']:g}, J = {right['num_inner']}, delta = "
        f"{c['delta']:g}, "
        "one record added or removed."
    )
    return Product(caption, summary + "\n".join(lines), None, found)


TABLE = Target("table-6-1", "Table 6.1, the mean of a normal law", (STUDY,), make)
