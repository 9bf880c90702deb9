"""Repeat and select: one of several candidates is run a random number of times, and only the best run is shown.

Papernot and Steinke (2022): the number of runs K is drawn, whatever the records are, from a truncated negative binomial
distribution of shape s >= 0 (0 is the logarithmic one, 1 the geometric) and halting probability g,

    P(K = k)  ~  (1 - g)^k (s + 1) (s + 2) ... (s + k - 1) / k!,    k = 1, 2, 3, ...

so that the price depends on neither K nor on which runs lost.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from dpmcmc import validation
from dpmcmc.accounting.adjacency import Adjacency
from dpmcmc.accounting.event import Approximation, Event, NonPrivate, compose, counts
from dpmcmc.errors import AdjacencyMismatch, InvalidArgument

_LEAST_HALTING = 1e-4
_LARGEST_SHAPE = 10.0
_NEGLIGIBLE = 2.0**-60
_ROUNDING = 2.0**-53


@dataclass(frozen=True)
class Selected(Event):
    """The best of K runs, each of a candidate drawn uniformly; K is secret. `repeat_and_select` makes one.

    `candidates` are what one run of each releases, the score by which it is judged included.
    """

    candidates: tuple[Event, ...]
    halting: float
    shape: float

    def __post_init__(self) -> None:
        halting, shape = validation.fraction("halting", self.halting), validation.non_negative("shape", self.shape)
        if halting < _LEAST_HALTING:
            validation.refuse("halting", halting, f"must be >= {_LEAST_HALTING:g}")
        if shape > _LARGEST_SHAPE:
            validation.refuse("shape", shape, f"must be <= {_LARGEST_SHAPE:g}")
        distinct = tuple(sorted(set(self.candidates), key=Event.to_json))
        if not distinct:
            raise InvalidArgument("candidates=() must hold at least one event")
        if any(one.outermost for one in distinct):
            raise InvalidArgument("candidates hold a Parallel: what is selected must be released from all places")
        wrong = {NonPrivate, Approximation, Selected} & frozenset[type[Event]]().union(*(one.held for one in distinct))
        if wrong:
            names = ", ".join(sorted(kind.__name__ for kind in wrong))
            raise InvalidArgument(f"candidates hold {names}, which no Renyi divergence bounds; see repeat_and_select")
        if len({one.required_adjacency for one in distinct} - {None}) > 1:
            raise AdjacencyMismatch("candidates are meant under different adjacencies; one guarantee needs one")
        self._set(candidates=distinct, halting=halting, shape=shape)

    @property
    def required_adjacency(self) -> Adjacency | None:
        """The one adjacency that the candidates require, if any does."""
        return next((one.required_adjacency for one in self.candidates if one.required_adjacency), None)

    @cached_property
    def held(self) -> frozenset[type[Event]]:
        """This kind, and those that a run releases: what they rest on, the selection rests on."""
        return frozenset((Selected,)).union(*(one.held for one in self.candidates))

    @property
    def mean(self) -> float:
        """How many runs there are on average."""
        return mean_runs(self.halting, self.shape)

    @property
    def order(self) -> tuple[Any, ...]:
        """By what it is sorted among other events: candidates themselves have no order."""
        return type(self).__name__, self.to_json()

    def to_dict(self) -> dict[str, Any]:
        """Return the event as plain values, ready for JSON."""
        return {**super().to_dict(), "candidates": [one.to_dict() for one in self.candidates]}

    @classmethod
    def from_fields(cls, values: Mapping[str, Any]) -> Event:
        """Build the event from its fields."""
        candidates = cast(Any, values.get("candidates"))
        if not isinstance(candidates, list):
            raise InvalidArgument("Selected has a list of candidates")
        made = tuple(Event.from_dict(one) for one in cast(list[Any], candidates))
        return super().from_fields({**values, "candidates": made})


def repeat_and_select(candidates: Sequence[Event], mean: float, shape: float = 0.0) -> Event:
    """Return what repeat-and-select releases, with `mean` runs on average.

    If the noise samplers of each run are within total variation t of their ideal distributions, the selection is within
    mean * t: each run may differ with probability t, and the number of runs does not depend on the records. The
    rounding error in the distribution of the number of runs is counted in the same way.

    Args:
        candidates: the event of one run of each candidate.
        mean: the average number of runs.
        shape: the shape of the distribution of the number of runs: 0 is logarithmic, 1 geometric.
    """
    parts = [counts(candidate) for candidate in candidates]
    slack = [
        sum(n * part.total_variation for part, n in one.items() if isinstance(part, Approximation)) for one in parts
    ]
    clean = [compose(part * n for part, n in one.items() if not isinstance(part, Approximation)) for one in parts]
    chosen = Selected(tuple(clean), halting_for(mean, shape), shape)
    drawn = (4 * chosen.mean + 64 / chosen.halting) * _ROUNDING
    return chosen + Approximation(chosen.mean * max(slack) + drawn)


def mean_runs(halting: float, shape: float) -> float:
    """Return the mean number of runs: s (1 - g) / (g (1 - g^s)), and (1 - g) / (g ln(1/g)) for s = 0."""
    if halting == 1:
        return 1.0
    log_halting = math.log(halting)
    share = -math.expm1(shape * log_halting) / shape if shape else -log_halting
    return (1 - halting) / (halting * share)


def halting_for(mean: float, shape: float) -> float:
    """Return the halting probability with which there are `mean` runs on average, rounded down: a price too high."""
    runs, shape = validation.positive("mean", mean), validation.non_negative("shape", shape)
    if runs < 1:
        validation.refuse("mean", mean, "must be >= 1: there is always one run")
    if runs > mean_runs(_LEAST_HALTING, shape):
        validation.refuse("mean", mean, f"must be <= {mean_runs(_LEAST_HALTING, shape):g}")
    if runs == 1:
        return 1.0
    root = optimize.brentq(
        lambda log: mean_runs(math.exp(log), shape) - runs, math.log(_LEAST_HALTING), 0.0, xtol=1e-14
    )
    return max(math.exp(float(root)) * (1 - 1e-9), _LEAST_HALTING)


def probabilities(halting: float, shape: float) -> Iterator[float]:
    """Yield P(K = 1), P(K = 2), ... until what is left is negligible."""
    going = 1 - halting
    chance, k = mean_runs(halting, shape) * halting ** (1 + shape), 1
    while chance > _NEGLIGIBLE * halting:
        yield chance
        chance, k = chance * going * (k + shape) / (k + 1), k + 1


def divergences(
    orders: NDArray[np.float64], base: NDArray[np.float64], halting: float, shape: float
) -> NDArray[np.float64]:
    """Return the Renyi divergences of the best run, given those of one (Papernot and Steinke 2022, Theorem 2).

    For every order a, and any second order b,

        r(a) + (1 + s) ((1 - 1/b) r(b) + ln(1/g) / b) + ln(mean) / (a - 1),

    with the b that makes it least; and since divergences grow with the order, no more than at any higher order.
    """
    second = np.min((1 - 1 / orders) * base - math.log(halting) / orders)
    bound = base + (1 + shape) * second + math.log(mean_runs(halting, shape)) / (orders - 1)
    return np.minimum.accumulate(bound[::-1])[::-1]
