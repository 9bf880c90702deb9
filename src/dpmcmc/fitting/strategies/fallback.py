"""If paid releases cannot be used, the result is draws from the prior, with a verdict that says so."""

import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy.linalg import LinAlgWarning

from dpmcmc.diagnostics.quality import Grade, Quality
from dpmcmc.diagnostics.summary import coordinates
from dpmcmc.fitting.strategies.strategy import Drawn
from dpmcmc.fitting.whitening import Begin
from dpmcmc.model import Model
from dpmcmc.run.plan import parameters, prior_draws
from dpmcmc.run.program import Layout

NUMERICAL = (np.linalg.LinAlgError, ValueError, OverflowError, FloatingPointError, ZeroDivisionError)
"""What numbers that noise made can end in. The vault's own refusals are no matter of numbers, and are raised."""


@contextmanager
def quiet_numbers() -> Generator[None]:
    """Let numbers overflow without a word: noise makes such, a verdict says what a result is worth, and no warning."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", LinAlgWarning)
        yield


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
        model: whose prior it is.
        shape: chains and steps.
        settings: how the run was made.
        said: what went wrong.
        seed: of the fit, so that another one has other draws.
        begin: the centre and the widths of a prior that cannot be drawn from.
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
