"""`dpmcmc verify`: enclosures that hold what is stated, refusals of whatever was changed, and the ledger's word."""

import json
import math
import time

import pytest
from typer.testing import CliRunner

from dpmcmc.accounting import (
    AcceptBit,
    Adjacency,
    Approximation,
    BarkerTest,
    Budget,
    Certificate,
    FixedBatchGaussian,
    Gaussian,
    Ledger,
    LogisticBit,
    NonPrivate,
    Parallel,
    Partition,
    PoissonGaussian,
    RatioApproximation,
    SphericalLaplace,
    compose,
    repeat_and_select,
)
from dpmcmc.accounting.certificate import DIGEST, digest
from dpmcmc.cli.main import app
from dpmcmc.errors import DpmcmcError, InvalidArgument
from dpmcmc.verification import find_entry, verify

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_OR_REMOVE_ONE
CELLS = Partition(tuple(range(21)))
NOISE = Approximation(2e-24) + RatioApproximation(8e-14)

EVENTS = {
    "a fit at epsilon 8": ((Gaussian(1.1) + NOISE) * 2 + (Gaussian(4.3) + NOISE) * 8, REPLACE),
    "a fit": ((Gaussian(9.0) + NOISE) * 3 + (Gaussian(20.0) + NOISE) * 8, REPLACE),
    "hidden decisions": ((AcceptBit(31.6) + NOISE) * 100 + Gaussian(174.0) * 2600, REPLACE),
    "Barker decisions": (LogisticBit(0.05) * 100, ADD),
    "Poisson, add or remove": (PoissonGaussian(0.05, 2.0, ADD) * 20, ADD),
    "Poisson, replace": (PoissonGaussian(0.05, 4.0, REPLACE) * 20, REPLACE),
    "fixed batches": (FixedBatchGaussian(10, 200, 3.0) * 20, REPLACE),
    "Barker batches": (BarkerTest(100, 2_000, 2.0, 1.0) * 20, REPLACE),
    "a coarse sampler": (Gaussian(31.6) * 100 + Approximation(1e-9), REPLACE),
    "spherical noise": (SphericalLaplace(6, 4.0) * 2 + Gaussian(30.0) + NOISE, REPLACE),
    "a sphere and how its sampler is off": (SphericalLaplace(6, 0.975660155) + NOISE, REPLACE),
    "one number": (SphericalLaplace(1, 2.0) * 3, ADD),
    "many numbers": (SphericalLaplace(300, 0.4), REPLACE),
    "a selection": (repeat_and_select([Gaussian(9.0) + NOISE, LogisticBit(0.1) * 3], 4.0), REPLACE),
    "cells": (Parallel(Partition((0, 10, 99)), {0: Gaussian(9.0), 1: LogisticBit(0.1) * 9}), REPLACE),
    "coins in many cells": (Parallel(CELLS, {i: LogisticBit(0.1 + 0.01 * i) * 100 for i in range(10)}), REPLACE),
    "spheres in many cells": (Parallel(CELLS, {i: SphericalLaplace(3, 2 + 0.1 * i) for i in range(20)}), REPLACE),
    "schedules": (compose(PoissonGaussian(0.1, 6.0 + i, ADD) * 20 for i in range(8)), ADD),
    "more losses than a grid holds": (SphericalLaplace(3, 1e-7) * 2, REPLACE),
    "coins without end": (LogisticBit(3.0) * 2**62, REPLACE),
    "steep spheres": (SphericalLaplace(3, 0.3) * 2, REPLACE),
    "much spent": (Gaussian(0.02), REPLACE),
    "nothing": (compose([]), ADD),
    "no guarantee": (Gaussian(2.0) + Approximation(1e-3), ADD),
    "not private": (NonPrivate() + Gaussian(2.0), REPLACE),
}


@pytest.mark.parametrize("name", EVENTS)
def test_every_number_is_enclosed_to_a_millionth(name):
    event, adjacency = EVENTS[name]
    certificate = Certificate(event, adjacency, 1e-6)
    start = time.process_time()
    found = verify(certificate.to_json())
    assert time.process_time() - start < 10
    assert found.certificate == certificate
    assert all(figure.is_sharp for figure in found.figures), [one for one in found.figures if not one.is_sharp]
    stated = {figure.name: figure for figure in found.figures if figure.stated is not None}
    assert "epsilon at delta 1e-06" in stated
    if math.isfinite(certificate.epsilon):
        assert sum(name.startswith("delta at") for name in stated) == len(certificate.curve)
        epsilon = stated["epsilon at delta 1e-06"]
        assert epsilon.lower <= certificate.epsilon * (1 + 1e-6) <= epsilon.upper * (1 + 1e-5) + 1e-6
        by_name = next(one for one in found.figures if one.name.endswith(f", {certificate.epsilon.accountant}"))
        assert by_name.lower <= certificate.epsilon + 1e-6


def test_what_balls_are_too_rough_for_is_no_reason_to_refuse():
    """Epsilon is 599 and more: the composition of losses says nothing there, in balls, and divergences say too much."""
    certificate = Certificate(PoissonGaussian(1.0, 25.8, ADD) + SphericalLaplace(3, 0.0016687), ADD, 1e-2)
    figures = {figure.name: figure for figure in verify(certificate.to_json()).figures}
    assert certificate.epsilon.accountant == "pld"
    assert 0 <= figures["epsilon at delta 0.01"].lower <= certificate.epsilon < figures["epsilon at delta 0.01"].upper
    assert figures["epsilon at delta 0.01, rdp"].lower > certificate.epsilon
    assert figures["epsilon at delta 0.01, pld"].upper == math.inf


def test_enclosures_are_of_the_truth():
    """Of one Gaussian release epsilon is known to fifty digits: delta(epsilon) at both ends, by another library."""
    from mpmath import mp, mpf

    (figure,) = [
        one
        for one in verify(Certificate(Gaussian(3.0), REPLACE, 1e-6).to_json()).figures
        if one.name.endswith(", exact")
    ]
    with mp.workdps(50):
        mu = mpf(1) / 3

        def delta(epsilon):
            return mp.ncdf(-epsilon / mu + mu / 2) - mp.exp(epsilon) * mp.ncdf(-epsilon / mu - mu / 2)

        assert delta(mpf(figure.lower)) >= mpf(1e-6) >= delta(mpf(figure.upper))
    assert figure.upper - figure.lower < 1e-6


def document(event, adjacency=REPLACE, **facts):
    return json.loads(Certificate(event, adjacency, 1e-6, **facts).to_json())


SLOTS = Partition((0, 50, 300, 1000), "0123456789abcdef" * 2)
PLAIN = document(EVENTS["a fit"][0], assumptions=("a condition",), unit="patient", paths=("linear rows",), device="cpu")
SAMPLER, GAUSSIAN, RATIO = 0, 1, 3
"""Where in the event of a fit the distance of its samplers stands, its first sums, and their ratio."""

BATCHES = document(PoissonGaussian(0.2, 6.0, ADD) * 3, ADD)
REST = (Gaussian(5.0) + NOISE) * 8
CELLS = document(Parallel(SLOTS, {0: (Gaussian(9.0) + NOISE) * 3, 1: REST, 2: REST}))
CHOSEN = document(repeat_and_select([Gaussian(9.0) * 3 + NOISE, Gaussian(30.0) * 4], 4.0))
NUMBERS = document(SphericalLaplace(1, 20.0) * 2)
BITS = document((AcceptBit(31.6) + NOISE) * 100)
NOT_PRIVATE = document(NonPrivate() + Gaussian(2.0))
WHOLE = (PLAIN, CELLS, CHOSEN, NOT_PRIVATE)


def changed(document, *path, to=None, remove=False, seal=True):
    """Return a document with an entry changed, and with the digest that such entries have: a change to be noticed."""
    copy = json.loads(json.dumps(document))
    place = copy
    for key in path[:-1]:
        place = place[key]
    if remove:
        del place[path[-1]]
    else:
        place[path[-1]] = to(place[path[-1]]) if callable(to) else to
    if seal and DIGEST in copy and path != (DIGEST,):
        copy[DIGEST] = digest(copy)
    return copy


CHOICE = "event", "parts", 1, "event"
ALTERATIONS = {
    "a lower epsilon": changed(PLAIN, "epsilon", to=lambda epsilon: epsilon * 0.9),
    "an epsilon lower by a millionth": changed(PLAIN, "epsilon", to=lambda epsilon: epsilon * (1 - 9e-7)),
    "a higher epsilon": changed(PLAIN, "epsilon", to=lambda epsilon: epsilon * 1.5),
    "another delta": changed(PLAIN, "delta", to=1e-5),
    "a delta that is no number": changed(PLAIN, "delta", to="1e-6"),
    "another adjacency": changed(PLAIN, "adjacency", to="add_or_remove_one"),
    "an adjacency that the event refuses": changed(BATCHES, "adjacency", to="replace_one"),
    "another unit": changed(PLAIN, "unit", to="record"),
    "a nicer statement": changed(PLAIN, "statement", to=lambda words: words.replace("1.0", "0.1", 1)),
    "another accountant": changed(PLAIN, "accountant", to="rdp"),
    "a lower point of the curve": changed(PLAIN, "curve", 4, "delta", to=lambda delta: delta / 2),
    "a higher point of the curve": changed(PLAIN, "curve", 4, "delta", to=lambda delta: delta * 2),
    "a point of the curve elsewhere": changed(PLAIN, "curve", 4, "epsilon", to=0.9),
    "a point of the curve left out": changed(PLAIN, "curve", 4, remove=True),
    "more noise than there was": changed(PLAIN, "event", "parts", GAUSSIAN, "event", "noise_multiplier", to=9.1),
    "fewer releases": changed(PLAIN, "event", "parts", GAUSSIAN, "count", to=2),
    "a release left out": changed(PLAIN, "event", "parts", GAUSSIAN, remove=True),
    "a sampler that is farther off": changed(PLAIN, "event", "parts", SAMPLER, "event", "total_variation", to=1e-9),
    "samplers left out": changed(PLAIN, "event", "parts", SAMPLER, remove=True),
    "another rate": changed(BATCHES, "event", "parts", 0, "event", "rate", to=0.1),
    "another kind of event": changed(PLAIN, "event", to={"kind": "LogisticBit", "sensitivity": 0.1}),
    "an assumption left out": changed(PLAIN, "assumptions", to=[]),
    "a condition left out": changed(PLAIN, "holds_if", 0, remove=True),
    "a condition reworded": changed(PLAIN, "holds_if", 1, to="all is well"),
    "an entry more": changed(PLAIN, "signed", to=True),
    "an entry less": changed(PLAIN, "curve", remove=True),
    "a format of the future": changed(PLAIN, "format", to=99),
    "infinity in words": changed(PLAIN, "epsilon", to="infinity"),
    "a Boolean for a number": changed(PLAIN, "event", "parts", GAUSSIAN, "count", to=True),
    "a format of the past": changed(PLAIN, "format", to=1),
    "a format that is left out": changed(PLAIN, "format", remove=True),
    "a version of the past": changed(PLAIN, "library_version", to="0.2.1"),
    "no version": changed(PLAIN, "library_version", to="the newest"),
    "a digest left out": changed(PLAIN, DIGEST, remove=True),
    "another digest": changed(PLAIN, DIGEST, to=lambda digest: digest[::-1]),
    "a device of several lines": changed(PLAIN, "device", to="cpu\nepsilon is 0.1"),
    "a device that clears the screen": changed(PLAIN, "device", to="\x1b[2Jcpu"),
    "half a letter": changed(PLAIN, "device", to="\ud800"),
    "a path of several lines": changed(PLAIN, "paths", 0, to="linear rows\nepsilon is 0.1"),
    "a unit with a line's end": changed(PLAIN, "unit", to="patient\n"),
    "a letter of another alphabet": changed(PLAIN, "statement", to=lambda words: words.replace("a", "\u0430", 1)),
    "a number that no float holds": changed(PLAIN, "curve", 4, "delta", to=10**400),
    "an epsilon that no float holds": changed(PLAIN, "epsilon", to=10**400),
    "no number": changed(PLAIN, "curve", 4, "delta", to=math.nan),
    "the order of the event": changed(PLAIN, "event", "parts", to=lambda parts: parts[::-1]),
    "a part in two": changed(PLAIN, "event", "parts", to=lambda parts: [*parts, parts[GAUSSIAN]]),
    "a hidden release for a shown one": changed(PLAIN, "event", "parts", GAUSSIAN, "event", "kind", to="AcceptBit"),
    "a shown bit for a hidden one": changed(BITS, "event", "parts", 0, "event", "kind", to="Gaussian"),
    "cells that overlap": changed(CELLS, "event", "cells", 0, "numbers", to=[0, 1]),
    "a cell that is not there": changed(CELLS, "event", "cells", 0, "numbers", to=[3]),
    "the order of the cells": changed(CELLS, "event", "cells", to=lambda cells: cells[::-1]),
    "cuts that cross": changed(CELLS, "event", "partitions", 0, "cuts", to=[0, 300, 50, 1000]),
    "places of another name": changed(CELLS, "event", "partitions", 0, "places", to="slots"),
    "less in the dearest cell": changed(CELLS, "event", "cells", 1, "event", "parts", 1, "count", to=7),
    "cells in a composition": changed(CELLS, "event", to=lambda e: {"kind": "Composed", "parts": [{"event": e}]}),
    "fewer runs to choose from": changed(CHOSEN, *CHOICE, "halting", to=lambda halting: halting * 1.01),
    "another shape": changed(CHOSEN, *CHOICE, "shape", to=1.0),
    "the dearer candidate left out": changed(CHOSEN, *CHOICE, "candidates", 0, remove=True),
    "a candidate twice": changed(CHOSEN, *CHOICE, "candidates", to=lambda candidates: candidates + candidates[:1]),
    "fewer coordinates": changed(NUMBERS, "event", "parts", 0, "event", "num_coordinates", to=0),
    "coordinates in fractions": changed(NUMBERS, "event", "parts", 0, "event", "num_coordinates", to=1.0),
    "what is exact left out": changed(NOT_PRIVATE, "event", to={"kind": "Gaussian", "noise_multiplier": 2.0}),
    "an exact release with an epsilon": changed(NOT_PRIVATE, "epsilon", to=1.0),
}
UNSEEN = {
    "fewer samplers' factors": changed(PLAIN, "event", "parts", RATIO, "count", to=1, seal=False),
    "less by a billionth": changed(PLAIN, "epsilon", to=lambda epsilon: epsilon * (1 - 5e-10), seal=False),
    "more in a cell that is not the dearest": changed(
        CELLS, "event", "cells", 0, "event", "parts", 1, "count", to=4, seal=False
    ),
    "a cut elsewhere": changed(CELLS, "event", "partitions", 0, "cuts", 1, to=51, seal=False),
    "a cell left out": changed(CELLS, "event", "cells", 0, remove=True, seal=False),
    "the cheaper candidate left out": changed(CHOSEN, *CHOICE, "candidates", 1, remove=True, seal=False),
    "another path": changed(PLAIN, "paths", to=[], seal=False),
    "another device": changed(PLAIN, "device", to="gpu", seal=False),
    "another version": changed(PLAIN, "library_version", to="0.3.99", seal=False),
    "another unit of what promises nothing": changed(NOT_PRIVATE, "unit", to="person", seal=False),
    "another noise beside an exact release": changed(
        NOT_PRIVATE, "event", "parts", 0, "event", "noise_multiplier", to=9.0, seal=False
    ),
}
"""Changes that no number and no sentence shows, and which therefore only the digest does."""


@pytest.mark.parametrize("name", ALTERATIONS)
def test_an_inconsistent_alteration_is_refused(name):
    document = ALTERATIONS[name]
    assert document not in (*WHOLE, BATCHES, NUMBERS, BITS)
    with pytest.raises(DpmcmcError) as refused:
        verify(json.dumps(document))
    assert str(refused.value).encode()
    assert (DIGEST in str(refused.value)) == (name in ("a digest left out", "another digest"))


@pytest.mark.parametrize("name", UNSEEN)
def test_an_alteration_that_no_number_shows_is_refused(name):
    with pytest.raises(InvalidArgument, match="sha256 of the certificate is not that of its other entries"):
        verify(json.dumps(UNSEEN[name]))
    sealed = UNSEEN[name] | {DIGEST: digest(UNSEEN[name])}  # the control: it is noticed by nothing else
    assert verify(json.dumps(sealed)).event_hash


def test_the_unaltered_ones_pass():
    assert len(ALTERATIONS) >= 20
    for document in (*WHOLE, BATCHES, NUMBERS, BITS):
        found = verify(json.dumps(document)).certificate
        assert document["epsilon"] == (found.epsilon if math.isfinite(found.epsilon) else "infinity")


def test_how_it_is_written_does_not_matter():
    for document in WHOLE:
        assert verify(json.dumps(document, indent=7, sort_keys=True)) == verify(json.dumps(document))


def test_certificates_of_earlier_formats_need_no_digest():
    older = changed(PLAIN, "format", to=2, seal=False) | {"library_version": "0.2.1"}
    del older[DIGEST]
    assert verify(json.dumps(older)).certificate.format == 2
    with pytest.raises(InvalidArgument, match="no certificate has"):
        verify(json.dumps(older | {DIGEST: digest(older)}))


@pytest.fixture
def paid(tmp_path):
    """A ledger in which one run was settled, and its certificate."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    ledger = Ledger.create(url)
    ledger.register("patients", Budget(4.0, 1e-6), REPLACE)
    ledger.reserve("patients", Gaussian(9.0), description="first").settle()
    run = ledger.reserve("patients", Gaussian(5.0) * 2, description="second")
    run.settle()
    file = tmp_path / "certificate.json"
    file.write_text(Certificate(Gaussian(5.0) * 2, REPLACE, 1e-6).to_json())
    return url, run.run, file


def test_the_ledger_has_the_last_word(paid):
    url, run, file = paid
    match = find_entry(verify(file.read_text()).certificate, Ledger(url), run)
    assert match.entry.run == run
    consistent = Certificate(Gaussian(6.0) * 2, REPLACE, 1e-6)  # altered as a whole: the file alone cannot tell
    assert verify(consistent.to_json()).certificate == consistent
    for named in (None, run, "no such run"):
        with pytest.raises(InvalidArgument, match=r"SHA-256|never settled"):
            find_entry(consistent, Ledger(url), named)
    with pytest.raises(InvalidArgument, match="library version"):
        find_entry(Certificate(Gaussian(5.0) * 2, REPLACE, 1e-6, library_version="9.9"), Ledger(url), run)


def test_at_the_shell(paid):
    url, run, file = paid
    done = CliRunner().invoke(app, ["verify", str(file), "--ledger", url])
    assert done.exit_code == 0, done.output
    assert "consistent" in done.output
    assert run in done.output
    plain = json.loads(CliRunner().invoke(app, ["verify", str(file), "--json"]).output)
    assert all(figure["lower"] <= figure["upper"] for figure in plain["figures"])
    file.write_text(file.read_text().replace('"noise_multiplier": 5.0', '"noise_multiplier": 6.0'))
    refused = CliRunner().invoke(app, ["verify", str(file)])
    assert refused.exit_code != 0
    assert isinstance(refused.exception, InvalidArgument)
    assert isinstance(CliRunner().invoke(app, ["verify", str(file.parent / "none.json")]).exception, InvalidArgument)


@pytest.mark.parametrize("name", ["unit", "assumptions", "paths", "device", "delta"])
def test_what_the_ledger_does_not_confirm_is_said(name, paid):
    """A consistent change of what the ledger does not hold passes; the output says of what that is so."""
    url, _, file = paid
    changed = {"unit": "row", "assumptions": ("another",), "paths": ("reference",), "device": "another"}
    stated = {name: changed[name]} if name in changed else {}
    file.write_text(Certificate(Gaussian(5.0) * 2, REPLACE, 1e-6 if stated else 1e-9, **stated).to_json())
    done = CliRunner().invoke(app, ["verify", str(file), "--ledger", url])
    assert done.exit_code == 0, done.output
    words = next(line for line in done.output.splitlines() if "not confirmed" in line)
    assert name in words
    plain = json.loads(CliRunner().invoke(app, ["verify", str(file), "--ledger", url, "--json"]).output)
    assert name in plain["ledger_does_not_confirm"]
    alone = json.loads(CliRunner().invoke(app, ["verify", str(file), "--json"]).output)
    assert alone["ledger_does_not_confirm"] is None


@pytest.mark.parametrize(
    "settings", ['ledger = "x"', "ledger = [1, 2]", "[ledger]\nrun = 5", "[ledger]\nrun = [1]", "\xff", "a ="]
)
def test_settings_that_name_no_run_are_refused(settings, paid):
    url, _, file = paid
    file.with_name("config.toml").write_text(settings, encoding="latin1")
    done = CliRunner().invoke(app, ["verify", str(file), "--ledger", url])
    assert isinstance(done.exception, InvalidArgument), done.exception
    assert "name the run with --run" in str(done.exception) or "name it with --run" in str(done.exception)


def test_names_of_entries_are_not_printed_raw():
    plain = Certificate(Gaussian(5.0), REPLACE, 1e-6).to_dict()
    for name in ("\x1b[31mRED\x1b]0;owned\x07", "\ud800", "x" * 10_000):
        altered = {**plain, name: 1}
        altered[DIGEST] = digest(altered) if name.isascii() else plain[DIGEST]
        with pytest.raises(InvalidArgument, match="entries that no certificate has") as refused:
            verify(json.dumps(altered))
        assert str(refused.value).isprintable()
        assert len(str(refused.value)) < 300


@pytest.mark.parametrize("version", ["9" * 5_000 + ".0", "\u0661.\u0662", "0." + "3" * 5, "x", "1"])
def test_a_version_is_two_short_numbers(version):
    with pytest.raises(InvalidArgument, match="is no version") as refused:
        verify(Certificate(Gaussian(5.0), REPLACE, 1e-6, library_version=version).to_json())
    assert len(str(refused.value)) < 300
