"""How long `dpmcmc verify` takes: seconds for what the library writes, and a refusal at once for what takes minutes.

And the parts that make it quick: laws in whole numbers, and the error function on a lattice.
"""

import json
import math
import time
from fractions import Fraction

import pytest
from flint import fmpz

from dpmcmc.accounting import (
    AcceptBit,
    Adjacency,
    Approximation,
    BarkerTest,
    Certificate,
    FixedBatchGaussian,
    Gaussian,
    LogisticBit,
    Parallel,
    Partition,
    PoissonGaussian,
    RatioApproximation,
    SphericalLaplace,
    accountants,
    compose,
    repeat_and_select,
    schedule,
)
from dpmcmc.accounting.certificate import DIGEST, digest
from dpmcmc.accounting.event import counts
from dpmcmc.errors import InvalidArgument
from dpmcmc.verification import laws, verify, work
from dpmcmc.verification.balls import ball, precision
from dpmcmc.verification.erfc import fast_erfc

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_OR_REMOVE_ONE
NOISE = Approximation(2e-24) + RatioApproximation(8e-14)


def poisson(kinds, times):
    """So many noise levels, each taken so many times."""
    return compose(PoissonGaussian(0.01, 1.0 + 0.1 * i, ADD) * (times + 37 * i) for i in range(kinds))


LONG = {
    "many sampled steps": (PoissonGaussian(1e-3, 1.0, ADD) * 20_000, ADD),
    "thirty noise levels": (compose(PoissonGaussian(0.05, 2.0 + 0.2 * i, ADD) * 20 for i in range(30)), ADD),
    "thirty schedules": (poisson(30, 100), ADD),
    "fixed batches of thirty kinds": (
        compose(FixedBatchGaussian(500, 100_000, 1.0 + 0.1 * i) * 200 for i in range(30)),
        REPLACE,
    ),
    "a bit of everything": (
        compose(
            [
                *(PoissonGaussian(0.01, 1.0 + 0.1 * i, REPLACE) * 100 for i in range(20)),
                *(Gaussian(9.0) * 3, AcceptBit(31.0) * 100, LogisticBit(0.05) * 100),
                *(FixedBatchGaussian(100, 10_000, 3.0) * 100, BarkerTest(1_000, 100_000, 2.0, 1.0) * 100),
                *(SphericalLaplace(6, 40.0) * 5, NOISE * 10),
            ]
        ),
        REPLACE,
    ),
}


@pytest.mark.parametrize("name", LONG)
def test_long_schedules_take_seconds(name):
    """Each took 1 to 4 CPU seconds when it was written, and 6 to 33 before."""
    event, adjacency = LONG[name]
    document = Certificate(event, adjacency, 1e-6).to_json()
    start = time.process_time()
    found = verify(document)
    assert time.process_time() - start < 10
    assert all(figure.is_sharp for figure in found.figures)
    stated = [figure for figure in found.figures if figure.stated is not None]
    assert all(figure.lower * (1 - 1e-6) <= figure.stated for figure in stated)
    epsilon = next(figure for figure in stated if figure.name.startswith("epsilon at"))
    assert epsilon.stated <= epsilon.upper * 1.001  # accountants are hardly above


def cells_of(events):
    return Parallel(Partition(tuple(range(len(events) + 1)), "0123456789abcdef" * 2), dict(enumerate(events)))


HOSTILE = {
    "hundreds of spheres": (compose(SphericalLaplace(3 + i, 1.0 + i / 100) for i in range(400)), REPLACE),
    "hundreds of Barker batches": (
        compose(BarkerTest(100 + i, 10_000 + i, 2.0, 1.0) * (1 + i) for i in range(300)),
        REPLACE,
    ),
    "thousands of rates": (
        compose(PoissonGaussian(0.01 + i / 1e6, 1.0 + i / 100, ADD) * (1 + i) for i in range(3_000)),
        ADD,
    ),
    "thousands of cells": (cells_of([LogisticBit(0.01 + i / 1e6) * 10 for i in range(2_000)]), REPLACE),
    "cells with long schedules": (
        cells_of([PoissonGaussian(1e-3, 1.0 + i / 100, REPLACE) * 20_000 for i in range(300)]),
        REPLACE,
    ),
    "a selection of hundreds": (
        repeat_and_select([BarkerTest(100 + i, 10_000 + i, 2.0, 1.0) for i in range(300)], 4.0),
        REPLACE,
    ),
}


def unpriced(event, adjacency):
    """Return a certificate that says something about an event, which nobody has priced."""
    plain = Certificate(Gaussian(5.0), adjacency, 1e-6).to_dict() | {"event": event.to_dict()}
    return json.dumps(plain | {DIGEST: digest(plain)})


@pytest.mark.parametrize("name", HOSTILE)
def test_what_would_take_minutes_is_refused_before_it_is_begun(name):
    text = unpriced(*HOSTILE[name])
    start = time.process_time()
    with pytest.raises(InvalidArgument, match="the certificate is not checked"):
        verify(text)
    assert time.process_time() - start < 5


def test_what_is_far_too_long_is_not_read():
    with pytest.raises(InvalidArgument, match="characters"):
        verify(" " * work.MOST_CHARACTERS + "{}")


@pytest.mark.parametrize("delta", [5e-324, 1e-300, 1 - 1e-16])
def test_a_delta_at_the_end_of_floats_does_not_hang(delta):
    start = time.process_time()
    found = verify(Certificate(LogisticBit(0.1) * 30, REPLACE, delta).to_json())
    assert found.figures
    assert time.process_time() - start < 10


def test_the_error_function_is_enclosed():
    """Ten thousand points, against Arb's own function with sixty bits more."""
    for bits in (90, 200):
        with precision(bits):
            erfc = fast_erfc()
            for place in range(-1_000, 1_000):
                found = erfc(ball(place / 97))
                with precision(bits + 60):
                    true = ball(place / 97).erfc()
                assert found.overlaps(true)
                assert found.rad() < ball(2) ** (5 - bits)
                assert not (found + ball(2) ** (8 - bits)).overlaps(true)  # the control


def test_products_of_laws_are_enclosed():
    """Powers of a law in whole numbers with few bits hold those that are computed exactly, and not others."""
    chances = [Fraction(1, 7), Fraction(2, 7), Fraction(3, 7), Fraction(1, 7)]
    bits, times = 40, 11
    exact = [Fraction(1)]
    for _ in range(times):
        exact = [
            sum((exact[i - j] * chances[j] for j in range(4) if 0 <= i - j < len(exact)), Fraction(0))
            for i in range(len(exact) + 3)
        ]
    rounded = [int(chance * 2**bits) for chance in chances]
    step = laws.Law.of(0, [fmpz(one) for one in rounded], 4, ball(0), 0, bits, 0)
    power = laws.product([(step, times)], 2**20)
    kept = [Fraction(0)] * power.first + [Fraction(int(one), 2**bits) for one in power.masses.coeffs()]
    kept += [Fraction(0)] * (len(exact) - len(kept))
    apart = sum(abs(one - other) for one, other in zip(kept, exact, strict=True))
    assert 0 < apart <= Fraction(power.off, 2**bits) < Fraction(1, 2**15)


def test_hundreds_of_kinds_without_noise_are_priced():
    """Barker tests are not rounded, however many there are; there was nothing to round, which raised."""
    event = compose(BarkerTest(100, 10_000 + i, 2.0, 1.0) for i in range(300))
    assert len(schedule.shortened(counts(event))) == 300


def test_a_window_that_no_float_tells_promises_nothing():
    """Two steps of sizes that are too far apart: the price had raised."""
    event = PoissonGaussian(1e-9, 0.1, ADD) * 2**62 + PoissonGaussian(0.9, 9.0, ADD)
    assert accountants.epsilon(event, 1e-6, "pld") == math.inf
    assert math.isfinite(accountants.epsilon(event, 1e-6))
