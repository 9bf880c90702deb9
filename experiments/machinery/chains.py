"""Chains of our kernels on simulated records, and how far they are from the posterior.

Records are simulated and public here, so randomness is seeded and clip fractions are counted exactly: none of this is
a private procedure. What is released, and what that costs, is as in any run: the enclave is asked.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import dpmcmc as dp
from dpmcmc import zoo
from dpmcmc.diagnostics import mmd
from dpmcmc.kernels.base import Kernel
from dpmcmc.run.program import Advance, Begin, Layout
from dpmcmc.zoo.normal import Normal
from dpmcmc.zoo.thesis_2021 import PRIOR_VARIANCE

NOISE = "float"
"""Ordinary floating-point noise: nobody is to be protected, and the law of the draws is the same."""


def of_cell(cell: Mapping[str, Any]) -> "Bench":
    """Return the problem of a cell."""
    mean = cell.get("mean")
    return bench(
        cell["problem"],
        cell["num_records"],
        cell["data_seed"],
        cell["num_reference"],
        tuple(mean) if mean else None,
        cell.get("start_scale"),
    )


class Told(NamedTuple):
    """What a step tells: whether it moved, and where it had thought to go."""

    is_accepted: jax.Array
    is_divergent: jax.Array
    proposed: jax.Array


class _State(NamedTuple):
    position: jax.Array
    inner: Any


class _Listener:
    """An oracle that remembers which position was last tested: a function of releases, so nothing new is told."""

    def __init__(self, oracle: Any, position: jax.Array) -> None:
        self._oracle, self.proposed = oracle, position

    def force(self, mechanism: Any, position: jax.Array) -> Any:
        return self._oracle.force(mechanism, position)

    def log_posterior_ratio(self, mechanism: Any, current: jax.Array, proposed: jax.Array) -> Any:
        self.proposed = proposed
        return self._oracle.log_posterior_ratio(mechanism, current, proposed)

    def accept(self, mechanism: Any, current: jax.Array, proposed: jax.Array, log_correction: Any) -> jax.Array:
        self.proposed = proposed
        return self._oracle.accept(mechanism, current, proposed, log_correction)


def telling(kernel: Kernel) -> Kernel:
    """Return a kernel that does the same and tells its proposals."""

    def init(key: jax.Array, position: jax.Array, oracle: Any) -> _State:
        return _State(position, kernel.init(key, position, oracle))

    def step(key: jax.Array, state: _State, oracle: Any) -> tuple[_State, Told]:
        listener = _Listener(oracle, state.position)
        inner, info = kernel.step(key, state.inner, listener)
        return _State(inner.position, inner), Told(info.is_accepted, info.is_divergent, listener.proposed)

    return Kernel(kernel.name, kernel.settings, init, step)  # pyright: ignore[reportArgumentType]


@dataclass(frozen=True, eq=False)
class Bench:
    """A problem of the zoo with its vault, its reference draws and its start points."""

    problem: zoo.Problem
    vault: Any
    reference: np.ndarray
    seed: int

    def starts(self, repeat: int, num_chains: int) -> np.ndarray:
        """Return the start points of one repeat: the same ones for all algorithms."""
        rng = np.random.default_rng([self.seed, 1, repeat])
        return np.stack([self.problem.start(rng) for _ in range(num_chains)])

    def without_chains(self, rng: np.random.Generator, num_draws: int) -> float:
        """Return the MMD of exact draws: what no sampler can beat."""
        return mmd(self.problem.sample_posterior(rng, num_draws), self.reference, rng)


def natural(problem: zoo.Problem) -> zoo.Problem:
    """Return a normal problem with records y = P (x - c) in place of x, P the known precision of a record.

    The log-likelihood is then (theta - c).y - (theta - c).P (theta - c) / 2 and a constant: the gradients and the
    ratios of a record are the same numbers, without a product of a matrix and a vector for each.
    """
    centre, temperature = problem.centre, problem.model.temperature
    prior = -np.asarray(jax.hessian(problem.model.log_prior)(jnp.asarray(centre, jnp.float32)), np.float64)
    precision = (np.linalg.inv(problem.law.covariance) - prior) / (temperature * len(problem.records))
    records = ((problem.records - centre) @ precision).astype(np.float32)
    matrix, middle = jnp.asarray(precision, jnp.float32), jnp.asarray(centre, jnp.float32)

    def log_likelihood(position: jax.Array, record: jax.Array) -> jax.Array:
        moved = position - middle
        return moved @ record - moved @ (matrix @ moved) / 2

    reach = float(np.abs(records).max())
    model = replace(problem.model, log_likelihood=log_likelihood)
    return replace(problem, model=model, records=records, bounds={"records": (-reach, reach)})


def shifted(problem: zoo.Problem, mean: Sequence[float]) -> zoo.Problem:
    """Return a banana with its records moved to have that mean, on which alone its posterior depends."""
    shift = np.asarray(mean) - problem.records.mean(axis=0, dtype=np.float64)
    normal = problem.law.normal
    prior = np.eye(len(shift)) / PRIOR_VARIANCE
    moved = normal.mean + shift - normal.covariance @ prior @ shift
    law = replace(problem.law, normal=replace(normal, mean=moved))
    records = (problem.records + shift).astype(np.float32)
    return replace(problem, records=records, law=law, start_scale=float(np.mean(np.sqrt(law.variances))))


@lru_cache(maxsize=4)
def bench(
    name: str,
    num_records: int,
    seed: int,
    num_reference: int = 1000,
    mean: tuple[float, ...] | None = None,
    start_scale: float | None = None,
) -> Bench:
    """Return a problem by name; one process keeps it, and everything that was compiled for it.

    `mean` moves the records of a banana to the mean that a paper's own records had: its posterior is then the paper's.
    `start_scale` spreads start points otherwise than the problem says.
    """
    problem = zoo.problem(name, np.random.default_rng([seed, 0]), num_records=num_records)
    problem = problem if start_scale is None else replace(problem, start_scale=start_scale)
    problem = problem if mean is None else shifted(problem, mean)
    problem = natural(problem) if isinstance(problem.law, Normal) else problem
    vault = dp.PrivateData.without_guarantee(problem.records, bounds=problem.bounds, noise=NOISE)
    reference = problem.sample_posterior(np.random.default_rng([seed, 2]), num_reference)
    return Bench(problem, vault, reference, seed)


@dataclass(frozen=True)
class Chains:
    """Positions and proposals, of shape (chain, step, d), and whether each step moved."""

    positions: np.ndarray
    proposed: np.ndarray
    is_accepted: np.ndarray
    starts: np.ndarray

    def first(self, num_steps: int) -> "Chains":
        """Return the same run, had it been stopped after so many steps."""
        return Chains(
            self.positions[:, :num_steps], self.proposed[:, :num_steps], self.is_accepted[:, :num_steps], self.starts
        )

    def groups(self, size: int) -> "list[Chains]":
        """Return the chains in groups of one size, as they come."""
        parts = (self.positions, self.proposed, self.is_accepted, self.starts)
        return [Chains(*(part[one : one + size] for part in parts)) for one in range(0, len(self.positions), size)]

    def kept(self, most: int) -> np.ndarray:
        """Return the second half of each chain, thinned evenly to at most so many draws a chain."""
        half = self.positions[:, self.positions.shape[1] // 2 :]
        return half[:, :: max(1, math.ceil(half.shape[1] / most))]

    def pairs(self, most: int) -> tuple[np.ndarray, np.ndarray]:
        """Return about `most` tested pairs of positions, current and proposed, evenly from the whole run."""
        before = np.concatenate([self.starts[:, None], self.positions[:, :-1]], axis=1).reshape(
            -1, self.starts.shape[1]
        )
        after = self.proposed.reshape(before.shape)
        chosen = slice(None, None, max(1, len(before) // most))
        return before[chosen], after[chosen]


def run_chains(
    kernel: Kernel, bench: Bench, starts: np.ndarray, *, num_steps: int, seed: int, segment: int, model: Any = None
) -> Chains:
    """Run chains in segments of one length, so that one compiled program does them all."""
    model = bench.problem.model if model is None else model
    first = jnp.asarray(starts, jnp.float32)
    layout = Layout.of(first[0])
    of_start, of_steps = jax.random.split(jax.random.key(seed))
    run = partial(bench.vault.run, model=model)
    noise = np.random.SeedSequence(seed).generate_state(2 + -(-num_steps // segment), np.uint32).tolist()
    states = run(Begin(kernel, layout), first, jax.random.split(of_start, len(first)), insecure_seed=noise[-1])
    keys, found = jax.random.split(of_steps, len(first)), []
    for index, done in enumerate(range(0, num_steps, segment)):
        advance = Advance(kernel, layout, segment)
        states, (positions, told) = run(advance, states, keys, jnp.uint32(done), insecure_seed=noise[index])
        found.append((np.asarray(positions), np.asarray(told.proposed), np.asarray(told.is_accepted)))
    whole = [np.swapaxes(np.concatenate(parts), 0, 1)[:, :num_steps] for parts in zip(*found, strict=True)]
    return Chains(*whole, np.asarray(starts, np.float64))


def scores(chains: Chains, bench: Bench, rng: np.random.Generator, *, most: int = 1000) -> dict[str, float]:
    """Return MMD and mean error of the second halves together, as the papers have them, and the acceptance."""
    kept = chains.kept(most).astype(np.float64)
    return {
        "mmd": mmd(kept, bench.reference, rng),
        "mean_error": float(
            np.linalg.norm(kept.reshape(-1, kept.shape[-1]).mean(axis=0) - bench.reference.mean(axis=0))
        ),
        "acceptance": float(chains.is_accepted.mean()),
    }


def ratio_clip_fraction(chains: Chains, bench: Bench, clip: float, *, most: int = 50, absolute: bool = False) -> float:
    """Return the share of log-likelihood ratios that a clip cuts, over all records and some proposals.

    The bound is the clip times the distance of the positions, or, where `absolute`, the clip itself.
    """
    before, after = chains.pairs(most)
    first, second = jnp.asarray(before, jnp.float32), jnp.asarray(after, jnp.float32)
    bounds = jnp.full(len(first), clip) if absolute else clip * jnp.linalg.norm(second - first, axis=1)
    return float(np.mean(_ratio_fractions(bench)(first, second, bounds)))


def gradient_clip_fraction(chains: Chains, bench: Bench, clip: float, most: int = 50) -> float:
    """Return the share of gradients that a clip cuts, over all records and some positions of the chains."""
    before, _ = chains.pairs(most)
    return float(np.mean(_gradient_fractions(bench)(jnp.asarray(before, jnp.float32), clip)))


@lru_cache(maxsize=8)
def _ratio_fractions(bench: Bench) -> Callable[..., jax.Array]:
    model, records = bench.problem.model, jax.tree.map(jnp.asarray, bench.problem.records)

    def share(pair: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        first, second, bound = pair
        each = jax.vmap(lambda row: model.log_likelihood(second, row) - model.log_likelihood(first, row))(records)
        return jnp.mean(model.temperature * jnp.abs(each) > bound)

    return jax.jit(lambda *pairs: jax.lax.map(share, pairs))


@lru_cache(maxsize=8)
def _gradient_fractions(bench: Bench) -> Callable[..., jax.Array]:
    model, records = bench.problem.model, jax.tree.map(jnp.asarray, bench.problem.records)

    def share(position: jax.Array, clip: jax.Array) -> jax.Array:
        each = jax.vmap(jax.grad(model.log_likelihood), in_axes=(None, 0))(position, records)
        return jnp.mean(model.temperature * jnp.linalg.norm(each, axis=1) > clip)

    return jax.jit(lambda positions, clip: jax.lax.map(lambda position: share(position, clip), positions))
