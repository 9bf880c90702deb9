"""Many positions of a formula at once, in NumPy: draws as people read them, and draws from the prior.

What a run shows is computed once for a few thousand draws. To compile it would take longer than a fit.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dpmcmc.model.formula.coordinates import Coordinates
from dpmcmc.model.formula.groups import unit_of
from dpmcmc.model.formula.monotone import to_coefficients

Arrays = Mapping[str, np.ndarray]


def constrain_all(coordinates: Coordinates, positions: Arrays) -> dict[str, np.ndarray]:
    """Return what `Coordinates.constrain` does of each position, (draw, ...)."""
    wide = {name: np.asarray(values, np.float64) for name, values in positions.items()}
    return {name.replace("/", "∕"): np.asarray(values, np.float32) for name, values in _constrained(coordinates, wide)}


def _constrained(coordinates: Coordinates, positions: Arrays) -> Iterator[tuple[str, Any]]:
    half = coordinates.response.half
    cutpoints: Any = None
    if coordinates.cutpoints is not None:
        gaps = np.cumsum(np.exp(positions["cutpoints"][:, 1:]), axis=1)
        cutpoints = positions["cutpoints"][:, :1] + np.concatenate([np.zeros((len(gaps), 1)), gaps], axis=1)
    if coordinates.names:
        values = np.moveaxis(positions["coefficients"], 1, 0)
        natural = to_coefficients(np, coordinates.monotone, values) if coordinates.monotone else values
        original = np.tensordot(coordinates.to_original, natural, (1, 0))  # (column, draw, ...)
        for name, own in list(coordinates.readable(np, original, values)):
            yield from _by_class(coordinates, name, own)
        cutpoints = None if cutpoints is None else cutpoints - original[0][:, None]
    if cutpoints is not None:
        yield "cutpoints", cutpoints
    for name, prior in coordinates.others.items():
        if prior.fixed is None:
            yield name, prior.from_line(np, positions[name]) * unit_of(name, half, coordinates.persons)
    if coordinates.scale is not None:
        own = positions[coordinates.scale.name] @ coordinates.of_scale.T
        own[:, 0] += np.log(half)
        yield from zip(coordinates.scale_names, own.T, strict=True)
    for name, (groups, prior) in coordinates.groups.items():
        unit = half / groups.half
        spread = np.exp(positions[f"{name}_sigma"]) if prior.fixed is None else np.full(1, prior.fixed)
        effects = positions[name] * spread[:, None]
        for place, level in enumerate(groups.levels):
            yield from _by_class(coordinates, f"{name}[{level}]", effects[:, place] * unit)
        if prior.fixed is None:
            yield from _by_class(coordinates, f"{name}_sigma", spread * unit)


def _by_class(coordinates: Coordinates, name: str, values: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    labels = coordinates.labels(name)
    yield from zip(labels, np.moveaxis(values, -1, 0), strict=True) if coordinates.outputs else [(name, values)]


def draw_prior(coordinates: Coordinates, rng: np.random.Generator, number: int) -> dict[str, np.ndarray]:
    """Return positions drawn from the prior, (draw, ...)."""
    positions: dict[str, np.ndarray] = {}
    for name, shape in coordinates.shapes.items():
        axes = (number, *shape.shape)
        if name == "coefficients":
            rows = [prior.draw(rng, (number, *shape.shape[1:])) for prior in coordinates.coefficients.priors]
            positions[name] = np.stack(rows, axis=1)
            for term in coordinates.monotone:
                own = term.draw_on_host(rng, (len(term.places), number, *shape.shape[1:]))
                positions[name][:, np.array(term.places)] = np.moveaxis(own, 0, 1)
        elif coordinates.scale is not None and name == coordinates.scale.name:
            positions[name] = np.stack([prior.draw(rng, (number,)) for prior in coordinates.scale.prior.priors], axis=1)
        elif name in coordinates.groups:
            positions[name] = rng.normal(size=axes)
        elif name == "cutpoints" and coordinates.cutpoints is not None:
            drawn = np.sort(coordinates.cutpoints.draw(rng, axes), axis=1)
            positions[name] = np.concatenate([drawn[:, :1], np.log(np.diff(drawn, axis=1))], axis=1)
        else:
            prior = coordinates.positive[name]
            positions[name] = prior.to_line(np, prior.draw(rng, axes))
    return positions
