"""Tables on which clipped scores gave narrow and wrong results, or none, without a word: now right, or marked.

Each case has the name under which it is known: A for results that were confidently wrong, B for those that failed, U
for the first results of a new user. By the rules of `experiments.stress.judge`, against the exact posterior, on an
emulated oracle, with a fixed seed: a run that is right is called wrong by chance in about one of 1,000.
"""

from dataclasses import replace

import numpy as np
import pytest

from experiments.stress.emulated import Emulated
from experiments.stress.judge import Priors, one_run
from experiments.stress.problems import LEVELS_WITH_NONE, PROBLEMS, Problem
from experiments.stress.reference import exact
from experiments.stress.run import ALL

HONEST, RIGHT, SAID = "honest", "right", "said"

CASES = [
    ("A1, one in a hundred", "bernoulli 1 %", 4.0, RIGHT),
    ("A1, of 100,000", "bernoulli 1 %, n=100000", 4.0, RIGHT),
    ("A2, negative binomial", "negative_binomial plain", 8.0, RIGHT),
    ("A3, gaussian", "gaussian plain", 1.0, RIGHT),
    ("A4, tails of a t(3)", "gaussian t(3) errors", 4.0, SAID),
    ("A5, separation", "bernoulli separated", 4.0, HONEST),
    ("A6, a model with Student's t", "np Student t far off", 1.0, HONEST),
    ("A7, student_t", "student_t plain", 8.0, RIGHT),
    ("A8, few events", "np few events", 8.0, RIGHT),
    ("A9, mixture", "np mixture", 2.0, RIGHT),
    ("A10, rare counts", "poisson rare", 1.0, HONEST),
    ("A11, rare classes", "ordinal rare classes", 1.0, HONEST),
    ("A12, wide bounds", "bernoulli bounds x100", 4.0, SAID),
    ("A13, intercepts without spread", "bernoulli 20 sites, no spread", 4.0, RIGHT),
    ("B1, censored waiting times", "np Weibull censored", 4.0, HONEST),
    ("B1, four parameters of a curve", "np dose-response", 1.0, HONEST),
    ("B2, random intercepts", "bernoulli 20 sites", 4.0, RIGHT),
    ("B3, bounds ten times as wide", "gaussian bounds x10", 1.0, RIGHT),
    ("B3, bounds a hundred times as wide", "gaussian bounds x100", 4.0, RIGHT),
    ("B3, tiny sigma", "gaussian tiny sigma", 1.0, RIGHT),
    ("B3, tiny sigma, more budget", "gaussian tiny sigma", 4.0, RIGHT),
    ("B3b, a level without rows", "bernoulli rare and empty level", 8.0, RIGHT),
    ("B3b, a level without rows and one of 41, less budget", "bernoulli rare and empty level", 4.0, HONEST),
    ("B4, mixture at little budget", "np mixture", 0.5, HONEST),
    ("B5, 23 parameters", "bernoulli 20 numbers", 2.0, RIGHT),
    ("B5, a neural network", "np neural network", 4.0, HONEST),
]


def made(problem, epsilon, seed=0):
    emulated = Emulated(problem, epsilon)
    records = emulated.records(seed)
    found = exact(emulated, records, {})
    assert found.is_valid, f"no reference: {found.method} {found.check}"
    return one_run(emulated, records, seed, found, Priors(problem, emulated.model))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "epsilon", "claim"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_case_is_right_or_says_that_it_is_not(name, epsilon, claim) -> None:
    result = made(ALL[name], epsilon)
    assert result["right"] or result["honest"], result
    assert claim != RIGHT or result["right"], result
    if claim == SAID:
        assert result["verdict"] in {"fair", "bad"}
        assert any("residuals" in reason or reason.startswith("The prior ") for reason in result["reasons"]), result


def _rare(rng, columns, eta):
    """A level with about 30 of 20,000 rows."""
    columns["ward"] = np.where(rng.random(len(eta)) < 30 / len(eta), "d", columns["ward"])
    return eta


HOSPITAL = Problem("bernoulli", numbers=12, constant=-1.2, alter=_rare, levels=LEVELS_WITH_NONE[:4])


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [2.0, 2.9, 8.0], ids=["U3, epsilon 2", "U2, epsilon 2.9", "U4, epsilon 8"])
def test_a_rare_level_among_many_coefficients(epsilon) -> None:
    """It was five times too narrow, and 4.6 of its standard deviations off."""
    result = made(HOSPITAL, epsilon)
    assert result["right"] or result["honest"], result
    assert result["verdict"] != "bad", "the other coefficients are fine"
    assert result["off"] < 4.0


@pytest.mark.slow
def test_u5_length_of_stay_with_random_intercepts() -> None:
    """Its pilot did not arrive, and nothing said so but a warning."""
    stay = Problem("negative_binomial", numbers=2, constant=1.0, concentration=3.3, groups=(6, 0.3))
    result = made(stay, 4.0)
    assert result["right"], result


def _missing(rng, eta):
    del rng
    return np.full(len(eta), None, object)


def test_u1_an_outcome_that_is_missing_everywhere() -> None:
    """Standard deviations were 22 to 28 times too small; nothing is known, and that is what comes out."""
    table = replace(PROBLEMS["bernoulli n=2000"], respond=_missing, holds=False)
    emulated = Emulated(table, 2.0)
    drawn = emulated.fit(emulated.records(0), 0)
    assert drawn.quality.verdict == "bad", drawn.quality.words
    widths = Priors(table, emulated.model).widths
    assert all(drawn.draws[name].std() > 0.5 * width for name, width in widths.items() if name in drawn.draws)
