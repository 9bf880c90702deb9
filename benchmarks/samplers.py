"""How fast the samplers are, against non-private HMC of NumPyro and BlackJAX in the same run; writes a table.

    python benchmarks/samplers.py --output benchmarks/results/samplers_cpu.csv
    python benchmarks/samplers.py --quick

All methods take the same model, data, step size and number of leapfrog steps, and turns, so that a load on the machine
falls on all of them; seconds are medians. A gradient is one gradient of the log-posterior at one position over all
records; DP-HMC also pays for a log-ratio in every step, which is in its time. `ratio_to_numpyro` and
`ratio_to_blackjax` are seconds per gradient over theirs for as many chains: below one is faster. `ratio_to_published`
is our gradients (or chain steps) a second over those of the published code, about 155 full-data gradients and 100
DP-penalty steps a second on two such cores (banana, 100,000 records).
"""

import argparse
import csv
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer import HMC

import dpmcmc as dp
from dpmcmc import zoo
from dpmcmc.kernels import Stage
from dpmcmc.run.program import Advance, Begin, Layout, Whole

COLUMNS = ["date", "model", "n", "d", "chains", "method", "gradients_per_second", "steps_per_second"]
COLUMNS += ["compile_seconds", "ratio_to_numpyro", "ratio_to_blackjax", "ratio_to_published"]
NUM_LEAPFROG = 10
PUBLISHED_GRADIENTS, PUBLISHED_PENALTY_STEPS = 155.0, 100.0


class Timed(NamedTuple):
    """A method ready to run so many steps, and what it took to compile."""

    run: Callable[[], Any]
    num_steps: int
    gradients_per_step: int
    compile_seconds: float


def compiled(run: Callable[[], Any], num_steps: int, gradients_per_step: int) -> Timed:
    """Call a method once, to compile it."""
    start = time.perf_counter()
    jax.block_until_ready(run())
    return Timed(run, num_steps, gradients_per_step, time.perf_counter() - start)


def ours(problem: zoo.Problem, kernel: Any, starts: jax.Array, num_steps: int, gradients_per_step: int) -> Timed:
    """Return one of our samplers, on a vault that nobody pays for."""
    data = dp.PrivateData.without_guarantee(problem.records, bounds=problem.bounds)
    layout, keys = Layout.of(starts[0]), jax.random.split(jax.random.key(1), len(starts))
    advance = Advance(kernel, layout, num_steps)
    price = data.price(Whole((Stage(kernel, 1),), layout), starts, keys, model=problem.model)
    with data.reserve(price) as paid:
        states = paid.run(Begin(kernel, layout), starts, keys, model=problem.model)
    return compiled(
        lambda: data.run(advance, states, keys, jnp.uint32(0), model=problem.model), num_steps, gradients_per_step
    )


def log_posterior(problem: zoo.Problem) -> Callable[[jax.Array], jax.Array]:
    """Return the log-posterior without privacy, records and all."""
    model, records = problem.model, jax.tree.map(jnp.asarray, problem.records)

    def of(position: jax.Array) -> jax.Array:
        each = jax.vmap(model.log_likelihood, in_axes=(None, 0))(position, records)
        return model.log_prior(position) + model.temperature * jnp.sum(each)

    return of


def numpyro_hmc(problem: zoo.Problem, starts: jax.Array, step_size: float, num_steps: int) -> Timed:
    """Return NumPyro's HMC with everything that adapts switched off, its chains vectorised."""
    density = log_posterior(problem)
    kernel = HMC(
        potential_fn=lambda position: -density(position),
        step_size=step_size,
        num_steps=NUM_LEAPFROG,
        trajectory_length=None,
        adapt_step_size=False,
        adapt_mass_matrix=False,
    )
    keys = jax.random.split(jax.random.key(2), len(starts))
    states = kernel.init(keys if len(starts) > 1 else keys[0], 0, starts if len(starts) > 1 else starts[0], (), {})

    @jax.jit
    def run(states: Any) -> Any:
        def step(state: Any, _: None) -> tuple[Any, jax.Array]:
            state = kernel.sample(state, (), {})
            return state, state.z

        return jax.lax.scan(step, states, None, length=num_steps)[1]  # it vectorises several chains by itself

    return compiled(lambda: run(states), num_steps, NUM_LEAPFROG)


def blackjax_hmc(problem: zoo.Problem, starts: jax.Array, step_size: float, num_steps: int) -> Timed:
    """Return BlackJAX's HMC."""
    kernel = blackjax.hmc(
        log_posterior(problem),
        step_size=step_size,
        inverse_mass_matrix=jnp.ones(starts.shape[1]),
        num_integration_steps=NUM_LEAPFROG,
    )
    states = jax.vmap(kernel.init)(starts)

    @jax.jit
    def run(states: Any) -> Any:
        def step(states: Any, key: jax.Array) -> tuple[Any, jax.Array]:
            states, _ = jax.vmap(kernel.step)(jax.random.split(key, len(starts)), states)
            return states, states.position

        return jax.lax.scan(step, states, jax.random.split(jax.random.key(3), num_steps))[1]

    return compiled(lambda: run(states), num_steps, NUM_LEAPFROG)


def take_turns(methods: dict[str, Timed], repeats: int) -> dict[str, float]:
    """Return the median seconds a step of each method."""
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    for _ in range(repeats):
        for name, method in methods.items():
            start = time.perf_counter()
            jax.block_until_ready(method.run())
            seconds[name].append((time.perf_counter() - start) / method.num_steps)
    return {name: statistics.median(times) for name, times in seconds.items()}


def methods_for(problem: zoo.Problem, chains: int, step_size: float, num_steps: int) -> dict[str, Timed]:
    """Return all methods for one problem, compiled."""
    rng = np.random.default_rng(0)
    starts = jnp.asarray(np.stack([problem.start(rng) for _ in range(chains)]), jnp.float32)
    gradient, ratio = (
        dp.mechanisms.GradientSum(clip=5.0, noise_multiplier=50.0),
        dp.mechanisms.LogRatio(clip=5.0, noise_multiplier=50.0),
    )
    settings = {"step_size": step_size, "num_leapfrog": NUM_LEAPFROG}
    fresh = dp.kernels.dp_hmc(gradient, ratio, **settings)
    reused = dp.kernels.dp_hmc(gradient, ratio, reuse_gradients=True, **settings)
    exact = dp.kernels.dp_hmc(
        dp.mechanisms.ExactGradientSum(), dp.mechanisms.ExactLogRatio(), reuse_gradients=True, **settings
    )
    walk = dp.kernels.dp_penalty(ratio, proposal_scale=0.01)
    return {
        "numpyro hmc": numpyro_hmc(problem, starts, step_size, num_steps),
        "blackjax hmc": blackjax_hmc(problem, starts, step_size, num_steps),
        "dp_hmc": ours(problem, fresh, starts, num_steps, NUM_LEAPFROG + 1),
        "dp_hmc, gradients reused": ours(problem, reused, starts, num_steps, NUM_LEAPFROG),
        "dp_hmc, exact mechanisms": ours(problem, exact, starts, num_steps, NUM_LEAPFROG),
        "dp_penalty": ours(problem, walk, starts, num_steps, 0),
    }


def rows(name: str, problem: zoo.Problem, chains: int, methods: dict[str, Timed], repeats: int) -> list[dict[str, Any]]:
    """Time all methods of one problem and return rows of the table."""
    seconds = take_turns(methods, repeats)
    n, d = len(jax.tree.leaves(problem.records)[0]), problem.dimension
    per_gradient = {
        each: seconds[each] / (chains * method.gradients_per_step)
        for each, method in methods.items()
        if method.gradients_per_step
    }
    table = []
    for each, method in methods.items():
        row: dict[str, Any] = dict.fromkeys(COLUMNS, "")
        row |= {"date": datetime.now(UTC).date().isoformat(), "model": name, "n": n, "d": d, "chains": chains}
        row |= {"method": each, "steps_per_second": f"{chains / seconds[each]:.4g}"}
        row |= {"compile_seconds": f"{method.compile_seconds:.2f}"}
        if each in per_gradient:
            row["gradients_per_second"] = f"{1 / per_gradient[each]:.4g}"
            row["ratio_to_numpyro"] = f"{per_gradient[each] / per_gradient['numpyro hmc']:.3f}"
            row["ratio_to_blackjax"] = f"{per_gradient[each] / per_gradient['blackjax hmc']:.3f}"
        if name == "banana" and each.startswith("dp_hmc"):
            row["ratio_to_published"] = f"{1 / per_gradient[each] / PUBLISHED_GRADIENTS:.1f}"
        if name == "banana" and each == "dp_penalty":
            row["ratio_to_published"] = f"{chains / seconds[each] / PUBLISHED_PENALTY_STEPS:.1f}"
        table.append(row)
    return table


def main() -> None:
    """Run the benchmark and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="where to write the table; printed only, if left out")
    parser.add_argument("--quick", action="store_true", help="a tenth of the records, few repeats: does it run")
    options = parser.parse_args()
    n, num_steps, repeats = (10_000, 5, 2) if options.quick else (100_000, 20, 7)
    rng = np.random.default_rng(1)
    problems = {
        "logistic": (zoo.logistic_regression(rng, num_records=n, truth=np.linspace(-1, 1, 10)), 1e-3, (1, 4)),
        "banana": (zoo.problem("dp_hmc_2021_banana", rng, num_records=n), 6e-3, (1, 4, 12)),
    }
    table = []
    for name, (problem, step_size, counts) in problems.items():
        for chains in counts:
            for row in rows(name, problem, chains, methods_for(problem, chains, step_size, num_steps), repeats):
                print(", ".join(f"{column}={row[column]}" for column in COLUMNS[1:] if row[column] != ""), flush=True)
                table.append(row)
    if options.output:
        with options.output.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(table)


if __name__ == "__main__":
    main()
