"""Point estimates of other libraries at the same epsilon. They are no dependencies: ``pip install "dpmcmc[peers]"``."""

import warnings
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from dpmcmc.accounting import Gaussian, noise_for
from dpmcmc.errors import InvalidArgument
from experiments.beyond.real_tables import Question


def diffprivlib(
    question: Question, epsilon: float, seed: int, settings: dict[str, list[float]]
) -> Iterator[tuple[str, Any]]:
    """Return what diffprivlib estimates, setting by setting; nothing where a record is a person: it knows rows alone.

    Its regressions are (epsilon, 0)-private where one record is replaced, which is more than (epsilon, delta); whether
    they are is not checked here. They get columns scaled to [-1, 1] by the schema, as our model has them.
    """
    models = _imported("diffprivlib.models")
    if question.schema.person is not None:
        return
    features = np.asarray(jax.vmap(question.of_row.features)(question.records), np.float64)[:, 1:]
    response = question.of_row.coordinates.response
    labels = np.asarray(question.records[response.name], np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of scikit-learn, about arguments that diffprivlib passes on
        if question.family == "gaussian":
            found = models.LinearRegression(epsilon=epsilon, bounds_X=(-1, 1), bounds_y=(-1, 1), random_state=seed)
            found.fit(features, (labels - response.centre) / response.half)
            # it does not estimate the scale of the noise: any will do, for coefficients alone are compared
            yield "default", {"coefficients": jnp.append(found.intercept_, found.coef_), "sigma": jnp.zeros(())}
            return
        norm = float(np.sqrt(question.of_row.row_bound**2 - 1))  # the intercept is counted by itself
        for inverse in settings["regularisations"]:
            found = models.LogisticRegression(
                epsilon=epsilon, data_norm=norm, C=inverse, max_iter=1000, random_state=seed
            )
            found.fit(features, labels)
            yield f"C {inverse:g}", {"coefficients": jnp.concatenate([found.intercept_, found.coef_[0]])}


def dp_sgd(
    question: Question, epsilon: float, seed: int, settings: dict[str, list[float]], delta: float
) -> Iterator[tuple[str, Any]]:
    """Return what gradient descent with jax_privacy's clipped and noised gradients finds, setting by setting.

    Every step takes all records, so that its price is that of a Gaussian release, exact where one record is replaced:
    batches would save time, of which there is enough, and cost accuracy. The loss is that of our model, prior
    included; steps are Adam's; the estimate is the mean of the second half of them.
    """
    for num_steps in settings["num_steps"]:
        multiplier = noise_for(lambda noise, steps=num_steps: Gaussian(noise) * steps, epsilon, delta)
        descend = _descent(question, num_steps)
        for clip in settings["clips"]:
            for rate in settings["rates"]:
                words = f"{num_steps} steps, rate {rate:g}, clip {clip:g}"
                yield words, descend(jax.random.key(seed), rate, clip, 2 * clip * multiplier)


@lru_cache(maxsize=8)
def _descent(question: Question, num_steps: int) -> Any:
    privacy, optax = _imported("jax_privacy"), _imported("optax")
    noise_addition = _imported("jax_privacy.noise_addition")
    model, table = question.model, jax.tree.map(jnp.asarray, question.records)
    shapes = jax.eval_shape(model.sample_prior, jax.random.key(0))
    start, nest = ravel_pytree(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), shapes))

    @jax.jit
    def descend(key: jax.Array, rate: jax.Array, clip: jax.Array, sd: jax.Array) -> Any:
        clipped = privacy.clipped_grad(
            lambda flat, record: -model.log_likelihood(nest(flat), record), l2_clip_norm=clip, keep_batch_dim=False
        )
        privatizer, optimizer = noise_addition.gaussian_privatizer(stddev=sd, prng_key=key), optax.adam(rate)

        def step(state: Any, _: None) -> tuple[Any, jax.Array]:
            flat, of_noise, of_adam = state
            noisy, of_noise = privatizer.update(clipped(flat, table), of_noise)
            loss = noisy - jax.grad(lambda flat: model.log_prior(nest(flat)))(flat)
            move, of_adam = optimizer.update(loss / question.num_records, of_adam)
            flat = optax.apply_updates(flat, move)
            return (flat, of_noise, of_adam), flat

        begun = (start, privatizer.init(start), optimizer.init(start))
        _, path = jax.lax.scan(step, begun, None, length=num_steps)
        return nest(jnp.mean(path[num_steps // 2 :], axis=0))

    return descend


def _imported(module: str) -> Any:
    """Return a module of a peer, or say how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise InvalidArgument(
            f"{module.partition('.')[0]} cannot be imported ({error}): it is a peer to compare with and no dependency; "
            'pip install "dpmcmc[peers]", or leave its method out of experiments/beyond/real_data.toml'
        ) from error
