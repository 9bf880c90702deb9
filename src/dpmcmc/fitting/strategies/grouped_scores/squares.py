"""What scores tell of squares and cubes: the effects of groups are off by so much where they are asked that it counts.

At a point that is off by d in a group's predictors the mean score is not linear in d. The scale of the residuals seems
larger by what the effects are off, say. How large d is on average is known from the posterior, and how the mean score
bends from the law of the response: with l the logarithm of its density E_d[score] is E[score (1 + d l' + d^2 l'^2 / 2)]
up to third order, where l'' does not depend on the response, as with a normal law and with canonical links. The term of
third order is d^3 (l'^3 / 6 + l' l'' / 2): bounded scores of groups that are far off say less than in proportion, and
without it their effects would all come out a little too small.
"""

from dataclasses import replace

import numpy as np

from dpmcmc.fitting.strategies.grouped_scores.known import NODES, Known
from dpmcmc.fitting.strategies.grouped_scores.release import Release
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.model.bounded_scores.one_row import OneRow


def without_squares(known: Known, release: Release, squares: Floats, cubes: Floats) -> Release:
    """Return a release without what the squares of errors, and their cubes, add to its scores.

    Args:
        known: of the columns.
        release: scores at a point.
        squares: the mean squares of how far the predictors of each group are off there.
        cubes: the mean cubes.
    """
    grouped, told = known.grouped, known.grouped.told
    bends, grows, third = _bends(known, release)
    times = known.rows * release.radii.weights * squares
    score, common = release.score.copy(), release.common_score.copy()
    for place, term in enumerate(grouped.terms):
        if term.number is None:
            score[:, place] -= times * bends[:, 0] + known.rows * release.radii.weights * cubes * third
    linear = np.flatnonzero(told < grouped.common.num_linear)
    common[linear] -= float(times @ grows) * known.along(release.point)
    for place, shape in enumerate(grouped.common.free):
        common[len(linear) + place] -= float(times @ bends[:, 1 + shape])
    return replace(release, score=score, common_score=common)


def _bends(known: Known, release: Release) -> tuple[Floats, Floats, Floats]:
    """Return half of how scores bend in each group (groups, arguments), and how that by predictors grows with these.

    Last comes what stands before the cube, in scores by predictors.
    """
    scores, shapes = known.grouped.scores, known.grouped.common.shapes(np, release.point.common)
    predictors = known.predictors(release.point)
    nodes = np.linspace(predictors.min() - 0.1, predictors.max() + 0.1, 2 if isinstance(scores, OneRow) else NODES)
    found: list[Floats] = []
    cubes: list[float] = []
    for node in nodes:
        law = scores.under_model(np.array([node]), shapes, release.radii.bound)
        own = law.scores[:, 0]
        found.append(0.5 * (law.probabilities * own**2) @ law.bounded)
        cubic = own**3 / 6 - own * float(law.probabilities @ own**2) / 2
        cubes.append(float((law.probabilities * cubic) @ law.bounded[:, 0]))
    each = np.array(found)
    bends = np.stack([np.interp(predictors, nodes, column) for column in each.T], axis=1)
    third = np.interp(predictors, nodes, np.array(cubes))
    return bends, np.interp(predictors, nodes, np.gradient(each[:, 0], nodes)), third
