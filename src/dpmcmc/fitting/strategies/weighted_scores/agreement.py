"""Do the blocks that led the way agree with all rows, which are read once? In a table that is sorted they need not.

The result rests on all rows, whatever the blocks said. But it is one step away from where they led, and how far that
step misses its end, for answers are not linear, grows with the square of its length.
"""

import numpy as np
from scipy import special

from dpmcmc.diagnostics.quality import BAD_ERROR, FAIR_ERROR, Quality, worst
from dpmcmc.fitting.in_words import in_words
from dpmcmc.fitting.strategies.weighted_scores.draws import Joined
from dpmcmc.fitting.strategies.weighted_scores.release import Release
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats

RARE = 1e-4
"""How rarely blocks at random positions of a table without an order are told to disagree with it."""

BEND, LEFT = 0.6, 0.3
"""By how much answers are not linear: for usual records in steps of a standard deviation over the root of the number of
records, and beside how much a usual record knows more at the end of a step, of which the most is corrected."""


def agreement(joined: Joined, of_blocks: Release, share: float, size: float) -> float:
    """Return how probable a larger distance between the root of the blocks and that of all rows is, were they alike.

    Args:
        joined: the last release, of all rows.
        of_blocks: that of the blocks, as if there were as many of their rows, with the same bounds.
        share: the share of the rows that the blocks are; all rows contain them.
        size: the number of records.
    """
    last = joined.release
    if any(np.linalg.eigvalsh(one.slope)[0] <= 2 * one.noise_level for one in (of_blocks, last)):
        return 1.0
    gain = np.linalg.inv(last.slope)
    root = last.point + last.whitening.factor @ gain @ last.score
    move = of_blocks.whitening.inverse @ (root - of_blocks.point)
    turn = last.whitening.inverse @ of_blocks.whitening.factor @ np.linalg.inv(of_blocks.slope)
    apart = turn @ (of_blocks.score - of_blocks.slope @ move)
    squared = float(move @ move)
    noise = of_blocks.score_variance + of_blocks.slope_sd**2 * squared + squared**2 / size
    sampled = (1 / share - 1) * of_blocks.data_variance(of_blocks.slope)
    covariance = turn @ (sampled + noise * np.eye(len(apart))) @ turn.T + last.score_variance * gain @ gain.T
    return float(special.chdtrc(len(apart), max(apart @ np.linalg.solve(covariance, apart), 0.0)))  # line 5


def missed(joined: Joined, mean: Floats, size: float, knows: tuple[float, float]) -> float:
    """Return by how many standard deviations the last step misses its end, about.

    Answers are not linear, and the slope has noise, which tells the more the longer the step is.

    Args:
        joined: the last release.
        mean: where it leads.
        size: the number of records.
        knows: what a usual record knows of its predictor where it was asked, and where it leads.
    """
    release = joined.release
    move = np.linalg.norm(release.whitening.inverse @ (mean - release.point))
    telling = size * min(1.0, 4 * knows[0])  # of rare outcomes few records tell, and each of them much
    bends = np.hypot(BEND * move / np.sqrt(telling), LEFT * np.log(knows[1] / knows[0]) / 2)
    slopes = release.slope_sd / max(float(np.mean(np.diag(release.slope))), release.noise_level)
    return float(move * np.hypot(bends / np.sqrt(len(mean)), slopes / np.sqrt(2)))


def with_agreement(quality: Quality, p_value: float, missed: float) -> Quality:
    """Return a verdict with what the blocks say of it."""
    verdicts, reasons = [quality.verdict], list(quality.reasons)
    error = None if quality.predicted_error is None else float(np.hypot(quality.predicted_error, missed))
    if not missed <= FAIR_ERROR:
        verdicts.append("fair" if missed <= BAD_ERROR else "bad")
        reasons.append(
            f"The pilot on blocks of rows ended far from the result, which one step misses by about "
            f"{in_words(missed)} standard deviations: state passes=2 or more, or shuffle the table if it is sorted."
        )
    elif not p_value >= RARE:
        verdicts.append("fair")
        reasons.append(
            "The pilot's blocks of rows disagree with all rows by more than chance and noise explain: the table is "
            "sorted, and some kinds of rows are in few places. The result rests on all rows, and on one step from "
            "the pilot's end; passes=2 tests it."
        )
    return Quality(worst(verdicts), tuple(reasons), quality.parameters, error)
