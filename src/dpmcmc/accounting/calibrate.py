"""Planning within a budget: number of steps, noise multiplier, shares of several releases.

All three are exact with respect to the accountants: the plan fits, and one more step, or a little less noise, would
not.
"""

import math
from collections.abc import Callable, Mapping
from functools import cache

from scipy import optimize

from dpmcmc import validation
from dpmcmc.accounting import gaussian
from dpmcmc.accounting.accountants import TIGHT, curves, log_delta, without_approximations
from dpmcmc.accounting.budget import Budget
from dpmcmc.accounting.event import Event, Gaussian, compose
from dpmcmc.accounting.parallel import pairs
from dpmcmc.errors import BudgetUnreachable, InvalidArgument

_LARGEST_LOG_NOISE = math.log(1e12)
_LARGEST_COUNT = 10**15


def max_steps(per_step: Event, epsilon: float, delta: float, once: Event | None = None, accountant: str = TIGHT) -> int:
    """Return the largest number of steps k for which ``per_step * k + once`` stays within (epsilon, delta).

    Args:
        per_step: the event of one step.
        epsilon: at least 0.
        delta: strictly between 0 and 1.
        once: the event of everything that is released once, whatever the number of steps.
        accountant: "tight", or one of `ACCOUNTANTS`.
    """
    budget = Budget(epsilon, delta)
    if not per_step.held:
        raise InvalidArgument(f"per_step={per_step!r} must release something: any number of empty steps fits")
    base = once if once is not None else compose([])
    if per_step.outermost or base.outermost:  # what fits in every cell
        cells = pairs(per_step, base)
        if any(_excess(idle, budget, accountant) > 0 for step, idle in cells if not step.held):
            return 0
        return min(max_steps(step, epsilon, delta, own, accountant) for step, own in cells if step.held)
    private, _ = without_approximations(per_step + base)
    if private is None or _excess(base, budget, accountant) > 0:
        return 0
    # the best accountant at the boundary allows the most steps, so each is searched alone, on its own smooth curve
    return max(_largest_count(per_step, base, budget, name) for name in curves(private, accountant))


def noise_for(make_event: Callable[[float], Event], epsilon: float, delta: float, accountant: str = TIGHT) -> float:
    """Return the smallest noise multiplier whose event is within (epsilon, delta), to a relative 1e-9, rounded up.

    Args:
        make_event: a function from a noise multiplier to the event; more noise must cost less.
        epsilon: at least 0.
        delta: strictly between 0 and 1.
        accountant: "tight", or one of `ACCOUNTANTS`.

    Raises:
        BudgetUnreachable: if no noise up to 1e12 is enough.
    """
    budget = Budget(epsilon, delta)

    @cache
    def excess(log_noise: float) -> float:
        return _excess(make_event(math.exp(log_noise)), budget, accountant)

    low = high = 0.0
    while excess(high) > 0:
        low, high = high, high + 2.0
        if high > _LARGEST_LOG_NOISE:
            raise BudgetUnreachable(f"no noise up to 1e12 keeps the event within {budget}; ask for a larger epsilon")
    while excess(low) <= 0:
        low, high = low - 2.0, low
        if low < -_LARGEST_LOG_NOISE:
            raise BudgetUnreachable(f"any noise keeps the event within {budget}: it does not depend on its noise")
    root, step = float(optimize.brentq(excess, low, high, xtol=1e-10, rtol=1e-10)), 1e-10
    while excess(root) > -1e-12:  # a margin, so that the rounding of epsilon and exp does not cross the boundary
        root, step = root + step, 2 * step
    return math.exp(root)


def split(budget: Budget, shares: Mapping[str, float]) -> dict[str, Gaussian]:
    """Divide a budget between Gaussian releases whose composition spends exactly the budget.

    Args:
        budget: the budget of all releases together.
        shares: name to weight; a release with twice the weight gets twice the squared signal-to-noise ratio.

    Returns:
        For each name the Gaussian event of its share. ``Gaussian(z * sqrt(k)) * k`` spends the share of ``Gaussian(z)``
        in k steps.
    """
    if not shares:
        raise InvalidArgument("shares={} must name at least one share")
    weights = {name: validation.positive(f"shares[{name!r}]", weight) for name, weight in shares.items()}
    total = math.fsum(weights.values())
    mean = gaussian.mean_for(budget.epsilon, budget.delta)
    if not mean:
        raise BudgetUnreachable(f"{budget} is too small for any Gaussian release; ask for a larger epsilon or delta")
    # a few units in the last place, so that the composed sum does not round across the boundary
    noises = {name: math.sqrt(total / (2 * mean * weight)) * (1 + 1e-14) for name, weight in weights.items()}
    return {name: Gaussian(noise) for name, noise in noises.items()}


def _excess(event: Event, budget: Budget, accountant: str) -> float:
    """Return log delta above the budget's: the event fits where this is not positive."""
    return log_delta(event, budget.epsilon, accountant) - math.log(budget.delta)


def _largest_count(per_step: Event, base: Event, budget: Budget, accountant: str) -> int:
    """Return the largest count that fits: doubling, then Brent's method on the excess, then a check of both sides."""

    @cache
    def excess(count: int) -> float:
        return _excess(per_step * count + base, budget, accountant)

    high = 1
    while excess(high) <= 0:
        high *= 2
        if high > _LARGEST_COUNT:
            raise BudgetUnreachable(
                f"more than 1e15 steps fit within {budget}: the steps cost too little to be measured"
            )
    if high == 1:
        return 0
    count = math.floor(optimize.brentq(lambda value: excess(math.floor(value)), high // 2, high, xtol=0.5))
    while excess(count) > 0:
        count -= 1
    while excess(count + 1) <= 0:
        count += 1
    return count
