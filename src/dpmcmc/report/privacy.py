"""What a result costs in privacy, in words that need no mathematics."""

import math
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from dpmcmc.accounting import Certificate, delta
from dpmcmc.accounting.accountants import APPROXIMATIONS, without_approximations
from dpmcmc.accounting.event import (
    AcceptBit,
    Approximation,
    BarkerTest,
    Event,
    FixedBatchGaussian,
    Gaussian,
    LogisticBit,
    NonPrivate,
    PoissonGaussian,
    counts,
)
from dpmcmc.accounting.parallel import Parallel
from dpmcmc.accounting.selection import Selected
from dpmcmc.accounting.spherical_laplace import SphericalLaplace
from dpmcmc.schema import Schema

_KINDS: dict[type[Event], str] = {
    Gaussian: "a sum over all records, with Gaussian noise",
    SphericalLaplace: "a sum over all records, with spherical Laplace noise",
    AcceptBit: "an accept decision based on a noisy ratio that stayed hidden",
    LogisticBit: "an accept decision of a Barker test over all records",
    BarkerTest: "an accept decision of a Barker test on a secret batch",
    PoissonGaussian: "a sum over a secret batch chosen by independent coin tosses, with Gaussian noise",
    FixedBatchGaussian: "a sum over a secret batch of fixed size, with Gaussian noise",
    Selected: "only the best of a secret number of runs, each of them noisy",
    Approximation: "allowance for inexact noise sampling",
    NonPrivate: "something exact: no guarantee",
}


class Released(NamedTuple):
    """A kind of release: what it is in words, its numbers, and how often it was made."""

    words: str
    numbers: str
    times: int
    share: float = math.nan
    """Of the budget: of the sum of mean privacy losses, where every release has one."""


_STEPS = {
    "histograms_release": "histograms",
    "first_release": "information at the start",
    "pilot_release": "pilot steps",
    "refinement_release": "refinement",
    "refinement": "refinement",
    "final_release": "final scores",
    "other_release": "scores with other bounds, as a check",
    "residuals_release": "residuals, as a check",
}
"""What the releases of a fit are called on the page, by their names in the settings."""


def section(certificate: Certificate, settings: Mapping[str, Any], schema: Schema | None) -> dict[str, Any]:
    """Return what the page says of privacy: in plain words, what was released, and the ledger."""
    return {
        "plain_words": in_plain_words(certificate, whose_data(schema)),
        "released": released(certificate, _steps(settings.get("pilot", {}))),
        "ledger": ledger_rows(settings["ledger"]) if "ledger" in settings else [],
    }


def _steps(pilot: Mapping[str, Any]) -> dict[str, float]:
    """Return the noise multipliers of the steps of a fit by name."""
    noises = {name: re.search(r"noise_multiplier=([\d.e+-]+)", str(pilot.get(name, ""))) for name in _STEPS}
    return {_STEPS[name]: float(noise[1]) for name, noise in noises.items() if noise}


def released(certificate: Certificate, steps: dict[str, float] | None = None) -> list[Released]:
    """Return everything that was released, the most frequent first; where it was of cells, of which.

    `steps` has the noise multipliers of the steps of a fit by name.
    """
    event = certificate.event
    found = [("", counts(event))]
    if isinstance(event, Parallel):
        found = [(event.words(numbers), counts(inside)) for inside, numbers in event.groups]
    spent = sum(times * _loss(part) for part, times in found[0][1].items()) if len(found) == 1 else math.nan
    rows = [
        Released(_named(part, where, steps or {}), _numbers(part), times, times * _loss(part) / spent)
        for where, parts in found
        for part, times in parts.items()
        if not isinstance(part, APPROXIMATIONS)
    ]
    counted = max(
        (sum(times for part, times in parts.items() if isinstance(part, Approximation)) for _, parts in found),
        default=0,
    )
    if counted:
        room = without_approximations(certificate.event)[1]
        words = f"total variation {room.total_variation:.2g} and factor 1 + {math.expm1(room.log_ratio):.2g} in all"
        rows.append(Released(_KINDS[Approximation], words, counted))
    return sorted(rows, key=lambda row: (row.words == _KINDS[Approximation], -row.times))


def _in_words(event: Event, where: str) -> str:
    words = _KINDS.get(type(event), type(event).__name__)
    return f"{where}: {words.replace('all records', 'all records there')}" if where else words


def _named(event: Event, where: str, steps: dict[str, float]) -> str:
    """Say what was released; if the noise is that of a step of the fit, which step."""
    words = _in_words(event, where)
    if not isinstance(event, Gaussian):
        return words
    names = [name for name, noise in steps.items() if math.isclose(noise, event.noise_multiplier, rel_tol=1e-3)]
    return f"{'; '.join(names)}: {words}" if names else words


def _loss(event: Event) -> float:
    """Return the mean privacy loss of a release, where that is all there is to its price."""
    if isinstance(event, APPROXIMATIONS):
        return 0.0
    return 0.5 / event.noise_multiplier**2 if isinstance(event, Gaussian) else math.nan


def _numbers(event: Event) -> str:
    named = {name: value for name, value in event.to_dict().items() if isinstance(value, int | float)}
    return ", ".join(f"{name.replace('_', ' ')} {value:.5g}" for name, value in named.items())


def whose_data(schema: Schema | None) -> str:
    """Say what the guarantee protects, as far as the owner stated it."""
    if schema is None:
        return "any one record"
    if schema.person is None:
        return "any one person's data (one row of the table)"
    return f"any one person's data (all rows of theirs, of which {schema.max_rows_per_person} count)"


LARGEST_SMALL = 3.0
"""Up to this factor the page says that a result depends little on one person."""


def in_plain_words(certificate: Certificate, whose: str) -> list[str]:
    """Return the guarantee in a few sentences; every number in them follows from the certificate."""
    if not math.isfinite(certificate.epsilon):
        return []
    factor = math.exp(min(float(certificate.epsilon), 700.0))
    # the largest advantage in telling two neighbours apart is their total variation: delta at epsilon zero
    accuracy = 50 + 50 * float(delta(certificate.event, 0.0))
    little = f" So the result depends little on {whose.partition(' (')[0]}." if factor <= LARGEST_SMALL else ""
    return [
        f"Had {whose} been different, any result would have been at most {_up(factor)} times as likely or unlikely, "
        f"give or take {plain(certificate.delta)}.{little}",
        "Suppose that somebody knows everything about everyone else, and two candidates for the one record in "
        "question. Telling from this result which of the two was used, they are right in at most "
        f"{_up(accuracy)}\u00a0% of cases; a coin is right in 50\u00a0%.",
        "It does not promise that nothing is learned about a person: what the result teaches about everybody, it "
        "teaches about them too, whether they took part or not.",
    ]


def ledger_rows(ledger: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what the ledger says after the run."""
    charge = [("This run", f"{ledger['run']}, charged {_date(ledger['charged_at'])}")] if "run" in ledger else []
    return [
        ("Data set", f"{ledger['dataset']}, part of {ledger['part_of']}" if "part_of" in ledger else ledger["dataset"]),
        *charge,
        ("Budget for all time", f"epsilon {ledger['epsilon']:g} at delta {plain(ledger['delta'])}"),
        ("Spent so far (including this run)", f"epsilon {ledger['epsilon_spent']:.4g}"),
        ("Left", f"epsilon {ledger['epsilon_left']:.4g}"),
    ]


def _date(when: str) -> str:
    """Write a time of the ledger as people do."""
    return f"{datetime.fromisoformat(when):%-d %B %Y, %H:%M} UTC"


def plain(probability: float) -> str:
    """Write a small probability without an exponent, as far as that can be read."""
    return f"{probability:.9f}".rstrip("0") if probability >= 1e-8 else f"{probability:.3g}"


def _up(value: float) -> str:
    """Write a number in three digits, rounded up."""
    scale = 10.0 ** (2 - math.floor(math.log10(value)))
    return f"{math.ceil(value * scale * (1 - 1e-12)) / scale:.4g}"
