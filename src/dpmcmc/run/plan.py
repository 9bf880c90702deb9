"""`Plan`: the public description of a run, with its price and the execution of its segments."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc import validation
from dpmcmc.accounting import Event
from dpmcmc.accounting.ledger import DatasetAccount
from dpmcmc.enclave import PrivateData, Session
from dpmcmc.errors import InvalidArgument
from dpmcmc.kernels import Info, Kernel, Stage
from dpmcmc.missing_cells import is_hidden
from dpmcmc.model import FormulaModel, Model
from dpmcmc.model.examination import PRIOR_DRAWS
from dpmcmc.model.formula.host import constrain_all, draw_prior
from dpmcmc.run.program import Advance, Begin, Layout, Whole, as_stages, continues
from dpmcmc.run.progress import Watcher
from dpmcmc.run.start import start_points

SEGMENTS = 20
"""Approximate number of segments of a run: after each one progress is shown and an interrupt takes effect."""

TAKEN = ("chain", "draw")
"""Names of axes in saved draws, which no parameter may have."""

KEPT = 32
"""Number of models whose compiled functions are cached."""


@dataclass(frozen=True)
class Plan:
    """A run before it starts: model, stages, start points and keys, all public."""

    stages: tuple[Stage, ...]
    model: Model
    layout: Layout
    starts: jax.Array
    init_keys: jax.Array
    keys: jax.Array

    @property
    def num_steps(self) -> int:
        """The number of steps of each chain, over all stages."""
        return sum(stage.num_steps for stage in self.stages)

    @property
    def name(self) -> str:
        """A short description: the samplers of the stages."""
        return " then ".join(dict.fromkeys(stage.kernel.name for stage in self.stages))

    def price(self, data: PrivateData) -> Event:
        """Return the event of the run, which the auditor derives from one program for the whole run."""
        return data.price(Whole(self.stages, self.layout), self.starts, self.keys, model=self.model)

    def segments(self, paid: Session, size: int | None) -> Iterator[tuple[np.ndarray, Info]]:
        """Run segment by segment; yield the positions and the statistics of each step, (step, chain, ...)."""
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
                yield np.asarray(moved), jax.tree.map(np.asarray, info)

    def run(
        self,
        paid: Session,
        size: int | None,
        watcher: Watcher,
        is_interrupted: Callable[[], bool],
        stats: dict[str, np.ndarray] | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Run until the end or an interrupt; return positions and whether steps were accepted, (chain, step, ...).

        Other statistics of the steps are put into `stats`, under ArviZ's names, unless they are constant.
        """
        positions: list[np.ndarray] = []
        infos: list[Info] = []
        is_new = paid.is_caught_up
        for moved, info in self.segments(paid, size):
            positions.append(moved)
            infos.append(info)
            watcher.update(len(moved), float(np.mean(info.is_accepted)), is_new)
            is_new = paid.is_caught_up
            if is_interrupted():
                break

        def joined(parts: Sequence[Any]) -> np.ndarray:
            return np.swapaxes(np.concatenate(parts), 0, 1)

        if stats is not None:
            stats["diverging"] = joined([info.is_divergent for info in infos])
            stated = {name: joined([getattr(info, name) for info in infos]) for name in ("log_alpha", "energy_change")}
            stats.update({name: values for name, values in stated.items() if not np.isnan(values).all()})
        return joined(positions), joined([info.is_accepted for info in infos])


def make_plan(
    kernel: Kernel | Sequence[Stage], model: Model, num_steps: int | None, num_chains: int, init: Any, seed: int
) -> Plan:
    """Check the arguments of a run, and draw its start points and keys from `seed`."""
    stages = _stages(kernel, num_steps)
    num_chains = validation.integer("num_chains", num_chains, at_least=1)
    of_start, of_init, of_chains = jax.random.split(jax.random.key(seed), 3)
    layout, starts = start_points(model, init, num_chains, of_start)
    _check_names(model, layout)
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
    """Yield the lengths of the segments: all equal, except the last if the number of steps requires it."""
    target = size or -(-num_steps // SEGMENTS)
    if size is None:  # a divisor close to it saves compiling the last segment separately
        target = next((length for length in range(target, 2 * target) if num_steps % length == 0), target)
    while num_steps:
        length = min(target, num_steps)
        num_steps -= length
        yield length


def parameters(model: Model, layout: Layout, vectors: np.ndarray) -> dict[str, np.ndarray]:
    """Return the draws as constrained parameters, by name, with the axes (chain, step, ...)."""
    if isinstance(model, FormulaModel) and model.is_as_read:
        flat = layout.unravel_all(vectors.reshape(-1, layout.dimension))
        found = constrain_all(model.coordinates, flat)
        return {name: values.reshape(*vectors.shape[:2], *values.shape[1:]) for name, values in found.items()}
    constrained = _constrain(model, layout)(vectors)
    return {name: np.asarray(leaf) for name, leaf in by_name(constrained).items()}


def parameters_at(model: Model, layout: Layout, positions: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return positions of the model, by leaf with the draws along the first axis, as constrained parameters."""
    parts = [np.asarray(leaf, np.float32).reshape(len(leaf), -1) for _, leaf in sorted(positions.items())]
    named = parameters(model, layout, np.concatenate(parts, axis=1)[None])
    return {name: values[0] for name, values in named.items()}


@lru_cache(maxsize=KEPT)
def _constrain(model: Model, layout: Layout) -> Callable[[Any], Any]:
    return jax.jit(jax.vmap(jax.vmap(lambda vector: model.constrain(layout.unravel(vector)))))


def by_name(parameters: Any) -> dict[str, Any]:
    """Return the arrays of parameters by their public names."""
    named = parameters if isinstance(parameters, dict) else {"position": parameters}
    flat = jax.tree_util.tree_flatten_with_path(named)[0]
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in flat}


def _check_names(model: Model, layout: Layout) -> None:
    """Refuse, before anything is charged, names of parameters under which no run could be saved."""
    vector = jax.ShapeDtypeStruct((layout.dimension,), jnp.float32)
    names = by_name(jax.eval_shape(lambda one: model.constrain(layout.unravel(one)), vector))
    wrong = next((name for name in names if name in TAKEN or "/" in name), None)
    if wrong is not None:
        raise InvalidArgument(
            f"the parameter {wrong!r} cannot be saved under its name: {' and '.join(TAKEN)} are axes of the draws, and "
            "a name has no slash; rename the column or the site. Nothing was charged"
        )


@lru_cache(maxsize=KEPT)
def prior_draws(model: Model) -> dict[str, np.ndarray]:
    """Return draws from the prior as constrained parameters, (1, draw, ...); public, and the same in every run."""
    if model.sample_prior is None:
        return {}
    if model.prior_draws is not None:
        return {name: np.asarray(leaf)[None] for name, leaf in by_name(model.prior_draws.parameters).items()}
    if isinstance(model, FormulaModel) and model.is_as_read:
        drawn = draw_prior(model.coordinates, np.random.default_rng(0), PRIOR_DRAWS)
        return {name: values[None] for name, values in constrain_all(model.coordinates, drawn).items()}
    draw = model.sample_prior

    def from_prior(keys: jax.Array) -> Any:
        return jax.vmap(lambda key: model.constrain(draw(key)))(keys)

    named = by_name(jax.jit(from_prior)(jax.random.split(jax.random.key(0), PRIOR_DRAWS)))
    return {name: np.asarray(leaf)[None] for name, leaf in named.items()}


def settings(plan: Plan, data: PrivateData, entry: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings of a run as plain values, with the state of its ledger and the entry of its charge."""
    return {
        "stages": [
            {"kernel": stage.kernel.name, "num_steps": stage.num_steps, **_plain(stage.kernel)} for stage in plan.stages
        ],
        "num_chains": len(plan.keys),
        "temperature": plan.model.temperature,
        **surroundings(data, entry),
    }


def surroundings(data: PrivateData, entry: Mapping[str, str]) -> dict[str, Any]:
    """Return the public facts of a run's data, with the state of their ledger after it and the entry of its charge."""
    facts, account = data.facts, data.account
    shown = {name: [float(one) for one in bounds] for name, bounds in facts.bounds.items() if not is_hidden(name)}
    ledger = {} if account is None else {"ledger": {**_ledger(account), **entry}}
    return {
        "data": repr(data),
        "facts": {"size": facts.size, "adjacency": facts.adjacency.value, "bounds": shown},
        **ledger,
    }


def _ledger(account: DatasetAccount) -> dict[str, Any]:
    return {
        "dataset": account.dataset,
        **({} if account.part_of is None else {"part_of": account.part_of}),
        "epsilon": account.budget.epsilon,
        "delta": account.budget.delta,
        "epsilon_spent": float(account.epsilon_spent),
        "epsilon_left": float(account.epsilon_left),
    }


def _plain(kernel: Kernel) -> dict[str, Any]:
    return {name: _in_words(value) for name, value in kernel.settings.items()}


def _in_words(value: Any) -> bool | float | str:
    if isinstance(value, bool | int | float | str):
        return value
    return f"function {value.__qualname__}" if inspect.isfunction(value) else repr(value)
