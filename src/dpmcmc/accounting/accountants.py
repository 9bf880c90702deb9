"""From events to (epsilon, delta) and back.

Each accountant gives a valid upper bound by its own method; "tight" evaluates all that apply and returns the smallest
bound, with the name of its accountant. All answers are rounded toward more loss, so that ``delta(event, epsilon(event,
d)) <= d``.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from scipy import optimize

from dpmcmc import validation
from dpmcmc.accounting import gaussian, published, rdp, zcdp
from dpmcmc.accounting.event import (
    AcceptBit,
    Approximation,
    Event,
    NonPrivate,
    RatioApproximation,
    compose,
    counts,
)
from dpmcmc.accounting.parallel import Parallel, dearest
from dpmcmc.errors import UnsupportedEvent

TIGHT = "tight"
APPROXIMATIONS = (Approximation, RatioApproximation)
"""Events that say how far a sampler is from the law that the others describe."""

_LARGEST_EXPONENT = 700.0
_Bound = TypeVar("_Bound", bound=float)


class Bound(float):
    """A number with the name of the accountant that gave it; otherwise an ordinary float."""

    accountant: str

    def __new__(cls, value: float, accountant: str) -> "Bound":
        """Attach the accountant's name to the number."""
        bound = super().__new__(cls, value)
        bound.accountant = accountant
        return bound

    def __reduce__(self) -> tuple[type["Bound"], tuple[float, str]]:
        return Bound, (float(self), self.accountant)


class PrivacyCurve(Protocol):
    """The privacy curve delta(epsilon) of an event, as an accountant bounds it."""

    def log_delta(self, epsilon: float) -> float:
        """Return a bound on log delta(epsilon)."""
        ...

    def epsilon(self, delta: float) -> float:
        """Return a bound on the smallest epsilon with delta(epsilon) <= `delta`."""
        ...


@dataclass(frozen=True)
class _Largest:
    """The largest of several curves, at every point: that of a `Parallel`, whose cells have the given ones."""

    curves: tuple[PrivacyCurve, ...]

    def log_delta(self, epsilon: float) -> float:
        return _largest(curve.log_delta(epsilon) for curve in self.curves)

    def epsilon(self, delta: float) -> float:
        return _largest(curve.epsilon(delta) for curve in self.curves)


def _by_cell(accountant: Callable[[Event], PrivacyCurve | None]) -> Callable[[Event], PrivacyCurve | None]:
    """Let an accountant treat `Parallel` as well: by each of its cells, or not at all."""

    def curve(event: Event) -> PrivacyCurve | None:
        if not event.outermost:
            return accountant(event)
        found = [accountant(case) if case.held else gaussian.GaussianCurve(0.0) for case in dearest(event)]
        able = tuple(one for one in found if one is not None)
        return _Largest(able) if len(able) == len(found) else None

    return curve


def _pld_curve(event: Event) -> PrivacyCurve | None:
    from dpmcmc.accounting import pld  # it loads dp-accounting, which Gaussian releases do without

    return pld.curve(event)


ACCOUNTANTS: Mapping[str, Callable[[Event], PrivacyCurve | None]] = {
    "exact": _by_cell(gaussian.curve),
    "zcdp": _by_cell(zcdp.curve),
    "rdp": _by_cell(rdp.curve),
    "pld": _by_cell(_pld_curve),
    "moments": _by_cell(published.moments),
    "barker_2019": _by_cell(published.barker_2019),
}
"""Every accountant: a function from an event to its curve, or to None where it has no bound."""


def log_delta(event: Event, epsilon: float, accountant: str = TIGHT) -> Bound:
    """Return a bound on log delta(epsilon); it reaches far below the smallest positive float.

    Args:
        event: what was released.
        epsilon: at least 0.
        accountant: "tight", or one of `ACCOUNTANTS`.
    """
    epsilon = validation.non_negative("epsilon", epsilon)
    _check(event, accountant)
    if event.outermost:
        return _largest(log_delta(case, epsilon, accountant) for case in dearest(event))
    private, slack = without_approximations(event)
    if private is None:
        return Bound(0.0, accountant)
    asked = _approximated(curves(private, accountant), slack.log_ratio)

    def ideal(at: float) -> Bound:
        return min(Bound(curve.log_delta(at), name) for name, curve in asked.items())

    def bound(at: float) -> Bound:
        best = ideal(at)
        return Bound(min(_log_sum(best, _log_slack(slack.total_variation, at)), 0.0), best.accountant)

    return min(bound(epsilon), bound(_where_slack_is_worth_it(ideal, epsilon, slack.total_variation)))


def delta(event: Event, epsilon: float, accountant: str = TIGHT) -> Bound:
    """Return a bound on the delta at `epsilon`.

    Args:
        event: what was released.
        epsilon: the epsilon, >= 0.
        accountant: "tight", the smallest bound of all that apply, or one of `ACCOUNTANTS`.
    """
    bound = log_delta(event, epsilon, accountant)
    return Bound(math.exp(bound), bound.accountant)


def epsilon(event: Event, delta: float, accountant: str = TIGHT) -> Bound:
    """Return a bound on the epsilon at which the event is (epsilon, delta)-private.

    Args:
        event: what was released.
        delta: strictly between 0 and 1.
        accountant: "tight", or one of `ACCOUNTANTS`.
    """
    delta = validation.probability("delta", delta)
    _check(event, accountant)
    if event.outermost:
        return _largest(epsilon(case, delta, accountant) for case in dearest(event))
    private, slack = without_approximations(event)
    if private is None:
        return Bound(math.inf, accountant)
    asked = _approximated(curves(private, accountant), slack.log_ratio)
    return min(Bound(_epsilon_with_slack(curve, delta, slack.total_variation), name) for name, curve in asked.items())


def curves(event: Event, accountant: str) -> dict[str, PrivacyCurve]:
    """Return the curves to evaluate: of the named accountant, or under "tight" of all that could be smallest."""
    if not event.held:
        return {"exact" if accountant == TIGHT else accountant: gaussian.GaussianCurve(0.0)}  # nothing was released
    if accountant != TIGHT:
        curve = ACCOUNTANTS[accountant](event)
        if curve is None:
            kinds = sorted(kind.__name__ for kind in event.held)
            able = [name for name, other in ACCOUNTANTS.items() if other(event) is not None]
            raise UnsupportedEvent(
                f"accountant={accountant!r} cannot bound {' + '.join(kinds)}; "
                f"use accountant='tight', or one of: {', '.join(able)}"
            )
        return {accountant: curve}
    exact = ACCOUNTANTS["exact"](event)
    if exact is not None and AcceptBit not in event.held:
        return {"exact": exact}  # nothing beats the exact curve of Gaussians
    # a hidden decision is a Gaussian release to the loss distributions, so "exact" stands in for them
    asked = {name: ACCOUNTANTS[name](event) for name in ("exact" if exact is not None else "pld", "rdp", "zcdp")}
    return {name: curve for name, curve in asked.items() if curve is not None}


def _check(event: Event, accountant: str) -> None:
    if not isinstance(event, Event):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        validation.refuse("event", event, "must be an Event")
    validation.choice("accountant", accountant, [TIGHT, *ACCOUNTANTS])


class Slack(NamedTuple):
    """Distance of all noise samplers together from their ideal distributions."""

    total_variation: float = 0.0
    log_ratio: float = 0.0


def without_approximations(event: Event) -> tuple[Event | None, Slack]:
    """Separate the samplers' distance from their ideal distributions; None if an exact value was released.

    In a `Parallel` each cell has its own distance, and the largest is returned.
    """
    if NonPrivate in event.held:
        return None, Slack()
    if event.held.isdisjoint(APPROXIMATIONS):
        return event, Slack()
    if isinstance(event, Parallel):
        found = {id(case): without_approximations(case) for case in event.cases}
        ideal = [(number, private) for number, case in enumerate(event.cells) if (private := found[id(case)][0])]
        largest = (max(values) for values in zip(*(slack for _, slack in found.values()), strict=True))
        return Parallel.of_cells(event.partitions, ideal), Slack(*largest)
    parts = counts(event)
    slack = Slack(
        math.fsum(n * part.total_variation for part, n in parts.items() if isinstance(part, Approximation)),
        math.fsum(n * part.log_ratio for part, n in parts.items() if isinstance(part, RatioApproximation)),
    )
    return compose(part * n for part, n in parts.items() if not isinstance(part, APPROXIMATIONS)), slack


@dataclass(frozen=True)
class _WithinRatio:
    """The curve of laws whose probabilities are within a factor e^log_ratio of those of another curve.

    Where those are (epsilon, delta), these are (epsilon + 2 log_ratio, e^log_ratio delta): one factor for each of the
    two neighbours, and the first one for delta. Below 2 log_ratio what exceeds epsilon is counted in delta.
    """

    curve: PrivacyCurve
    log_ratio: float

    def log_delta(self, epsilon: float) -> float:
        missing = 2 * self.log_ratio - epsilon
        bound = self.curve.log_delta(max(-missing, 0.0)) + self.log_ratio
        if missing <= 0:
            return min(bound, 0.0)
        more = missing if missing > _LARGEST_EXPONENT else math.log(math.expm1(missing))
        return min(_log_sum(bound, epsilon + more), 0.0)

    def epsilon(self, delta: float) -> float:
        within = delta * math.exp(-self.log_ratio)
        return self.curve.epsilon(within) + 2 * self.log_ratio if within else math.inf


def _approximated(asked: dict[str, PrivacyCurve], log_ratio: float) -> dict[str, PrivacyCurve]:
    return {name: _WithinRatio(curve, log_ratio) for name, curve in asked.items()} if log_ratio else asked


def _log_slack(slack: float, epsilon: float) -> float:
    """Return log(slack (1 + e^epsilon)): what a distance in total variation adds to delta."""
    return math.log(slack) + epsilon + math.log1p(math.exp(-epsilon)) if slack else -math.inf


def _where_slack_is_worth_it(ideal: Callable[[float], float], epsilon: float, slack: float) -> float:
    """Return the epsilon, at most the one given, at which to ask for delta(epsilon) + slack (1 + e^epsilon).

    A bound on delta at a smaller epsilon is one at every larger. The first term falls and the second rises, so where
    they meet their sum is within twice its smallest value.
    """

    def excess(at: float) -> float:
        return max(ideal(at), -1e9) - _log_slack(slack, at)

    if not slack or excess(epsilon) >= 0:
        return epsilon
    if excess(0.0) <= 0:
        return 0.0
    return float(optimize.brentq(excess, 0.0, epsilon, xtol=1e-9, rtol=1e-9))


def _epsilon_with_slack(curve: PrivacyCurve, delta: float, slack: float) -> float:
    """Return an epsilon with delta(epsilon) + slack (1 + e^epsilon) <= delta, found from below."""
    bound = _rounded_up(curve, delta)
    if not slack:
        return bound
    rounding = 1e-16
    while True:
        # a little room, so that two rounds suffice
        left = delta * (1 - rounding) - slack * (1 + 1.01 * math.exp(bound)) if bound < _LARGEST_EXPONENT else 0.0
        if left <= 0:
            return math.inf
        bound, rounding = max(_rounded_up(curve, left), bound), 2 * rounding
        if bound < _LARGEST_EXPONENT and math.exp(_log_sum(curve.log_delta(bound), _log_slack(slack, bound))) <= delta:
            return bound


def _rounded_up(curve: PrivacyCurve, delta: float) -> float:
    """Return the curve's epsilon, nudged up until its own delta there is within `delta`."""
    bound, step = curve.epsilon(delta), 1e-15
    while math.isfinite(bound) and math.exp(curve.log_delta(bound)) > delta:
        bound, step = bound * (1 + step) + 1e-300, 2 * step
    return bound


def _largest(bounds: Iterable[_Bound]) -> _Bound:
    """Return the largest; what is not a number counts as larger than any."""
    return max(bounds, key=lambda bound: (math.isnan(bound), bound))


def _log_sum(first: float, second: float) -> float:
    larger = max(first, second)
    return larger if larger == -math.inf else larger + math.log1p(math.exp(min(first, second) - larger))
