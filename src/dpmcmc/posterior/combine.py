"""Two posteriors of different persons as one: what yesterday's records said is the prior of today's.

With the likelihoods L1 and L2 of disjoint records and the prior p, the posterior of both is L1 L2 p: the product of the
two posteriors over the prior, which would count twice. Both are taken to be normal in the coordinates in which a
sampler moves, as `fit` takes the likelihood to be; the prior is what it is, to second order where the product is
highest. It is post-processing: nothing is read, and nothing charged.
"""

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from dpmcmc.accounting import Adjacency, Certificate
from dpmcmc.accounting.parallel import apart
from dpmcmc.diagnostics.quality import Grade, Quality, worst
from dpmcmc.errors import AdjacencyMismatch, InvalidArgument
from dpmcmc.model import FormulaModel
from dpmcmc.model.formula.host import constrain_all

if TYPE_CHECKING:
    from dpmcmc.posterior.posterior import Posterior

STEPS = 20
DRAWS_EACH = 10
"""How many draws there must be for each number."""

LEAST = 1e-3
"""Eigenvalues of the joint precision are at least this share of the sum of both."""


class _Normal(NamedTuple):
    mean: np.ndarray
    precision: np.ndarray


def combine(today: "Posterior", earlier: "Posterior", seed: int | None) -> dict[str, Any]:
    """Return what the posterior of both is made of; `Posterior.combine` says what the arguments are."""
    model, other = _models(today, earlier)
    first, second = (_normal(model, each.fitted.draws) for each in (today, earlier))
    joint = _joint(first, second, model, other)
    chains, steps = today.is_accepted.shape[0], today.is_accepted.shape[1] - today.num_warmup
    rng = np.random.default_rng(secrets.randbits(63) if seed is None else seed)
    root = np.linalg.cholesky(np.linalg.inv(joint.precision))
    vectors = joint.mean + rng.standard_normal((chains * steps, len(joint.mean))) @ root.T
    drawn = constrain_all(model.coordinates, _positions(model, vectors))
    twice = _runs(today.settings) & _runs(earlier.settings)
    quality = _quality(today.quality, earlier.quality)
    settings = {**today.settings, "quality": (_twice(quality) if twice else quality).to_plain()}
    settings["runs"] = sorted(_runs(today.settings) | _runs(earlier.settings))
    settings["combined"] = [each.certificate.claim for each in (today, earlier)]
    parts = _disjoint_parts(today.settings, earlier.settings)
    settings["parts"] = [] if parts is None else parts
    return {
        "draws": {name: values.reshape(chains, steps, *values.shape[1:]) for name, values in drawn.items()},
        "is_accepted": np.ones((chains, steps), bool),
        "num_warmup": 0,
        "certificate": _certificate(today.certificate, earlier.certificate, are_disjoint=parts is not None),
        "settings": settings,
        "prior": today.prior,
    }


def _models(today: "Posterior", earlier: "Posterior") -> tuple[FormulaModel, FormulaModel]:
    model, other = today.fitted.model, earlier.fitted.model
    check_models(model, other)
    return model, other


def check_models(model: FormulaModel, other: FormulaModel) -> None:
    """Refuse models whose posteriors cannot be combined."""
    if (model.formula, model.family) != (other.formula, other.family) or model.parameter_names != other.parameter_names:
        raise InvalidArgument(
            f"the posteriors are of {model.formula!r} ({model.family}) and {other.formula!r} ({other.family}); "
            "expected the same formula over the same categories"
        )
    if model.coordinates.groups:
        raise InvalidArgument(
            "random intercepts and their standard deviation are not normal together; posteriors with them cannot be "
            "combined. Fit the two tables together, or without the random intercept"
        )


def check_draws(number: int, size: int) -> None:
    """Refuse draws that are too few for a covariance of all numbers."""
    if number < DRAWS_EACH * size:
        raise InvalidArgument(
            f"{number} draws of {size} numbers are too few for their covariance; take at least {DRAWS_EACH * size}"
        )


def check_guarantees(adjacency: Adjacency, unit: str, other: Certificate) -> None:
    """Refuse runs that protect different things."""
    if (adjacency, unit) != (other.adjacency, other.unit):
        raise AdjacencyMismatch(
            f"one posterior protects every {unit} ({adjacency.words}), the other every {other.unit} "
            f"({other.adjacency.words}); they have no guarantee in common"
        )


def _normal(model: FormulaModel, draws: Mapping[str, np.ndarray]) -> _Normal:
    """Return the normal law with the mean and the covariance of draws, in the coordinates of the sampler."""
    named = {name: jnp.asarray(draws[name], jnp.float32) for name in model.parameter_names}

    def vector(one: Any) -> jax.Array:
        return ravel_pytree(model.unconstrain(one))[0]

    vectors = np.asarray(jax.vmap(vector)(named), float)
    number, size = vectors.shape
    check_draws(number, size)
    precision = np.linalg.inv(np.atleast_2d(np.cov(vectors.T))) * (number - size - 2) / (number - 1)
    return _Normal(vectors.mean(axis=0), precision)


def _joint(first: _Normal, second: _Normal, model: FormulaModel, other: FormulaModel) -> _Normal:
    """Return the product of two laws over the earlier prior, around its mode."""
    start = {name: jnp.zeros(shape.shape) for name, shape in model.coordinates.shapes.items()}
    _, unravel = ravel_pytree(start)

    def log_prior(vector: jax.Array) -> jax.Array:
        return other.log_prior(other.unconstrain(model.constrain(unravel(vector))))

    slope, bend = jax.jit(jax.grad(log_prior)), jax.jit(jax.hessian(log_prior))
    both = first.precision + second.precision
    tilt = first.precision @ first.mean + second.precision @ second.mean
    mean, precision = np.linalg.solve(both, tilt), both
    for _ in range(STEPS):
        at = jnp.asarray(mean, jnp.float32)
        precision = _positive(both + np.asarray(bend(at), float), both)
        move = np.linalg.solve(precision, tilt - both @ mean - np.asarray(slope(at), float))
        mean = mean + move
        if float(move @ both @ move) < 1e-8:
            break
    return _Normal(mean, precision)


def _positive(precision: np.ndarray, both: np.ndarray) -> np.ndarray:
    """Return a precision that is one: the noise of estimated covariances may take a direction below zero."""
    root = np.linalg.cholesky(both)
    inner = np.linalg.solve(root, np.linalg.solve(root, precision).T)
    values, vectors = np.linalg.eigh((inner + inner.T) / 2)
    return root @ (vectors * np.maximum(values, LEAST)) @ vectors.T @ root.T


def _positions(model: FormulaModel, vectors: np.ndarray) -> dict[str, np.ndarray]:
    start = {name: jnp.zeros(shape.shape) for name, shape in model.coordinates.shapes.items()}
    _, unravel = ravel_pytree(start)
    return {name: np.asarray(leaf) for name, leaf in jax.vmap(unravel)(jnp.asarray(vectors, jnp.float32)).items()}


def _quality(first: Quality, second: Quality) -> Quality:
    """Return the worse of two verdicts, number by number; shares of variance are those of neither."""
    names = [*first.parameters, *(name for name in second.parameters if name not in first.parameters)]
    none = Grade()
    pairs = {name: (first.parameters.get(name, none), second.parameters.get(name, none)) for name in names}
    grades = {
        name: Grade(worst(each.verdict for each in pair), (*pair[0].reasons, *pair[1].reasons))
        for name, pair in pairs.items()
    }
    reasons = tuple(dict.fromkeys((*first.reasons, *second.reasons)))
    return Quality(worst((first.verdict, second.verdict)), reasons, grades)


def _runs(settings: Mapping[str, Any]) -> set[str]:
    """Return the names of the runs that a posterior is of, as far as a ledger knows them."""
    own = settings.get("ledger", {}).get("run")
    return set(settings.get("runs", [] if own is None else [own]))


def _twice(quality: Quality) -> Quality:
    """Return the verdict where the releases of one run are in both posteriors."""
    said = "the same run is in both posteriors, so that its records count twice and intervals are too narrow"
    return Quality("bad", (said, *quality.reasons), {name: Grade("bad", (said,)) for name in quality.parameters})


def _disjoint_parts(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[list[str]] | None:
    """Return the parts of one whole that were read, each with its name, if they are different ones."""
    one, other = _parts(first), _parts(second)
    are_parts = one and other and len({whole for whole, _ in one + other}) == 1
    return [*one, *other] if are_parts and not any(part in other for part in one) else None


def _parts(settings: Mapping[str, Any]) -> list[list[str]]:
    """Return the parts that a posterior is of, each with the name of the whole; none if it is of anything else."""
    ledger = settings.get("ledger", {})
    own = [[ledger["part_of"], ledger["dataset"]]] if "part_of" in ledger else []
    return settings.get("parts", own)


def _certificate(first: Certificate, second: Certificate, *, are_disjoint: bool) -> Certificate:
    """Return what both cost together; unless it was stated that they are disjoint, for persons in both tables too."""
    check_guarantees(first.adjacency, first.unit, second)
    return Certificate(
        apart([first.event, second.event]) if are_disjoint else first.event + second.event,
        first.adjacency,
        max(first.delta, second.delta),
        tuple(dict.fromkeys((*first.assumptions, *second.assumptions))),
        unit=first.unit,
        paths=tuple(dict.fromkeys((*first.paths, *second.paths))),
        device=first.device,
    )
