"""A NumPyro model run on rows: the sites that it has, and the log-densities that they add.

The model is public code and runs on what it is given: shapes when it is examined, one record when it is sampled. It
is seen through NumPyro's own handlers, so whatever handlers a user put around it (`reparam`, `scale`, `mask`) act.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpyro
from numpyro import handlers
from numpyro.distributions import ImproperUniform, MaskedDistribution, biject_to
from numpyro.distributions.distribution import Unit
from numpyro.distributions.transforms import IdentityTransform

from dpmcmc.errors import DpmcmcError, ModelRefused

JACOBIAN = "_log_jacobian"
"""How the factors end that `evaluate` adds for changes of variables; they start with an underscore."""

LOOPS = ("StudentT", "Gamma", "Chi2", "InverseGamma", "Beta")
"""Distributions whose distribution functions are loops, as long as the slowest of all records takes."""

Call = Callable[[Any], Any]
"""The model with its public arguments filled in, as a function of rows."""


@dataclass(frozen=True)
class Site:
    """What the source of a model says about one of its sites."""

    kind: str
    """``latent``, ``observed``, ``factor`` or ``deterministic``."""
    shape: tuple[int, ...]
    """The shape of its value, as people read it."""
    plates: Mapping[str, int]
    """The plates around it, and the axis that each of them has."""
    unconstrained: jax.ShapeDtypeStruct | None = None
    """The shape of a latent value in a position."""
    drawable: bool = True
    """Whether drawing from the distribution of a latent value is drawing from its density."""


@dataclass(frozen=True)
class Structure:
    """The plates of a model with their sizes, and its sites."""

    plates: Mapping[str, int]
    sites: Mapping[str, Site]


class Terms(NamedTuple):
    """What the sites add to the log-density, and the values that they have."""

    prior: dict[str, jax.Array]
    """One number a site: latent values, Jacobians, factors outside the data plate."""
    likelihood: dict[str, jax.Array]
    """For each site in the data plate the log-densities of the rows."""
    latent: dict[str, jax.Array]
    observed: dict[str, Any]
    """The values of observed sites outside the data plate."""
    deterministic: dict[str, Any]


def examine(call: Call, rows: Any) -> Structure:
    """Return the plates and sites of a model, which is traced at the shapes of rows."""
    plates: dict[str, int] = {}
    sites: dict[str, Site] = {}

    def run(rows: Any) -> None:
        with _Recorder(plates) as found, handlers.substitute(substitute_fn=_at_zero):
            call(rows)
        sites.update({name: _site(site) for name, site in found.items() if site["type"] in {"sample", "deterministic"}})

    number = jax.tree.leaves(rows)[0].shape[0]
    try:
        jax.eval_shape(run, rows)
    except DpmcmcError:
        raise
    except jax.errors.ConcretizationTypeError as error:
        raise ModelRefused(
            "the model reads the values of records in Python, for a size or a branch: records are private and not "
            "available yet. Pass what it needs, such as the number of classes, as a public argument"
        ) from error
    except Exception as error:
        others = [f"plate {name!r} of size {size}" for name, size in plates.items() if size != number]
        advice = (
            f"Its {', '.join(others)} does not follow the data: take the size of the data plate from a data argument, "
            "as in numpyro.plate('data', y.shape[0])"
            if others
            else "Each data argument has one row per record"
        )
        raise ModelRefused(
            f"the model does not run on {number} synthetic records, as it must on any number of them: {error}. {advice}"
        ) from error
    return Structure(plates, sites)


def evaluate(call: Call, position: Mapping[str, Any], rows: Any, data_plate: str) -> Terms:
    """Return the terms of a model at an unconstrained position, on rows."""
    terms = Terms({}, {}, {}, {}, {})
    for name, site in at_position(call, position, rows).items():
        plates = _plates(site)
        if site["type"] == "deterministic" and data_plate not in plates:
            terms.deterministic[name] = site["value"]
        if site["type"] != "sample":
            continue
        log_density = _log_density(site)
        if data_plate in plates and site["is_observed"]:
            terms.likelihood[name] = _by_rows(name, log_density, plates[data_plate], rows)
            continue
        terms.prior[name] = jnp.sum(log_density)
        if not site["is_observed"]:
            terms.latent[name] = site["value"]
        elif not name.endswith(JACOBIAN):
            terms.observed[name] = site["value"]
    return terms


def at_position(call: Call, position: Mapping[str, Any], rows: Any) -> Mapping[str, Any]:
    """Return the sites of a model at an unconstrained position, on rows."""
    with _Recorder({}) as sites, handlers.substitute(substitute_fn=lambda site: _at_position(site, position)):
        call(rows)
    return sites


def unconstrained(call: Call, values: Mapping[str, Any], rows: Any) -> dict[str, jax.Array]:
    """Return the position of given values of the latent sites."""
    with _Recorder({}) as sites, handlers.substitute(data=dict(values)):
        call(rows)
    return _position(sites)


def draw(call: Call, key: jax.Array, rows: Any) -> dict[str, jax.Array]:
    """Return a position drawn from the prior."""
    with _Recorder({}) as sites, handlers.seed(rng_seed=key):
        call(rows)
    return _position(sites)


class _Recorder(handlers.trace):
    """Records sites, keeps the sizes of plates, and refuses what has no place in a density of separate records."""

    def __init__(self, plates: dict[str, int]) -> None:
        self._sizes = plates
        super().__init__()

    def process_message(self, msg: Any) -> None:
        kind, name = msg["type"], msg.get("name")
        if kind in {"param", "mutable"}:
            raise ModelRefused(
                f"site {name!r} is a numpyro.{kind}, which has no prior: a posterior cannot be sampled over it. "
                "Give it a prior with numpyro.sample, or pass it as a public argument"
            )
        if kind == "control_flow":
            raise ModelRefused(
                "the model uses numpyro.contrib.control_flow, whose sites cannot be separated by record. "
                "Sample the latent values before the loop and use jax.lax.scan or jax.lax.cond"
            )
        if kind == "plate":
            size, part = msg["args"]
            if part is not None and part != size:
                raise ModelRefused(
                    f"plate {name!r} has subsample_size={part}: it draws its own batch and rescales. Leave "
                    "subsample_size out; mechanisms draw batches, and charge for them"
                )
            self._sizes[name] = size


def _site(site: Any) -> Site:
    shape = jnp.shape(site["value"])
    if site["type"] == "deterministic":
        return Site("deterministic", shape, _plates(site))
    distribution = site["fn"]
    if site["is_observed"]:
        _refuse_loops(site["name"], distribution)
        is_factor = any(isinstance(layer, Unit) for layer in _layers(distribution))
        return Site("factor" if is_factor else "observed", shape, _plates(site))
    inverse = _transform(site).inverse_shape(shape)
    undrawable = any(isinstance(layer, (MaskedDistribution, ImproperUniform)) for layer in _layers(distribution))
    return Site(
        "latent",
        shape,
        _plates(site),
        jax.ShapeDtypeStruct(inverse, jnp.result_type(float)),
        drawable=site["scale"] is None and not undrawable,
    )


def _refuse_loops(name: str, distribution: Any) -> None:
    """Refuse observed laws that are cut off or censored and whose distribution functions are loops."""
    layers = list(_layers(distribution))
    kinds = [type(layer).__name__ for layer in layers]
    is_cut = any("Truncated" in kind or "Censored" in kind for kind in kinds)
    loops = [kind for kind in kinds if kind in LOOPS or kind.endswith("TruncatedGamma")]
    if is_cut and loops:
        raise ModelRefused(
            f"site {name!r} is a {loops[0]} that is truncated or censored: its distribution function is a loop, longer "
            "for some records than for others, which discloses them. Normal, Laplace, Logistic, Cauchy, LogNormal, "
            "Exponential and Weibull are possible: use one of these"
        )


def _plates(site: Any) -> dict[str, int]:
    return {frame.name: frame.dim for frame in site.get("cond_indep_stack", ())}


def _is_latent(site: Any) -> bool:
    return site["type"] == "sample" and not site["is_observed"]


def _layers(distribution: Any) -> Iterator[Any]:
    """Yield a distribution and those that it wraps: expanded, masked, transformed."""
    while distribution is not None:
        yield distribution
        distribution = getattr(distribution, "base_dist", None)


def _transform(site: Any) -> Any:
    """Return the map from the unconstrained values of a latent site to its support."""
    name, support = site["name"], site["fn"].support
    if support is not None and support.is_discrete:
        raise ModelRefused(
            f"site {name!r} is a discrete latent variable ({type(site['fn']).__name__}): positions are real numbers. "
            "Sum it out, for example with numpyro.distributions.MixtureSameFamily"
        )
    try:
        return biject_to(support)
    except NotImplementedError as error:
        raise ModelRefused(
            f"site {name!r} has the support {support}, which NumPyro cannot map to real numbers. "
            "Choose another distribution, or reparametrise the site with numpyro.handlers.reparam"
        ) from error


def _at_zero(site: Any) -> Any:
    """Return the value of a latent site whose unconstrained values are zero."""
    if not _is_latent(site) or site["value"] is not None:
        return None
    transform = _transform(site)
    shape = site["fn"].shape(site["kwargs"].get("sample_shape", ()))
    return transform(jnp.zeros(transform.inverse_shape(shape)))


def _at_position(site: Any, position: Mapping[str, Any]) -> Any:
    """Return the value of a latent site at a position, and add its log-Jacobian as a factor."""
    if not _is_latent(site) or site["name"] not in position:
        return None
    transform, point = _transform(site), position[site["name"]]
    value = transform(point)
    if not isinstance(transform, IdentityTransform):
        log_jacobian = transform.log_abs_det_jacobian(point, value)
        surplus = jnp.ndim(log_jacobian) - (jnp.ndim(value) - site["fn"].event_dim)
        numpyro.factor(f"_{site['name']}{JACOBIAN}", jnp.sum(log_jacobian, axis=tuple(range(-surplus, 0))))
    return value


def _position(sites: Mapping[str, Any]) -> dict[str, jax.Array]:
    dtype = jnp.result_type(float)
    return {
        name: jnp.asarray(_transform(site).inv(site["value"]), dtype)
        for name, site in sites.items()
        if _is_latent(site)
    }


def _log_density(site: Any) -> jax.Array:
    arguments = [site["intermediates"]] if site["intermediates"] else []
    log_density = site["fn"].log_prob(site["value"], *arguments)
    return log_density if site["scale"] is None else site["scale"] * log_density


def _by_rows(name: str, log_density: jax.Array, axis: int, rows: Any) -> jax.Array:
    """Return the log-density of each row: the sum over all axes but that of the data plate."""
    number = jax.tree.leaves(rows)[0].shape[0]
    if jnp.ndim(log_density) < -axis or jnp.shape(log_density)[axis] != number:
        raise ModelRefused(
            f"site {name!r} has log-densities of the shape {jnp.shape(log_density)} on {number} records: its axis "
            f"{axis} belongs to the data plate and must have one entry per record"
        )
    others = [other for other in range(jnp.ndim(log_density)) if other != jnp.ndim(log_density) + axis]
    return jnp.sum(log_density, axis=tuple(others))
