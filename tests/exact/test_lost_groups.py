"""Groups that are not seen, and groups whose scores are far from linear."""

from types import SimpleNamespace

import numpy as np
import pytest

from dpmcmc.diagnostics.quality import Grade
from dpmcmc.fitting.strategies.grouped_scores.bent import LONGEST, straightened
from dpmcmc.fitting.strategies.grouped_scores.posterior import Drawn
from dpmcmc.fitting.strategies.grouped_scores.verdict import shares_of_spreads
from dpmcmc.fitting.strategies.weighted_scores.grades import NOT_SEEN
from dpmcmc.fitting.strategies.weighted_scores.lost_groups import FEW_SEEN, finding, with_lost_groups
from dpmcmc.model.formula.families.poisson import Poisson


def graded(lost, number=10):
    """Grades of a fit in which so many groups are not seen."""
    each = {f"1|site[s{place}]": Grade("bad", (NOT_SEEN,)) if place < lost else Grade() for place in range(number)}
    return {"intercept": Grade(), "x": Grade(), **each, "1|site_sigma": Grade()}


@pytest.mark.parametrize(("lost", "marked"), [(0, 0), (3, 0), (4, 1), (5, 1), (6, 6), (10, 2)])
def test_the_spread_is_marked_where_many_groups_are_lost_and_all_they_share_where_most_are(lost, marked):
    wide = dict.fromkeys(graded(lost), 0.5**2)
    found = with_lost_groups(graded(lost), ["1|site_sigma"], wide, 1000.0)
    few = {name for name, grade in found.items() if FEW_SEEN in grade.reasons}
    assert len(few) == marked
    assert ("1|site_sigma" in few) == bool(finding(found)) == (marked > 0)
    assert ("intercept" in few) == (marked > 1)
    assert not found["x"].reasons


def test_effects_that_are_all_near_zero_are_not_lost():
    narrow = dict.fromkeys(graded(10), 0.03**2)
    assert with_lost_groups(graded(10), ["1|site_sigma"], narrow, 1000.0) == graded(10)


class Rates:
    """Groups of counts with these logarithms of their means, as `straightened` reads them."""

    def __init__(self, logs):
        self.logs = np.asarray(logs, float)
        common = SimpleNamespace(shapes=lambda xp, _: xp.zeros(0))
        self.grouped = SimpleNamespace(scores=Poisson(1000.0), common=common)

    def predictors(self, point):
        del point
        return self.logs

    def spread(self, point):
        del point
        return 0.0

    def per_record(self, point, bound):
        del point, bound
        return np.exp(self.logs)


POINT = SimpleNamespace(common=np.zeros(0))


def test_counts_that_are_not_cut_lead_to_the_logarithm_of_their_mean():
    """Linear scores of counts are off by the mean over what was taken for it, less one."""
    truth = np.array([-0.9, -0.3, 0.0, 0.1, 0.4, 0.8])
    found = straightened(Rates(np.full(6, 0.5)), POINT, 20.0, np.expm1(truth))
    assert np.allclose(found, truth, atol=0.01)


def test_counts_that_are_all_cut_lead_as_far_as_they_may():
    known = Rates(np.array([0.0, 4.0]))
    found = straightened(known, POINT, 1.0, np.array([50.0, 50.0]))
    assert found[0] == LONGEST
    assert 0 < found[1] < 0.5, "a record knows more of a large rate: steps are shorter"
    assert np.allclose(straightened(known, POINT, 1.0, np.zeros(2)), 0.0, atol=1e-6)


@pytest.mark.parametrize(("wider", "kept"), [(1.0, 1.0), (2.0, 0.25)])
def test_the_variance_of_a_spread_is_held_against_what_it_is_without_privacy(wider, kept):
    """Effects known up to v tell of a spread s what as many normal numbers of variance s^2 + v would."""
    number, square, variance = 200, 0.36, 0.09
    blocks = np.full((number, 1, 1), 1 / variance)
    known = SimpleNamespace(slope=lambda *_: SimpleNamespace(blocks=blocks))
    of_square = 2 * (square + variance) ** 2 / number
    sd = wider * np.sqrt(of_square / square) / 2
    spreads = np.sqrt(square) + sd * np.tile([-1.0, 1.0], 500)[:, None]
    drawn = Drawn(np.zeros((1000, number, 1)), np.zeros((1000, 1)), spreads)
    grouped = SimpleNamespace(spreads=[SimpleNamespace(name="1|site")])
    assert shares_of_spreads(grouped, known, drawn)["1|site"] == pytest.approx(kept, rel=0.02)
