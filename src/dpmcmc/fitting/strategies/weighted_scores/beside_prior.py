"""Comparison of a posterior with its prior: what the prior shifts or dominates, and whether marks agree with draws."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from dpmcmc.diagnostics.quality import Grade, Quality, worst
from dpmcmc.diagnostics.summary import coordinates
from dpmcmc.fitting.in_words import in_words
from dpmcmc.fitting.strategies.weighted_scores.grades import MARKED, NOT_SEEN
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.model.formula.priors import Prior

PULLED, PULLED_FAR = 0.5, 1.0
"""Shifts by the prior, in posterior standard deviations, above which a parameter is mentioned, and marked."""

WIDER = (
    "Default priors of coefficients are scaled to half the range of a column: state wider priors, or narrower bounds "
    "if a column's bounds are wider than they need to be."
)
HERE = "widen it, or state narrower bounds of columns."
"""Advice if the prior shifts parameters."""

HARDLY_NARROWER = 0.5
"""Ratio of posterior to prior standard deviation above which the prior dominates a coefficient."""


FAR_OUT, NOT_MUCH_NARROWER = 2.0, 1 / 3
"""Standard deviations of the prior beyond which a mean is far out, and of which a posterior is not much narrower, where
steps may have gone on and on."""


class BesidePrior(NamedTuple):
    """The influence of the prior on a result."""

    pulls: Mapping[str, float] = MappingProxyType({})
    """Shift of each mean by the prior, in posterior standard deviations."""
    dominates: Sequence[str] = ()
    """The coefficients that are hardly narrower than their prior."""
    is_half: bool = False
    """Whether half of all coefficients are far out in it, or not much narrower."""

    def findings(self, marked: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Return sentences on parameters that the prior shifts, and on unmarked coefficients that it dominates."""
        moved = [f"{name} by about {in_words(pull)}" for name, pull in self.pulls.items() if pull > PULLED]
        if moved:
            yield "fair", f"The prior moves {', '.join(moved)} of their standard deviations. {WIDER}"
        hardly = [name for name in self.dominates if name not in marked]
        if hardly:
            yield "fair", f"The prior dominates {', '.join(hardly)}: it is less than twice as wide as the posterior."

    def reasons(self) -> Iterator[tuple[str, str]]:
        """Say of each number that it moves far by how much."""
        for name, pull in self.pulls.items():
            if pull > PULLED_FAR:
                yield name, f"The prior moves it by about {in_words(pull)} of its standard deviations: {HERE}"


def seen_beside_prior(regression: Regression, vectors: Floats, draws: Mapping[str, Floats]) -> BesidePrior:
    """Return the influence of the prior on a result.

    The derivative of a posterior mean with respect to the power of the prior is its covariance with the log-prior. So
    without the prior the mean would be shifted by about minus this covariance.

    Args:
        regression: the model.
        vectors: draws of its parameters.
        draws: the same draws of each reported number.
    """
    found, density = list[str](), regression.log_prior(vectors, regression.num_linear)
    num_far, outputs, vectors = 0, regression.num_outputs, regression.coefficients(vectors)
    for name, prior, rows in _with_priors(regression):
        low, middle, high = (prior.quantile(probability) for probability in (0.16, 0.5, 0.84))
        own = np.sum([vectors[:, row * outputs : (row + 1) * outputs] for row in rows], axis=0)
        width = (high - low) / 2
        narrower, away = own.std(axis=0) / width, np.abs(own.mean(axis=0) - middle) / width
        num_far += int(np.sum((away > FAR_OUT) | (narrower > NOT_MUCH_NARROWER)))
        density += np.sum(prior.density(own), axis=1)
        labels = regression.model.coordinates.labels(name)
        found += [label for label, is_its in zip(labels, narrower > HARDLY_NARROWER, strict=True) if is_its]
    return BesidePrior(_pulls(density, draws), found, 2 * num_far >= regression.num_linear - 1)


def _pulls(density: Floats, draws: Mapping[str, Floats]) -> dict[str, float]:
    if not np.isfinite(density).all():  # a prior that ends somewhere has no slope there
        return {}
    varies = density - density.mean()
    return {
        name: abs(float(np.mean(varies * values))) / max(float(values.std()), 1e-30) for name, values in draws.items()
    }


def _with_priors(regression: Regression) -> Iterator[tuple[str, Prior, Sequence[int]]]:
    """Return the coefficients with their priors, and the rows of which they are: steps of one effect have one."""
    coordinates = regression.model.coordinates
    steps = {place for term in coordinates.monotone for place in term.places}
    for row, (name, prior) in enumerate(zip(coordinates.names, coordinates.coefficients.priors, strict=True)):
        if row not in steps:
            yield name, prior, [row]
    for term in coordinates.monotone:
        yield term.name, term.prior, term.places


PRIORS, NARROWER = 0.9, 0.5
"""Shares of the prior's width from which on a posterior has it, and below which it has not."""


PRIORS_OF_SHARES = 0.7
"""The same of the shares of a monotonic effect, which are narrower than that only where the effect is seen."""


def beside_prior(
    quality: Quality, draws: Mapping[str, np.ndarray], of_prior: Mapping[str, np.ndarray], wide: float = PRIORS
) -> Quality:
    """Return a verdict whose marks agree with how wide the draws are beside those of the prior, where there are any.

    Args:
        quality: the verdict.
        draws: by parameter.
        of_prior: the same from the prior.
        wide: the share of the prior's width from which on a posterior is marked.
    """
    own, its = coordinates(draws), coordinates(of_prior) if of_prior else {}
    grades = dict(quality.parameters)
    for name in set(own) & set(its) & set(grades):
        share = _width(own[name]) / max(_width(its[name]), 1e-30)
        grade = grades[name]
        if share > wide and NOT_SEEN not in grade.reasons:
            grades[name] = Grade("bad", (*grade.reasons, NOT_SEEN), grade.shares)
        elif share < NARROWER and NOT_SEEN in grade.reasons:
            rest = tuple(reason for reason in grade.reasons if reason != NOT_SEEN)
            grades[name] = Grade("bad" if quality.verdict == "bad" else "good", rest, grade.shares)
    marked = [name for name, grade in grades.items() if NOT_SEEN in grade.reasons]
    reasons = [reason for reason in quality.reasons if not reason.startswith(MARKED)]
    if marked:
        reasons.append(f"{MARKED} {', '.join(marked)}; the prior dominates there.")
    verdicts = [quality.verdict] if len(reasons) > bool(marked) or quality.verdict == "bad" else []
    return Quality(worst([*verdicts, *(["fair"] if marked else [])]), tuple(reasons), grades, quality.predicted_error)


DRAWS = 4000
"""Number of draws from a prior to estimate its width."""


def marked_shares(regression: Regression, quality: Quality, draws: Mapping[str, np.ndarray]) -> Quality:
    """Return a verdict that marks shares as wide as their prior: those of an effect near zero are not identified."""
    model, rng = regression.model.coordinates, np.random.default_rng(0)
    of_prior: dict[str, np.ndarray] = {}
    for term in model.monotone:
        drawn = term.shares(np, term.draw_on_host(rng, (len(term.places), DRAWS)))
        for label, values in zip(term.labels, drawn, strict=True):
            of_prior |= {name.replace("/", "∕"): values[None] for name in model.labels(label)}
    own = {name: draws[name][None] for name in of_prior}
    return beside_prior(quality, own, of_prior, PRIORS_OF_SHARES) if of_prior else quality


def _width(values: np.ndarray) -> float:
    low, high = np.quantile(values, [0.16, 0.84])
    return float(high - low) / 2
