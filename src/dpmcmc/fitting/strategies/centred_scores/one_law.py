"""Centred scores of records that all have one distribution whose responses can be summed over.

Means of bounded scores, slopes and variances are then sums over that distribution at a public point: nothing of them is
simulated, and nothing released. Rare events need that: a slope of a few of them, with noise, could be anything.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.accounting import Budget, Event
from dpmcmc.enclave import PrivateData, Session, Sum
from dpmcmc.fitting.budget_split import noise_of_share
from dpmcmc.fitting.strategies.centred_scores.questions import fit_of_places
from dpmcmc.fitting.strategies.centred_scores.releases import Asked, Places
from dpmcmc.fitting.strategies.centred_scores.simulation import Simulated
from dpmcmc.fitting.strategies.centred_scores.simulator import Means, Simulator
from dpmcmc.fitting.strategies.centred_scores.terms import share_kept, term_laws
from dpmcmc.fitting.strategies.weighted_scores.budget import RESIDUALS_SHARE
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.model.observed import Observed
from dpmcmc.run.program import Layout

AS_DRAWS = 2**40
"""As many draws would be as accurate."""


@dataclass(frozen=True, eq=False)
class SummedLaw(Simulator):
    """Means under the distribution of a record at public points, as sums over its responses."""

    nodes: Callable[..., tuple[jax.Array, jax.Array]] = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "nodes", jax.jit(self._nodes))

    def _nodes(self, centre: Any, factor: Any) -> tuple[jax.Array, jax.Array]:
        """Return the scores at the nodes of the distribution, in whitened coordinates, and their probabilities."""
        term = jax.tree.map(lambda leaf: leaf[0], term_laws(self.observed, self.layout, centre, factor, self.record)[0])
        return term.scores @ term.moves, term.weights

    def means(self, asked: Asked, least: int, tolerance: float, size: float) -> Means:
        """Return the means; they are exact."""
        del least, tolerance, size
        scores, weights = (np.asarray(each, float) for each in self.nodes(asked.centre, asked.factor))
        squares, radii = np.sum(scores**2, axis=1), np.append(float(asked.radius), np.asarray(asked.radii, float))
        shares = np.asarray(share_kept(jnp.asarray(squares), jnp.asarray(radii)[:, None]), float)
        # scores have mean zero: what their rule makes of it is taken off, as in `releases`
        means = (weights * (shares - (shares @ weights)[:, None])) @ scores
        of_means = np.linalg.norm(means, axis=1)
        kept = radii / (radii + of_means)
        variances = kept**2 * np.maximum(shares**2 @ (weights * squares) - of_means**2, 0.0)
        bounded = (weights * shares[0])[:, None] * scores
        traces = np.array([kept * (shares @ (weights * squares)), variances])
        nothing = np.zeros(scores.shape[1])
        information = scores.T @ (weights[:, None] * scores)
        slope, error = kept[0] * scores.T @ bounded, np.diag(nothing)
        return Means(AS_DRAWS, means[0], error, slope, traces[:, 1:], float(variances[0]), information, nothing)


@dataclass(frozen=True, eq=False)
class OneLaw(Simulated):
    """Questions whose means are summed over the distribution of all records: scores alone are released."""

    @cached_property
    def places(self) -> Places:
        """The check of the distribution of the responses."""
        noise = noise_of_share(RESIDUALS_SHARE, 1, self.budget)
        return Places(self.simulator.observed, self.simulator.layout, Sum(1.0, noise))

    def _price_of_check(self, point: Any, factor: Any) -> Event:
        del factor
        return self.data.price(self.places, point)

    @property
    def words(self) -> str:
        """How the means of scores are known."""
        return "All records have the same distribution: scores are bounded, and their mean under it is subtracted"

    @property
    def settings(self) -> dict[str, Any]:
        """The releases, in plain values."""
        asked = {"pilot": self.pilot, "final": self.final, "residuals": self.places}
        return {f"{name}_release": repr(each.sums) for name, each in asked.items()}

    def fits(self, paid: Session, point: Floats) -> float:
        """Return how probable places of the responses in their distribution like these are."""
        return fit_of_places(paid, self.places, point, self.data.facts.size)


def one_law(observed: Observed, data: PrivateData, budget: Budget, layout: Layout) -> OneLaw | None:
    """Return the questions of a model without covariates whose distribution can be summed over; None if it is none."""
    if observed.has_covariates or observed.is_chained or observed.is_of_persons:
        return None
    record = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), data.facts.record)
    return OneLaw(SummedLaw(observed, layout, record), data, budget)
