"""Private model selection by repeat-and-select: the choice itself uses the private records and is charged."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from dpmcmc import validation
from dpmcmc.accounting import (
    Budget,
    Event,
    Gaussian,
    NonPrivate,
    accountants,
    compose,
    noise_for,
    repeat_and_select,
)
from dpmcmc.enclave import Attempt, Oracle, PrivateData, Session, Sum
from dpmcmc.errors import BudgetUnreachable, InvalidArgument
from dpmcmc.fitting.budget_split import MARGIN
from dpmcmc.fitting.numpy_errors import as_by_default
from dpmcmc.fitting.prepare import PreparedFit, prepare_fit
from dpmcmc.fitting.strategies.laplace import PrivateLaplace
from dpmcmc.model import Model
from dpmcmc.posterior import Posterior
from dpmcmc.run.plan import by_name
from dpmcmc.run.program import Layout
from dpmcmc.run.sampling import delta_of

SCORE_SHARE = 0.1
"""Share of a run's mean privacy loss (rho) that is spent on its score."""

SCORE_DRAWS = 32
"""Number of posterior draws that a score averages over."""

RUNS_PER_CANDIDATE = 4.0
OPTIONS = ("model", "family", "priors", "sampler", "num_chains", "num_steps", "init", "allow_low_accuracy")
"""The arguments of `fit` that may differ between candidates."""


@dataclass(frozen=True)
class LogPredictive:
    """The noisy sum over records of the log predictive density: ``score(oracle, positions)``.

    Each record's term is clamped to an interval and centred at its midpoint, so that `mechanism` never clips it.
    """

    model: Model
    layout: Layout
    mechanism: Sum
    middle: float

    def __call__(self, oracle: Oracle, positions: jax.Array) -> jax.Array:
        """Return the score of a posterior that the positions are draws of."""

        def density(positions: jax.Array, record: Any) -> jax.Array:
            each = jax.vmap(lambda one: self.model.log_likelihood(self.layout.unravel(one), record))(positions)
            value = logsumexp(each) - math.log(SCORE_DRAWS) - self.middle
            return jnp.clip(value, -self.mechanism.clip, self.mechanism.clip)

        return oracle.sum(self.mechanism, density, positions).value[0]


@dataclass(frozen=True, eq=False)
class Candidate:
    """A candidate fit with its scoring function."""

    fit: PreparedFit
    score: LogPredictive

    @property
    def event(self) -> Event:
        """The event of one run, including its score."""
        somewhere = jnp.zeros((SCORE_DRAWS, self.score.layout.dimension))
        return self.fit.event + self.fit.data.price(self.score, somewhere, model=self.score.model)

    def run(self, paid: Session) -> tuple[float, Posterior]:
        """Fit once and return the score with the posterior."""
        with self.fit.watched(progress=False) as watcher:
            posterior = self.fit.draw(paid, watcher, lambda: False)
        return float(paid.run(self.score, self._positions(posterior), model=self.score.model)), posterior

    def _positions(self, posterior: Posterior) -> jax.Array:
        """Return an evenly spaced subset of the draws, as vectors."""
        model, layout = self.score.model, self.score.layout
        position = jax.tree.unflatten(layout.structure, [jax.ShapeDtypeStruct(shape, float) for shape in layout.shapes])
        expected = jax.eval_shape(model.constrain, position)
        found = [posterior[name] for name in by_name(expected)]  # a posterior has them in the order of its formula
        pooled = [leaf.reshape(-1, *leaf.shape[2:]) for leaf in found]
        kept = np.linspace(0, len(pooled[0]) - 1, SCORE_DRAWS).round().astype(int)
        parameters = jax.tree.unflatten(jax.tree.structure(expected), [jnp.asarray(leaf[kept]) for leaf in pooled])
        return jax.vmap(lambda one: layout.ravel(model.unconstrain(one)))(parameters)


@as_by_default()
def select(
    candidates: Mapping[str, Mapping[str, Any]],
    data: PrivateData,
    *,
    epsilon: float,
    delta: float | None = None,
    score_range: tuple[float, float],
    mean_runs: float | None = None,
    shape: float = 0.0,
    insecure_seed: int | None = None,
) -> Posterior:
    """Select the best of several fits under (epsilon, delta) differential privacy, by a noisy score.

    A random number of times, a candidate is drawn uniformly, fitted and given a noisy score: the sum over the
    records of the log predictive density. Only the fit with the highest score is returned. The
    price (Papernot and Steinke 2022) does not depend on how many runs there were. That number must stay secret: the
    duration of the call reveals something about it, so do not let those who see the result time the call.

    Every run has about half of epsilon, whatever the number of candidates. Choosing a model by public facts or
    simulated records costs nothing.

    Args:
        candidates: for each candidate, by name, its arguments of `fit`: ``{"age": {"model": "y ~ age", "family":
            "bernoulli"}, ...}``. All must model the same response on the same scale; otherwise scores are not
            comparable.
        data: the private records.
        epsilon: epsilon of the whole selection.
        delta: delta of the whole selection (default: that of the data's budget).
        score_range: the interval to which one record's log predictive density is clamped. For a binary response
            ``(-5, 0)`` is a good choice.
        mean_runs: the average number of runs (default: four per candidate).
        shape: shape of the distribution of the number of runs: 0 for logarithmic, 1 for geometric, which costs more
            and varies less.
        insecure_seed: fixes all randomness, for tests; the result then carries no guarantee.

    Raises:
        BudgetUnreachable: a candidate would be useless, or cannot be priced within the budget; nothing was spent.
        SelectionFailed: no run gave a result; the charge stands.
    """
    delta = delta_of(delta, data)
    epsilon = validation.positive("epsilon", epsilon)
    lower, upper = (validation.number("score_range", bound) for bound in score_range)
    if not (math.isfinite(lower) and math.isfinite(upper) and lower < upper):
        validation.refuse("score_range", score_range, "must be a lower and a higher finite number")
    mean = RUNS_PER_CANDIDATE * len(candidates) if mean_runs is None else validation.positive("mean_runs", mean_runs)
    noise = noise_for(lambda z: repeat_and_select([Gaussian(z)], mean, shape), epsilon * (1 - MARGIN), delta)
    mechanism, middle = Sum((upper - lower) / 2, noise / math.sqrt(SCORE_SHARE)), (lower + upper) / 2
    each = Budget(float(accountants.epsilon(Gaussian(noise / math.sqrt(1 - SCORE_SHARE)), delta)), delta)
    prepared = {
        name: _prepared(name, options, data, each, mechanism, middle, insecure_seed)
        for name, options in candidates.items()
    }
    attempts, names = [Attempt(one.event, one.run) for one in prepared.values()], list(prepared)
    price = float(accountants.epsilon(repeat_and_select([one.event for one in attempts], mean, shape), delta))
    if price > epsilon:
        raise BudgetUnreachable(
            f"a selection between {', '.join(names)} would cost epsilon = {price:.4g}: its price follows from Renyi "
            "divergences, which charge more for one of these samplers; take sampler='auto'. Nothing was spent"
        )
    if all(isinstance(one.fit.strategy, PrivateLaplace) for one in prepared.values()):
        data.compile_for(compose(attempt.event for attempt in attempts))  # all of them side by side, whichever is drawn
    description = f"the best of {len(names)} fits"
    best = data.select(attempts, mean=mean, shape=shape, description=description, insecure_seed=insecure_seed)
    found: Posterior = best.result
    selection = {
        "selected": names[best.candidate],
        "candidates": names,
        "score": best.score + data.facts.size * middle,
        "score_sd": data.facts.clips_moved * mechanism.noise_multiplier * mechanism.clip,
        "mean_runs": mean,
        "shape": shape,
    }
    words = (
        f"That was one run. {names[best.candidate]} was selected from {', '.join(names)} by its noisy log predictive "
        f"density; the selection costs epsilon = {price:.4g} in all."
    )
    asked: Mapping[str, Any] = found.settings["request"]
    request = {**asked, "epsilon": epsilon, "description": f"{asked['description']}\n{words}"}
    spent = best.event if insecure_seed is None else best.event + NonPrivate()
    return replace(
        found,
        certificate=data.certificate(spent, delta, found.certificate.paths),
        settings={**found.settings, "request": request, "selection": selection},
    )


def _prepared(
    name: str,
    options: Mapping[str, Any],
    data: PrivateData,
    budget: Budget,
    mechanism: Sum,
    middle: float,
    insecure_seed: int | None,
) -> Candidate:
    """Return a checked and priced candidate."""
    unknown = [option for option in options if option not in OPTIONS]
    if unknown or "model" not in options:
        raise InvalidArgument(
            f"candidates[{name!r}] has {', '.join(options)}; expected model, and any of {', '.join(OPTIONS[1:])}"
        )
    fit = prepare_fit(data=data, epsilon=budget.epsilon, delta=budget.delta, insecure_seed=insecure_seed, **options)
    if fit.model.sample_prior is None:
        raise InvalidArgument(f"candidates[{name!r}] has a model whose prior cannot be sampled; state sample_prior")
    layout = Layout.of(jax.eval_shape(fit.model.sample_prior, jax.random.key(0)))
    return Candidate(fit, LogPredictive(fit.model, layout, mechanism, middle))
