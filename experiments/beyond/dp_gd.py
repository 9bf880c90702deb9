"""Noisy clipped gradient descent over all records, written out: what nearly every private learner does at its heart."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from dpmcmc.accounting import Gaussian, noise_for
from dpmcmc.schema import OF_PERSON, PRESENT
from experiments.beyond.real_tables import Question

MOMENTUM = 0.9
"""Without it two hundred steps do not arrive where columns depend on each other."""


class Rows(NamedTuple):
    """The rows of records, (record, place, ...): a record is a row, or a person with several places for one."""

    features: jax.Array
    response: jax.Array
    trials: jax.Array
    present: jax.Array
    counts: jax.Array
    """How many records are alike: each is computed once."""


def dp_gd(
    question: Question, epsilon: float, seed: int, settings: dict[str, list[float]], delta: float
) -> Iterator[tuple[str, Any]]:
    """Return what gradient descent with clipped and noised gradients finds, setting by setting.

    Steps go along the mean gradient of our model, prior included, with momentum, from zero; every step takes all
    records and costs a Gaussian release of two clips, one record replaced. The estimate is the mean of the second half.
    """
    rows, nest = rows_of(question), _zero(question)[1]
    for number, num_steps in enumerate(settings["num_steps"]):
        multiplier = noise_for(lambda noise, steps=num_steps: Gaussian(noise) * steps, epsilon, delta)
        key = jax.random.fold_in(jax.random.key(seed), number)
        descend = _descent(question, num_steps)
        for place, clip in enumerate(settings["clips"]):
            for other, rate in enumerate(settings["rates"]):
                own = jax.random.fold_in(jax.random.fold_in(key, place), other)
                words = f"{num_steps} steps, rate {rate:g}, clip {clip:g}"
                yield words, nest(descend(own, rows, clip, rate, 2 * clip * multiplier))


@lru_cache(maxsize=8)
def rows_of(question: Question) -> Rows:
    """Return the features and the response of all records, as the model reads them."""
    own = question.of_row.coordinates
    has_persons = question.schema.person is not None
    kept = [name for name in question.records if not has_persons or name == PRESENT or name not in OF_PERSON]
    records, counts = alike({name: np.asarray(question.records[name]) for name in kept})
    present = records.pop(PRESENT) if has_persons else jnp.ones((len(counts), 1), bool)
    if not has_persons:
        records = jax.tree.map(lambda leaf: leaf[:, None], records)

    def read(row: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
        return own.row(row), own.response.read(row), own.response.read_trials(row)

    return Rows(*jax.jit(jax.vmap(jax.vmap(read)))(records), present > 0, jnp.asarray(counts, jnp.float32))


def alike(records: dict[str, np.ndarray]) -> tuple[dict[str, jax.Array], np.ndarray]:
    """Return the records that differ, and how many there are of each."""
    flat = np.concatenate([leaf.reshape(len(leaf), -1).astype(np.float64) for leaf in records.values()], axis=1)
    _, first, counts = np.unique(flat, axis=0, return_index=True, return_counts=True)
    return {name: jnp.asarray(leaf[first]) for name, leaf in records.items()}, counts


def _zero(question: Question) -> tuple[jax.Array, Any]:
    """Return the position that is zero, in one vector, and what makes a position of a vector."""
    return ravel_pytree(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), dict(question.of_row.position)))


def clipped_sum(question: Question, flat: jax.Array, rows: Rows, clip: Any) -> jax.Array:
    """Return the sum of the records' gradients of the log-likelihood, each clipped.

    A gradient by coefficients is a residual times the features: matrix products, and no gradient of a whole model.
    """
    own, law, nest = question.of_row.coordinates, question.of_row.law, _zero(question)[1]
    position = nest(flat)
    coefficients = position.pop("coefficients")
    others, of_others = ravel_pytree(position)

    def log_density(eta: jax.Array, others: jax.Array, y: jax.Array, trials: jax.Array) -> jax.Array:
        natural = own.natural({"coefficients": coefficients, **of_others(others)})
        return law.log_density(eta, y, trials, natural.others)

    each = jax.vmap(jax.vmap(jax.grad(log_density, (0, 1)), (0, None, 0, 0)), (0, None, 0, 0))
    by_eta, by_others = each(rows.features @ coefficients, others, rows.response, rows.trials)
    by_eta, by_others = by_eta * rows.present, by_others * rows.present[..., None]
    rest = jnp.sum(by_others, axis=1)
    if rows.features.shape[1] == 1:  # then a gradient need not be written out
        features, residuals = rows.features[:, 0], by_eta[:, 0]
        held = rows.counts * _held(residuals**2 * jnp.sum(features**2, axis=1) + jnp.sum(rest**2, axis=1), clip)
        linear = (held * residuals) @ features
    else:
        gradients = jnp.einsum("np,npd->nd", by_eta, rows.features)
        held = rows.counts * _held(jnp.sum(gradients**2, axis=1) + jnp.sum(rest**2, axis=1), clip)
        linear = held @ gradients
    total = {"coefficients": linear, **of_others(held @ rest)}
    return ravel_pytree({name: total[name] for name in nest(flat)})[0]


def _held(squares: jax.Array, clip: Any) -> jax.Array:
    """Return what is left of gradients with squared lengths."""
    return jnp.minimum(1.0, clip / jnp.sqrt(jnp.maximum(squares, 1e-30)))


@lru_cache(maxsize=32)
def _descent(question: Question, num_steps: int) -> Any:
    start, nest = _zero(question)

    @jax.jit
    def descend(key: jax.Array, rows: Rows, clip: Any, rate: Any, sd: Any) -> jax.Array:
        def step(state: tuple[jax.Array, jax.Array], key: jax.Array) -> tuple[Any, jax.Array]:
            flat, speed = state
            noisy = clipped_sum(question, flat, rows, clip) + sd * jax.random.normal(key, flat.shape)
            force = noisy + jax.grad(lambda flat: question.of_row.log_prior(nest(flat)))(flat)
            speed = MOMENTUM * speed + rate * force / question.num_records
            return (flat + speed, speed), flat + speed

        _, path = jax.lax.scan(step, (start, start), jax.random.split(key, num_steps))
        return jnp.mean(path[num_steps // 2 :], axis=0)

    return descend
