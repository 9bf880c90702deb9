"""The problems: a family, a size, and what is awkward about the table. Everything is made up, from a seed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.random import Generator
from scipy import special

import dpmcmc as dp
from dpmcmc.model import FAMILIES

SLOPES = np.array([0.8, -0.6, 0.4, 0.3])
LEVELS = np.array([0.0, 0.5, -0.4])
NAMES = np.array(["a", "b", "c"])
SHAPE, PHI, ZEROS = 1.6, 6.0, 0.3
"""Of positive numbers; of shares; and how often there is a zero of another make."""


@dataclass(frozen=True)
class Problem:
    """One kind of table.

    Attributes:
        family: of the formula.
        size: how many rows there are.
        constant: the predictor where all columns are zero.
        holds: whether the rows come from the model.
        clamps: whether they do but for bounds of the response, which clamp many of them.
        alter: changes columns and predictor before the response is drawn: ``alter(rng, columns, eta)``.
        respond: draws another response than the family's: ``respond(rng, eta)``.
        bounds: of the predictors, as multiples of what they run over.
        response_bounds: of a number or a count.
        sigma: of a number.
        concentration: of a count that is overdispersed.
        groups: levels of a random intercept, and its standard deviation.
        uneven: the standard deviation of the logarithms of the sizes of groups, should they not be alike; every
            twentieth group is empty then, from the tenth on.
        persons: rows of a person, at most, and the standard deviation of persons' own intercepts.
        person_slopes: that of their slopes of the first number, should there be some.
        group_slopes: the standard deviation of slopes of the first number by groups, should there be some.
        numbers: how many numeric predictors there are.
        trials: of a proportion.
        levels: of the category, should some of them be rare or empty; none without a category.
        widening: how fast the logarithm of sigma grows with the first number, where sigma has a formula.
        censored: of times to an event, up to when rows leave, each time as probable as the other.
        enters: whether half of the rows are under observation only after a while.
    """

    family: str
    size: int = 20_000
    constant: float = 0.0
    holds: bool = True
    clamps: bool = False
    alter: Callable[[Generator, dict[str, Any], np.ndarray], np.ndarray] | None = None
    respond: Callable[[Generator, np.ndarray], np.ndarray] | None = None
    bounds: float = 1.0
    response_bounds: tuple[float, float] | None = None
    sigma: float = 0.8
    concentration: float = 1.5
    groups: tuple[int, float] | None = None
    uneven: float | None = None
    group_slopes: float | None = None
    persons: tuple[int, float] | None = None
    person_slopes: float | None = None
    numbers: int = 4
    trials: int = 5
    levels: tuple[str, ...] = ("a", "b", "c")
    widening: float | None = None
    censored: float | None = None
    enters: bool = False

    @property
    def formula(self) -> str:
        """The formula."""
        response = f"y | trials({self.trials})" if self.family in {"binomial", "beta_binomial"} else "y"
        if self.censored is not None:
            response = f"Surv({'entry, ' if self.enters else ''}y, seen)"
        terms = [f"x{number}" for number in range(self.numbers)]
        effects = "(1|site)" if self.group_slopes is None else "(x0|site)"
        terms += [*(["ward"] if self.levels else []), *([effects] if self.groups else [])]
        if self.persons:
            terms.append("(1|person)" if self.person_slopes is None else "(x0|person)")
        return f"{response} ~ {' + '.join(terms) or '1'}" + ("" if self.widening is None else "; sigma ~ x0")

    @property
    def schema(self) -> dp.Schema:
        """What is stated of the columns."""
        columns = {
            f"x{number}": dp.Column(kind="number", lower=-self.bounds, upper=self.bounds)
            for number in range(self.numbers)
        }
        if self.levels:
            columns["ward"] = dp.Column(kind="category", categories=self.levels)
        if self.groups:
            sites = tuple(f"s{number}" for number in range(self.groups[0]))
            columns["site"] = dp.Column(kind="category", categories=sites)
        columns["y"] = self._response()
        if self.censored is not None:
            columns["seen"] = dp.Column(kind="boolean")
            columns["y"] = dp.Column(kind="number", lower=0, upper=self.censored)
        if self.enters:
            columns["entry"] = dp.Column(kind="number", lower=0, upper=self.censored)
        most = {"person": "person", "max_rows_per_person": self.persons[0]} if self.persons else {}
        return dp.Schema(columns, **most)

    def _response(self) -> dp.Column:
        match self.family:
            case "bernoulli" | "probit":
                return dp.Column(kind="boolean")
            case "categorical" | "ordinal":
                return dp.Column(kind="category", categories=("low", "middle", "high"))
            case "binomial" | "beta_binomial":
                return dp.Column(kind="integer", lower=0, upper=self.trials)
            case "gamma" | "exponential" | "lognormal" | "weibull" | "inverse_gaussian":
                lower, upper = self.response_bounds or (0.001, 1000.0)
                return dp.Column(kind="number", lower=lower, upper=upper)
            case "hurdle_gamma" | "hurdle_lognormal":
                return dp.Column(kind="number", lower=0.0, upper=1000.0)
            case "beta":
                return dp.Column(kind="number", lower=1e-4, upper=1 - 1e-4)
            case "gaussian" | "student_t" | "laplace":
                lower, upper = self.response_bounds or (-6.0, 6.0)
                return dp.Column(kind="number", lower=lower, upper=upper)
            case _:
                lower, upper = self.response_bounds or (0, 80)
                return dp.Column(kind="integer", lower=lower, upper=upper)

    @property
    def slopes(self) -> np.ndarray:
        """The slopes that make the rows."""
        return np.resize(SLOPES, self.numbers) * min(1.0, 2 / np.sqrt(max(self.numbers, 1)))

    @property
    def truth(self) -> dict[str, float]:
        """The coefficients that make the rows, where these come from the model: the numbers' and the wards'."""
        if not (self.holds or self.clamps):
            return {}
        known = {f"x{number}": float(slope) for number, slope in enumerate(self.slopes)}
        if not self.levels and self.family == "bernoulli":
            known["intercept"] = self.constant
        if self.widening is not None:
            known |= {"sigma: intercept": float(np.log(self.sigma)), "sigma: x0": self.widening}
        if self.persons and self.persons[1]:
            known["1|person_sigma"] = self.persons[1]
        if self.person_slopes is not None:
            known["x0|person_sigma"] = self.person_slopes
        known |= self._spreads_and_shapes()
        if "d" not in self.levels and self.levels:
            known |= {"ward[b]": float(LEVELS[1]), "ward[c]": float(LEVELS[2])}
        if self.family == "categorical":
            shares = {"middle": 1.0, "high": 0.5}
            return {f"{name}: {key}": share * value for name, share in shares.items() for key, value in known.items()}
        return known

    def _spreads_and_shapes(self) -> dict[str, float]:
        """Return the standard deviation of groups' intercepts, and what shapes a time to an event."""
        known = {"1|site_sigma": self.groups[1]} if self.groups and self.groups[1] else {}
        if self.group_slopes is not None and self.uneven is not None:
            known["x0|site_sigma"] = self.group_slopes
        if self.censored is None:
            return known
        match self.family:
            case "weibull":
                return known | {"shape": SHAPE}
            case "lognormal":
                return known | {"sigma": self.sigma}
            case "piecewise_exponential(0.5, 1.5)":
                return known | {"hazard_ratio[0.5+]": 1.5, "hazard_ratio[1.5+]": 0.6}
            case _:
                return known

    def table(self, seed: int) -> pd.DataFrame:
        """Return rows."""
        if self.enters:
            return self._entered(seed)
        rng = np.random.default_rng(seed)
        numbers = rng.uniform(-1, 1, (self.size, self.numbers))
        columns: dict[str, Any] = {f"x{number}": numbers[:, number] for number in range(self.numbers)}
        eta = self.constant + numbers @ self.slopes
        if self.levels:
            ward = rng.integers(0, 3, self.size)
            columns["ward"] = NAMES[ward]
            eta = eta + LEVELS[ward]
        if self.groups:
            count, spread = self.groups
            site = rng.integers(0, count, self.size) if self.uneven is None else self._unevenly(rng)
            columns["site"] = np.array([f"s{number}" for number in range(count)])[site]
            effects = np.random.default_rng(seed + 10**6).standard_normal((2, count))
            eta = eta + spread * effects[0, site]
            if self.group_slopes is not None:
                eta = eta + self.group_slopes * effects[1, site] * columns["x0"]
        if self.persons:
            most, spread = self.persons
            own = np.repeat(np.arange(self.size), rng.integers(1, most + 1, self.size))[: self.size]
            columns["person"] = np.array([f"person {number}" for number in range(self.size)])[own]
            effects = rng.standard_normal((2, self.size))[:, own]
            eta = eta + spread * effects[0] + (self.person_slopes or 0.0) * effects[1] * columns["x0"]
        if self.alter is not None:
            eta = self.alter(rng, columns, eta)
        if self.widening is not None:
            sigma = self.sigma * np.exp(self.widening * columns["x0"])
            return pd.DataFrame({**columns, "y": eta + sigma * rng.standard_normal(self.size)})
        respond = self.respond or (lambda rng, eta: self._draw(rng, eta))
        rows = pd.DataFrame({**columns, "y": respond(rng, eta)})
        return rows if self.censored is None else self._followed(rng, rows)

    def _unevenly(self, rng: Generator) -> np.ndarray:
        """Return groups of rows whose sizes differ, some without any."""
        count, _ = self.groups or (1, 0.0)
        shares = np.exp((self.uneven or 0.0) * rng.standard_normal(count)) * (np.arange(count) % 20 != 10)
        return rng.choice(count, self.size, p=shares / shares.sum())

    def _followed(self, rng: Generator, rows: pd.DataFrame) -> pd.DataFrame:
        """Return rows as long as they were under observation."""
        leaves = rng.uniform(0, self.censored, len(rows))
        return rows.assign(seen=rows["y"] <= leaves, y=np.minimum(rows["y"], leaves))

    def _entered(self, seed: int) -> pd.DataFrame:
        """Return rows of which half come late: those whose time is over by then are not in the table."""
        rng, rows = np.random.default_rng(seed + 10**7), replace(self, size=2 * self.size, enters=False).table(seed)
        rows["entry"] = np.where(rng.random(len(rows)) < 0.5, 0.0, rng.uniform(0, self.censored / 4, len(rows)))
        return rows[rows["entry"] < rows["y"]].head(self.size).reset_index(drop=True)

    def _draw(self, rng: Generator, eta: np.ndarray) -> np.ndarray:
        size = len(eta)
        match self.family:
            case "bernoulli":
                return rng.random(size) < 1 / (1 + np.exp(-eta))
            case "binomial":
                return rng.binomial(self.trials, 1 / (1 + np.exp(-eta)))
            case "categorical":
                scores = np.stack([np.zeros(size), eta, 0.5 * eta - 0.3], axis=1)
                shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
                return self._classes((rng.random((size, 1)) > shares.cumsum(axis=1)).sum(axis=1))
            case "ordinal":
                return self._classes(np.digitize(eta + rng.logistic(size=size), [-1.0, 1.0]))
            case "probit":
                return rng.standard_normal(size) < eta
            case "beta_binomial":
                share = 1 / (1 + np.exp(-eta))
                return rng.binomial(self.trials, rng.beta(PHI * share, PHI * (1 - share)))
            case "beta":
                share = 1 / (1 + np.exp(-eta))
                return rng.beta(PHI * share, PHI * (1 - share))
            case "gamma" | "hurdle_gamma":
                return np.exp(eta) * rng.gamma(SHAPE, 1 / SHAPE, size) * self._above(rng, size)
            case "exponential":
                return np.exp(eta) * rng.exponential(1.0, size)
            case "lognormal" | "hurdle_lognormal":
                return np.exp(eta + self.sigma * rng.standard_normal(size)) * self._above(rng, size)
            case "weibull":
                return np.exp(eta) * rng.weibull(SHAPE, size) / special.gamma(1 + 1 / SHAPE)
            case "piecewise_exponential(0.5, 1.5)":
                return _piecewise(rng.exponential(1.0, size) * np.exp(-eta))
            case "inverse_gaussian":
                return rng.wald(np.exp(eta), 2 * SHAPE)
            case "laplace":
                return eta + self.sigma * rng.laplace(size=size)
            case "zero_inflated_poisson":
                return rng.poisson(np.exp(eta)) * (rng.random(size) > ZEROS)
            case "zero_inflated_negative_binomial":
                return self._overdispersed(rng, eta) * (rng.random(size) > ZEROS)
            case "hurdle_poisson":
                return _above_zero(lambda at: rng.poisson(np.exp(at)), eta) * (rng.random(size) > ZEROS)
            case "hurdle_negative_binomial":
                return _above_zero(lambda at: self._overdispersed(rng, at), eta) * (rng.random(size) > ZEROS)
            case "geometric":
                return rng.geometric(1 / (1 + np.exp(eta))) - 1
            case "gaussian":
                return eta + self.sigma * rng.standard_normal(size)
            case "student_t":
                return eta + self.sigma * rng.standard_t(4, size)
            case "poisson":
                return rng.poisson(np.exp(eta))
            case _:
                return self._overdispersed(rng, eta)

    def _overdispersed(self, rng: Generator, eta: np.ndarray) -> np.ndarray:
        return rng.negative_binomial(self.concentration, self.concentration / (self.concentration + np.exp(eta)))

    def _above(self, rng: Generator, size: int) -> np.ndarray:
        """Which rows are not zero."""
        return rng.random(size) > (ZEROS if self.family.startswith("hurdle") else 0.0)

    @staticmethod
    def _classes(codes: np.ndarray) -> np.ndarray:
        return np.array(["low", "middle", "high"])[np.clip(codes, 0, 2)]


def _piecewise(passed: np.ndarray) -> np.ndarray:
    """Return when a cumulative hazard is passed that is 1 a unit up to 0.5, then 1.5, and from 1.5 on 0.6."""
    return np.interp(passed, [0.0, 0.5, 2.0, 2.0 + 0.6 * 1e6], [0.0, 0.5, 1.5, 1.5 + 1e6])


def _above_zero(draw: Callable[[np.ndarray], np.ndarray], eta: np.ndarray) -> np.ndarray:
    """Draw again until nothing is zero."""
    drawn = draw(eta)
    while (zero := drawn == 0).any():
        drawn[zero] = draw(eta[zero])
    return drawn


def _rare_level(number: int) -> Callable[..., np.ndarray]:
    """A level with so many rows, and one with none."""

    def alter(rng: Generator, columns: dict[str, Any], eta: np.ndarray) -> np.ndarray:
        columns["ward"] = np.where(rng.random(len(eta)) < number / len(eta), "d", columns["ward"])
        return eta

    return alter


def _skewed(rng: Generator, columns: dict[str, Any], eta: np.ndarray) -> np.ndarray:
    """A column like incomes: most in a corner of its bounds."""
    old = columns["x0"]
    columns["x0"] = np.clip(rng.lognormal(0.0, 1.0, len(eta)) / 20 - 1, -1, 1)
    return eta + SLOPES[0] * (columns["x0"] - old)


def _tails(rng: Generator, columns: dict[str, Any], eta: np.ndarray) -> np.ndarray:
    """A predictor with the tails of a t(2): a few records far out."""
    old = columns["x0"]
    columns["x0"] = np.clip(0.05 * rng.standard_t(2, len(eta)), -1, 1)
    return eta + SLOPES[0] * (columns["x0"] - old)


def _correlated(rng: Generator, columns: dict[str, Any], eta: np.ndarray) -> np.ndarray:
    old = columns["x1"]
    columns["x1"] = np.clip(0.99 * columns["x0"] + 0.14 * rng.uniform(-1, 1, len(eta)), -1, 1)
    return eta + SLOPES[1] * (columns["x1"] - old)


def _corner(rng: Generator, columns: dict[str, Any], eta: np.ndarray) -> np.ndarray:
    for name in ("x0", "x1"):
        old = columns[name]
        columns[name] = -0.9 + 0.05 * rng.uniform(-1, 1, len(eta))
        eta = eta + (SLOPES[0] if name == "x0" else SLOPES[1]) * (columns[name] - old)
    return eta


def _with_square(rng: Generator, columns: dict[str, Any], eta: np.ndarray) -> np.ndarray:
    """A square that the formula lacks, of a predictor with rows far out."""
    old = columns["x0"]
    columns["x0"] = np.clip(rng.normal(0.0, 0.25, len(eta)), -1, 1)
    return eta + SLOPES[0] * (columns["x0"] - old) - 2.0 + 8.0 * columns["x0"] ** 2


def _grown(rng: Generator, eta: np.ndarray) -> np.ndarray:
    """Responses like wages: curved in the predictor, skewed, and wider where they are larger."""
    return 2.0 * np.exp(0.4 * eta + 0.35 * rng.standard_normal(len(eta)))


def _contaminated(rng: Generator, eta: np.ndarray) -> np.ndarray:
    """One error in twelve is twice as wide."""
    return eta + np.where(rng.random(len(eta)) < 0.08, 2.2, 1.0) * rng.standard_normal(len(eta))


def _clustered(rng: Generator, eta: np.ndarray) -> np.ndarray:
    """Successes in trials that go together."""
    share = 1 / (1 + np.exp(-eta))
    return rng.binomial(30, rng.beta(10 * share, 10 * (1 - share)))


def _separated(rng: Generator, eta: np.ndarray) -> np.ndarray:
    del rng
    return eta > 0


def _outliers(rng: Generator, eta: np.ndarray) -> np.ndarray:
    """Two of a hundred are ten standard deviations off."""
    return eta + 0.8 * np.where(rng.random(len(eta)) < 0.02, 10.0, 1.0) * rng.standard_normal(len(eta))


def _heavy(freedom: float) -> Callable[[Generator, np.ndarray], np.ndarray]:
    return lambda rng, eta: np.clip(eta + 0.8 * rng.standard_t(freedom, len(eta)), -50, 50)


def _lognormal(rng: Generator, eta: np.ndarray) -> np.ndarray:
    """Heavier tails than a gamma law's."""
    return np.exp(eta + rng.standard_normal(len(eta)))


def _zeros(rng: Generator, eta: np.ndarray) -> np.ndarray:
    return rng.poisson(np.exp(eta)) * (rng.random(len(eta)) > 0.2)


WIDE = (-50.0, 50.0)
LEVELS_WITH_NONE = ("a", "b", "c", "d", "e")

PROBLEMS: Mapping[str, Problem] = {
    **{f"{family} plain": Problem(family, constant=0.5 if "hurdle" in family else 0.0) for family in FAMILIES},
    "bernoulli n=2000": Problem("bernoulli", 2000),
    "bernoulli n=500, one number": Problem("bernoulli", 500, numbers=1),
    "bernoulli n=500, a share alone": Problem("bernoulli", 500, constant=-1.0, numbers=0, levels=()),
    "gaussian n=500, one number": Problem("gaussian", 500, numbers=1),
    "poisson n=2000": Problem("poisson", 2000),
    "bernoulli n=100000": Problem("bernoulli", 100_000),
    "gaussian n=1000000": Problem("gaussian", 1_000_000),
    "gaussian n=2000": Problem("gaussian", 2000),
    "poisson n=100000": Problem("poisson", 100_000),
    "bernoulli 5 %": Problem("bernoulli", constant=-3.1),
    "bernoulli 1 %": Problem("bernoulli", constant=-4.9),
    "bernoulli 1 %, n=100000": Problem("bernoulli", 100_000, constant=-4.9),
    "bernoulli .3 %, n=100000": Problem("bernoulli", 100_000, constant=-6.1),
    "bernoulli .2 %, n=1000000": Problem("bernoulli", 1_000_000, constant=-6.5),
    "bernoulli few events": Problem("bernoulli", constant=-7.4),
    "binomial rare": Problem("binomial", constant=-5.0),
    "bernoulli rare and empty level": Problem("bernoulli", alter=_rare_level(45), levels=LEVELS_WITH_NONE),
    "gaussian rare and empty level": Problem("gaussian", alter=_rare_level(45), levels=LEVELS_WITH_NONE),
    "bernoulli skewed": Problem("bernoulli", alter=_skewed),
    "gaussian skewed": Problem("gaussian", alter=_skewed),
    "bernoulli t(2) predictor": Problem("bernoulli", alter=_tails),
    "gaussian t(2) predictor": Problem("gaussian", alter=_tails),
    "bernoulli correlated": Problem("bernoulli", alter=_correlated),
    "gaussian correlated": Problem("gaussian", alter=_correlated),
    "bernoulli in a corner": Problem("bernoulli", alter=_corner),
    "bernoulli bounds x10": Problem("bernoulli", bounds=10.0),
    "bernoulli bounds x100": Problem("bernoulli", bounds=100.0),
    "gaussian bounds x10": Problem("gaussian", bounds=10.0, response_bounds=(-60.0, 60.0)),
    "gaussian bounds x100": Problem("gaussian", bounds=100.0, response_bounds=(-600.0, 600.0)),
    "bernoulli separated": Problem("bernoulli", respond=_separated, holds=False),
    "gaussian tiny sigma": Problem("gaussian", sigma=0.02),
    "gaussian t(3) errors": Problem("gaussian", respond=_heavy(3), response_bounds=WIDE, holds=False),
    "gaussian t(2) errors": Problem("gaussian", respond=_heavy(2), response_bounds=WIDE, holds=False),
    "gaussian outliers": Problem("gaussian", respond=_outliers, response_bounds=WIDE, holds=False),
    "student_t wide bounds": Problem("student_t", response_bounds=WIDE, sigma=0.5),
    "poisson rare": Problem("poisson", constant=-3.5),
    "poisson rare, n=100000": Problem("poisson", 100_000, constant=-3.5),
    "poisson large": Problem("poisson", constant=3.5, response_bounds=(0, 500)),
    "poisson with zeros": Problem("poisson", respond=_zeros, holds=False),
    "negative_binomial rare": Problem("negative_binomial", constant=-2.0),
    "negative_binomial large": Problem("negative_binomial", constant=2.5, response_bounds=(0, 500)),
    "negative_binomial nearly poisson": Problem("negative_binomial", constant=1.0, concentration=20.0),
    "gaussian sigma ~ x0": Problem("gaussian", widening=0.7),
    "gaussian sigma ~ x0, bounds x10": Problem("gaussian", widening=0.7, bounds=10.0, response_bounds=(-60.0, 60.0)),
    "gamma bounds x1000": Problem("gamma", response_bounds=(1e-6, 1e6)),
    "weibull bounds x1000": Problem("weibull", constant=3.0, response_bounds=(1e-6, 1e6)),
    "gamma with lognormal tails": Problem("gamma", respond=_lognormal, holds=False),
    "bernoulli missing square": Problem("bernoulli", alter=_with_square, holds=False),
    "gaussian missing curve": Problem("gaussian", respond=_grown, response_bounds=(0.0, 40.0), holds=False),
    "gaussian contaminated": Problem("gaussian", respond=_contaminated, response_bounds=(-15.0, 15.0), holds=False),
    "binomial clustered": Problem("binomial", trials=30, respond=_clustered, holds=False),
    "beta near one": Problem("beta", constant=2.5, holds=False, clamps=True),  # one in ten
    "zero_inflated_poisson large": Problem("zero_inflated_poisson", constant=3.0, response_bounds=(0, 500)),
    "zero_inflated_poisson rare": Problem("zero_inflated_poisson", constant=-1.5),
    "hurdle_gamma 20 sites": Problem("hurdle_gamma", groups=(20, 0.5)),
    "beta_binomial 40 trials": Problem("beta_binomial", trials=40, constant=-2.0),
    "ordinal rare classes": Problem("ordinal", constant=-3.5),
    "categorical rare class": Problem("categorical", constant=-4.0),
    "bernoulli 5 sites": Problem("bernoulli", groups=(5, 0.7)),
    "bernoulli 20 sites": Problem("bernoulli", groups=(20, 0.7)),
    "bernoulli 20 sites, no spread": Problem("bernoulli", groups=(20, 0.0)),
    "gaussian 20 sites": Problem("gaussian", groups=(20, 0.7)),
    "poisson 20 sites, n=100000": Problem("poisson", 100_000, groups=(20, 0.5)),
    "bernoulli 50 sites, n=100000": Problem("bernoulli", 100_000, groups=(50, 0.7)),
    "bernoulli 20 numbers": Problem("bernoulli", numbers=20),
    "gaussian 20 numbers": Problem("gaussian", numbers=20),
    "bernoulli 50 numbers, n=100000": Problem("bernoulli", 100_000, numbers=50),
    "bernoulli 97 numbers, n=100000": Problem("bernoulli", 100_000, numbers=97),
    "weibull censored": Problem("weibull", censored=3.0),
    "exponential censored": Problem("exponential", censored=3.0),
    "lognormal censored": Problem("lognormal", censored=3.0),
    "piecewise_exponential censored": Problem("piecewise_exponential(0.5, 1.5)", censored=3.0),
    "weibull few events": Problem("weibull", constant=3.0, censored=6.0),
    "lognormal few events": Problem("lognormal", constant=4.0, censored=6.0, sigma=1.0, numbers=2, levels=()),
    "weibull hardly any event": Problem("weibull", constant=4.5, censored=6.0, numbers=2, levels=()),
    "weibull heavy censoring": Problem("weibull", 50_000, constant=2.2, censored=3.0),
    "lognormal heavy censoring": Problem("lognormal", 50_000, constant=2.2, censored=3.0, sigma=1.2),
    "piecewise_exponential few events": Problem("piecewise_exponential(0.5, 1.5)", constant=-6.0, censored=3.0),
    "bernoulli slopes of 8 sites": Problem(
        "bernoulli", 12_000, groups=(8, 0.5), group_slopes=0.4, numbers=2, levels=()
    ),
    "weibull late entry": Problem("weibull", censored=4.0, enters=True),
    "bernoulli persons": Problem("bernoulli", persons=(5, 0.9), numbers=2),
    "poisson persons": Problem("poisson", persons=(5, 0.7), numbers=2),
    "gaussian slopes of persons": Problem("gaussian", persons=(6, 0.7), person_slopes=0.4, numbers=2),
    **{
        f"{family} {count} uneven sites": Problem(family, size, groups=(count, 0.5), uneven=1.0)
        for family in ("bernoulli", "gaussian", "poisson")
        for count, size in ((30, 20_000), (100, 50_000), (300, 100_000))
    },
    **{
        f"{family} slopes of {count} uneven sites": Problem(
            family, size, groups=(count, 0.5), uneven=1.0, group_slopes=0.4, numbers=2
        )
        for family, count, size in (("bernoulli", 30, 30_000), ("gaussian", 100, 50_000), ("poisson", 30, 30_000))
    },
    "weibull with lognormal times": Problem("weibull", respond=_lognormal, censored=6.0, holds=False),
}
"""All problems by name."""
