"""The choice of a strategy for a fit, and the starting point of the pilot of chains."""

from functools import lru_cache
from typing import Any

import jax
import numpy as np

from dpmcmc.accounting import Budget
from dpmcmc.enclave import PrivateData
from dpmcmc.fitting.budget_split import make_pilot
from dpmcmc.fitting.models import MODELS_KEPT
from dpmcmc.fitting.problem_size import ProblemSize
from dpmcmc.fitting.reading import Reading
from dpmcmc.fitting.strategies.grouped_scores.choice import has_many_groups
from dpmcmc.fitting.strategies.laplace import NAME as WEIGHTED
from dpmcmc.fitting.strategies.strategy import Strategy
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.strategy import DRAWS, WeightedScores
from dpmcmc.fitting.whitening import Begin
from dpmcmc.model import FormulaModel, Model
from dpmcmc.model.examination import PRIOR_POSITIONS
from dpmcmc.run.program import Layout
from dpmcmc.run.start import start_points

QUARTILES = 1.349
"""Interquartile range of a normal distribution, in standard deviations."""


def choose_strategy(
    model: Model,
    data: PrivateData,
    sampler: str,
    budget: Budget,
    num_steps: int | None,
    num_chains: int,
    init: Any,
    reading: Reading,
) -> Strategy:
    """Return the strategy of a fit: weighted or centred scores if possible, otherwise a sketch or chains.

    Strategies are imported when they are needed, so that a first fit of a formula does not wait for the others.
    """
    can_weigh = sampler in ("auto", WEIGHTED) and model.temperature == 1 and init is None
    if can_weigh and isinstance(model, FormulaModel) and not model.is_mixture:
        may_read_often = reading.passes is None and data.is_in_memory
        if model.coordinates.groups and has_many_groups(
            model, data.facts.size, data.schema, may_read_often=may_read_often
        ):
            from dpmcmc.fitting.strategies.grouped_scores.strategy import GroupedScores

            reading.refuse_few()
            return GroupedScores(model, data, budget, num_steps or DRAWS, num_chains)
        split = reading.split(Regression.of(model), data, budget)
        return WeightedScores(model, data, budget, num_steps or DRAWS, num_chains, split)
    from dpmcmc.fitting.choice import choose
    from dpmcmc.fitting.strategies.centred_scores.strategy import CentredScores, centred_questions
    from dpmcmc.fitting.strategies.chains import PilotedChains
    from dpmcmc.fitting.strategies.sketch.strategy import sketch_strategy

    layout, begin = _begin(model, init)
    observed = model.observed
    if can_weigh and observed is not None:
        questions = centred_questions(observed, data, budget, layout, begin)
        if questions is not None:
            reading.refuse_few()
            return CentredScores(model, observed, questions, data, layout, begin, num_steps or DRAWS, num_chains)
    facts = ProblemSize(data.facts.size, layout.dimension, data.facts.adjacency, model.temperature)
    sketch = sketch_strategy(sampler, model, data, layout, facts, budget, num_steps, num_chains)
    if sketch is not None:
        return sketch
    reading.refuse_few()
    pilot = make_pilot(model, data, facts, layout, begin, budget, _keys()[1])
    choice = choose(sampler, facts, num_steps, num_chains, budget, pilot.price(data))
    return PilotedChains(model, data, budget, pilot, choice, facts, num_chains)


def _keys() -> jax.Array:
    """Return fixed keys: means over synthetic draws are settings, and must be the same in a dry run and in the run."""
    return jax.random.split(jax.random.key(0))


def _begin(model: Model, init: Any) -> tuple[Layout, Begin]:
    """Return the starting point of the pilot: as stated, or the mean of many draws from the prior."""
    scales = None
    positions = _prior_positions(model)
    if positions is not None:
        layout = Layout.of(jax.tree.map(lambda leaf: leaf[0], positions))
        vectors = np.concatenate([leaf.reshape(len(leaf), -1) for leaf in jax.tree.leaves(positions)], axis=1)
        lower, upper = np.quantile(vectors, [0.25, 0.75], axis=0)
        scales = np.where(upper > lower, (upper - lower) / QUARTILES, 1.0)  # some priors have no variance
        if init is None:
            return layout, Begin(*(jax.device_put(each.astype(np.float32)) for each in (vectors.mean(axis=0), scales)))
    layout, starts = start_points(model, init, 1, _keys()[0])
    widths = np.ones(layout.dimension) if scales is None else scales
    return layout, Begin(starts[0], jax.device_put(widths.astype(np.float32)))


@lru_cache(maxsize=MODELS_KEPT)
def _prior_positions(model: Model) -> Any:
    """Return many draws from the prior as host arrays, draws along the first axis; None if it cannot be sampled."""
    if model.prior_draws is not None:
        return model.prior_draws.positions
    draw = model.sample_prior
    if draw is None:
        return None
    many = jax.jit(lambda key: jax.vmap(draw)(jax.random.split(key, PRIOR_POSITIONS)))
    return jax.tree.map(np.asarray, many(_keys()[0]))
