"""How a position, any pytree of arrays, becomes the vector that kernels and mechanisms work on, and back."""

from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True)
class Layout:
    """The structure of a position and the shapes of its arrays, which are laid out one after the other."""

    structure: Any
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, position: Any) -> "Layout":
        """Return the layout of a position, or of the shapes of one."""
        leaves, structure = jax.tree.flatten(position)
        return cls(structure, tuple(tuple(jnp.shape(leaf)) for leaf in leaves))

    @property
    def dimension(self) -> int:
        """The number of coordinates."""
        return sum(prod(shape) for shape in self.shapes)

    def ravel(self, position: Any) -> jax.Array:
        """Return a position as a vector."""
        return jnp.concatenate([jnp.ravel(leaf).astype(jnp.float32) for leaf in jax.tree.leaves(position)])

    def unravel_all(self, vectors: Any) -> Any:
        """Return vectors, (draw, coordinate), as one position whose arrays have an axis of draws in front."""
        ends = np.cumsum([prod(shape) for shape in self.shapes])
        parts = np.split(vectors, ends[:-1], axis=1)
        arrays = [part.reshape(len(vectors), *shape) for part, shape in zip(parts, self.shapes, strict=True)]
        return jax.tree.unflatten(self.structure, arrays)

    def unravel(self, vector: jax.Array) -> Any:
        """Return a vector as a position."""
        parts: list[jax.Array] = []
        start = 0
        for shape in self.shapes:
            parts.append(vector[start : start + prod(shape)].reshape(shape))
            start += prod(shape)
        return jax.tree.unflatten(self.structure, parts)
