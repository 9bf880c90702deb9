"""Events: composition, canonical form, JSON, immutability, refusals."""

import copy
import json
import math
import pickle
from dataclasses import FrozenInstanceError
from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmcmc.accounting import (
    AcceptBit,
    Adjacency,
    Approximation,
    BarkerTest,
    Composed,
    Event,
    FixedBatchGaussian,
    Gaussian,
    LogisticBit,
    NonPrivate,
    Parallel,
    Partition,
    PoissonGaussian,
    RatioApproximation,
    Selected,
    compose,
)
from dpmcmc.errors import AdjacencyMismatch, InvalidArgument

EXAMPLES = [
    Gaussian(2.0),
    PoissonGaussian(0.01, 1.5, Adjacency.ADD_OR_REMOVE_ONE),
    PoissonGaussian(0.01, 1.5, Adjacency.REPLACE_ONE),
    FixedBatchGaussian(10, 1000, 1.5),
    AcceptBit(30.0),
    LogisticBit(0.1),
    BarkerTest(100, 10_000, 2.0, 1.0),
    Approximation(1e-9),
    RatioApproximation(1e-9),
    NonPrivate(),
    Selected((Gaussian(2.0), AcceptBit(3.0) * 4 + RatioApproximation(1e-9)), 0.1, 0.5),
    Composed({}),
    Gaussian(2.0) * 3 + AcceptBit(4.0),
    Parallel(Partition((0, 3, 9)), {1: Gaussian(2.0) * 3 + AcceptBit(4.0)}),
]

noises = st.sampled_from([0.5, 1.0, 2.0, 31.6])
elementary = st.one_of(
    st.builds(Gaussian, noises),
    st.builds(AcceptBit, noises),
    st.builds(LogisticBit, noises),
    st.builds(FixedBatchGaussian, st.integers(1, 3), st.integers(3, 5), noises),
    st.builds(PoissonGaussian, st.sampled_from([0.1, 1.0]), noises, st.just(Adjacency.REPLACE_ONE)),
    st.builds(BarkerTest, st.integers(1, 3), st.integers(3, 5), st.just(2.0), st.just(1.0)),
    st.builds(Approximation, st.sampled_from([1e-9, 1e-12])),
    st.builds(Selected, st.tuples(st.builds(Gaussian, noises)), st.sampled_from([0.1, 1.0]), st.just(0.5)),
    st.builds(NonPrivate),
)
events = st.one_of(
    elementary,
    st.builds(lambda parts: compose(e * n for e, n in parts), st.lists(st.tuples(elementary, st.integers(0, 4)))),
)


@given(events, events, events)
def test_composition_is_associative_and_commutative(first: Event, second: Event, third: Event) -> None:
    assert (first + second) + third == first + (second + third)
    assert first + second == second + first
    assert repr(first + second) == repr(second + first)
    assert hash((first + second) + third) == hash(third + (second + first))


@given(events, st.integers(1, 12))
def test_a_count_is_repeated_addition(event: Event, count: int) -> None:
    assert event * count == reduce(add, [event] * count) == compose([event] * count)
    assert count * event == event * count


@given(events, st.integers(0, 5), st.integers(0, 5))
def test_counts_add_and_multiply(event: Event, first: int, second: int) -> None:
    assert event * first + event * second == event * (first + second)
    assert event * first * second == event * (first * second)


@given(events)
def test_nothing_added_changes_nothing(event: Event) -> None:
    assert event + compose([]) == event
    assert event + Gaussian(1.0) * 0 == event
    assert event * 1 == event
    assert event * 0 == compose([])


@given(events)
def test_json_round_trip(event: Event) -> None:
    again = Event.from_json(event.to_json())
    assert again == event
    assert type(again) is type(event)
    assert hash(again) == hash(event)
    assert again.to_json() == event.to_json()
    assert json.loads(event.to_json())["kind"] == type(event).__name__


@pytest.mark.parametrize("event", EXAMPLES, ids=repr)
def test_json_keeps_every_digit(event: Event) -> None:
    assert Event.from_json(event.to_json()) == event
    assert Event.from_dict(event.to_dict()) == event


@given(st.floats(1e-100, 1e100))
def test_json_keeps_every_bit_of_a_float(noise: float) -> None:
    read = Event.from_json(Gaussian(noise).to_json())
    assert isinstance(read, Gaussian)
    assert read.noise_multiplier == noise


@pytest.mark.parametrize("event", EXAMPLES, ids=repr)
def test_copies_and_pickles_are_equal(event: Event) -> None:
    assert pickle.loads(pickle.dumps(event)) == event  # noqa: S301  (its own output)
    assert copy.deepcopy(event) == event


def test_equal_values_of_other_types_make_equal_events() -> None:
    assert Gaussian(2) == Gaussian(2.0) == Gaussian(np.float64(2.0))  # type: ignore[arg-type]
    assert FixedBatchGaussian(np.int64(2), 5, 1.0) == FixedBatchGaussian(2, 5, 1.0)
    assert FixedBatchGaussian(np.int64(2), 5, 1.0).to_json() == FixedBatchGaussian(2, 5, 1.0).to_json()
    assert PoissonGaussian(0.1, 1.0, "replace-one") == PoissonGaussian(0.1, 1.0, Adjacency.REPLACE_ONE)  # type: ignore[arg-type]


def test_different_events_differ() -> None:
    assert len(set(EXAMPLES)) == len(EXAMPLES)
    assert Gaussian(1.0) != AcceptBit(1.0)
    assert Gaussian(1.0) * 2 != Gaussian(1.0)
    assert Gaussian(1.0) != 1.0


def test_canonical_form() -> None:
    assert compose([Gaussian(1.0)]) == Gaussian(1.0)
    assert isinstance(compose([Gaussian(1.0)]), Gaussian)
    mixed = AcceptBit(1.0) + Gaussian(2.0) + Gaussian(1.0) + Gaussian(2.0)
    assert isinstance(mixed, Composed)
    assert mixed.parts == ((AcceptBit(1.0), 1), (Gaussian(1.0), 1), (Gaussian(2.0), 2))


def test_a_composition_is_flat() -> None:
    nested = (Gaussian(1.0) * 2 + AcceptBit(1.0)) * 3 + Gaussian(1.0)
    assert isinstance(nested, Composed)
    assert nested.parts == ((AcceptBit(1.0), 3), (Gaussian(1.0), 7))


def test_gaussian_rho_is_the_sum() -> None:
    event = Gaussian(2.0) * 3 + Gaussian(5.0) * 7 + AcceptBit(1.0)
    assert event.gaussian_rho == pytest.approx(3 / 8 + 7 / 50, rel=1e-15)


def test_adjacencies_do_not_mix() -> None:
    add_or_remove = PoissonGaussian(0.1, 1.0, Adjacency.ADD_OR_REMOVE_ONE)
    for other in (
        PoissonGaussian(0.1, 1.0, Adjacency.REPLACE_ONE),
        FixedBatchGaussian(1, 10, 1.0),
        BarkerTest(10, 100, 2.0, 1.0),
        FixedBatchGaussian(1, 10, 1.0) * 2 + Gaussian(1.0),
    ):
        with pytest.raises(AdjacencyMismatch, match=r"replace_one.*add_or_remove_one"):
            _ = add_or_remove + other
        with pytest.raises(AdjacencyMismatch):
            compose([other, Gaussian(1.0), add_or_remove])
    with pytest.raises(AdjacencyMismatch):
        Composed({add_or_remove: 1, FixedBatchGaussian(1, 10, 1.0): 1})


def test_adjacency_of_a_composition() -> None:
    assert (Gaussian(1.0) + AcceptBit(1.0)).required_adjacency is None
    assert (Gaussian(1.0) + FixedBatchGaussian(1, 10, 1.0)).required_adjacency is Adjacency.REPLACE_ONE
    poisson = PoissonGaussian(0.1, 1.0, Adjacency.ADD_OR_REMOVE_ONE)
    assert (Gaussian(1.0) + poisson * 2).required_adjacency is Adjacency.ADD_OR_REMOVE_ONE
    # what happened zero times requires nothing
    assert (poisson * 0 + FixedBatchGaussian(1, 10, 1.0)).required_adjacency is Adjacency.REPLACE_ONE


@pytest.mark.parametrize("event", EXAMPLES, ids=repr)
def test_events_are_frozen(event: Event) -> None:
    name = next(iter(event.to_dict().keys() - {"kind"}), "parts")
    with pytest.raises(FrozenInstanceError):
        setattr(event, name, 1.0)
    with pytest.raises(FrozenInstanceError):
        delattr(event, name)
    hash(event)


def test_a_composition_does_not_share_its_mapping() -> None:
    mapping = {Gaussian(1.0): 2}
    event = Composed(mapping)
    mapping[Gaussian(1.0)] = 1
    assert event == Gaussian(1.0) * 2


def test_a_million_parts_are_kept_as_a_thousand() -> None:
    noises = np.linspace(50.0, 100.0, 1000)
    parts = [Gaussian(float(noise)) for noise in noises]
    event = compose(parts[index % 1000] for index in range(1_000_000))
    assert isinstance(event, Composed)
    assert len(event.parts) == 1000
    assert all(times == 1000 for _, times in event.parts)
    assert event.gaussian_rho == pytest.approx(1000 * float(np.sum(0.5 / noises**2)), rel=1e-12)
    huge = Gaussian(50.0) * 10**15 + event
    assert isinstance(huge, Composed)
    assert len(huge.parts) == 1000
    assert huge.gaussian_rho == pytest.approx(2e11, rel=1e-6)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Gaussian(0.0), r"^noise_multiplier=0\.0 must be > 0"),
        (lambda: Gaussian(-1.0), r"^noise_multiplier=-1\.0 must be > 0"),
        (lambda: Gaussian(math.nan), r"^noise_multiplier=nan must be a number, not NaN"),
        (lambda: Gaussian(math.inf), r"^noise_multiplier=inf must be > 0 and finite"),
        (lambda: Gaussian(True), r"^noise_multiplier=True must be a number"),
        (lambda: Gaussian("2"), r"^noise_multiplier='2' must be a number"),
        (lambda: Gaussian(None), r"^noise_multiplier=None must be a number"),
        (lambda: Gaussian(1j), r"^noise_multiplier=1j must be a number"),
        (lambda: Gaussian(10**400), r"^noise_multiplier=1000"),
        (lambda: AcceptBit(0.0), r"^noise_multiplier=0\.0"),
        (lambda: LogisticBit(0.0), r"^sensitivity=0\.0"),
        (lambda: LogisticBit(math.nan), r"^sensitivity=nan"),
        (lambda: PoissonGaussian(0.0, 1.0, Adjacency.REPLACE_ONE), r"^rate=0\.0 must be > 0 and <= 1"),
        (lambda: PoissonGaussian(5e-324, 1.0, Adjacency.REPLACE_ONE), r"^rate=5e-324 must be at least 1e-100"),
        (lambda: PoissonGaussian(1e-310, 1.0, Adjacency.ADD_OR_REMOVE_ONE), r"^rate=1e-310 must be at least 1e-100"),
        (lambda: PoissonGaussian(1.5, 1.0, Adjacency.REPLACE_ONE), r"^rate=1\.5 must be > 0 and <= 1"),
        (lambda: PoissonGaussian(0.1, 0.0, Adjacency.REPLACE_ONE), r"^noise_over_clip=0\.0"),
        (lambda: PoissonGaussian(0.1, 1.0, "zero_out"), r"^adjacency='zero_out' must be one of replace_one, add_or"),
        (lambda: PoissonGaussian(0.1, 1.0, None), r"^adjacency=None must be one of"),
        (lambda: FixedBatchGaussian(11, 10, 1.0), r"^batch_size=11 must be <= population=10"),
        (lambda: FixedBatchGaussian(0, 10, 1.0), r"^batch_size=0 must be >= 1"),
        (lambda: FixedBatchGaussian(1.0, 10, 1.0), r"^batch_size=1\.0 must be an integer"),
        (lambda: FixedBatchGaussian(True, 10, 1.0), r"^batch_size=True must be an integer"),
        (lambda: FixedBatchGaussian(1, 0, 1.0), r"^population=0 must be >= 1"),
        (lambda: FixedBatchGaussian(1, 10, 0.0), r"^noise_multiplier=0\.0"),
        (lambda: BarkerTest(11, 10, 2.0, 1.0), r"^batch_size=11 must be <= population=10"),
        (lambda: BarkerTest(1, 10, 0.0, 1.0), r"^variance=0\.0"),
        (lambda: BarkerTest(1, 10, 2.0, 2.0), r"^clip_fraction=2\.0 must be < variance=2\.0"),
        (lambda: BarkerTest(1, 10, 2.0, 0.0), r"^clip_fraction=0\.0"),
        (lambda: Approximation(0.0), r"^total_variation=0\.0 must be strictly between 0 and 1"),
        (lambda: Approximation(1.0), r"^total_variation=1\.0"),
        (lambda: RatioApproximation(0.0), r"^log_ratio=0\.0 must be"),
        (lambda: Gaussian(1.0) * -1, r"^count=-1 must be >= 0"),
        (lambda: Gaussian(1.0) * True, r"^count=True must be an integer"),
        (lambda: Gaussian(1.0) * 2.0, r"^count=2\.0 must be an integer"),
        (lambda: 1.5 * Gaussian(1.0), r"^count=1\.5 must be an integer"),
        (lambda: Composed({Composed({}): 1}), r"may contain only elementary events"),
        (lambda: Composed({Gaussian(1.0): -5}), r"-5"),
        (lambda: Composed({Gaussian(1.0): 1.5}), r"1\.5"),
        (lambda: Composed({Gaussian(1.0): True}), r"True"),
    ],
)
def test_bad_arguments_are_refused(build: object, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        build()  # type: ignore[operator]


def test_adding_something_else_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        _ = Gaussian(1.0) + 1  # type: ignore[operator]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[]", "must be a JSON object"),
        ("null", "must be a JSON object"),
        ("1", "must be a JSON object"),
        ("{}", r"kind=None must be one of"),
        ('{"kind": "Laplace"}', r"kind='Laplace' must be one of .*Gaussian"),
        ('{"kind": "Event"}', r"kind='Event' must be one of"),
        ('{"kind": ["Gaussian"]}', r"kind=\['Gaussian'\] must be one of"),
        ('{"kind": {}}', r"kind=\{\} must be one of"),
        ('{"kind": "Gaussian"}', "has the fields"),
        ('{"kind": "Gaussian", "noise_multiplier": 1, "extra": 2}', "has the fields"),
        ('{"kind": "Gaussian", "noise_multiplier": "1"}', "noise_multiplier='1' must be a number"),
        ('{"kind": "Gaussian", "noise_multiplier": true}', "noise_multiplier=True must be a number"),
        ('{"kind": "Gaussian", "noise_multiplier": NaN}', "noise_multiplier=nan"),
        ('{"kind": "Gaussian", "noise_multiplier": -Infinity}', "noise_multiplier=-inf"),
        ('{"kind": "Gaussian", "noise_multiplier": null}', "noise_multiplier=None must be a number"),
        ('{"kind": "Gaussian", "noise_multiplier": 1' + 400 * "0" + "}", "noise_multiplier=1000"),
        ('{"kind": "PoissonGaussian", "rate": 0.1, "noise_over_clip": 1, "adjacency": "x"}', "adjacency='x'"),
        ('{"kind": "FixedBatchGaussian", "batch_size": 2, "population": 1, "noise_multiplier": 1}', "batch_size=2"),
        ('{"kind": "Composed"}', "a list of parts"),
        ('{"kind": "Composed", "parts": 1}', "a list of parts"),
        ('{"kind": "Composed", "parts": [1]}', "a list of parts"),
        ('{"kind": "Composed", "parts": [[]]}', "a list of parts"),
        ('{"kind": "Composed", "parts": [{"event": [], "count": 1}]}', "a list of parts"),
        ('{"kind": "Composed", "parts": [{"event": "x", "count": 1}]}', "a list of parts"),
        ('{"kind": "Composed", "parts": [{"event": {"kind": "NonPrivate"}}]}', "a list of parts"),
        ('{"kind": "Composed", "parts": [{"event": {"kind": "NonPrivate"}, "count": -1}]}', "count=-1"),
        ('{"kind": "Composed", "parts": [{"event": {"kind": "NonPrivate"}, "count": true}]}', "count=True"),
        ('{"kind": "Composed", "parts": [{"event": {"kind": "NonPrivate"}, "count": 1.0}]}', "count=1.0"),
        ('{"kind": "Composed", "parts": [], "extra": 1}', "parts"),
    ],
)
def test_bad_json_is_refused(document: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        Event.from_json(document)


def test_json_of_two_adjacencies_is_refused() -> None:
    parts = [{"event": PoissonGaussian(0.1, 1.0, adjacency).to_dict(), "count": 1} for adjacency in Adjacency]
    with pytest.raises(AdjacencyMismatch):
        Event.from_json(json.dumps({"kind": "Composed", "parts": parts}))


def test_json_with_repeated_parts_is_added_up() -> None:
    part = {"event": Gaussian(1.0).to_dict(), "count": 2}
    assert Event.from_json(json.dumps({"kind": "Composed", "parts": [part, part]})) == Gaussian(1.0) * 4


def test_json_that_is_not_canonical_is_read_canonically() -> None:
    part = {"event": Gaussian(1.0).to_dict(), "count": 1}
    assert Event.from_json(json.dumps({"kind": "Composed", "parts": [part]})) == Gaussian(1.0)
