"""What clipping of log-likelihood ratios does by itself: Metropolis samplers without noise, clipped tests.

Our kernels ask an oracle that answers exactly. The models of these studies have gradients and log-ratios that are
affine in a record, so the sum of the gradients (which no published bound clips) needs the mean record alone, and all
ratios are one product of the records with a matrix. That makes the published numbers of steps possible on a CPU.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import dpmcmc as dp
from dpmcmc.diagnostics import mmd
from experiments.machinery.chains import Bench, of_cell
from experiments.machinery.study import Cell, Configuration, Rows


class _Exact(NamedTuple):
    value: Any
    variance: Any


class AffineOracle(NamedTuple):
    """Answers exactly, but for the clip of each record's log-ratio; counts the ratios that were cut."""

    model: Any
    records: jax.Array
    mean: jax.Array
    clip: jax.Array
    cut: list[jax.Array]

    def force(self, mechanism: Any, position: jax.Array) -> _Exact:  # noqa: ARG002
        """Return the gradient of the log-posterior."""
        model, size = self.model, len(self.records)
        each = jax.grad(model.log_likelihood)(position, self.mean)
        return _Exact(jax.grad(model.log_prior)(position) + model.temperature * size * each, jnp.zeros(()))

    def log_posterior_ratio(self, mechanism: Any, current: jax.Array, proposed: jax.Array) -> _Exact:  # noqa: ARG002
        """Return the log-posterior ratio with each record's part clipped, as the private test would."""
        model = self.model

        def ratio(record: jax.Array) -> jax.Array:
            return model.temperature * (model.log_likelihood(proposed, record) - model.log_likelihood(current, record))

        offset, slope = jax.value_and_grad(ratio)(self.mean)
        each = (self.records - self.mean) @ slope + offset
        bound = self.clip * jnp.linalg.norm(proposed - current)
        self.cut.append(jnp.mean(jnp.abs(each) > bound))
        total = jnp.sum(jnp.clip(each, -bound, bound))
        return _Exact(total + model.log_prior(proposed) - model.log_prior(current), jnp.zeros(()))


class _Exactly(NamedTuple):
    """Stands for a mechanism: the oracle needs none."""


@lru_cache(maxsize=16)
def _program(place: Bench, algorithm: str, num_steps: int) -> Any:
    """Return a compiled run of chains, (keys, starts, clips) to (positions, share of ratios cut)."""
    model = place.problem.model
    records = jnp.asarray(place.problem.records, jnp.float32)
    mean = jnp.asarray(place.problem.records.mean(axis=0, dtype=np.float64), jnp.float32)
    if algorithm == "hmc":
        c = place.problem.settings["clipping_hmc"]
        inverse_mass = 1 / np.asarray(c.get("mass", (1.0,) * place.problem.dimension))
        kernel = dp.kernels.dp_hmc(
            _Exactly(),
            _Exactly(),
            step_size=c["step_size"],
            num_leapfrog=c["num_leapfrog"],
            inverse_mass=inverse_mass,
            reuse_gradients=True,
            step_size_jitter=1.0 if place.problem.name.startswith("dp_hmc_2021") else 0.0,
        )
    else:
        scale = place.problem.settings["clipping_random_walk"]["proposal_scale"]
        kernel = dp.kernels.dp_penalty(_Exactly(), proposal_scale=np.asarray(scale))

    def chain(key: jax.Array, start: jax.Array, clip: jax.Array) -> Any:
        of_init, of_steps = jax.random.split(key)
        state = kernel.init(of_init, start, AffineOracle(model, records, mean, clip, []))

        def step(state: Any, key: jax.Array) -> Any:
            oracle = AffineOracle(model, records, mean, clip, [])
            state, info = kernel.step(key, state, oracle)
            return state, (state.position, oracle.cut[0], info.is_accepted)

        return jax.lax.scan(step, state, jax.random.split(of_steps, num_steps))[1]

    return jax.jit(jax.vmap(chain))


def clipping_cells(
    configuration: Configuration, problems: dict[str, str], *, pooled: bool, num_records: int | None = None
) -> list[Cell]:
    """Return one cell a problem, algorithm and repeat, with all bounds in it; its chains are pooled or judged alone."""
    c = configuration["clipping"]
    return [
        {
            "model": short,
            "problem": name,
            "algorithm": algorithm,
            "repeat": repeat,
            "num_records": num_records or configuration["num_records"],
            "num_reference": c["num_reference"],
            "num_chains": c["num_chains"],
            "steps": c["steps"][short][algorithm],
            "most_draws": c["most_draws"],
            "pooled": pooled,
            "data_seed": configuration["seed"],
            "mean": configuration.get("means", {}).get(short),
        }
        for repeat in range(c["num_repeats"])
        for short, name in problems.items()
        for algorithm in ("hmc", "random_walk")
    ]


def run_clipping_cell(cell: Cell) -> Rows:
    """Run all bounds of one cell side by side, from the same start points; one row a bound, or a bound and chain."""
    place = of_cell(cell)
    clips = np.asarray(place.problem.settings["clipping"]["ratio_clips"])
    chains = cell["num_chains"]
    starts = place.starts(cell["repeat"], chains)
    seed = int(np.random.SeedSequence([cell["data_seed"], cell["repeat"], 5]).generate_state(1)[0])
    keys = jax.random.split(jax.random.key(seed), len(clips) * chains)
    positions, cut, accepted = _program(place, cell["algorithm"], cell["steps"])(
        keys,
        jnp.asarray(np.tile(starts, (len(clips), 1)), jnp.float32),
        jnp.repeat(jnp.asarray(clips, jnp.float32), chains),
    )
    rng = np.random.default_rng([cell["data_seed"], cell["repeat"], 6])
    shape = (len(clips), chains, cell["steps"])
    positions = np.asarray(positions, np.float64).reshape(*shape, -1)[:, :, cell["steps"] // 2 :]
    positions = positions[:, :, :: max(1, -(-positions.shape[2] // cell["most_draws"]))]
    cut, accepted = np.asarray(cut).reshape(shape), np.asarray(accepted).reshape(shape)
    rows = []
    for index, clip in enumerate(clips):
        groups = [slice(None)] if cell["pooled"] else [slice(one, one + 1) for one in range(chains)]
        rows += [
            {
                "clip": float(clip),
                "mmd": mmd(positions[index, group], place.reference, rng),
                "ratios_clipped": float(cut[index, group].mean()),
                "acceptance": float(accepted[index, group].mean()),
            }
            for group in groups
        ]
    return rows
