"""Privacy events: descriptions of releases for the accountants.

An event says what a mechanism released, not what that costs: accountants turn events into (epsilon, delta). Events are
frozen, hashable and comparable; ``first + second`` and ``event * count`` compose them, and `Composed` keeps the sum in
one canonical form, so that composition is exactly associative and commutative.
"""

import json
import math
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from dataclasses import fields as fields_of
from functools import cache, cached_property
from importlib import import_module
from typing import Any, ClassVar, cast

from dpmcmc import validation
from dpmcmc.accounting import fields
from dpmcmc.accounting.adjacency import Adjacency
from dpmcmc.accounting.documents import check_levels, read_json
from dpmcmc.errors import AdjacencyMismatch, InvalidArgument

_ELSEWHERE = {"Parallel": "parallel", "Selected": "selection", "SphericalLaplace": "spherical_laplace"}  # modules


class Event:
    """Base of all events. A subclass is a frozen dataclass and is registered under its name."""

    kinds: ClassVar[dict[str, type["Event"]]] = {}
    outermost: ClassVar[bool] = False
    """Whether compositions stand inside it, and it in none: true of `Parallel` alone, whose `join` composes it."""

    def __init_subclass__(cls) -> None:
        if Event.kinds.setdefault(cls.__name__, cls) is not cls:
            raise TypeError(f"there is already a kind of event called {cls.__name__}: ledgers identify kinds by name")

    @property
    def required_adjacency(self) -> Adjacency | None:
        """The only adjacency under which the event is meant; None if it holds under whichever is stated."""
        return None

    @cached_property
    def held(self) -> frozenset[type["Event"]]:
        """The kinds of elementary events in this one."""
        return frozenset((type(self),))

    @property
    def cases(self) -> tuple["Event", ...]:
        """What may concern one neighbour; the most expensive counts: the event, or those of a `Parallel`'s cells."""
        return (self,)

    @cached_property
    def gaussian_rho(self) -> float:
        """The rho of zCDP of the Gaussians in this event: the sum of count / (2 noise_multiplier^2)."""
        return 0.0

    @property
    def order(self) -> tuple[Any, ...]:
        """By what it is sorted among other events."""
        return type(self).__name__, *(getattr(self, name) for name in _field_names(type(self)))

    def __add__(self, other: object) -> "Event":
        return compose((self, other)) if isinstance(other, Event) else NotImplemented

    def __mul__(self, count: object) -> "Event":
        repeats = validation.integer("count", count, at_least=0)
        return _canonical({part: repeats * times for part, times in counts(self).items()})

    __rmul__ = __mul__

    def to_dict(self) -> dict[str, Any]:
        """Return the event as plain values, ready for JSON."""
        plain = {name: getattr(self, name) for name in _field_names(type(self))}
        return {"kind": type(self).__name__, **plain}

    def to_json(self) -> str:
        """Return the event as JSON text; `Event.from_json` reads it back unchanged."""
        return json.dumps(self.to_dict(), sort_keys=True)

    @staticmethod
    def from_dict(plain: Mapping[str, Any]) -> "Event":
        """Build the event that `to_dict` described."""
        if not isinstance(plain, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # it comes from a file
            raise InvalidArgument("an event must be a JSON object with a 'kind'")
        check_levels(plain, "the event")
        kind = plain.get("kind")
        if isinstance(kind, str) and kind in _ELSEWHERE:
            import_module(f"dpmcmc.accounting.{_ELSEWHERE[kind]}")
        if not isinstance(kind, str) or kind not in Event.kinds:
            validation.refuse("kind", kind, f"must be one of {', '.join(sorted(Event.kinds))}")
        return Event.kinds[kind].from_fields({name: value for name, value in plain.items() if name != "kind"})

    @staticmethod
    def from_json(document: str) -> "Event":
        """Build the event that `to_json` wrote."""
        return Event.from_dict(read_json(document, "the event"))

    @classmethod
    def from_fields(cls, values: Mapping[str, Any]) -> "Event":
        """Build the event from its fields."""
        if set(values) != set(_field_names(cls)):
            raise InvalidArgument(f"{cls.__name__} has the fields {list(_field_names(cls))}, not {sorted(values)}")
        return cls(**values)

    def _set(self, **values: object) -> None:
        """Store validated field values during construction."""
        for name, value in values.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class Gaussian(Event):
    """A sum with Gaussian noise; `noise_multiplier` is the noise sd over the l2 sensitivity (stated adjacency)."""

    noise_multiplier: float

    def __post_init__(self) -> None:
        self._set(noise_multiplier=fields.noise("noise_multiplier", self.noise_multiplier))

    @cached_property
    def gaussian_rho(self) -> float:
        """The rho of zCDP, 1 / (2 noise_multiplier^2)."""
        return 0.5 / self.noise_multiplier**2


@dataclass(frozen=True)
class PoissonGaussian(Event):
    """A Gaussian sum over a Poisson sample: every record enters by its own coin of probability `rate`.

    `noise_over_clip` is the noise sd over the norm bound of *one* record under either adjacency (not over the
    sensitivity, which is twice the clip under replace-one).
    """

    rate: float
    noise_over_clip: float
    adjacency: Adjacency

    def __post_init__(self) -> None:
        self._set(
            rate=fields.rate("rate", self.rate),
            noise_over_clip=fields.noise("noise_over_clip", self.noise_over_clip),
            adjacency=Adjacency.parse("adjacency", self.adjacency),
        )

    @property
    def required_adjacency(self) -> Adjacency:
        """The adjacency that the event states."""
        return self.adjacency


@dataclass(frozen=True)
class FixedBatchGaussian(Event):
    """A Gaussian sum over `batch_size` of `population` records drawn without replacement; replace-one only.

    `noise_multiplier` is the noise sd over the l2 sensitivity of the batch sum when one record is replaced.
    """

    batch_size: int
    population: int
    noise_multiplier: float

    def __post_init__(self) -> None:
        self._set(
            **fields.batch(self.batch_size, self.population),
            noise_multiplier=fields.noise("noise_multiplier", self.noise_multiplier),
        )

    @property
    def required_adjacency(self) -> Adjacency:
        """Fixed batches hold under replace-one alone."""
        return Adjacency.REPLACE_ONE


@dataclass(frozen=True)
class AcceptBit(Event):
    """The decision of a penalty test whose noisy log-ratio stays hidden (noise sd over sensitivity)."""

    noise_multiplier: float

    def __post_init__(self) -> None:
        self._set(noise_multiplier=fields.noise("noise_multiplier", self.noise_multiplier))


@dataclass(frozen=True)
class LogisticBit(Event):
    """The decision of a full-data Barker test: a coin of probability S(lambda).

    `sensitivity` bounds how far one record moves lambda under the stated adjacency.
    """

    sensitivity: float

    def __post_init__(self) -> None:
        self._set(sensitivity=fields.noise("sensitivity", self.sensitivity))


@dataclass(frozen=True)
class BarkerTest(Event):
    """The decision of a Barker test on a batch drawn without replacement (Heikkilä et al. 2019); replace-one.

    The batch mean of the log-ratios r_i, with abs(r_i) <= sqrt(clip_fraction * batch_size) / population, gets noise of
    variance `variance` minus the batch variance: the paper has variance C = 2 and clip_fraction kappa = 1.
    """

    batch_size: int
    population: int
    variance: float
    clip_fraction: float

    def __post_init__(self) -> None:
        self._set(
            **fields.batch(self.batch_size, self.population),
            variance=fields.noise("variance", self.variance),
            clip_fraction=fields.noise("clip_fraction", self.clip_fraction),
        )
        if self.clip_fraction >= self.variance:
            validation.refuse("clip_fraction", self.clip_fraction, f"must be < variance={self.variance!r}")

    @property
    def required_adjacency(self) -> Adjacency:
        """Fixed batches hold under replace-one alone."""
        return Adjacency.REPLACE_ONE


@dataclass(frozen=True)
class Approximation(Event):
    """A noise sampler within `total_variation` of the distribution that the other events describe.

    Composed with events of cost delta(epsilon) it adds (1 + e^epsilon) * total_variation to delta.
    """

    total_variation: float

    def __post_init__(self) -> None:
        self._set(total_variation=validation.probability("total_variation", self.total_variation))


@dataclass(frozen=True)
class RatioApproximation(Event):
    """A sampler whose probabilities are within the factors e^-log_ratio and e^log_ratio of those described elsewhere.

    Composed with events of cost delta(epsilon) it makes that e^log_ratio * delta(epsilon - 2 log_ratio): unlike a total
    variation it weighs no more at a large epsilon than at a small one.
    """

    log_ratio: float

    def __post_init__(self) -> None:
        self._set(log_ratio=fields.noise("log_ratio", self.log_ratio))


@dataclass(frozen=True)
class NonPrivate(Event):
    """The release of an exact function of the data: epsilon is infinite."""


@dataclass(frozen=True, init=False, repr=False)
class Composed(Event):
    """A multiset of events. Built by ``+``, ``*`` and `compose`; holds no `Composed` itself."""

    parts: tuple[tuple[Event, int], ...]
    """Distinct events with their counts, in a canonical order."""

    def __init__(self, parts: Mapping[Event, int]) -> None:
        for times in parts.values():
            fields.times("count", times, at_least=0)
        held = frozenset[type[Event]]().union(*(part.held for part, times in parts.items() if times))
        if any(isinstance(part, Composed) or part.outermost for part, times in parts.items() if times):
            raise InvalidArgument("a Composed event may contain only elementary events; add composed events with +")
        adjacencies = {part.required_adjacency for part, times in parts.items() if times} - {None}
        if len(adjacencies) > 1:
            raise AdjacencyMismatch(
                "events under replace_one and under add_or_remove_one cannot be composed: "
                "one guarantee needs one adjacency; build every event under the adjacency of the data"
            )
        kept = [(part, times) for part, times in parts.items() if times]
        kept.sort(key=lambda item: item[0].order)
        # what accountants ask of a long schedule is summed up once, here
        mean = math.fsum(times * part.gaussian_rho for part, times in kept) if Gaussian in held else 0.0
        self._set(parts=tuple(kept), held=held, gaussian_rho=mean)

    @property
    def required_adjacency(self) -> Adjacency | None:
        """The one adjacency that the parts require, if any does."""
        return next((part.required_adjacency for part, _ in self.parts if part.required_adjacency), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the event as plain values, ready for JSON."""
        return {"kind": "Composed", "parts": [{"event": part.to_dict(), "count": times} for part, times in self.parts]}

    @classmethod
    def from_fields(cls, values: Mapping[str, Any]) -> Event:
        """Build the event from its parts."""
        return compose(
            Event.from_dict(item["event"]) * validation.integer("count", item["count"], at_least=1)
            for item in fields.parts(values)
        )

    def __repr__(self) -> str:
        return " + ".join(f"{part!r} * {times}" for part, times in self.parts) or "Composed({})"


def genuine(event: Event, *, with_cells: bool = False) -> Event:
    """Return an event made anew from what it is written as: of this library's own kinds, and of all places.

    A caller that chose which places were queried would lower a price. `with_cells` is for what is set aside.
    """
    made = Event.from_json(event.to_json())
    if made.outermost and not with_cells:
        raise InvalidArgument("event is a Parallel: callers and mechanisms cannot state which places are queried")
    for kind in {type(made), *(type(part) for case in made.cases for part in counts(case))}:
        home = sys.modules.get(kind.__module__)
        if not kind.__module__.startswith("dpmcmc.accounting.") or getattr(home, kind.__name__, None) is not kind:
            raise InvalidArgument(f"event contains a {kind.__name__}, which is not one of the library's events")
    return made


def counts(event: Event) -> dict[Event, int]:
    """Return the elementary events of `event` with how often each happened."""
    return dict(event.parts) if isinstance(event, Composed) else {event: 1}


def compose(events: Iterable[Event]) -> Event:
    """Return the composition of many events; faster than adding them up one by one."""
    total: Counter[Event] = Counter()
    outermost: list[Any] = []
    for event in events:
        if isinstance(event, Composed):
            total.update(dict(event.parts))
        elif not isinstance(event, Event):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            validation.refuse("events", event, "must be an Event")
        elif event.outermost:
            outermost.append(event)
        else:
            total[event] += 1
    return outermost[0].join([*outermost[1:], _canonical(total)]) if outermost else _canonical(total)


def _canonical(parts: Mapping[Event, int]) -> Event:
    """One way to write each event: a single event that happened once is itself."""
    if len(parts) == 1 and 1 in parts.values():
        return next(iter(parts))
    return Composed(parts)


@cache
def _field_names(kind: type[Event]) -> tuple[str, ...]:
    return tuple(field.name for field in fields_of(cast(Any, kind)))
