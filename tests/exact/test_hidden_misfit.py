"""That noise may hide a misfit is said where it could move a coefficient, and changes no verdict."""

import pytest

from dpmcmc.fitting.strategies.weighted_scores.other_root import NO_OTHER
from dpmcmc.fitting.strategies.weighted_scores.verdict import Checks, of_model

HIDDEN = "The noise may hide that the model does not hold for all records"


def notes(error: float, moved: float, fits: float = 1.0) -> list[tuple[str, str]]:
    return [(verdict, why) for verdict, why in of_model(Checks(True, fits, NO_OTHER, moved=moved), error)]


def test_it_is_said_where_noise_is_large_and_a_misfit_would_matter() -> None:
    ((verdict, why),) = notes(0.8, 1.2)
    assert verdict == "good"
    assert why.startswith(HIDDEN)
    assert "about 1.2 posterior" in why


@pytest.mark.parametrize(("error", "moved"), [(0.3, 1.2), (0.8, 0.3)])
def test_it_is_not_said_of_good_results_nor_of_small_moves(error: float, moved: float) -> None:
    assert notes(error, moved) == []


def test_a_misfit_that_is_seen_is_told_instead() -> None:
    ((verdict, why),) = notes(0.8, 1.2, fits=1e-9)
    assert verdict == "fair"
    assert HIDDEN not in why
