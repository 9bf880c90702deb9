"""How long a certificate takes to price again and to enclose, guessed from its event before anything is computed.

Guesses are in CPU seconds of one core, and rather too high; `benchmarks/verification.py` compares them with what was
measured.
"""

import math
from collections.abc import Mapping
from typing import Any, cast

from dpmcmc.accounting import accountants, pld, schedule
from dpmcmc.accounting.event import (
    AcceptBit,
    BarkerTest,
    Event,
    FixedBatchGaussian,
    Gaussian,
    LogisticBit,
    PoissonGaussian,
    counts,
)
from dpmcmc.accounting.parallel import Parallel, dearest
from dpmcmc.accounting.selection import Selected
from dpmcmc.accounting.spherical_laplace import SphericalLaplace
from dpmcmc.errors import InvalidArgument
from dpmcmc.verification import losses

MOST_SECONDS = 20.0
"""What would take longer is refused."""

MOST_CHARACTERS = 4_000_000
"""Of a certificate; that of a fit has some thousands."""

_MOST_CASES = 1_000
"""Of cells with different events."""

_BY_ORDERS: dict[type[Event], float] = {
    AcceptBit: 0.03,
    BarkerTest: 0.25,
    FixedBatchGaussian: 0.015,
    LogisticBit: 0.02,
    PoissonGaussian: 0.015,
    SphericalLaplace: 0.1,
}
"""For the Renyi divergences of one event, at all orders, priced and enclosed."""

_BY_CELL: dict[type[Event], float] = {SphericalLaplace: 5e-4, LogisticBit: 3e-6}
_OF_PROFILE = 4e-6
"""For one value of a profile."""
_OF_PRODUCT = 3e-9
"""For one bit of a mass of a product."""
_OF_QUERY = 5e-7
"""For asking one mass at all points of the curve."""
_SEARCHED = 10
"""How many times that it takes where samplers' distances are searched for."""


def check_size(document: str) -> None:
    """Refuse a text that is far longer than any certificate."""
    if len(document) > MOST_CHARACTERS:
        raise InvalidArgument(
            f"the certificate has more than {MOST_CHARACTERS:,} characters, which are not read; "
            "that of a fit has some thousands"
        )


def check(event: object, delta: object) -> None:
    """Refuse an event that would take longer to check than is reasonable; both are as a file has them.

    What is no event, or no delta, is refused by whoever reads the certificate.
    """
    if not isinstance(event, Mapping) or not isinstance(delta, float) or not 0 < delta < 1:
        return
    made = Event.from_dict(cast(Mapping[str, Any], event))
    if len(made.cases) > _MOST_CASES:
        _refuse(f"its cells have {len(made.cases):,} different events, and at most {_MOST_CASES:,} are looked at")
    if (guess := seconds(made, delta)) > MOST_SECONDS:
        _refuse(f"that would take about {guess:,.0f} seconds, and the limit is {MOST_SECONDS:.0f}")


def _refuse(reason: str) -> None:
    raise InvalidArgument(
        f"the certificate is not checked: {reason}. Its event composes too many kinds of losses, or losses that are "
        "too far apart; nothing is said about whether its numbers are right"
    )


def seconds(event: Event, delta: float) -> float:
    """Return about how many seconds it takes to price an event and to enclose its price."""
    if isinstance(event, Parallel) and len(event.cases) > 1:
        return math.fsum(seconds(case, delta) for case in dearest(event))
    private, slack = accountants.without_approximations(event)
    if private is None:
        return 0.0
    parts = schedule.shortened(counts(private))
    found = 0.01 + by_orders(private)
    if not set(map(type, parts)) <= {Gaussian, AcceptBit}:
        found += by_losses(schedule.shortened(schedule.hidden_as_gaussian(counts(private))), delta, any(slack))
    return found


def by_orders(event: Event) -> float:
    """Return what the Renyi divergences of a composition take, those of the candidates of selections included."""
    total = 0.0
    for part in schedule.shortened(counts(event)):
        if isinstance(part, Selected):
            total += 0.02 + math.fsum(map(by_orders, part.candidates))
        else:
            total += _BY_ORDERS.get(type(part), 1e-3)
    return total


def by_losses(parts: Mapping[Event, int], delta: float, has_slack: bool) -> float:
    """Return what the composition of loss distributions takes; nothing if there is none."""
    if not parts or not set(map(type, parts)) <= pld.SUPPORTED or pld.is_hopeless(dict(parts)):
        return 0.0
    interval = pld.interval_of(dict(parts))
    cells = {part: pld.reach_of(part) / interval + 1 for part in parts}
    sides = 2 if any(isinstance(part, PoissonGaussian) for part in parts) else 1
    spread = math.sqrt(math.fsum(times * pld.deviation_of(part) ** 2 for part, times in parts.items()))
    whole = math.fsum(times * cells[part] for part, times in parts.items())
    length = min(whole, (spread**2 + 15 * spread) / interval + max(cells.values()))
    levels = max(parts.values()).bit_length()
    squares = levels + sum(times.bit_count() for times in set(parts.values())) / 2
    joined = math.log2(len(parts)) + 1
    bits = 60 + math.log2(whole) - math.log2(max(delta, losses.SMALLEST))
    profiles = math.fsum(_BY_CELL.get(type(part), _OF_PROFILE) * length for part, length in cells.items()) * bits / 100
    products = _OF_PRODUCT * bits * (squares * length + joined * sum(cells.values()))
    return profiles + sides * (products + _OF_QUERY * length * (_SEARCHED if has_slack else 1))
