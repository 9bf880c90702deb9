"""F1: noise that was drawn in float32 has no odd values far out, so that the last bit of a sum shows through it.

The attack: two tables whose exact sums are next to each other on the lattice, one even and one odd. The other records
put the sum 2^24 steps below zero, so that noise beyond two standard deviations takes it to small numbers, which
float32 holds exactly. A float32 has no odd integers beyond 2^24: where such noise was added, the release is odd if
the sum is.

What must happen: whatever mode a ledger pays for, the last bit of the release tells nothing that its price does not
allow. Of 50,000 runs of each table about 500 show their last bit. False alarms: the bound holds with 1 - 1e-6.
"""

import pytest

from dpmcmc.audits.audit import audit
from dpmcmc.audits.lattice import parity

RUNS, DELTA = 50_000, 1e-6


def test_exact_noise_shows_no_last_bit():
    found = audit(parity(1.0, DELTA, "exact"), RUNS, delta=DELTA)
    assert found.lower_no_assumption <= found.claimed


@pytest.mark.xfail(
    reason="hardened noise is drawn in float32, and shows the last bit of a sum where it is large: the mode is broken",
    strict=True,
)
def test_hardened_noise_shows_no_last_bit():
    found = audit(parity(1.0, DELTA, "hardened"), RUNS, delta=DELTA)
    assert found.lower_no_assumption <= found.claimed


def test_the_attack_works_on_plain_float_noise():
    """For which nothing is claimed: the negative control."""
    found = audit(parity(1.0, DELTA, "float"), RUNS, delta=DELTA)
    assert found.lower_no_assumption > 2.0
