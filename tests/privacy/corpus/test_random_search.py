"""The random search of `search.py`, in small with every run of the tests and in large with the slow ones.

The attack: programs that nobody thought of: random expressions in which products cancel, on every mechanism and path.

What must happen: they run, and none breaks its bound: one clip for a record alone, two for one that is replaced.

False alarms: 1.3e-14 a check, of some 10^4 checks: below 1e-9 in all.
"""

import numpy as np
import pytest
from search import KINDS, Case, cases, draw_expression, evaluate, leaves_of, run_case, search, show


def broken(found) -> list[str]:
    """Return the bounds that were broken; a search that checked nothing is one."""
    return found.hits[:3] if found.checks else ["nothing was checked"]


@pytest.mark.parametrize("at_once", [2, pytest.param(5, marks=pytest.mark.slow)])
def test_some_expressions_of_every_kind(at_once):
    """Each kind of mechanism once, with some expressions in one program."""
    assert not broken(search(at_once * len(KINDS), seed=1, at_once=at_once))


@pytest.mark.parametrize("n", [1000, 2000])
def test_sums_where_products_were_seen_to_cancel(n):
    """Default chunks and few coordinates: here one expression of fifteen broke its bound."""
    assert not broken(run_case(Case("sum", n, 3, expressions=8, seed=5)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_many_expressions(seed):
    """2,160 expressions in all, each alone at two places and replaced in a crowd."""
    assert not broken(search(212, seed=100 + seed, places=2))


def test_every_kind_has_its_turn():
    for at_once in (2, 5):
        assert {case.kind for case in cases(at_once * len(KINDS), at_once=at_once)} == set(KINDS)
    assert sum(case.expressions for seed in range(10) for case in cases(212, seed)) >= 2000


def test_expressions_are_what_they_say():
    """Those of one seed are the same again, most are different, and NumPy evaluates them as it should."""
    trees = [draw_expression(np.random.default_rng(seed)) for seed in range(200)]
    again = [draw_expression(np.random.default_rng(seed)) for seed in range(200)]
    assert trees == again
    assert len(set(map(show, trees))) > 80
    q, p = np.float32([3.0, 5.0]), np.float32([2.0, 7.0])
    values = leaves_of(q, p, np.float32(11.0), np.float32(13.0), np)
    np.testing.assert_array_equal(evaluate(("*", "q", ("-", "p[0]", "u")), values, np), q * np.float32(-9))
    np.testing.assert_array_equal(evaluate(("where", "q", "p"), values, np), [3.0, 49.0])
