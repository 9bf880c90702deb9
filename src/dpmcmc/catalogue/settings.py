"""What the settings of several samplers have in common, from public facts alone.

In whitened coordinates the clips are known (`problem_size`). The budget and the number of steps fix the noise, and the
noise fixes how far a step may go: no sampler needs tuning.
"""

import math

from dpmcmc.catalogue.problem_size import ProblemSize

TEST_NOISE = 2.38
"""The standard deviation of the noise in a penalty test at which a random walk gets furthest for its budget."""

RATE = 0.25
"""The share of the records in a batch of the stochastic-gradient samplers: small batches heat the chain."""

BATCH_SHARE = 10
"""A batch of the minibatch tests is one record in so many."""

FRICTION = 1.0

POLISH_SHARES = (0.04, 0.08, 0.88)
"""What each gradient of the refinement takes of its budget: the first lead near the mode, the last one is precise."""

WALK_EFFICIENCY = 0.083
"""Independent draws of a random walk on a round normal, in units of (mu / C)^2 / d; replace-one.

Short moves that are accepted at a rate a move each coordinate like a diffusion, and are worth a |move|^2 / (4 d) draws
each. With noise of standard deviation T in the test, a is 2 Phi(-T / 2), and mu pays for T^2 (mu / (2 C))^2 of summed
squares of moves: T^2 Phi(-T / 2) / 8, largest at T = 2.38.
"""


def longest_move(facts: ProblemSize, noise: float) -> float:
    """Return the distance at which a penalty test's noise reaches `TEST_NOISE`; at most what a random walk uses."""
    return min(2.38, TEST_NOISE / (facts.clips_moved * noise * facts.slope_clip))


def walk_error(facts: ProblemSize, floor: float, inverse_mu: float) -> float:  # noqa: ARG001
    """Return by how many standard deviations the mean of a random walk with penalty tests is off."""
    per_draw = facts.slope_clip * math.sqrt(facts.dimension / WALK_EFFICIENCY)
    return facts.clips_moved / 2 * per_draw * inverse_mu


def friction_step(facts: ProblemSize, noise: float) -> float:
    """Return the step of a sampler with friction whose own noise is that of its gradients."""
    return min(0.1, 2 * FRICTION * (RATE / (facts.gradient_clip * noise)) ** 2)


def batch_size(facts: ProblemSize) -> int:
    """Return the records in a batch of the minibatch tests."""
    return max(2, facts.num_records // BATCH_SHARE)
