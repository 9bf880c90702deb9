"""Latent variables of single records in NumPyro models, one or two numbers of each, which are integrated over.

Given standard normal numbers in their place the model is one without them, whose records have one more column: that
one is examined and taken apart like any other. The likelihood of a record is its integral over these numbers.
"""

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers
from numpyro.distributions import ExpandedDistribution, Independent, MultivariateNormal, Normal, TransformedDistribution

from dpmcmc.errors import ModelRefused
from dpmcmc.model.numpyro_sites import Call, Site, Structure

OWN, WHOLE = "(own)", "(record)"
"""The column with the normal numbers, and the one with a record that is no mapping."""

MOST = 2
"""How many numbers of a record can be integrated over."""


class Latents:
    """What of a model is to be integrated over.

    Attributes:
        size: how many numbers of a record.
    """

    def __init__(self, few: Structure, more: Structure, plate: str) -> None:
        self._sites = {name: site for name, site in few.sites.items() if site.kind == "latent" and plate in site.plates}
        if self._sites and not any(_is_term(site) and plate in site.plates for site in few.sites.values()):
            raise ModelRefused(
                f"site {', '.join(map(repr, self._sites))} is a latent variable inside the data plate {plate!r}, and "
                "nothing is observed there. If it is meant to be observed, its data argument is missing"
            )
        self._axes = {name: _axis(name, site, more.sites.get(name)) for name, site in self._sites.items()}
        self._shapes = {name: np.delete(site.shape, self._axes[name]).tolist() for name, site in self._sites.items()}
        self.size = sum(prod(shape) for shape in self._shapes.values())
        if self.size > MOST:
            names = ", ".join(map(repr, self._sites))
            raise ModelRefused(
                f"site {names} is a latent variable inside the data plate {plate!r}, of {self.size} numbers for each "
                f"record; expected at most {MOST}, which are integrated over within the record. Let the others belong "
                "to public groups, or integrate them out. If one is meant to be observed, its data argument is missing"
            )

    def record(self, record: Any) -> Any:
        """Return the shapes of a record with the normal numbers in it."""
        return self.joined(record, jax.ShapeDtypeStruct((self.size,), jnp.float32))

    @staticmethod
    def joined(record: Any, own: Any) -> dict[str, Any]:
        """Return a record, or rows, with the normal numbers."""
        return {**(record if isinstance(record, Mapping) else {WHOLE: record}), OWN: own}

    def given(self, call: Call) -> Call:
        """Return the model given the normal numbers, which the rows have."""

        def model(rows: Any) -> Any:
            rows = dict(rows)
            own = rows.pop(OWN)
            values, start = {}, 0
            for name, shape in self._shapes.items():
                part = own[:, start : start + prod(shape)].reshape(-1, *shape)
                values[name] = jnp.moveaxis(part, 0, self._axes[name])
                start += prod(shape)

            def substitute(site: Any) -> Any:
                if site["type"] != "sample" or site["name"] not in values:
                    return None
                if site["scale"] is not None:
                    raise ModelRefused(f"site {site['name']!r} is scaled, and inside the data plate; take scale off it")
                return _value(site["name"], site["fn"], values[site["name"]])

            with handlers.block(hide=list(values)), handlers.substitute(substitute_fn=substitute):
                return call(rows.get(WHOLE, rows))

        return model


def _is_term(site: Site) -> bool:
    return site.kind in {"observed", "factor"}


def _axis(name: str, few: Site, more: Site | None) -> int:
    """Return along which axis of a latent value the records lie."""
    other = () if more is None else more.shape
    apart = [axis for axis, sizes in enumerate(zip(few.shape, other, strict=False)) if sizes[0] != sizes[1]]
    if len(apart) != 1 or len(other) != len(few.shape):
        raise ModelRefused(
            f"site {name!r} is a latent variable inside the data plate whose shape is {few.shape}; expected one axis "
            "with an entry a record"
        )
    return apart[0]


def _value(name: str, law: Any, own: jax.Array) -> jax.Array:
    """Return the value of a latent variable, given standard normal numbers."""
    if isinstance(law, (ExpandedDistribution, Independent)):
        return _value(name, law.base_dist, own)
    if isinstance(law, Normal):
        return jnp.asarray(law.loc) + jnp.asarray(law.scale) * own
    if isinstance(law, MultivariateNormal):
        return jnp.asarray(law.loc) + (jnp.asarray(law.scale_tril) @ own[..., None])[..., 0]
    if isinstance(law, TransformedDistribution):
        value = _value(name, law.base_dist, own)
        transforms: list[Callable[[Any], Any]] = list(law.transforms)
        for transform in transforms:
            value = transform(value)
        return value
    raise ModelRefused(
        f"site {name!r} is a latent variable inside the data plate with the distribution {type(law).__name__}; "
        "expected a Normal, a LogNormal or a MultivariateNormal, which are integrated over within a record: write it "
        "as a function of one. If it is meant to be observed, its data argument is missing"
    )
