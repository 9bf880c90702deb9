"""How to see the sum behind a release through the public API alone: next to no noise, and none of it patched.

With `noise_multiplier=QUIET` under replace-one the noise has 1/32 of a clip on each coordinate. That is the least for
which `Sum` takes the path of its ordinary settings; with `QUIETEST`, 1/256 of a clip, lattices are as fine as they
get. What a release shows of a sum is then bounded from below: the norm of d-dimensional noise exceeds sd * (sqrt(d) +
t) with a probability of at most exp(-t^2 / 2), so a sum that is within its bound fails a check here with 1.3e-14 at t
= 8.
"""

import numpy as np

QUIET, QUIETEST = 1 / 64, 2.0**-9
"""Noise multipliers under replace-one, where a sensitivity is two clips. Double them under add-or-remove-one."""

ROOM = 8
"""Standard deviations: of the false-alarm rate exp(-32) = 1.3e-14 a check."""


def noise_room(noisy):
    """How long the noise of one release may be; beyond it with a probability below exp(-ROOM^2 / 2)."""
    return float(np.sqrt(np.max(noisy.variance)) * (np.sqrt(np.size(noisy.value)) + ROOM))


def norm(value):
    return float(np.linalg.norm(np.ravel(np.asarray(value, np.float64))))


def least_norm(noisy):
    """A lower bound on the norm of the sum behind a release."""
    return max(0.0, norm(noisy.value) - noise_room(noisy))


def least_distance(one, other):
    """A lower bound on the distance of the sums behind two releases; the false-alarm rates add up."""
    return max(
        0.0, norm(np.asarray(one.value, float) - np.asarray(other.value, float)) - noise_room(one) - noise_room(other)
    )


def assert_within(noisy, bound, what="the sum"):
    """The sum behind a release is no longer than `bound`."""
    assert np.all(np.isfinite(noisy.value)), f"{what} is not finite"
    least = least_norm(noisy)
    assert least <= bound, f"{what} has a norm of at least {least / bound:.4g} times its bound"
