"""A certificate, computed again: is everything in it what its event gives, and which interval holds each number?

Two things are checked. *Consistency*: a certificate of the same event, adjacency and delta is made again by the
library, and everything that follows from them must agree, in words to the letter and in numbers to a relative 1e-9.
*Enclosures*: every number is computed in ball arithmetic, by code that shares no function with the accountants, and
none may be stated below the interval that holds it. What cannot be told from the file alone is a consistent change of
all of it: hold it against the ledger for that.
"""

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dpmcmc.accounting import accountants, documents
from dpmcmc.accounting.certificate import DIGEST, Certificate, digest
from dpmcmc.accounting.event import Event
from dpmcmc.accounting.parallel import dearest
from dpmcmc.errors import InvalidArgument
from dpmcmc.verification import curves, work
from dpmcmc.verification.balls import BITS, Ball, ball, ends, largest, least, precision

WIDTH = 1e-6
"""How wide an enclosure may be, relative to its number where that is above one."""

ENCLOSED = frozenset(
    [
        "AcceptBit",
        "BarkerTest",
        "FixedBatchGaussian",
        "Gaussian",
        "LogisticBit",
        "PoissonGaussian",
        "RatioApproximation",
        "Selected",
        "SphericalLaplace",
    ]
)
"""The kinds of events that have enclosures."""

_SAME = 1e-9
_BELOW = (
    1e-6  # what a number may lie below its enclosure, as `Certificate.from_json` allows: printed figures are rounded
)
_PLACE = 1e-8
"""How near to each other the accountant and this module find the place from which samplers' distances weigh more."""
_FAR = 1e6
"""An epsilon beyond which none is looked for."""
_LARGEST_EXPONENT = 700.0
_FIRST_OF_FORMAT = {1: (0, 0), 2: (0, 2), 3: (0, 3)}
"""The versions that were the first to write each format."""
_VERSION = r"([0-9]{1,4})\.([0-9]{1,4})(\.[0-9]{1,4})?((a|b|rc|\.post|\.dev)[0-9]{1,9})*(\+[a-z0-9.]{1,40})?"
_FREE = frozenset({"library_version", "paths", "device", "assumptions", "unit"})
"""Statements that follow from nothing else in a certificate."""


Interval = tuple[float, float]
"""The lower and the upper end."""


@dataclass(frozen=True)
class Figure:
    """A number of a certificate, as it is stated, and an interval that is proved to hold its true value."""

    name: str
    stated: float | None
    lower: float
    upper: float

    @property
    def is_sharp(self) -> bool:
        """Whether the interval is as narrow as promised."""
        return self.lower == self.upper or self.upper - self.lower <= WIDTH * max(1.0, abs(self.upper))

    @property
    def is_too_low(self) -> bool:
        """Whether less is stated than the number surely is."""
        return self.stated is not None and self.stated < self.lower - _BELOW * abs(self.lower)


@dataclass(frozen=True)
class Verified:
    """A certificate that was found consistent, with the enclosures of its numbers."""

    certificate: Certificate
    figures: tuple[Figure, ...]
    event_hash: str
    """SHA-256 of the event, as a ledger stores it."""


def verify(document: str) -> Verified:
    """Compute every number of a certificate again, and refuse one in which anything does not agree.

    Raises:
        InvalidArgument: what is inconsistent, in words.
    """
    work.check_size(document)
    plain = documents.read_json(document, "the certificate")
    if isinstance(plain, dict):
        work.check(plain.get("event"), plain.get("delta"))
    certificate = Certificate.from_json(document)
    check_consistent(plain, certificate)
    with precision(BITS):
        figures = tuple(_figures(certificate))
    for figure in figures:
        if figure.is_too_low:
            raise InvalidArgument(f"{figure.name} is stated as {figure.stated!r}, but is at least {figure.lower!r}")
    return Verified(certificate, figures, event_hash(certificate.event))


def event_hash(event: Event) -> str:
    """Return the SHA-256 of an event, as it is written into a ledger."""
    return hashlib.sha256(event.to_json().encode()).hexdigest()


def check_consistent(stated: Mapping[str, Any], certificate: Certificate) -> None:
    """Refuse a certificate with an entry that is missing, is not known, or is not what its event gives."""
    made = json.loads(certificate.to_json())  # as it is written
    _check_format(certificate)
    old = {"format", "paths", "device", "unit"} if certificate.format == 1 else set[str]()
    if missing := set(made) - set(stated) - old:
        raise InvalidArgument(f"the certificate lacks {', '.join(sorted(missing))}")
    if unknown := set(stated) - set(made):
        raise InvalidArgument(
            f"the certificate has entries that no certificate has: {', '.join(map(_shown, sorted(unknown)))}"
        )
    for name, value in stated.items():
        if name not in _FREE and name != DIGEST and not _agree(value, made[name]):
            raise InvalidArgument(
                f"{name} of the certificate is not what its event gives: {_shown(value)} is stated, and it is "
                f"{_shown(made[name])}; the file was changed after it was written"
            )
    if DIGEST in made and stated[DIGEST] != digest(stated):
        raise InvalidArgument(
            f"{DIGEST} of the certificate is not that of its other entries, although its numbers follow from them: "
            "the file was changed after it was written"
        )


def _check_format(certificate: Certificate) -> None:
    """Refuse a format that the version which is named did not write."""
    named = re.fullmatch(_VERSION, certificate.library_version)
    if named is None:
        raise InvalidArgument(f"library_version={_shown(certificate.library_version)} is no version, as 0.3.0 is")
    version = int(named[1]), int(named[2])
    wrote = max(number for number, first in _FIRST_OF_FORMAT.items() if version >= first)
    if certificate.format != wrote:
        raise InvalidArgument(
            f"format={certificate.format} is not what version {certificate.library_version} wrote, which is {wrote}; "
            "the file was changed after it was written"
        )


def _agree(stated: Any, made: Any) -> bool:
    if isinstance(made, bool) or isinstance(stated, bool):
        return stated is made
    if isinstance(made, int | float) and isinstance(stated, int | float):
        return _is_close(stated, made)
    if isinstance(made, dict) and isinstance(stated, dict):
        return set(made) == set(stated) and all(_agree(stated[name], made[name]) for name in made)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(made, list) and isinstance(stated, list):
        return len(made) == len(stated) and all(map(_agree, stated, made))  # pyright: ignore[reportUnknownArgumentType]
    return type(stated) is type(made) and stated == made


def _is_close(stated: float, made: float) -> bool:
    try:
        return math.isclose(stated, made, rel_tol=_SAME, abs_tol=0.0)
    except OverflowError:  # a whole number that no float can hold
        return stated == made


def _shown(value: Any) -> str:
    words = repr(value)
    return words if len(words) <= 120 else f"{words[:100]}... (and {len(words) - 100} characters)"


def _figures(certificate: Certificate) -> Iterable[Figure]:
    """Yield every number of a certificate with its enclosure."""
    claimed = float(certificate.epsilon)
    private, _ = accountants.without_approximations(certificate.event)
    if private is None or not math.isfinite(claimed):
        yield Figure(f"epsilon at delta {certificate.delta:g}", claimed, math.inf, math.inf)
        return
    cases = [_Case.of(case, certificate.delta) for case in dearest(certificate.event)]
    for case in cases:
        yield from case.parameters()
    bounds = [case.epsilon(certificate.delta, claimed) for case in cases]
    for case, found in zip(cases, bounds, strict=True):
        for accountant, value in found.items():
            yield Figure(f"epsilon at delta {certificate.delta:g}, {accountant}{case.words}", None, *value)
    tight = [tuple(map(min, zip(*found.values(), strict=True))) for found in bounds]
    whole = max(low for low, _ in tight), max(high for _, high in tight)
    yield Figure(f"epsilon at delta {certificate.delta:g}", claimed, *whole)
    yield from _words(certificate, whole)
    for epsilon, delta in certificate.curve:
        value = largest([case.delta(epsilon) for case in cases])
        lower, upper = ends(value)
        yield Figure(f"delta at epsilon {epsilon:g}", delta, max(lower, 0.0), min(upper, 1.0))


def _words(certificate: Certificate, epsilon: Interval) -> Iterable[Figure]:
    """Yield the numbers of the statement, which are rounded up."""
    printed = re.match(r"\(([^,]+),", certificate.statement)
    if printed:
        yield Figure("epsilon in the statement", float(printed[1]), *epsilon)
    factor = re.search(r"e\^epsilon = (\S+)", certificate.statement)
    if factor:
        low, high = (ends(ball(end).exp()) for end in epsilon)
        yield Figure("e^epsilon in the statement", float(factor[1]), low[0], high[1])


def _figure(name: str, stated: float | None, value: Ball) -> Figure:
    return Figure(name, stated, *ends(value))


@dataclass(frozen=True)
class _Case:
    """What may concern one neighbour: its curves, and how far the samplers are from them."""

    slack: accountants.Slack
    ideal: tuple[curves.Named, ...]
    words: str

    @classmethod
    def of(cls, event: Event, delta: float) -> "_Case":
        private, slack = accountants.without_approximations(event)
        if private is None:
            raise InvalidArgument("the event holds an exact release, and the certificate a finite epsilon")
        if unknown := {kind.__name__ for kind in private.held} - ENCLOSED:
            raise InvalidArgument(f"{', '.join(sorted(unknown))} cannot be enclosed in ball arithmetic yet")
        return cls(slack, tuple(curves.asked(private, delta)), "")

    def parameters(self) -> Iterable[Figure]:
        for one in self.ideal:
            for name, value in one.parameters.items():
                yield _figure(name, None, value)
        if self.slack.total_variation:
            yield _figure("total variation of the noise", None, ball(self.slack.total_variation))
        if self.slack.log_ratio:
            yield _figure("log ratio of the noise", None, ball(self.slack.log_ratio))

    def epsilon(self, delta: float, near: float) -> dict[str, Interval]:
        """Return, for each accountant, the smallest epsilon at which delta is met."""
        found = {one.accountant: curves.with_slack(one.delta, self.slack) for one in self.ideal}
        return {name: _root(curve, ball(delta), near) for name, curve in found.items()}

    def delta(self, epsilon: float) -> Ball:
        """Return the smallest delta at an epsilon, or at a smaller one where the slack weighs less."""
        found = [curves.with_slack(one.delta, self.slack) for one in self.ideal]

        def at(place: float) -> Ball:
            return least([curve(ball(place)) for curve in found]).min(ball(1))

        value = at(epsilon)
        return value if not self.slack.total_variation else value.min(self._at_lower_place(epsilon, at))

    def _at_lower_place(self, epsilon: float, at: Callable[[float], Ball]) -> Ball:
        """Return delta where what the samplers add is as much as the rest, at most at the epsilon given.

        The accountant searches for that place as well, and finds it to within `_PLACE`. Where the rest falls steeply,
        delta at two such places is not the same, so the ball holds delta at all of them.
        """
        ratio = accountants.Slack(0.0, self.slack.log_ratio)
        curves_of_rest = [curves.with_slack(one.delta, ratio) for one in self.ideal]

        def rest(place: float) -> Ball:
            return least([curve(ball(place)) for curve in curves_of_rest])

        def added(place: float) -> Ball:
            return ball(self.slack.total_variation) * (1 + ball(place).exp())

        def weighs_more(place: float) -> bool:
            return bool(rest(place) < added(place))

        low, high = 0.0, epsilon
        if not weighs_more(high) or weighs_more(low):
            return at(high if not weighs_more(high) else low)
        while high - low > 1e-10 * (1 + high):
            middle = (low + high) / 2
            low, high = (low, middle) if weighs_more(middle) else (middle, high)
        room = _PLACE * (1 + high)
        return at(high).union(rest(min(high + room, epsilon)) + added(max(low - room, 0.0))).min(ball(1))


def _root(curve: curves.Curve, delta: Ball, near: float) -> Interval:
    """Return an interval that holds the smallest epsilon at which a curve meets delta: near a guess, then wider.

    It has no end where none is found: the curve is too rough to tell, or lifted by samplers' distances.
    """

    def is_above(epsilon: float) -> bool | None:
        value = curve(ball(epsilon))
        return True if value > delta else False if value <= delta else None

    if is_above(0.0) is False:
        return 0.0, 0.0
    wide = WIDTH * (1.0 if near < _LARGEST_EXPONENT else near)  # e^epsilon is stated too
    step = wide / 10
    low, high = max(near - step, 0.0), near + step
    while low > 0 and is_above(low) is not True:
        low, step = max(low - step, 0.0), 2 * step
    while is_above(high) is not False:
        if high > _FAR:
            return low, math.inf
        high, step = high + step, 2 * step
    while high - low > wide / 4:
        middle = (low + high) / 2
        above = is_above(middle)
        if above is None:
            break
        low, high = (middle, high) if above else (low, middle)
    return low, high
