"""Does the likelihood of a NumPyro model fall apart into one term a record, and is its prior free of records?

Two answers are put together. The jaxpr says which rows each term is computed from (see `dependence`); and the terms of
synthetic rows are compared with those of each row by itself, which also shows a likelihood or prior that depends on how
many records there are. Privacy does not hang on either: what is sampled sees one record at a time, and a prior sees
none. A model that fails here would be sampled as another model than the one that was written.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.errors import ModelRefused
from dpmcmc.model import dependence
from dpmcmc.model.examination import Question
from dpmcmc.model.numpyro_sites import JACOBIAN, Structure, Terms

FEW, MORE = 3, 5
"""How many rows a model is tried on; what differs between the two follows the number of records."""

TOLERANCE = 0.02
"""How far log-densities of the same row may be apart, relative to one or to their size: rounding is far below, and
the influence of two other rows on a third is above."""

Evaluate = Callable[[Mapping[str, Any], Any], Terms]
"""The terms of the model at a position, on rows."""


def find_data_plate(few: Structure, more: Structure) -> str:
    """Return the one plate that has the size of the data, or refuse the model."""
    following = [name for name, size in few.plates.items() if more.plates.get(name) != size]
    for name in [*following, *(set(more.plates) - set(few.plates))]:
        if (few.plates.get(name), more.plates.get(name)) != (FEW, MORE):
            raise ModelRefused(
                f"plate {name!r} has the size {few.plates.get(name)} on {FEW} records and {more.plates.get(name)} on "
                f"{MORE}; expected one entry per record, so that each record has a likelihood of its own"
            )
    if len(following) > 1:
        raise ModelRefused(
            f"the model has several data plates, {_names(following)}; expected one, with all observed sites in it"
        )
    if not following:
        fixed = ", ".join(f"{name!r} of fixed size {size}" for name, size in few.plates.items()) or "none at all"
        raise ModelRefused(
            f"the model has no data plate, none whose size follows the data: it has {fixed}. Put the observed sites "
            "into `with numpyro.plate('data', y.shape[0]):`, where y is a data argument"
        )
    return following[0]


def refuse_sites(few: Structure, more: Structure, plate: str) -> None:
    """Refuse sites that cannot be divided into a prior and the likelihoods of single records."""
    if set(few.sites) != set(more.sites):
        raise ModelRefused(
            f"sites {_names(set(few.sites) ^ set(more.sites))} are there for some numbers of records and not for "
            "others; expected the same sites on every data set"
        )
    for name, site in few.sites.items():
        if site.kind == "latent" and site.shape != more.sites[name].shape:
            raise ModelRefused(
                f"site {name!r} is a latent variable whose shape follows the number of records: {site.shape} on {FEW} "
                f"of them, {more.sites[name].shape} on {MORE}; expected a number of parameters that does not"
            )
    if not any(site.kind == "latent" for site in few.sites.values()):
        raise ModelRefused("the model has no latent variable; expected at least one numpyro.sample without obs")
    if not any(plate in site.plates and site.kind in {"observed", "factor"} for site in few.sites.values()):
        raise ModelRefused(f"nothing is observed inside the data plate {plate!r}; expected at least one site with obs=")


def separate(structure: Structure, marks: Terms, values: Terms, alone: Terms) -> frozenset[str]:
    """Refuse a prior that reads records and likelihoods that mix them; return the deterministic sites to read.

    Args:
        structure: the plates and sites of the model.
        marks: what the terms of the model depend on, as `follow` found it.
        values: the terms of synthetic tables, the answer to `trial_question`,
        alone: and those of each of their rows alone.
    """
    for name, found in marks.observed.items():
        if structure.sites[name].kind == "observed" and not np.any(found & dependence.POSITION):
            _refuse_outside(name)
        _check_prior(name, found, True, structure)
    for name, found in marks.prior.items():
        _check_prior(name, found, _close(values.prior[name][:, None], alone.prior[name]), structure)
    for name, found in marks.likelihood.items():
        own = np.array([dependence.row(number) for number in range(FEW)])
        foreign = found & dependence.ROWS & ~own != 0
        proven = np.any(foreign & (found & dependence.UNKNOWN == 0))
        each = alone.likelihood[name][..., 0]
        untested = np.any(foreign) and not np.any(np.isfinite(each))
        if proven or untested or not _close(values.likelihood[name], each):
            raise ModelRefused(
                f"site {name!r} mixes records: the log-density of one depends on others, or on how many there are, as "
                "in standardising inside the model or in a time series over records. Every record needs a likelihood "
                "of its own"
            )
    return frozenset(
        name
        for name, found in marks.deterministic.items()
        if not np.any(found & dependence.ROWS)
        and jnp.shape(values.deterministic[name][:, None])[2:] == jnp.shape(alone.deterministic[name])[2:]
        and _close(values.deterministic[name][:, None], alone.deterministic[name])
    )


def follow(evaluate: Evaluate, position: Any, rows: Any) -> Terms:
    """Return the marks of the terms: which rows each of them is computed from."""
    traced, outputs = jax.make_jaxpr(evaluate, return_shape=True)(position, rows)
    if traced.effects:
        raise ModelRefused(
            "the model has side effects, such as jax.debug.print: what it does with records could not be audited. "
            "Remove them; print what the model returns on synthetic data instead"
        )
    inputs = [dependence.of_position(leaf) for leaf in jax.tree.leaves(position)]
    inputs += [dependence.of_rows(leaf) for leaf in jax.tree.leaves(rows)]
    return jax.tree.unflatten(jax.tree.structure(outputs), dependence.follow(traced, inputs))


def trial_question(evaluate: Evaluate, position: Any, trials: Sequence[Any]) -> Question:
    """Return what asks for the terms of tables of synthetic rows, and of each of their rows alone, at random positions.

    Args:
        evaluate: the terms of the model.
        position: the shapes of a position.
        trials: tables of synthetic rows, `FEW` of them in each.
    """

    def both(position: Any, rows: Any) -> tuple[Terms, Terms]:
        single = jax.vmap(lambda row: evaluate(position, jax.tree.map(lambda leaf: leaf[None], row)))
        return evaluate(position, rows), single(rows)

    random = np.random.default_rng(0)
    positions = jax.tree.map(
        lambda leaf: np.asarray(random.normal(0, 0.5, (len(trials), *leaf.shape)), leaf.dtype), position
    )
    rows = jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *trials)
    return Question(jax.vmap(both), (positions, rows))


def _close(first: Any, second: Any) -> bool:
    """Say whether log-densities are the same but for rounding; what is not finite must be so in the same way."""
    with np.errstate(invalid="ignore"):
        size = np.maximum(np.maximum(np.abs(first), np.abs(second)), 1)
        same = (np.abs(first - second) <= TOLERANCE * size) | (first == second) | (np.isnan(first) & np.isnan(second))
    return bool(np.all(same))


def _check_prior(name: str, marks: Any, close: bool, structure: Structure) -> None:
    read = np.bitwise_or.reduce(np.ravel(marks), initial=0)
    proven = read & dependence.ROWS and not read & dependence.UNKNOWN
    if close and not proven:
        return
    site = structure.sites.get(name)
    if site is not None and site.kind != "latent":
        _refuse_outside(name)
    latent = name if site is not None else name.removeprefix("_").removesuffix(JACOBIAN)
    raise ModelRefused(
        f"site {latent!r} has a prior that depends on the records, or on how many there are: a prior is public. State "
        "it without the data, for example from the bounds that the data's owner states"
    )


def _refuse_outside(name: str) -> NoReturn:
    raise ModelRefused(
        f"site {name!r} is observed outside the data plate, so that its log-density is none of single records. Put it "
        "into the data plate; a public fact belongs in the prior, as numpyro.factor"
    )


def _names(names: Any) -> str:
    return ", ".join(repr(name) for name in sorted(names))
