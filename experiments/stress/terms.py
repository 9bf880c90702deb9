"""The problems of terms: curves, monotonic effects, missing predictors, survey weights, dates, products."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.polynomial import legendre
from numpy.random import Generator
from scipy.interpolate import CubicSpline

import dpmcmc as dp
from experiments.stress.problems import LEVELS, SLOPES, Problem

GRADES, SHARES = 4, np.array([0.5, 0.1, 0.4])
"""Levels of an ordered predictor, and the shares of the steps between them."""

WITHOUT = 0.3
"""Of the rows, the share without a predictor."""

FIRST_DAY, DAYS = "2024-01-01", 366
MONTHS = np.array([0.0, 0.3, 0.1, -0.2, -0.4, 0.0, 0.2, 0.5, 0.1, -0.3, -0.1, 0.4])
WARDS = {"ward[b]": float(LEVELS[1]), "ward[c]": float(LEVELS[2])}


@dataclass(frozen=True)
class TermProblem(Problem):
    """A table with terms of its own.

    Attributes:
        terms: the right-hand side of the formula.
        stated: columns beside the numbers and the category, or in their place.
        known: coefficients that make the rows; not those of columns that are nearly dependent, whose intervals hold
            them, or do not, together.
        fill: changes columns when the response is drawn: ``fill(rng, columns)``.
    """

    terms: str = ""
    stated: Mapping[str, dp.Column] = field(default_factory=dict[str, dp.Column])
    known: Mapping[str, float] = field(default_factory=dict[str, float])
    fill: Callable[[Generator, dict[str, Any]], None] | None = None
    numbers: int = 2

    @property
    def is_weighted(self) -> bool:
        """Whether rows state weights."""
        return "w" in self.stated

    @property
    def formula(self) -> str:
        """The formula."""
        return f"y{' | weights(w)' * self.is_weighted} ~ {self.terms}"

    @property
    def schema(self) -> dp.Schema:
        """What is stated of the columns."""
        return dp.Schema({**super().schema.columns, **self.stated})

    @property
    def truth(self) -> dict[str, float]:
        """The coefficients that make the rows."""
        return dict(self.known)

    def table(self, seed: int) -> pd.DataFrame:
        """Return rows."""
        rows = super().table(seed)
        if self.fill is None:
            return rows
        columns = {str(name): rows[name].to_numpy() for name in rows}
        self.fill(np.random.default_rng(seed + 2 * 10**7), columns)
        return pd.DataFrame(columns)


def _curve(curve: Callable[[np.ndarray], np.ndarray]) -> Callable[..., np.ndarray]:
    """A curve of the first number in the place of its slope."""
    return lambda _, columns, eta: eta - SLOPES[0] * columns["x0"] + curve(columns["x0"])


def _cubic(x: np.ndarray) -> np.ndarray:
    return 1.5 * x**3 + 0.8 * x**2 - 0.7 * x


HEIGHTS, SINES, POWERS = (
    np.array([0.0, -0.7, -0.1, 0.7, 0.2]),
    np.array([0.6, -0.5, 0.3, 0.2, 0.0, 0.0]),
    (0.6, -0.5, 0.4),
)
"""Of a natural spline at its knots, of the sines, and of Legendre's polynomials."""


def _natural(x: np.ndarray) -> np.ndarray:
    return CubicSpline(np.linspace(-1, 1, len(HEIGHTS)), HEIGHTS, bc_type="natural")(x)


def _sines(x: np.ndarray) -> np.ndarray:
    """What a Gaussian process with the domain of 1.5 half-widths may draw."""
    return SINES @ np.sin(np.arange(1, len(SINES) + 1)[:, None] * np.pi * (x + 1.5) / 3)


def _numbered(term: str, values: Iterable[float]) -> dict[str, float]:
    return {f"{term}[{place}]": float(value) for place, value in enumerate(values)}


def _grades(effect: float) -> Callable[..., np.ndarray]:
    def alter(rng: Generator, columns: dict[str, Any], eta: np.ndarray) -> np.ndarray:
        columns["grade"] = rng.choice(GRADES, len(eta), p=[0.4, 0.3, 0.2, 0.1])
        return eta + effect * np.append(0, SHARES.cumsum())[columns["grade"]]

    return alter


def _normal_number(rng: Generator, columns: dict[str, Any], eta: np.ndarray) -> np.ndarray:
    """The first number is normal, cut off at the bounds, whatever the others are."""
    old, drawn = columns["x0"], 0.1 + 0.4 * rng.standard_normal(2 * len(eta))
    columns["x0"] = drawn[np.abs(drawn) <= 1][: len(eta)]
    return eta + SLOPES[0] * (columns["x0"] - old)


def _without(name: str, nothing: Any) -> Callable[..., None]:
    def fill(rng: Generator, columns: dict[str, Any]) -> None:
        absent = rng.random(len(columns[name])) < WITHOUT
        columns[name] = np.where(absent, nothing, columns[name].astype(object if nothing is None else float))

    return fill


def _weights(most: float) -> Callable[..., np.ndarray]:
    def alter(rng: Generator, columns: dict[str, Any], eta: np.ndarray) -> np.ndarray:
        columns["w"] = np.clip(rng.lognormal(0.0, 0.7, len(eta)), 0.05, min(most, 10.0))
        return eta

    return alter


def _admitted(rng: Generator, columns: dict[str, Any], eta: np.ndarray) -> np.ndarray:
    days = rng.integers(0, DAYS, len(eta))
    dates = pd.Timestamp(FIRST_DAY) + pd.to_timedelta(days, unit="D")
    columns["admitted"] = dates.to_numpy()
    return eta + 0.002 * days + MONTHS[dates.month.to_numpy() - 1]


def _products(rng: Generator, columns: dict[str, Any], eta: np.ndarray) -> np.ndarray:
    del rng
    return eta + columns["x0"] * (0.5 * (columns["ward"] == "b") - 0.7 * (columns["ward"] == "c"))


_GRADE = {"grade": dp.Column(kind="integer", lower=0, upper=GRADES - 1)}
_DATE = {"admitted": dp.Column(kind="date", lower=FIRST_DAY, upper="2024-12-31")}
_NUMBER = dp.Column(kind="number", lower=-1, upper=1, missing="integrate", mean=0.1, sd=0.4)
_WARD = dp.Column(kind="category", categories=("a", "b", "c"), missing="integrate", probabilities=(1 / 3, 1 / 3, 1 / 3))
_X1 = {"x1": float(SLOPES[1]), **WARDS}
_X0 = {"x0": float(SLOPES[0]), **_X1}


def _weight(most: float) -> dict[str, dp.Column]:
    return {"w": dp.Column(kind="number", lower=0, upper=most)}


_BS = TermProblem("gaussian", terms="bs(x0, df=5) + x1 + ward", alter=_curve(_cubic), known=_X1)
_HSGP = replace(_BS, terms="hsgp(x0, m=6) + x1 + ward", alter=_curve(_sines))
_MO = replace(
    _BS,
    terms="mo(grade) + x0 + x1 + ward",
    alter=_grades(0.9),
    stated=_GRADE,
    known={**_X0, "mo(grade)": 0.3, **{f"mo(grade)_share[{step}]": float(SHARES[step - 1]) for step in (1, 2, 3)}},
)
_PLAIN = replace(_MO, known=_X0)
_MISSING = replace(
    _PLAIN, terms="x0 + x1 + ward", alter=_normal_number, stated={"x0": _NUMBER}, fill=_without("x0", np.nan)
)
_SURVEY = replace(_PLAIN, terms="x0 + x1 + ward", alter=_weights(10.0), stated=_weight(10.0))
_DATES = replace(
    _PLAIN,
    terms="admitted + month(admitted) + x0 + x1 + ward",
    alter=_admitted,
    stated=_DATE,
)

TERMS: Mapping[str, TermProblem] = {
    "gaussian bs(x0)": _BS,
    "bernoulli bs(x0)": replace(_BS, family="bernoulli"),
    "poisson cr(x0)": replace(
        _BS,
        family="poisson",
        terms="cr(x0, df=4) + x1 + ward",
        alter=_curve(_natural),
        known={**_X1, **_numbered("cr(x0,df=4)", HEIGHTS[1:])},
    ),
    "gaussian hsgp(x0)": _HSGP,
    "bernoulli hsgp(x0)": replace(_HSGP, family="bernoulli"),
    "bernoulli poly(x0, 3)": replace(
        _BS,
        family="bernoulli",
        terms="poly(x0, 3) + x1 + ward",
        alter=_curve(lambda x: legendre.legval(x, [0.0, *POWERS])),
        known={**_X1, **_numbered("poly(x0,3)", POWERS)},
    ),
    "gaussian mo(grade)": _MO,
    "bernoulli mo(grade)": replace(_MO, family="bernoulli"),
    "poisson mo(grade), no effect": replace(_MO, family="poisson", alter=_grades(0.0), known={**_X0, "mo(grade)": 0.0}),
    "bernoulli steps(grade)": replace(
        _PLAIN,
        family="bernoulli",
        terms="steps(grade) + x0 + x1 + ward",
        known={**_X0, **_numbered("steps(grade)", 0.9 * SHARES)},
    ),
    "gaussian missing number": _MISSING,
    "bernoulli missing number": replace(_MISSING, family="bernoulli"),
    "poisson missing category": replace(
        _MISSING, family="poisson", alter=None, stated={"ward": _WARD}, fill=_without("ward", None)
    ),
    "gaussian weights": _SURVEY,
    "bernoulli weights": replace(_SURVEY, family="bernoulli"),
    "bernoulli weights, bounds x100": replace(_SURVEY, family="bernoulli", stated=_weight(1000.0)),
    "gaussian dates": _DATES,
    "bernoulli dates": replace(
        _DATES, family="bernoulli", terms="admitted + month(admitted) + x0 + x1 + ward", size=50_000
    ),
    "gaussian x0 * ward": replace(
        _BS, terms="x0 * ward + x1", alter=_products, known={**_X0, "x0:ward[b]": 0.5, "x0:ward[c]": -0.7}
    ),
}
"""All problems of terms by name."""
