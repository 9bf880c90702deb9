"""Price a run, and run it: in segments, all chains at once, paid for before the first record is read."""

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc import validation
from dpmcmc.accounting import Certificate, Event, accountants
from dpmcmc.enclave import PaidRun, PrivateData
from dpmcmc.errors import InvalidArgument
from dpmcmc.kernels import Kernel, Stage
from dpmcmc.model import Model
from dpmcmc.posterior import Posterior
from dpmcmc.run.interrupt import interruptible
from dpmcmc.run.program import Advance, Begin, Layout, Whole, as_stages, continues
from dpmcmc.run.progress import watch
from dpmcmc.run.start import check_likelihood, start_points

SEGMENTS = 20
"""Into how many segments a run is cut, about: after each one progress is shown and an interrupt is obeyed."""


@dataclass(frozen=True)
class Plan:
    """A run before it starts: everything about it that is public."""

    stages: tuple[Stage, ...]
    model: Model
    layout: Layout
    starts: jax.Array
    init_keys: jax.Array
    keys: jax.Array

    def price(self, data: PrivateData) -> Event:
        """Return what the run releases, as the auditor reads it off one program that holds it all."""
        return data.price(Whole(self.stages, self.layout), self.starts, self.keys, model=self.model)

    def segments(self, paid: PaidRun, size: int | None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Run segment by segment; yield the positions and whether each step moved, (step, chain, ...)."""
        states: Any = None
        done = 0
        for before, stage in zip((None, *self.stages[:-1]), self.stages, strict=True):
            if not continues(before, stage):
                start = self.starts if states is None else states.position
                states = paid.run(Begin(stage.kernel, self.layout), start, self.init_keys, model=self.model)
            for length in segment_lengths(stage.num_steps, size):
                advance = Advance(stage.kernel, self.layout, length)
                states, (moved, info) = paid.run(advance, states, self.keys, jnp.uint32(done), model=self.model)
                done += length
                yield np.asarray(moved), np.asarray(info.is_accepted)


def price(
    kernel: Kernel | Sequence[Stage],
    model: Model,
    data: PrivateData,
    *,
    num_steps: int | None = None,
    num_chains: int = 1,
    init: Any = None,
) -> Event:
    """Return what `sample` would charge with the same arguments. Reads no record and charges nothing."""
    return _plan(kernel, model, num_steps, num_chains, init, seed=0).price(data)  # only shapes matter to the price


def sample(
    kernel: Kernel | Sequence[Stage],
    model: Model,
    data: PrivateData,
    *,
    num_steps: int | None = None,
    num_chains: int = 1,
    init: Any = None,
    num_warmup: int | None = None,
    delta: float | None = None,
    segment_size: int | None = None,
    progress: bool = True,
    what: str | None = None,
    insecure_seed: int | None = None,
) -> Posterior:
    """Draw from the posterior of private records.

    The price of the whole run is set aside before it starts. Ctrl-C stops after the segment at hand: what was paid for
    is kept, and what was not used is given back. A second Ctrl-C stops at once.

    Args:
        kernel: a sampler; or stages, a list of ``(kernel, num_steps)`` that follow each other. A stage of the same
            sampler goes on with the state; another sampler starts from the position, so a paid pilot is a stage.
        model: what to sample, in public code.
        data: the records, and what pays.
        num_steps: steps of each chain; left out with stages, which say it themselves.
        num_chains: chains, all of which are paid for.
        init: where to start: parameters as `model.constrain` returns them; a list with one start a chain; or None, for
            draws from the prior.
        num_warmup: steps at the beginning that summaries leave out; half of them unless stated.
        delta: the delta of the certificate; that of the data's budget unless stated.
        segment_size: steps between two looks at the terminal; changes no draw's law.
        progress: whether to show how it gets on.
        what: the run in a few words, for the ledger.
        insecure_seed: fixes all randomness, for tests; the result then carries no guarantee.
    """
    seed = secrets.randbits(63) if insecure_seed is None else insecure_seed
    plan = _plan(kernel, model, num_steps, num_chains, init, validation.integer("insecure_seed", seed, at_least=0))
    total = sum(stage.num_steps for stage in plan.stages)
    num_warmup = total // 2 if num_warmup is None else validation.integer("num_warmup", num_warmup, at_least=0)
    if num_warmup >= total:
        validation.refuse("num_warmup", num_warmup, f"must be < {total}, the number of steps")
    size = segment_size and validation.integer("segment_size", segment_size, at_least=1)
    delta = _delta(delta, data)
    check_likelihood(model, data, plan.layout, plan.starts)
    event = plan.price(data)
    name = what or " then ".join(dict.fromkeys(stage.kernel.name for stage in plan.stages))
    positions: list[np.ndarray] = []
    accepted: list[np.ndarray] = []
    with (
        interruptible() as is_interrupted,
        watch(name, total, _in_words(event, delta), progress) as watcher,
        data.reserve(event, what=name, insecure_seed=insecure_seed) as paid,
    ):
        for moved, is_accepted in plan.segments(paid, size):
            positions.append(moved)
            accepted.append(is_accepted)
            watcher.update(len(moved), float(np.mean(is_accepted)))
            if is_interrupted():
                break
        spent = paid.spent
    vectors = np.swapaxes(np.concatenate(positions), 0, 1)
    return Posterior(
        draws=_parameters(model, plan.layout, vectors),
        is_accepted=np.swapaxes(np.concatenate(accepted), 0, 1),
        num_warmup=min(num_warmup, vectors.shape[1] - 1),
        certificate=Certificate(spent, data.facts.adjacency, delta, data.assumptions),
        settings=_settings(plan, data),
    )


def _plan(
    kernel: Kernel | Sequence[Stage], model: Model, num_steps: int | None, num_chains: int, init: Any, seed: int
) -> Plan:
    stages = _stages(kernel, num_steps)
    num_chains = validation.integer("num_chains", num_chains, at_least=1)
    of_start, of_init, of_chains = jax.random.split(jax.random.key(seed), 3)
    layout, starts = start_points(model, init, num_chains, of_start)
    keys = [jax.random.split(key, num_chains) for key in (of_init, of_chains)]
    return Plan(stages, model, layout, starts, *keys)


def _stages(kernel: Kernel | Sequence[Stage], num_steps: int | None) -> tuple[Stage, ...]:
    if isinstance(kernel, Kernel):
        return as_stages(kernel, validation.integer("num_steps", num_steps, at_least=1))
    stages = as_stages(kernel, 0)
    if num_steps is not None:
        validation.refuse("num_steps", num_steps, "must be left out with stages, which state their own numbers")
    if not stages:
        raise InvalidArgument("kernel must be a kernel, or a list of (kernel, num_steps) that holds at least one")
    for stage in stages:
        validation.integer("num_steps", stage.num_steps, at_least=1)
    return stages


def segment_lengths(num_steps: int, size: int | None) -> Iterator[int]:
    """Yield the lengths of the segments: all the same, but for the last one if nothing else fits."""
    target = size or -(-num_steps // SEGMENTS)
    if size is None:  # a divisor nearby saves compiling the last segment apart
        target = next((length for length in range(target, 2 * target) if num_steps % length == 0), target)
    while num_steps:
        length = min(target, num_steps)
        num_steps -= length
        yield length


def _parameters(model: Model, layout: Layout, vectors: np.ndarray) -> dict[str, np.ndarray]:
    """Return the draws as people read them, by name, with the axes (chain, step, ...)."""
    constrain = jax.jit(jax.vmap(jax.vmap(lambda vector: model.constrain(layout.unravel(vector)))))
    parameters = constrain(jnp.asarray(vectors))
    named = parameters if isinstance(parameters, dict) else {"position": parameters}
    flat = jax.tree_util.tree_flatten_with_path(named)[0]
    return {jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(leaf) for path, leaf in flat}


def _settings(plan: Plan, data: PrivateData) -> dict[str, Any]:
    return {
        "stages": [
            {"kernel": stage.kernel.name, "num_steps": stage.num_steps, **_plain(stage.kernel)} for stage in plan.stages
        ],
        "num_chains": len(plan.keys),
        "temperature": plan.model.temperature,
        "data": repr(data),
    }


def _plain(kernel: Kernel) -> dict[str, Any]:
    kinds = (bool, int, float, str)
    return {name: value if isinstance(value, kinds) else repr(value) for name, value in kernel.settings.items()}


def _delta(delta: float | None, data: PrivateData) -> float:
    if delta is not None:
        return validation.probability("delta", delta)
    return data.budget.delta if data.budget is not None else min(1e-6, 0.1 / data.facts.size)


def _in_words(event: Event, delta: float) -> str:
    return f"epsilon {float(accountants.epsilon(event, delta)):.3g} (delta {delta:g})"
