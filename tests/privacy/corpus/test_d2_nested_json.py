"""The attack: JSON of an event, or of a certificate, that is nested without end or holds absurd numbers.

What must happen: `InvalidArgument`, as for everything that is no event; a ledger with such an entry cannot be used.
"""

import json

import pytest

from dpmcmc.accounting.budget import Budget
from dpmcmc.accounting.certificate import Certificate
from dpmcmc.accounting.event import Event, Gaussian, compose
from dpmcmc.accounting.ledger import Ledger
from dpmcmc.accounting.selection import repeat_and_select
from dpmcmc.errors import InvalidArgument, LedgerUnavailable

ONE = Gaussian(2.0).to_json()


def nested(depth: int) -> str:
    return '{"kind": "Composed", "parts": [{"count": 1, "event": ' * depth + ONE + "}]}" * depth


def selected(depth: int) -> str:
    return '{"kind": "Selected", "halting": 0.5, "shape": 0.0, "candidates": [' * depth + ONE + "]}" * depth


def counted(count: str) -> str:
    return f'{{"kind": "Composed", "parts": [{{"count": {count}, "event": {ONE}}}]}}'


DOCUMENTS = {
    **{f"composed {depth}": nested(depth) for depth in (20, 100, 1000, 100_000)},
    **{f"selected {depth}": selected(depth) for depth in (20, 1000, 100_000)},
    "lists": "[" * 100_000,
    "objects": '{"kind":' * 100_000,
    "closed lists": "[" * 900 + "]" * 900,
    "a list in a field": f'{{"kind": "Gaussian", "noise_multiplier": {"[" * 500 + "]" * 500}}}',
    "count of 20 digits": counted("1" + "0" * 19),
    "count of 400 digits": counted("1" + "0" * 399),
    "count of 4000 digits": counted("1" + "0" * 3999),
    "count of 10000 digits": counted("1" + "0" * 9999),
    "two large counts": counted("9" * 18).replace("]}", f', {{"count": {"9" * 19}, "event": {ONE}}}]}}'),
    "count 0": counted("0"),
    "count -1": counted("-1"),
    "count 1.5": counted("1.5"),
    "count true": counted("true"),
    "noise of 400 digits": f'{{"kind": "Gaussian", "noise_multiplier": 1{"0" * 400}}}',
    "noise 1e999": '{"kind": "Gaussian", "noise_multiplier": 1e999}',
    "noise NaN": '{"kind": "Gaussian", "noise_multiplier": NaN}',
    "noise text": '{"kind": "Gaussian", "noise_multiplier": "2"}',
    "noise object": '{"kind": "Gaussian", "noise_multiplier": {}}',
    "population of 400 digits": '{"kind": "FixedBatchGaussian", "batch_size": 1, "noise_multiplier": 2, '
    f'"population": 1{"0" * 400}}}',
    "adjacency list": '{"kind": "PoissonGaussian", "rate": 0.1, "noise_over_clip": 2, "adjacency": []}',
    "candidates of numbers": '{"kind": "Selected", "halting": 0.5, "shape": 0.0, "candidates": [1]}',
    "parts of nothing": '{"kind": "Composed", "parts": null}',
    "kind of lists": '{"kind": [[]]}',
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_events_and_certificates_are_refused(name: str) -> None:
    with pytest.raises(InvalidArgument):
        Event.from_json(DOCUMENTS[name])
    plain = Certificate(Gaussian(2.0), "replace_one", 1e-6).to_dict()
    plain["event"] = "here"
    with pytest.raises(InvalidArgument):
        Certificate.from_json(json.dumps(plain).replace('"here"', DOCUMENTS[name]))


@pytest.mark.parametrize("document", [None, 7, b"\xff", [], "", "null", "\ud800"])
def test_other_types_are_refused(document) -> None:
    with pytest.raises(InvalidArgument):
        Event.from_json(document)
    with pytest.raises(InvalidArgument):
        Certificate.from_json(document)


@pytest.mark.parametrize("field", ["epsilon", "delta", "unit", "assumptions", "paths", "device", "format"])
def test_nested_or_absurd_fields_of_certificates_are_refused(field: str) -> None:
    plain = {**Certificate(Gaussian(2.0), "replace_one", 1e-6).to_dict(), field: "here"}
    for value in ("[" * 100_000 + "]" * 100_000, "[[[]]]", "1" + "0" * 4000, "1" + "0" * 9999, "-1", "null", "NaN"):
        with pytest.raises(InvalidArgument):
            Certificate.from_json(json.dumps(plain).replace('"here"', value))


@pytest.mark.parametrize("name", ["composed 1000", "lists", "count of 400 digits", "noise 1e999"])
def test_a_ledger_with_such_an_entry_is_not_used(name: str, new_url: str, execute) -> None:
    ledger = Ledger.create(new_url)
    ledger.register("people", Budget(1.0, 1e-6), "replace_one")
    columns = "kind, dataset, run, event, adjacency, who, made_at, what, library_version"
    values = f"'reserve', 'people', 'r', '{DOCUMENTS[name]}', 'replace_one', 'a', 'b', 'c', 'd'"
    execute(new_url, f"INSERT INTO dpmcmc_entries ({columns}) VALUES ({values})")  # noqa: S608, constants alone
    for attempt in (
        lambda: ledger.account("people"),
        ledger.history,
        lambda: ledger.reservation("r"),
        lambda: ledger.reserve("people", Gaussian(50.0), description="run"),
    ):
        with pytest.raises(LedgerUnavailable, match="cannot read"):
            attempt()


def test_what_the_library_writes_is_read() -> None:
    """The control: selections of compositions, and many parts."""
    deep = repeat_and_select([Gaussian(2.0) * 3 + Gaussian(3.0), compose([])], 5.0) * 2
    many = compose(Gaussian(1.0 + number) * (number + 1) for number in range(300))
    for event in (deep, many, deep + many, Gaussian(2.0) * (2**63 - 1)):
        assert Event.from_json(event.to_json()) == event
