"""The sketch as a strategy of `fit`: whether a short sketch exists, its description, and its draws."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.accounting import Budget, Event
from dpmcmc.diagnostics.quality import Quality
from dpmcmc.enclave import PrivateData, Session
from dpmcmc.enclave.bounds import leaf_names
from dpmcmc.errors import DpmcmcError, RankTooLarge
from dpmcmc.fitting.budget_split import least_error, remedy
from dpmcmc.fitting.problem_size import ProblemSize
from dpmcmc.fitting.recipes import SKETCH
from dpmcmc.fitting.scales import synthetic_records
from dpmcmc.fitting.strategies.fallback import NUMERICAL, prior_draws_instead
from dpmcmc.fitting.strategies.sketch.draws import Points
from dpmcmc.fitting.strategies.sketch.sketch import Sketch
from dpmcmc.fitting.strategies.sketch.two_stages import TwoStages
from dpmcmc.fitting.strategies.strategy import Drawn
from dpmcmc.missing_cells import is_hidden
from dpmcmc.model import FormulaModel, Model
from dpmcmc.run.plan import parameters, surroundings
from dpmcmc.run.program import Layout
from dpmcmc.run.progress import Watcher

NUM_STEPS = 1000

NOTHING = 0.001
"""An error in nats that is not reported."""

LOOKED_AT = 128
SHORT = 1e-5
"""A table of so many records and positions whose singular values fall to this part of the largest within two a
parameter, and one more, has a rank at which ``auto`` takes a sketch."""

OUTWARD = 1.5
"""Factor by which values are moved away from the middle of their bounds; a third of them reach the bounds."""

MOST_PARAMETERS = 10
"""Largest number of parameters: importance sampling fails in more dimensions."""


@dataclass(frozen=True, eq=False)
class SketchStrategy:
    """Two releases, then draws at no further cost."""

    stages: TwoStages
    num_steps: int
    num_chains: int
    was_chosen: bool

    @property
    def name(self) -> str:
        """The name of the sampler in `fit`."""
        return SKETCH

    @property
    def description(self) -> str:
        """A short description of the run for the ledger."""
        return "two sketches"

    @property
    def dimension(self) -> int:
        """The number of parameters."""
        return self.stages.layout.dimension

    @property
    def expected_error(self) -> float:
        """The expected error from the privacy noise, in posterior standard deviations."""
        return least_error(self.stages.facts, self.stages.budget)

    @property
    def remedy(self) -> str:
        """What would help if the expected error is too large."""
        return remedy(self.stages.facts, self.stages.budget)

    @property
    def event(self) -> Event:
        """The event of the two releases."""
        return self.stages.event

    @property
    def course(self) -> str:
        """A description of the run."""
        return (
            f"a coarse sketch of the likelihood over the prior, then a fine one, for {self.stages.layout.dimension} "
            f"parameters; {self.num_chains} x {self.num_steps} draws"
        )

    @property
    def reason(self) -> str:
        """The reason for choosing a sketch."""
        coarse = self.stages.coarse
        off = f"about {coarse.error:.1g}" if coarse.error >= NOTHING else f"less than {NOTHING:g}"
        known = (
            f"{coarse.rank} numbers per record determine its log-likelihood over the whole prior, that of all records "
            f"to within {off} nats, where the noise of the first release moves it by {coarse.noise:.2g}"
        )
        if self.was_chosen:
            return f"A sketch of rank {coarse.rank} was chosen because {known}: no normal approximation is needed."
        return f"A sketch of rank {coarse.rank} was requested: {known}."

    def draw(
        self,
        paid: Session,
        watcher: Watcher,
        is_interrupted: Callable[[], bool],  # noqa: ARG002
        seed: int,
    ) -> Drawn:
        """Release both sketches and draw; stopping after the second release would save nothing."""
        shape = (self.num_chains, self.num_steps)
        try:
            drawn = self._drawn(paid, seed, shape)
        except DpmcmcError:
            raise
        except NUMERICAL as error:
            drawn = prior_draws_instead(self.stages.model, shape, self._settings(paid, {}), error, seed)
        watcher.update(self.num_steps, 1.0)
        return drawn

    def _drawn(self, paid: Session, seed: int, shape: tuple[int, int]) -> Drawn:
        rng = np.random.default_rng(seed)
        found = self.stages.run(paid, rng)
        fine = found.posterior.sketch
        vectors = found.points.draw(rng, shape[0] * shape[1]).reshape(*shape, -1)  # line 5
        if not np.isfinite(vectors).all():
            raise ValueError("draws are not finite")
        settings = {
            "fine_rank": fine.rank,
            "fine_noise_multiplier": self.stages.multipliers.fine,
            "fine_error": fine.error,
            "fine_noise": fine.noise,
            "covered": fine.covered,
            "effective_points": found.points.effective,
            "cut_surprise": found.surprise,
        }
        drawn = parameters(self.stages.model, self.stages.layout, vectors.astype(np.float32))
        quality = _quality(fine, found.points, found.surprise)
        return Drawn(drawn, np.ones(shape, bool), 0, self._settings(paid, settings), quality)

    def _settings(self, paid: Session, found: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of the run as plain values."""
        return {
            "stages": [
                {
                    "kernel": SKETCH,
                    "num_steps": self.num_steps,
                    "coarse_rank": self.stages.coarse.rank,
                    "coarse_noise_multiplier": self.stages.multipliers.coarse,
                    **found,
                }
            ],
            "num_chains": self.num_chains,
            "temperature": self.stages.model.temperature,
            **surroundings(self.stages.data, paid.entry),
        }


FEW_POINTS = 0.01
"""Effective share of the points below which draws are unreliable."""


MORE_CUT = 3.1
"""Standard deviations by which the clipped share may exceed that of synthetic records (false-alarm rate 1e-3)."""


def _quality(fine: Sketch, points: Points, surprise: float) -> Quality:
    """Return the verdict of a sketch, whose clip and correction for clipping come from synthetic records."""
    reasons = [
        "A sketch's clip is set from synthetic records, and of the true ones only the number clipped is known: compare "
        "it with another sampler."
    ]
    verdict = "fair"
    if not surprise <= MORE_CUT:
        verdict = "bad"
        reasons.append("Many more records were clipped than the model predicts, which biases the sketch.")
    if not fine.error <= max(fine.tolerance, 1.0):
        verdict = "bad"
        reasons.append(f"The sketch determines the log-likelihood only to within {fine.error:.2g} nats.")
    if not points.effective >= FEW_POINTS:
        verdict = "bad"
        reasons.append("The points for importance sampling hardly overlap with the posterior of the sketch.")
    return Quality(verdict, tuple(reasons))


def sketch_strategy(
    sampler: str,
    model: Model,
    data: PrivateData,
    layout: Layout,
    facts: ProblemSize,
    budget: Budget,
    num_steps: int | None,
    num_chains: int,
) -> SketchStrategy | None:
    """Return the sketch strategy if it was requested or if ``auto`` should choose it; reads no record.

    Raises:
        RankTooLarge: a sketch was requested, and there is no short one.
    """
    was_chosen = sampler != SKETCH
    if was_chosen and not (sampler == "auto" and looks_short(model, data, layout)):
        return None
    stages = TwoStages(model, data, layout, facts, budget)
    try:
        stages.coarse  # noqa: B018
    except RankTooLarge:
        if was_chosen:
            return None
        raise
    return SketchStrategy(stages, num_steps or NUM_STEPS, num_chains, was_chosen)


def looks_short(model: Model, data: PrivateData, layout: Layout) -> bool:
    """Say whether a short sketch is likely, from a few synthetic records and positions.

    Regression posteriors are approximately normal and have no short sketch, so formulas are not considered.
    """
    if isinstance(model, FormulaModel) or model.sample_prior is None or layout.dimension > MOST_PARAMETERS:
        return False
    records = synthetic_records(data, jax.random.key(0), LOOKED_AT)
    positions = jax.vmap(model.sample_prior)(jax.random.split(jax.random.key(0), LOOKED_AT))

    def row(record: Any) -> jax.Array:
        return jax.vmap(model.log_likelihood, in_axes=(0, None))(positions, record)

    rows = jax.jit(jax.vmap(row))
    table = np.asarray(rows(records), np.float64)
    if not np.isfinite(table).all():
        return False
    at_ends = np.asarray(rows(_moved_to_bounds(records, data)), np.float64)
    table = np.concatenate([table, at_ends[np.isfinite(at_ends).all(axis=1)]])
    values = np.linalg.svd(table - table[:, :1], compute_uv=False)
    return bool(values[0] > 0 and values[2 * layout.dimension + 1] <= SHORT * values[0])


def _moved_to_bounds(records: Any, data: PrivateData) -> Any:
    """Return records many of whose numbers lie at their bounds: a model may tell these apart, as censored ones, say."""
    leaves, structure = jax.tree.flatten(records)
    moved = [
        leaf
        if is_hidden(name) or not jnp.issubdtype(leaf.dtype, jnp.floating)
        else jnp.clip(OUTWARD * leaf + (1 - OUTWARD) * sum(data.facts.bounds[name]) / 2, *data.facts.bounds[name])
        for name, leaf in zip(leaf_names(data.facts.record), leaves, strict=True)
    ]
    return jax.tree.unflatten(structure, moved)
