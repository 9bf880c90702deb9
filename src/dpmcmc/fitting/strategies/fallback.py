"""The fallback if charged releases cannot be used: draws from the prior, with a bad verdict."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpmcmc.diagnostics.quality import Grade, Quality
from dpmcmc.diagnostics.summary import coordinates
from dpmcmc.fitting.strategies.strategy import Drawn
from dpmcmc.fitting.whitening import Begin
from dpmcmc.model import Model
from dpmcmc.run.plan import parameters, prior_draws
from dpmcmc.run.program import Layout

NUMERICAL = (np.linalg.LinAlgError, ValueError, OverflowError, FloatingPointError, ZeroDivisionError)
"""Errors that noisy numbers can cause. The vault's own refusals are not among them, and are raised."""


def prior_draws_instead(
    model: Model,
    shape: tuple[int, int],
    settings: Mapping[str, Any],
    said: object,
    seed: int,
    begin: Begin | None = None,
) -> Drawn:
    """Return draws from the prior with the verdict bad.

    Args:
        model: the model with the prior.
        shape: the numbers of chains and steps.
        settings: the settings of the run.
        said: the reason for the fallback.
        seed: the seed of the fit.
        begin: centre and widths of the prior, if it cannot be sampled.
    """
    number, rng = shape[0] * shape[1], np.random.default_rng(seed)
    named = {name: values[0] for name, values in prior_draws(model).items()}
    if named:
        there = len(next(iter(named.values())))
        chosen = rng.choice(there, number, replace=number > there)
        named = {name: values[chosen] for name, values in named.items()}
    elif begin is not None:
        normal = rng.standard_normal((number, len(begin.scales)))
        vectors = np.asarray(begin.centre) + np.asarray(begin.scales) * normal
        found = parameters(model, Layout.of(model.position), vectors[None].astype(np.float32))
        named = {name: values[0] for name, values in found.items()}
    draws = {name: values.reshape(*shape, *values.shape[1:]) for name, values in named.items()}
    none = {"data": 0.0, "privacy": 0.0, "prior": 1.0}
    grades = {name: Grade("bad", ("It is the prior's.",), none) for name in coordinates(draws)}
    reason = (
        f"The releases cannot be used ({said}): these are draws from the prior. A larger epsilon, more records or a "
        "narrower prior may help."
    )
    return Drawn(draws, np.ones(shape, bool), 0, settings, Quality("bad", (reason,), grades))
