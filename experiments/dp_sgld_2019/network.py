"""A Bayesian convolutional network: two convolutions, each with pooling, and one dense layer; weights ~ N(0, 1)."""

import math

import jax
import jax.numpy as jnp
import numpy as np

SHAPES = {
    "first": (5, 5, 1, 16),
    "first_shift": (16,),
    "second": (5, 5, 16, 16),
    "second_shift": (16,),
    "dense": (7 * 7 * 16, 10),
    "dense_shift": (10,),
}
DIMENSION = sum(math.prod(shape) for shape in SHAPES.values())
"""14,682 weights; the paper does not print its sizes. A lattice sum holds up to about 19,000 coordinates."""


def layers(position: jax.Array) -> dict[str, jax.Array]:
    """Return the weights of a flat position by layer."""
    found, start = {}, 0
    for name, shape in SHAPES.items():
        size = math.prod(shape)
        found[name] = position[start : start + size].reshape(shape)
        start += size
    return found


def scores(position: jax.Array, images: jax.Array) -> jax.Array:
    """Return the ten scores of images of shape (n, 28, 28)."""
    weights = layers(position)
    x = images[..., None]
    for name in ("first", "second"):
        x = jax.lax.conv_general_dilated(x, weights[name], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = jax.nn.relu(x + weights[f"{name}_shift"])
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return x.reshape(len(images), -1) @ weights["dense"] + weights["dense_shift"]


def log_prior(position: jax.Array) -> jax.Array:
    """Return the log-density of N(0, I) up to a constant."""
    return -0.5 * jnp.sum(position**2)


def log_likelihood(position: jax.Array, record: dict[str, jax.Array]) -> jax.Array:
    """Return the log-probability of one image's label."""
    return jax.nn.log_softmax(scores(position, record["image"][None])[0])[record["label"]]


def start(rng: np.random.Generator) -> np.ndarray:
    """Return weights scaled by the number of inputs of their layer: a public start."""
    parts = []
    for name, shape in SHAPES.items():
        inputs = math.prod(shape[:-1])
        scale = 0.0 if name.endswith("shift") else math.sqrt((1 if name == "dense" else 2) / inputs)
        parts.append(scale * rng.standard_normal(math.prod(shape)))
    return np.concatenate(parts).astype(np.float32)
