"""Long schedules made short: join what composes exactly, round what is nearly equal, always toward more loss."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from dpmcmc.accounting.event import AcceptBit, Event, FixedBatchGaussian, Gaussian, LogisticBit, PoissonGaussian

_MOST_DISTINCT = 256  # a schedule of more different steps than this is rounded
_ROUNDED_TO = 192


def shortened(parts: Mapping[Event, int]) -> dict[Event, int]:
    """Return parts that dominate the given ones: one Gaussian at most, and few distinct events of other kinds."""
    mean = math.fsum(times * part.gaussian_rho for part, times in parts.items())
    joined: dict[Event, int] = {Gaussian(1 / math.sqrt(2 * mean)): 1} if mean else {}
    rest = {part: times for part, times in parts.items() if not isinstance(part, Gaussian)}
    return joined | (_rounded(rest) if len(rest) > _MOST_DISTINCT else rest)


def hidden_as_gaussian(parts: Mapping[Event, int]) -> Counter[Event]:
    """Return the parts with every hidden decision replaced by the Gaussian release that it post-processes."""
    seen: Counter[Event] = Counter()
    for part, times in parts.items():
        seen[Gaussian(part.noise_multiplier) if isinstance(part, AcceptBit) else part] += times
    return seen


def _rounded(parts: Mapping[Event, int]) -> Counter[Event]:
    """Replace neighbours in a schedule by the least noisy of them: less noise at the same rate dominates.

    If a step of noise s costs c(s), cells cut at equal increments of the sum of sqrt(times * (c(s_i) - c(s_(i+1))))
    over the sorted schedule lose the least in total for their number.
    """
    rounded: Counter[Event] = Counter({part: times for part, times in parts.items() if _noise(part) is None})
    noisy = sorted(
        ((noise, part, times) for part, times in parts.items() if (noise := _noise(part)) is not None),
        key=lambda item: item[0],
    )
    costs = [_cost(noise, part) for noise, part, _ in noisy]
    widths = [math.sqrt(noisy[i][2] * abs(costs[i] - costs[i + 1])) for i in range(len(noisy) - 1)]
    total = math.fsum(widths)
    least: dict[tuple[Event, int], float] = {}
    passed = 0.0
    for (noise, part, times), width in zip(noisy, [*widths, 0.0], strict=False):  # none of either, perhaps
        cell = (_with_noise(part, 1.0), math.floor(_ROUNDED_TO * passed / total) if total else 0)
        rounded[_with_noise(part, least.setdefault(cell, noise))] += times
        passed += width
    return rounded


def _noise(part: Event) -> float | None:
    match part:
        case AcceptBit(noise_multiplier=noise) | FixedBatchGaussian(noise_multiplier=noise):
            return noise
        case PoissonGaussian(noise_over_clip=noise):
            return noise
        case LogisticBit(sensitivity=sensitivity):
            return 1 / sensitivity
        case _:
            return None


def _cost(noise: float, part: Event) -> float:
    """Return about the mean privacy loss of one step; it only steers the rounding."""
    match part:
        case PoissonGaussian(rate=rate):
            pass
        case FixedBatchGaussian(batch_size=batch_size, population=population):
            rate = batch_size / population
        case _:
            rate = 1.0
    return min(rate**2 * math.expm1(min(noise**-2, 50.0)), rate / (2 * noise**2))


def _with_noise(part: Event, noise: float) -> Event:
    match part:
        case AcceptBit() | FixedBatchGaussian():
            return replace(part, noise_multiplier=noise)
        case PoissonGaussian():
            return replace(part, noise_over_clip=noise)
        case LogisticBit():
            return LogisticBit(1 / noise)
        case _:
            return part
