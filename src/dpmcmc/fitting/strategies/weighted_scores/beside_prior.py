"""A posterior beside its prior: which coefficients the prior decides about, and which marks agree with the draws."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from dpmcmc.diagnostics.quality import Grade, Quality, worst
from dpmcmc.diagnostics.summary import coordinates
from dpmcmc.fitting.strategies.weighted_scores.grades import MARKED, NOT_SEEN
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.model.formula.priors import Prior

PULLED, HARDLY_NARROWER = 0.5, 0.5
"""By how many of its own standard deviations the prior pulls a mean, and how many of the prior's a posterior's are, for
the prior to decide about it."""


FAR_OUT, NOT_MUCH_NARROWER = 2.0, 1 / 3
"""Standard deviations of the prior beyond which a mean is far out, and of which a posterior is not much narrower, where
steps may have gone on and on."""


def decided_by_prior(regression: Regression, vectors: Floats) -> tuple[list[str], bool]:
    """Return the coefficients that the prior pulls, their posterior being far out in it, or hardly narrower than it.

    And whether half of all are far out in it, or not much narrower.
    """
    found: list[str] = []
    num_far, outputs, vectors = 0, regression.num_outputs, regression.coefficients(vectors)
    for name, prior, rows in _with_priors(regression):
        low, middle, high = (prior.quantile(probability) for probability in (0.16, 0.5, 0.84))
        own = np.sum([vectors[:, row * outputs : (row + 1) * outputs] for row in rows], axis=0)
        width = (high - low) / 2
        narrower, away = own.std(axis=0) / width, np.abs(own.mean(axis=0) - middle) / width
        num_far += int(np.sum((away > FAR_OUT) | (narrower > NOT_MUCH_NARROWER)))
        is_pulled = away * narrower > PULLED
        is_decided = is_pulled | (narrower > HARDLY_NARROWER)
        labels = regression.model.coordinates.labels(name)
        found += [label for label, is_its in zip(labels, is_decided, strict=True) if is_its]
    return found, 2 * num_far >= regression.num_linear - 1


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
"""From a prior, to see how wide it is."""


def marked_shares(regression: Regression, quality: Quality, draws: Mapping[str, np.ndarray]) -> Quality:
    """Return a verdict that marks shares as wide as their prior: of an effect near zero nobody can tell them."""
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
