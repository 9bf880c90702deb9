"""The settings of every sampler in `fit`, from public facts alone: the recipes of the catalogue, by name."""

from collections.abc import Mapping

from dpmcmc.catalogue import SAMPLERS, Recipe
from dpmcmc.catalogue.settings import TEST_NOISE

__all__ = ["RECIPES", "SKETCH", "TEST_NOISE", "Recipe"]

SKETCH = "sketch"
"""A strategy that can be requested by name, like a sampler."""

RECIPES: Mapping[str, Recipe] = {name: one.recipe for name, one in SAMPLERS.items() if one.recipe is not None}
"""The samplers of the literature, full-batch Langevin dynamics and the normal approximation, by name.

``clipped_laplace`` clips scores whatever the model; ``private_laplace`` weights them where the model is a formula's.
"""
