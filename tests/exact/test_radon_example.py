"""The radon example: what it reads off results, on made-up rows without a download, and its picture of what is kept."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from dpmcmc.diagnostics.quality import Grade, Quality

EXAMPLES = Path(__file__).parents[2] / "examples"
COUNTIES = ("1|county[27001]", "1|county[27003]")


@pytest.fixture(scope="module")
def radon():
    sys.path.insert(0, str(EXAMPLES))
    import radon

    yield radon
    sys.path.remove(str(EXAMPLES))


def result(names, means: dict[str, float], marked: tuple[str, ...], verdict: str = "fair"):
    rng = np.random.default_rng(0)
    draws = {name: 0.1 * rng.standard_normal((1, 4000)) + means.get(name, 0.0) for name in names}
    grades = {name: Grade("fair", ("not identified",) if name in marked else ()) for name in names}
    return SimpleNamespace(draws=draws, quality=Quality(verdict, (), grades, 0.5))


def test_what_is_off_counts_as_wrong_unless_it_is_marked(radon) -> None:
    names = (*radon.COMMON, *COUNTIES)
    without = pd.DataFrame({name: 0.1 * np.random.default_rng(1).standard_normal(4000) for name in names})
    right = radon.one_fit(result(names, {}, ()), without)
    assert (right["wrong"], right["counties_identified"], right["inside_of_counties"]) == (0, 2, 1.0)
    wrong = radon.one_fit(result(names, {"floor": 1.0, COUNTIES[0]: 1.0}, ()), without)
    assert (wrong["wrong"], wrong["inside_of_counties"]) == (2, 0.5)
    assert wrong["floor_own_sds"] == pytest.approx(10, rel=0.1)
    marked = radon.one_fit(result(names, {"floor": 1.0}, ("floor", COUNTIES[0])), without)
    assert (marked["wrong"], marked["counties_identified"]) == (0, 1)
    assert radon.one_fit(result(names, {"floor": 1.0}, (), "bad"), without)["wrong"] == 0


def test_the_picture_is_made_of_what_is_kept(radon) -> None:
    fits, floors = (pd.read_csv(radon.HERE / name) for name in ("results.csv", "classification.csv"))
    assert (fits.groupby("epsilon").size()[list(radon.EPSILONS)] == radon.REPEATS).all()
    assert set(floors["model"]) >= set(radon.ABOVE)
    assert len(radon.draw(fits, floors).axes) == 4
