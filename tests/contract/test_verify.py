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
from dpmcmc.cli.main import app
from dpmcmc.errors import DpmcmcError, InvalidArgument
from dpmcmc.verification import hold_against, verify

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_OR_REMOVE_ONE
NOISE = Approximation(2e-24) + RatioApproximation(8e-14)

EVENTS = {
    "a fit": ((Gaussian(9.0) + NOISE) * 3 + (Gaussian(20.0) + NOISE) * 8, REPLACE),
    "hidden decisions": ((AcceptBit(31.6) + NOISE) * 100 + Gaussian(174.0) * 2600, REPLACE),
    "Barker decisions": (LogisticBit(0.05) * 100, ADD),
    "Poisson, add or remove": (PoissonGaussian(0.05, 2.0, ADD) * 20, ADD),
    "Poisson, replace": (PoissonGaussian(0.05, 4.0, REPLACE) * 20, REPLACE),
    "fixed batches": (FixedBatchGaussian(10, 200, 3.0) * 20, REPLACE),
    "Barker batches": (BarkerTest(100, 2_000, 2.0, 1.0) * 20, REPLACE),
    "a coarse sampler": (Gaussian(31.6) * 100 + Approximation(1e-9), REPLACE),
    "spherical noise": (SphericalLaplace(6, 4.0) * 2 + Gaussian(30.0) + NOISE, REPLACE),
    "one number": (SphericalLaplace(1, 2.0) * 3, ADD),
    "many numbers": (SphericalLaplace(300, 0.4), REPLACE),
    "a selection": (repeat_and_select([Gaussian(9.0) + NOISE, LogisticBit(0.1) * 3], 4.0), REPLACE),
    "cells": (Parallel(Partition((0, 10, 99)), {0: Gaussian(9.0), 1: LogisticBit(0.1) * 9}), REPLACE),
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


PLAIN = json.loads(Certificate(EVENTS["a fit"][0], REPLACE, 1e-6, ("a condition",), unit="patient").to_json())
SAMPLER, GAUSSIAN = 0, 1
"""Where in the event of a fit the distance of its samplers stands, and its first sums."""

BATCHES = json.loads(Certificate(PoissonGaussian(0.2, 6.0, ADD) * 3, ADD, 1e-6).to_json())


def changed(document, *path, to=None, remove=False):
    copy = json.loads(json.dumps(document))
    place = copy
    for key in path[:-1]:
        place = place[key]
    if remove:
        del place[path[-1]]
    else:
        place[path[-1]] = to(place[path[-1]]) if callable(to) else to
    return copy


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
    "an entry more": PLAIN | {"signed": True},
    "an entry less": changed(PLAIN, "curve", remove=True),
    "a format of the future": changed(PLAIN, "format", to=99),
    "infinity in words": changed(PLAIN, "epsilon", to="infinity"),
    "a Boolean for a number": changed(PLAIN, "event", "parts", GAUSSIAN, "count", to=True),
}


@pytest.mark.parametrize("name", ALTERATIONS)
def test_an_inconsistent_alteration_is_refused(name):
    document = ALTERATIONS[name]
    assert document not in (PLAIN, BATCHES)
    with pytest.raises(DpmcmcError):
        verify(json.dumps(document))


def test_the_unaltered_ones_pass():
    assert len(ALTERATIONS) >= 20
    for document in (PLAIN, BATCHES):
        assert verify(json.dumps(document)).certificate.epsilon == document["epsilon"]


@pytest.fixture
def paid(tmp_path):
    """A ledger in which one run was settled, and its certificate."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    ledger = Ledger.create(url)
    ledger.register("patients", Budget(4.0, 1e-6), REPLACE)
    ledger.reserve("patients", Gaussian(9.0), what="first").settle()
    run = ledger.reserve("patients", Gaussian(5.0) * 2, what="second")
    run.settle()
    file = tmp_path / "certificate.json"
    file.write_text(Certificate(Gaussian(5.0) * 2, REPLACE, 1e-6).to_json())
    return url, run.run, file


def test_the_ledger_has_the_last_word(paid):
    url, run, file = paid
    booked = hold_against(verify(file.read_text()).certificate, Ledger(url), run)
    assert booked.entry.run == run
    consistent = Certificate(Gaussian(6.0) * 2, REPLACE, 1e-6)  # altered as a whole: the file alone cannot tell
    assert verify(consistent.to_json()).certificate == consistent
    for named in (None, run, "no such run"):
        with pytest.raises(InvalidArgument, match=r"SHA-256|never paid"):
            hold_against(consistent, Ledger(url), named)
    with pytest.raises(InvalidArgument, match="library version"):
        hold_against(Certificate(Gaussian(5.0) * 2, REPLACE, 1e-6, library_version="9.9"), Ledger(url), run)


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
