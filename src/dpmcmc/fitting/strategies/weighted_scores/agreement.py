"""Tests whether the pilot's blocks of rows agree with all rows, which are read once. In a sorted table they need not.

The result depends on all rows, not on the blocks. But it is one Newton step away from the pilot's estimate, and the
error of this step, because scores are not linear, grows with the square of its length.
"""

import numpy as np
from scipy import special

from dpmcmc.diagnostics.quality import BAD_ERROR, FAIR_ERROR, Quality, worst
from dpmcmc.fitting.in_words import in_words
from dpmcmc.fitting.strategies.weighted_scores.draws import Joined
from dpmcmc.fitting.strategies.weighted_scores.release import Release
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats

RARE = 1e-4
"""False-alarm rate for blocks at random positions of an unsorted table."""

BEND, LEFT = 0.6, 0.3
"""Size of the nonlinearity of scores: for usual records, in units of a standard deviation over the root of the number
of records; and relative to the change of a usual record's information along a step, most of which is corrected."""


def agreement(joined: Joined, of_blocks: Release, share: float, size: float) -> float:
    """Return the p-value of the distance between the roots from the blocks and from all rows.

    Args:
        joined: the last release, of all rows.
        of_blocks: the release of the blocks, rescaled to all rows, with the same bounds.
        share: the share of the rows that are in the blocks; all rows contain them.
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
    """Return the approximate error of the last step, in standard deviations.

    Scores are not linear, and the slope has noise, whose effect grows with the length of the step.

    Args:
        joined: the last release.
        mean: the end of the step.
        size: the number of records.
        knows: the information of a usual record on its predictor at the queried point, and at the end.
    """
    release = joined.release
    move = np.linalg.norm(release.whitening.inverse @ (mean - release.point))
    telling = size * min(1.0, 4 * knows[0])  # of rare outcomes few records tell, and each of them much
    bends = np.hypot(BEND * move / np.sqrt(telling), LEFT * np.log(knows[1] / knows[0]) / 2)
    slopes = release.slope_sd / max(float(np.mean(np.diag(release.slope))), release.noise_level)
    return float(move * np.hypot(bends / np.sqrt(len(mean)), slopes / np.sqrt(2)))


def with_agreement(quality: Quality, p_value: float, missed: float) -> Quality:
    """Return a verdict, with a reason if the blocks disagree."""
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
