"""Certificates: computed, not asserted; complete in words; refused where they claim too little."""

import json
import math
import re

import pytest

from dpmcmc.accounting import (
    AcceptBit,
    Adjacency,
    Approximation,
    BarkerTest,
    Certificate,
    Event,
    FixedBatchGaussian,
    Gaussian,
    LogisticBit,
    NonPrivate,
    Parallel,
    Partition,
    PoissonGaussian,
    RatioApproximation,
    compose,
    delta,
    epsilon,
)
from dpmcmc.errors import AdjacencyMismatch, InvalidArgument

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_OR_REMOVE_ONE

RELEASES = {
    "Gaussian": (Gaussian(31.6) * 100, REPLACE),
    "hidden decisions": (AcceptBit(31.6) * 100 + Gaussian(174.0) * 2600, REPLACE),
    "Barker decisions": (LogisticBit(0.05) * 100, ADD),
    "Poisson, add or remove": (PoissonGaussian(0.01, 2.0, ADD) * 100, ADD),
    "Poisson, replace": (PoissonGaussian(0.01, 2.0, REPLACE) * 100, REPLACE),
    "fixed batches": (FixedBatchGaussian(10, 1000, 2.0) * 100, REPLACE),
    "Barker batches": (BarkerTest(100, 10_000, 2.0, 1.0) * 100, REPLACE),
    "approximated": (Gaussian(31.6) * 100 + Approximation(1e-9), REPLACE),
    "cells of a table": (Parallel(Partition((0, 10, 99)), {0: Gaussian(9.0), 1: LogisticBit(0.1) * 9}), REPLACE),
    "much spent": (Gaussian(0.02), REPLACE),
    "nothing": (compose([]), ADD),
    "no guarantee at this delta": (Gaussian(2.0) + Approximation(1e-3), ADD),
    "not private": (NonPrivate() + Gaussian(2.0), REPLACE),
}
CERTIFICATES = [pytest.param(Certificate(event, side, 1e-6), id=name) for name, (event, side) in RELEASES.items()]


@pytest.mark.parametrize("certificate", CERTIFICATES)
def test_json_round_trip(certificate: Certificate) -> None:
    document = certificate.to_json()
    again = Certificate.from_json(document)
    assert again == certificate
    assert again.to_json() == document
    json.loads(document, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


@pytest.mark.parametrize("certificate", CERTIFICATES)
def test_numbers_are_the_accountants(certificate: Certificate) -> None:
    plain = certificate.to_dict()
    cost = epsilon(certificate.event, 1e-6)
    assert certificate.epsilon == cost
    assert plain["epsilon"] == ("infinity" if cost == math.inf else cost)
    assert plain["accountant"] == cost.accountant
    assert plain["adjacency"] == certificate.adjacency.value
    assert plain["delta"] == 1e-6
    assert len(plain["curve"]) > 5
    for point in plain["curve"]:
        assert point["delta"] == delta(certificate.event, point["epsilon"])


@pytest.mark.parametrize("certificate", CERTIFICATES)
def test_statement_names_the_adjacency_and_rounds_up(certificate: Certificate) -> None:
    words = certificate.statement
    if NonPrivate in certificate.event.held:
        assert words.startswith("No privacy guarantee")
        assert "infinity" in words
        return
    assert certificate.adjacency.words in words
    if certificate.epsilon == math.inf:
        assert words.startswith("No privacy guarantee")
        return
    printed = re.match(r"\(([^,]+), ([^)]+)\)-differentially private", words)
    assert printed
    assert certificate.epsilon <= float(printed[1]) <= certificate.epsilon * 1.001 + 1e-300
    assert float(printed[2]) == certificate.delta
    factor = re.search(r"e\^epsilon = (\S+)", words)
    if factor:
        assert math.log(float(factor[1])) >= certificate.epsilon * (1 - 1e-12)


@pytest.mark.parametrize("noise", [1.0 + index / 7 for index in range(40)])
def test_printed_epsilons_are_never_below(noise: float) -> None:
    certificate = Certificate(Gaussian(noise), REPLACE, 1e-6)
    printed = re.match(r"\(([^,]+),", certificate.statement)
    assert printed
    assert float(printed[1]) >= certificate.epsilon


@pytest.mark.parametrize("certificate", CERTIFICATES)
def test_the_table_says_everything(certificate: Certificate) -> None:
    table = str(certificate)
    assert certificate.statement in table
    assert certificate.adjacency.words in table
    assert certificate.library_version in table
    assert len(certificate.holds_if) >= 3
    assert all(assumption in table for assumption in certificate.holds_if)
    assert all(assumption in certificate.to_dict()["holds_if"] for assumption in certificate.holds_if)
    assert all(len(line) < 200 for line in table.splitlines()[3:])


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (AcceptBit(2.0), "only the decisions of the accept tests were shown"),
        (LogisticBit(0.1), "only the decisions of the Barker tests were shown"),
        (PoissonGaussian(0.1, 2.0, REPLACE), "independent coin tosses"),
        (FixedBatchGaussian(1, 10, 2.0), "without replacement"),
        (BarkerTest(10, 100, 2.0, 1.0), "without replacement"),
        (Approximation(1e-9), "total variation"),
        (RatioApproximation(1e-9), "factor of its target probabilities"),
    ],
)
def test_each_kind_of_release_brings_its_assumption(event: Event, words: str) -> None:
    assert not any(words in item for item in Certificate(Gaussian(2.0), REPLACE, 1e-6).holds_if)
    assert any(words in item for item in Certificate(Gaussian(2.0) + event, REPLACE, 1e-6).holds_if)


def test_own_assumptions_are_kept() -> None:
    certificate = Certificate(Gaussian(2.0), REPLACE, 1e-6, assumptions=("each person gave one record",))
    assert "each person gave one record" in str(certificate)
    assert Certificate.from_json(certificate.to_json()).assumptions == ("each person gave one record",)


def test_persons_are_named_where_persons_are_protected() -> None:
    unit = "person (patient_id, of whom at most 3 rows count)"
    events = Gaussian(2.0) + PoissonGaussian(0.1, 2.0, REPLACE)
    certificate = Certificate(events, REPLACE, 1e-6, unit=unit)
    assert f"if any one {unit} is replaced by another" in certificate.statement
    assert f"protects   every {unit}" in str(certificate)
    assert any(f"one per {unit}" in words for words in certificate.holds_if)
    assert "any one record" not in str(certificate)
    assert json.loads(certificate.to_json())["unit"] == unit
    assert Certificate.from_json(certificate.to_json()) == certificate
    assert f"any one {unit} is added or removed" in Certificate(Gaussian(2.0), ADD, 1e-6, unit=unit).statement


def test_a_certificate_that_names_no_unit_speaks_of_records() -> None:
    certificate = Certificate(Gaussian(2.0), REPLACE, 1e-6)
    older = json.loads(certificate.to_json())
    assert older.pop("unit") == "record"
    assert Certificate.from_json(json.dumps(older)) == certificate
    assert "if any one record is replaced by another" in certificate.statement


def test_paths_and_device_are_kept_and_shown() -> None:
    certificate = Certificate(
        Gaussian(2.0), REPLACE, 1e-6, paths=("rows as 16-bit integers", "a GPU kernel"), device="cpu"
    )
    assert certificate.format == 3
    plain = json.loads(certificate.to_json())
    assert (plain["format"], plain["device"]) == (3, "cpu")
    assert plain["paths"] == ["rows as 16-bit integers", "a GPU kernel"]
    assert Certificate.from_json(certificate.to_json()) == certificate
    assert all(words in str(certificate) for words in ("rows as 16-bit integers", "a GPU kernel", "device     cpu"))
    bare = Certificate(Gaussian(2.0), REPLACE, 1e-6)
    assert (bare.paths, bare.device) == ((), "")
    assert "device" not in str(bare)
    assert "paths" not in str(bare)


def test_a_certificate_without_a_format_is_of_the_first() -> None:
    older = json.loads(Certificate(Gaussian(2.0), REPLACE, 1e-6).to_json())
    for name in ("format", "paths", "device"):
        del older[name]
    read = Certificate.from_json(json.dumps(older))
    assert (read.format, read.paths, read.device) == (1, (), "")
    assert Certificate.from_json(read.to_json()) == read


def tampered(certificate: Certificate, **changes: object) -> str:
    return json.dumps({**json.loads(certificate.to_json()), **changes})


def test_a_claim_below_the_cost_is_refused() -> None:
    certificate = Certificate(Gaussian(2.0), REPLACE, 1e-6)
    for claim in (certificate.epsilon * 0.999, 0.0, -1.0, certificate.epsilon / 2):
        with pytest.raises(InvalidArgument, match=r"claims epsilon=.*costs"):
            Certificate.from_json(tampered(certificate, epsilon=claim))


def test_a_claim_with_a_smaller_delta_is_refused() -> None:
    certificate = Certificate(Gaussian(2.0), REPLACE, 1e-6)
    with pytest.raises(InvalidArgument, match="claims epsilon"):
        Certificate.from_json(tampered(certificate, delta=1e-9))


def test_a_claim_about_a_release_without_guarantee_is_refused() -> None:
    for event in (NonPrivate(), Gaussian(2.0) + Approximation(1e-3)):
        certificate = Certificate(event, REPLACE, 1e-6)
        with pytest.raises(InvalidArgument, match="claims epsilon"):
            Certificate.from_json(tampered(certificate, epsilon=5.0))


def test_tampered_words_do_not_survive() -> None:
    certificate = Certificate(Gaussian(0.5), REPLACE, 1e-6)
    document = tampered(certificate, statement="(0.1, 1e-06)-differentially private", curve=[], holds_if=[])
    again = Certificate.from_json(document)
    assert again == certificate
    assert again.statement == certificate.statement
    assert again.to_json() == certificate.to_json()


def test_adjacencies_must_agree() -> None:
    for event, side in (
        (FixedBatchGaussian(1, 10, 2.0), ADD),
        (BarkerTest(10, 100, 2.0, 1.0), ADD),
        (PoissonGaussian(0.1, 2.0, ADD), REPLACE),
        (PoissonGaussian(0.1, 2.0, REPLACE) + Gaussian(1.0), ADD),
    ):
        with pytest.raises(AdjacencyMismatch, match="cannot be certified"):
            Certificate(event, side, 1e-6)
    certificate = Certificate(FixedBatchGaussian(1, 10, 2.0), REPLACE, 1e-6)
    with pytest.raises(AdjacencyMismatch):
        Certificate.from_json(tampered(certificate, adjacency="add_or_remove_one"))


@pytest.mark.parametrize(
    "document",
    [
        "",
        "[]",
        "1",
        "null",
        "{}",
        '{"event": 1}',
        '{"event": {"kind": "Gaussian", "noise_multiplier": 1}}',
        tampered(Certificate(Gaussian(2.0), REPLACE, 1e-6), epsilon="small"),
        tampered(Certificate(Gaussian(2.0), REPLACE, 1e-6), epsilon=math.nan),
        tampered(Certificate(Gaussian(2.0), REPLACE, 1e-6), epsilon=None),
        tampered(Certificate(Gaussian(2.0), REPLACE, 1e-6), epsilon=True),
        tampered(Certificate(Gaussian(2.0), REPLACE, 1e-6), delta=0),
        tampered(Certificate(Gaussian(2.0), REPLACE, 1e-6), delta="1e-6"),
        tampered(Certificate(Gaussian(2.0), REPLACE, 1e-6), adjacency="none"),
        tampered(Certificate(Gaussian(2.0), REPLACE, 1e-6), event=[]),
        tampered(Certificate(Gaussian(2.0), REPLACE, 1e-6), event={"kind": []}),
        tampered(Certificate(Gaussian(2.0), REPLACE, 1e-6), assumptions=[""]),
        tampered(Certificate(Gaussian(2.0), REPLACE, 1e-6), assumptions=[1]),
        tampered(Certificate(Gaussian(2.0), REPLACE, 1e-6), assumptions="text"),
        tampered(Certificate(Gaussian(2.0), REPLACE, 1e-6), library_version=1),
        tampered(Certificate(Gaussian(2.0), REPLACE, 1e-6), unit=""),
        tampered(Certificate(Gaussian(2.0), REPLACE, 1e-6), unit=None),
        tampered(Certificate(Gaussian(2.0), REPLACE, 1e-6), format=4),
        tampered(Certificate(Gaussian(2.0), REPLACE, 1e-6), format="2"),
        tampered(Certificate(Gaussian(2.0), REPLACE, 1e-6), format=None),
        tampered(Certificate(Gaussian(2.0), REPLACE, 1e-6), paths="text"),
        tampered(Certificate(Gaussian(2.0), REPLACE, 1e-6), paths=[1]),
        tampered(Certificate(Gaussian(2.0), REPLACE, 1e-6), paths=[""]),
        tampered(Certificate(Gaussian(2.0), REPLACE, 1e-6), device=None),
    ],
)
def test_what_is_no_certificate_is_refused(document: str) -> None:
    with pytest.raises(InvalidArgument):
        Certificate.from_json(document)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"delta": 0.0}, r"^delta=0\.0"),
        ({"delta": 1.0}, r"^delta=1\.0"),
        ({"delta": math.nan}, r"^delta=nan"),
        ({"adjacency": "both"}, r"^adjacency='both' must be one of"),
        ({"assumptions": ("",)}, r"^assumptions='' must be a text"),
    ],
)
def test_bad_arguments_are_refused(changes: dict[str, object], message: str) -> None:
    arguments: dict[str, object] = {"event": Gaussian(2.0), "adjacency": REPLACE, "delta": 1e-6, **changes}
    with pytest.raises(InvalidArgument, match=message):
        Certificate(**arguments)  # type: ignore[arg-type]


def test_nothing_claims_more_than_the_budget_it_was_made_for() -> None:
    """The curve and epsilon are points of one function: epsilon at delta lies between the curve's neighbours."""
    certificate = Certificate(Gaussian(2.0), REPLACE, 1e-3)
    above = [at for at, fraction in certificate.curve if fraction <= 1e-3]
    below = [at for at, fraction in certificate.curve if fraction > 1e-3]
    assert max(below) < certificate.epsilon <= min(above)
