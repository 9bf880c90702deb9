"""A model in coordinates in which its posterior is about a standard normal."""

from dataclasses import replace
from typing import Any

import jax

from dpmcmc.fitting.pilot import Summit
from dpmcmc.model import Model
from dpmcmc.run.program import Layout


def rounded(model: Model, layout: Layout, summit: Summit) -> Model:
    """Return the model over flat positions z, where the position of the given one is centre + F z."""

    def original(z: jax.Array) -> Any:
        return layout.unravel(summit.centre + summit.factor @ z)

    return replace(
        model,
        log_prior=lambda z: model.log_prior(original(z)),
        log_likelihood=lambda z, record: model.log_likelihood(original(z), record),
        constrain=lambda z: model.constrain(original(z)),
        unconstrain=lambda z: z,
        sample_prior=lambda key: jax.random.normal(key, (layout.dimension,)),
        position=jax.ShapeDtypeStruct((layout.dimension,), summit.centre.dtype),
    )
