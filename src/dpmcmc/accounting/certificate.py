"""What a result may claim.

A certificate holds the event that was paid for, so that anyone can compute its cost again; epsilon and the curve in it
are that computation, not an assertion.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from typing import Any, cast

from dpmcmc import validation
from dpmcmc.accounting import accountants
from dpmcmc.accounting.adjacency import Adjacency
from dpmcmc.accounting.documents import read_json
from dpmcmc.accounting.event import (
    AcceptBit,
    Approximation,
    BarkerTest,
    Event,
    FixedBatchGaussian,
    LogisticBit,
    NonPrivate,
    PoissonGaussian,
    RatioApproximation,
    counts,
)
from dpmcmc.accounting.parallel import Parallel
from dpmcmc.accounting.selection import Selected
from dpmcmc.errors import AdjacencyMismatch, InvalidArgument
from dpmcmc.html import card

_LARGEST_EXPONENT = 700.0
_CURVE_EPSILONS = (0.0, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 15.0)

_ALWAYS = (
    "the noise was drawn from a secret, unpredictable source of which nothing is kept",
    "no result computed from the records was shown to anyone except what the event lists",
    "settings were chosen without looking at the records, or what was looked at is in the event",
)
_BY_KIND: Mapping[type[Event], str] = {
    PoissonGaussian: "every batch was formed by independent coin tosses, one per {unit}, and its size stayed secret",
    FixedBatchGaussian: "every batch was drawn uniformly without replacement, and its members stayed secret",
    BarkerTest: "every batch was drawn uniformly without replacement, and its members stayed secret",
    AcceptBit: "only the decisions of the accept tests were shown, not the noisy ratios or acceptance probabilities",
    LogisticBit: "only the decisions of the Barker tests were shown, not the log-ratios or acceptance probabilities",
    Selected: "the number of runs, and the time that they took, stayed secret, and only the best run was shown",
    Parallel: "every {unit} has one place, whatever the others are; cells are public, and each release from one was "
    "computed from its own places and earlier releases",
    Approximation: "noise is within the stated total variation of its target distribution, counted in delta",
    RatioApproximation: "noise is within the stated factor of its target probabilities, counted in epsilon",
}
_MEANING = {
    Adjacency.REPLACE_ONE: "any one {unit} is replaced by another",
    Adjacency.ADD_OR_REMOVE_ONE: "any one {unit} is added or removed",
}

FORMAT = 3
"""The format of the certificates that are written. Format 1, of version 0.1, has no paths and no device; format 2, of
version 0.2, has no digest."""

DIGEST = "sha256"
"""The entry with the digest of all others."""

_ADVISORY_OF_FORMAT_1 = (
    "made by version 0.1, in which the clip of one record was not enforced on every machine, and, where a record or a "
    "person may be missing, others could be moved by it: the stated epsilon may be too small. SECURITY.md says which "
    "results are concerned. What was spent stays spent"
)

RECORD = "record"
"""What a guarantee speaks of unless something else is stated."""


@dataclass(frozen=True, repr=False)
class Certificate:
    """The privacy statement of a result.

    Attributes:
        event: everything that was released.
        adjacency: the relation under which the event holds.
        delta: the delta at which epsilon is stated.
        assumptions: further conditions in words, in addition to those that follow from the event.
        library_version: the version that made the certificate.
        unit: what is protected, that is, what two neighbouring data sets differ in: a record, or a person with
            all their rows.
        format: the version of the file format.
        paths: how the sums over records were computed, if not by the reference path.
        device: the hardware that computed it, in words; empty if not stated.
    """

    event: Event
    adjacency: Adjacency
    delta: float
    assumptions: tuple[str, ...] = ()
    library_version: str = version("dpmcmc")
    unit: str = RECORD
    format: int = FORMAT
    paths: tuple[str, ...] = ()
    device: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", Adjacency.parse("adjacency", self.adjacency))
        object.__setattr__(self, "delta", validation.probability("delta", self.delta))
        for name in ("assumptions", "paths"):
            object.__setattr__(self, name, tuple(_line(name, item) for item in getattr(self, name)))
        for name in ("unit", "library_version"):
            object.__setattr__(self, name, _line(name, getattr(self, name)))
        if validation.integer("format", self.format, at_least=1) > FORMAT:
            validation.refuse(
                "format", self.format, f"must be <= {FORMAT}: install the dpmcmc that wrote it, or a newer one"
            )
        if self.device != "":
            object.__setattr__(self, "device", _line("device", self.device))
        required = self.event.required_adjacency
        if required not in (None, self.adjacency):
            raise AdjacencyMismatch(
                f"the event holds under {required} and cannot be certified under {self.adjacency}; "
                f"state adjacency={required.value!r} or build the event under {self.adjacency}"
            )

    @cached_property
    def epsilon(self) -> accountants.Bound:
        """Epsilon at the certificate's delta, with the accountant that gave it."""
        return accountants.epsilon(self.event, self.delta)

    @cached_property
    def curve(self) -> tuple[tuple[float, float], ...]:
        """Pairs (epsilon, delta), all of which hold at once."""
        return tuple((value, float(accountants.delta(self.event, value))) for value in _CURVE_EPSILONS)

    @property
    def holds_if(self) -> tuple[str, ...]:
        """All assumptions, in words."""
        implied = dict.fromkeys(words for kind, words in _BY_KIND.items() if kind in self.event.held)
        return (*_ALWAYS, *(words.format(unit=self.unit) for words in implied), *self.assumptions)

    @property
    def advisory(self) -> str:
        """Known problems of the version that wrote it which weaken its claim, in words; empty if there are none.

        The format identifies the version: 0.2 was the first to write format 2.
        """
        return _ADVISORY_OF_FORMAT_1 if self.format < 2 and math.isfinite(self.epsilon) else ""

    @property
    def statement(self) -> str:
        """The guarantee in one sentence."""
        if NonPrivate in self.event.held:
            return "No privacy guarantee: exact functions of the records were released (epsilon = infinity)."
        if not math.isfinite(self.epsilon):
            return f"No privacy guarantee at delta = {self.delta:g} ({self.adjacency.words} adjacency)."
        change = _MEANING[self.adjacency].format(unit=self.unit)
        return (
            f"({_up(self.epsilon)}, {self.delta:g})-differentially private: if {change}, the "
            f"probability of any result changes by a factor of at most e^epsilon{self._factor} "
            f"and by delta = {self.delta:g} ({self.adjacency.words} adjacency)."
        )

    @property
    def claim(self) -> str:
        """The guarantee in a few words, where a sentence would be too long."""
        if NonPrivate in self.event.held or not math.isfinite(self.epsilon):
            return self.statement
        change = _MEANING[self.adjacency].format(unit=self.unit)
        return f"({_up(self.epsilon)}, {self.delta:g})-differentially private if {change}"

    def __repr__(self) -> str:
        parts = sum(counts(self.event).values())
        return (
            f"Certificate: {self.claim}\n{parts:,} releases; print() shows them all, `statement` says it in a sentence"
        )

    def _repr_html_(self) -> str:
        """Show it in a notebook."""
        rows = [
            ("epsilon", f"{_up(self.epsilon)} ({self.epsilon.accountant} accountant)"),
            ("delta", f"{self.delta:g}"),
            ("protects", f"every {self.unit}, {self.adjacency.words} adjacency"),
            ("holds if", "; ".join(self.holds_if)),
            ("made by", f"dpmcmc {self.library_version}"),
            *([("advisory", self.advisory)] if self.advisory else []),
        ]
        return card("Privacy certificate", rows, notes=[self.statement])

    @property
    def _factor(self) -> str:
        return f" = {_up(math.exp(self.epsilon))}" if self.epsilon < _LARGEST_EXPONENT else ""

    def to_dict(self) -> dict[str, Any]:
        """Return the certificate as plain values, ready for JSON; infinity is written as the text "infinity"."""
        plain: dict[str, Any] = {
            "format": self.format,
            "statement": self.statement,
            "epsilon": float(self.epsilon) if math.isfinite(self.epsilon) else "infinity",
            "delta": self.delta,
            "adjacency": self.adjacency.value,
            "unit": self.unit,
            "accountant": self.epsilon.accountant,
            "curve": [{"epsilon": epsilon, "delta": delta} for epsilon, delta in self.curve],
            "event": self.event.to_dict(),
            "holds_if": list(self.holds_if),
            "assumptions": list(self.assumptions),
            "paths": list(self.paths),
            "device": self.device,
            "library_version": self.library_version,
        }
        return plain if self.format < FORMAT else {**plain, DIGEST: digest(plain)}

    def to_json(self) -> str:
        """Return the certificate as JSON text."""
        return json.dumps(self.to_dict(), indent=2)

    @classmethod
    def from_json(cls, document: str) -> "Certificate":
        """Read a certificate and check its epsilon by recomputing it from its event.

        Args:
            document: the text, as `to_json` writes it.

        Raises:
            InvalidArgument: if the text is no certificate, or claims less than its event costs.
        """
        plain = read_json(document, "the certificate")
        try:
            certificate = cls(
                event=Event.from_dict(plain["event"]),
                adjacency=plain["adjacency"],
                delta=plain["delta"],
                assumptions=_texts(plain["assumptions"]),
                library_version=plain["library_version"],
                unit=plain.get("unit", RECORD),
                format=plain.get("format", 1),
                paths=_texts(plain.get("paths", [])),
                device=plain.get("device", ""),
            )
            claimed = math.inf if plain["epsilon"] == "infinity" else validation.number("epsilon", plain["epsilon"])
        except (KeyError, TypeError, AttributeError) as error:
            raise InvalidArgument(f"the text is not a certificate: {type(error).__name__}: {error}") from error
        if claimed < certificate.epsilon * (1 - 1e-6):
            raise InvalidArgument(
                f"the certificate claims epsilon={claimed!r}, but its event costs {float(certificate.epsilon)!r}"
            )
        return certificate

    def __str__(self) -> str:
        rows = [
            ("epsilon", f"{_up(self.epsilon)} ({self.epsilon.accountant} accountant)"),
            ("delta", f"{self.delta:g}"),
            ("adjacency", self.adjacency.words),
            ("protects", f"every {self.unit}"),
            *_numbered("released", _released(self.event)),
            *_numbered("also holds", (f"epsilon {e:g} at delta {d:.2g}" for e, d in self.curve if 0 < d < 1)),
            *_numbered("holds if", self.holds_if),
            *_numbered("paths", self.paths),
            *([("device", self.device)] if self.device else []),
            ("made by", f"dpmcmc {self.library_version}"),
            *([("advisory", self.advisory)] if self.advisory else []),
        ]
        table = "\n".join(f"  {name:<11}{words}" for name, words in rows)
        return f"Privacy certificate\n{self.statement}\n\n{table}"


def digest(plain: Mapping[str, Any]) -> str:
    """Return the SHA-256 of all entries of a certificate but that of the digest itself.

    It is no signature: whoever changes a certificate can compute it anew. It holds together what is written, so that a
    change of an entry which no number shows, such as a cell that is not the most expensive, does not fit the rest.
    """
    held = {name: value for name, value in plain.items() if name != DIGEST}
    return hashlib.sha256(json.dumps(held, sort_keys=True).encode()).hexdigest()


def _line(name: str, value: object) -> str:
    """Return a text of one line, which can do nothing to where it is printed."""
    checked = validation.text(name, value)
    if not checked.isprintable():
        validation.refuse(name, value, "must be one line of printable characters")
    return checked


def _texts(items: Any) -> tuple[Any, ...]:
    """Return the items of a list, to be checked one by one; what is no list is no text either."""
    return tuple(cast(list[Any], items)) if isinstance(items, list) else (None,)


def _released(event: Event) -> list[str]:
    """Say what was released how often, and of which cells."""
    if isinstance(event, Parallel):
        cells = ((event.words(numbers), inside) for inside, numbers in event.groups)
        return [f"{where}: {words}" for where, inside in cells for words in _released(inside)]
    return [f"{times:,} x {part!r}" for part, times in counts(event).items()]


def _up(value: float) -> str:
    """Write a number in four digits, rounded up."""
    if not 0 < value < math.inf:
        return f"{value:g}"
    scale = 10.0 ** (3 - math.floor(math.log10(value)))
    return f"{math.ceil(value * scale * (1 - 1e-12)) / scale:.4g}"


def _numbered(name: str, items: Iterable[str]) -> list[tuple[str, str]]:
    return [(name if position == 0 else "", item) for position, item in enumerate(items)]
