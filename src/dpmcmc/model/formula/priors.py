"""Priors, written as ``normal(0, 2)``: a small closed set, stated on the scale of the scaled columns.

They are public: no default is scaled by the data's mean or spread, as other formula packages do it, since a prior that
knows the data gives it away.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from scipy import special

from dpmcmc import validation

_CALL = re.compile(r"\s*(\w+)\s*\(([^()]*)\)\s*")


@dataclass(frozen=True)
class Kind:
    """A kind of prior: its arguments, those that must be positive, and the law in NumPyro and, given it, in SciPy."""

    arguments: tuple[str, ...]
    positive: tuple[str, ...]
    law: Callable[..., Any]
    frozen: Callable[..., Any]


REAL: Mapping[str, Kind] = {
    "normal": Kind(("mean", "sd"), ("sd",), dist.Normal, lambda stats, *of: stats.norm(*of)),
    "student_t": Kind(("df", "mean", "scale"), ("df", "scale"), dist.StudentT, lambda stats, *of: stats.t(*of)),
    "laplace": Kind(("mean", "scale"), ("scale",), dist.Laplace, lambda stats, *of: stats.laplace(*of)),
}
"""Priors of numbers of either sign."""

POSITIVE: Mapping[str, Kind] = {
    "half_normal": Kind(("sd",), ("sd",), dist.HalfNormal, lambda stats, sd: stats.halfnorm(scale=sd)),
    "half_student_t": Kind(
        ("df", "scale"),
        ("df", "scale"),
        lambda df, scale: dist.FoldedDistribution(dist.StudentT(df, 0.0, scale)),
        lambda stats, df, scale: _Folded(stats.t(df, scale=scale)),
    ),
    "half_cauchy": Kind(("scale",), ("scale",), dist.HalfCauchy, lambda stats, scale: stats.halfcauchy(scale=scale)),
    "exponential": Kind(("rate",), ("rate",), dist.Exponential, lambda stats, rate: stats.expon(scale=1 / rate)),
    "gamma": Kind(
        ("shape", "rate"), ("shape", "rate"), dist.Gamma, lambda stats, a, rate: stats.gamma(a, scale=1 / rate)
    ),
    "lognormal": Kind(
        ("mean", "sd"), ("sd",), dist.LogNormal, lambda stats, mean, sd: stats.lognorm(sd, scale=float(np.exp(mean)))
    ),
}
"""Priors of positive numbers."""

UNIT: Mapping[str, Kind] = {"beta": Kind(("a", "b"), ("a", "b"), dist.Beta, lambda stats, *of: stats.beta(*of))}
"""Priors of numbers between zero and one."""

FIXED = Kind(("value",), ("value",), dist.Delta, lambda stats, *of: stats.uniform(*of))
"""No prior at all: the number is known."""


@dataclass(frozen=True)
class Prior:
    """One prior."""

    kind: str
    arguments: tuple[float, ...]
    is_share: bool = False
    """Whether it is one of a number between zero and one, which a sampler moves by its log-odds."""

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(f'{argument:g}' for argument in self.arguments)})"

    @property
    def fixed(self) -> float | None:
        """The value, if it is known."""
        return self.arguments[0] if self.kind == "fixed" else None

    @property
    def law(self) -> Any:
        """The law, as a distribution of NumPyro."""
        return _kind(self.kind).law(*self.arguments)

    def density(self, values: Any) -> Any:
        """Return the log-density at numbers, on the host."""
        if self.kind == "normal":  # SciPy checks its arguments for longer than it computes
            mean, sd = self.arguments
            return -0.5 * ((np.asarray(values) - mean) / sd) ** 2 - np.log(sd * np.sqrt(2 * np.pi))
        if self.kind == "student_t":
            df, mean, scale = self.arguments
            constant = special.gammaln((df + 1) / 2) - special.gammaln(df / 2) - np.log(scale * np.sqrt(df * np.pi))
            return constant - (df + 1) / 2 * np.log1p(((np.asarray(values) - mean) / scale) ** 2 / df)
        return _frozen(self.kind, self.arguments).logpdf(values)

    def from_line(self, xp: Any, value: Any) -> Any:
        """Return a positive number by its logarithm, one between zero and one by its log-odds."""
        return 1 / (1 + xp.exp(-value)) if self.is_share else xp.exp(value)

    def to_line(self, xp: Any, value: Any) -> Any:
        """Return the logarithm, or the log-odds."""
        return xp.log(value) - xp.log1p(-value) if self.is_share else xp.log(value)

    def log_jacobian(self, xp: Any, value: Any) -> Any:
        """Return the logarithm of how fast the number grows with what a sampler moves."""
        return -xp.logaddexp(0.0, value) - xp.logaddexp(0.0, -value) if self.is_share else value

    def quantile(self, probability: float) -> float:
        """Return a quantile; of a fixed value, the value."""
        return float(self._quantiles(probability))

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        """Return draws, on the host."""
        return np.asarray(self._quantiles(rng.random(shape)))

    def _quantiles(self, probabilities: Any) -> Any:
        if self.fixed is not None:
            return np.full(np.shape(probabilities), self.fixed)
        if self.kind == "normal":
            return self.arguments[0] + self.arguments[1] * special.ndtri(probabilities)
        if self.kind == "student_t":
            df, mean, scale = self.arguments
            return mean + scale * special.stdtrit(df, probabilities)
        return _frozen(self.kind, self.arguments).ppf(probabilities)


def read_prior(name: str, text: object, *, support: str = "real") -> Prior:
    """Read the prior of one parameter, which is any real number, a positive one, or a share between zero and one."""
    kinds = SUPPORTS[support]
    known = ", ".join(f"{kind}({', '.join(of.arguments)})" for kind, of in kinds.items())
    label = f"priors[{name!r}]"
    found = _CALL.fullmatch(text) if isinstance(text, str) else None
    if found is None or found[1] not in kinds:
        validation.refuse(label, text, f"must be one of {known}, with numbers")
    kind = kinds[found[1]]
    try:
        arguments = tuple(float(argument) for argument in found[2].split(","))
    except ValueError:
        arguments = ()
    if len(arguments) != len(kind.arguments) or not all(np.isfinite(arguments)):
        validation.refuse(label, text, f"must have the numbers {found[1]}({', '.join(kind.arguments)})")
    for argument, value in zip(kind.arguments, arguments, strict=True):
        if argument in kind.positive and value <= 0:
            validation.refuse(label, text, f"must have {argument} > 0")
        if found[1] == "fixed" and support == "share" and value >= 1:
            validation.refuse(label, text, f"must have {argument} < 1")
    return Prior(found[1], arguments, support == "share")


SUPPORTS: Mapping[str, Mapping[str, Kind]] = {
    "real": REAL,
    "positive": {**POSITIVE, "fixed": FIXED},
    "share": {**UNIT, "fixed": FIXED},
}
"""The priors that a parameter may have, by where it lies."""


def support_of(text: str) -> str:
    """Return where the parameters lie that have a prior like this one."""
    return "share" if text.partition("(")[0] in UNIT else "positive"


@dataclass(frozen=True)
class VectorPrior:
    """Independent priors of the rows of an array: those of one kind are evaluated together."""

    priors: tuple[Prior, ...]

    def log_density(self, values: jax.Array) -> jax.Array:
        """Return the log-density of an array with a row for each prior."""
        total = jnp.zeros(())
        for rows, law in self._laws(values.ndim):
            total = total + jnp.sum(law.log_prob(values[rows]))
        return total

    def draw(self, key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        """Draw an array with a row for each prior."""
        values = jnp.zeros(shape)
        for one, (rows, law) in zip(jax.random.split(key, len(self.priors)), self._laws(len(shape)), strict=False):
            spread = law.expand((len(rows), *shape[1:]))
            values = values.at[rows].set(spread.sample(one))
        return values

    def _laws(self, num_axes: int) -> "list[tuple[np.ndarray[Any, Any], Any]]":
        kinds: dict[str, list[int]] = {}
        for row, prior in enumerate(self.priors):
            kinds.setdefault(prior.kind, []).append(row)
        laws: list[tuple[np.ndarray[Any, Any], Any]] = []
        for kind, rows in kinds.items():
            table = np.array([self.priors[row].arguments for row in rows], np.float32)
            arguments = [column.reshape(-1, *[1] * (num_axes - 1)) for column in table.T]
            laws.append((np.array(rows), _kind(kind).law(*arguments)))
        return laws


def log_density_on_line(prior: Prior, value: jax.Array) -> jax.Array:
    """Return the log-density of what a sampler moves in the place of a number: with the log-Jacobian."""
    return jnp.sum(prior.law.log_prob(prior.from_line(jnp, value)) + prior.log_jacobian(jnp, value))


class _Folded:
    """The law of the absolute value of something symmetric."""

    def __init__(self, whole: Any) -> None:
        self.whole = whole

    def ppf(self, probability: Any) -> Any:
        return self.whole.ppf((1 + probability) / 2)

    def logpdf(self, values: Any) -> Any:
        return np.where(np.asarray(values) >= 0, self.whole.logpdf(values) + np.log(2.0), -np.inf)


@cache
def _frozen(kind: str, arguments: tuple[float, ...]) -> Any:
    """Return a law in SciPy, which takes its time to make one, and longer to be loaded: usual priors do without."""
    from scipy import stats

    return _kind(kind).frozen(stats, *arguments)


def _kind(name: str) -> Kind:
    return {**REAL, **POSITIVE, **UNIT, "fixed": FIXED}[name]


def choose(
    names: Sequence[str], aliases: Sequence[Sequence[str]], stated: Mapping[str, Any], default: Callable[[str], str]
) -> tuple[Prior, ...]:
    """Return the prior of each coefficient: its own, that of its term, that of all slopes, or the default."""
    chosen: list[Prior] = []
    for name, others in zip(names, aliases, strict=True):
        keys = [name, *others, *(["slopes"] if name != "intercept" else [])]
        key = next((key for key in keys if key in stated), name)
        chosen.append(read_prior(key, stated.get(key, default(name))))
    return tuple(chosen)
