"""A NumPyro model as a prior and the likelihood of one record.

The model is an ordinary one, called on arrays with one row per record and one plate over the rows. Its latent sites and
Jacobians become the prior, its sites inside the data plate the likelihood. The likelihood of a record is that of a
table with this record alone, which is its part of the whole if the records are independent given the parameters: the
model is examined on synthetic rows, and refused, with the site and the reason, if they are not.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.errors import InvalidArgument
from dpmcmc.missing_cells import is_hidden
from dpmcmc.model import synthetic
from dpmcmc.model.examination import PriorSample, Question, answers, prior_question
from dpmcmc.model.model import Model
from dpmcmc.model.numpyro_latents import Latents
from dpmcmc.model.numpyro_sites import Terms, at_position, draw, evaluate, examine, unconstrained
from dpmcmc.model.observed import density_question, find_observed, is_there, is_whole, without_marks
from dpmcmc.model.quadrature import log_integral
from dpmcmc.model.reads import Reads, find_reads
from dpmcmc.model.replay import replay
from dpmcmc.model.separation import FEW, MORE, find_data_plate, follow, refuse_sites, separate, trial_question


def from_numpyro(
    model: Callable[..., Any],
    data: Any,
    *,
    data_arguments: str | Sequence[str] | None = None,
    public_arguments: Mapping[str, Any] | None = None,
    temperature: float = 1.0,
) -> Model:
    """Return a NumPyro model as a `Model` over the dictionary of its latent sites, in unconstrained space.

    ``constrain`` returns the latent sites and the deterministic ones that read no record; ``sample_prior`` is None if
    the prior cannot be sampled (an improper, masked or scaled site, a factor outside the data plate). An observed
    site whose response is missing in the table, or whose distribution reads a missing response, contributes nothing.

    Args:
        model: a NumPyro model, called with keyword arguments.
        data: a `PrivateData`, of which only public facts are read; or one record, a pytree of arrays or of
            `jax.ShapeDtypeStruct`, of which only shapes and types are read.
        data_arguments: the arguments of the model that are data, matched to keys of the record by name; if left out,
            every key that the model has an argument for. A single name instead of a list receives the whole record,
            whatever its structure.
        public_arguments: the other arguments of the model, by name. They are public: compiled into the program.
        temperature: the power of the likelihood.

    Raises:
        ModelRefused: the model cannot be sampled privately; the message names the site and the reason.
    """
    record, bounds = _facts(data)
    if not callable(model):
        raise InvalidArgument(f"model is a {type(model).__name__}; expected a NumPyro model, a function")
    public = dict(public_arguments or {})
    arguments = _data_arguments(model, record, data_arguments)
    _check_signature(model, record, arguments, public)
    _refuse_integrated(arguments, getattr(data, "schema", None))

    def written(rows: Any) -> Any:
        own = {arguments: rows} if isinstance(arguments, str) else {name: rows[name] for name in arguments}
        return model(**own, **public)

    few, more = (examine(written, synthetic.shapes(record, number)) for number in (FEW, MORE))
    plate = find_data_plate(few, more)
    own = Latents(few, more, plate)
    call, record = (own.given(written), own.record(record)) if own.size else (written, record)
    if own.size:
        few, more = (examine(call, synthetic.shapes(record, number)) for number in (FEW, MORE))
    refuse_sites(few, more, plate)
    latent = {name: site for name, site in few.sites.items() if site.kind == "latent"}
    position = {name: site.unconstrained for name, site in latent.items()}

    def terms(position: Any, rows: Any) -> Terms:
        return evaluate(call, position, rows, plate)

    tables = list(synthetic.tables(record, bounds, FEW))
    marks, trials = follow(terms, position, tables[0]), trial_question(terms, position, tables)
    nobody = synthetic.blank(record, 1)
    value_shapes = {name: jax.ShapeDtypeStruct(site.shape, jnp.result_type(float)) for name, site in latent.items()}

    def log_prior(position: Any) -> jax.Array:
        return _total(terms(position, nobody).prior)

    def likelihood(position: Any, record: Any) -> dict[str, jax.Array]:
        row = jax.tree.map(lambda leaf: leaf[None], record)
        return {name: jnp.sum(term) for name, term in terms(position, row).likelihood.items()}

    in_plate = [name for name, site in few.sites.items() if plate in site.plates]
    names = [name for name in in_plate if few.sites[name].kind == "observed"]
    has_factors = any(few.sites[name].kind == "factor" for name in in_plate)

    def sites(position: Any, rows: Any) -> Mapping[str, Any]:
        return at_position(call, position, rows)

    reads = find_reads(sites, names, position, record)
    required = _required(reads, record, getattr(data, "schema", None))
    replayed = replay(lambda position, record: _total(likelihood(position, record)), position=position, record=record)
    by_site = replay(likelihood, position=position, record=record)

    def log_likelihood(position: Any, record: Any) -> jax.Array:
        if not own.size:
            return given(position, record, without_marks(record))

        def given_own(numbers: jax.Array, position: Any) -> jax.Array:
            return given(position, record, own.joined(without_marks(record), numbers))

        return log_integral(given_own, position, own.size)

    def given(position: Any, record: Any, columns: Any) -> jax.Array:
        if not any(required.values()) or not isinstance(record, Mapping) or not any(map(is_hidden, record)):
            return replayed(position, columns)
        found = by_site(position, columns)
        there = {name: is_there(required.get(name, ()), record) for name in found}
        return _total({name: jnp.where(there[name], term, 0.0) for name, term in found.items()})

    def read(position: Any) -> Terms:
        return terms(position, nobody)._replace(prior={}, likelihood={}, observed={})

    outside = [site for site in few.sites.values() if site.kind in {"observed", "factor"} and plate not in site.plates]
    drawable = not outside and all(site.drawable for site in latent.values())
    draw_position = jax.jit(lambda key: draw(call, key, nobody)) if drawable else None
    observed = None
    if names and not has_factors and not own.size:
        observed = find_observed(sites, reads, required, position, record)
    rows = jax.tree.map(lambda *tables: np.concatenate([np.asarray(leaf) for leaf in tables]), *tables)
    densities = None if observed is None else density_question(observed, log_likelihood, position, rows)
    prior = None if draw_position is None else prior_question(draw_position, read)
    (values, alone), of_densities, sample = _ask(trials, densities, prior)
    readable = separate(few, marks, values, alone)

    def named(terms: Terms) -> dict[str, Any]:
        return {**terms.latent, **{name: terms.deterministic[name] for name in readable}}

    if observed is not None and (densities is None or not is_whole(observed, of_densities, position, record)):
        observed = None
    invert = replay(lambda values: unconstrained(call, values, nobody), parameters=value_shapes)
    constrain = replay(lambda position: named(read(position)), position=position)
    return Model(
        replay(log_prior, position=position),
        log_likelihood,
        temperature=temperature,
        constrain=constrain,
        unconstrain=lambda parameters: invert(_only(parameters, value_shapes)),
        sample_prior=draw_position,
        prior_sample=sample and PriorSample(sample[0], named(sample[1]), (draw_position, constrain)),
        position=position,
        observed=observed,
    )


def _ask(*questions: Question | None) -> list[Any]:
    """Return the answers to those questions that there are, each in its place."""
    found = iter(answers(*(one for one in questions if one is not None)))
    return [None if one is None else next(found) for one in questions]


def _required(reads: Mapping[str, Reads], record: Any, schema: Any) -> dict[str, tuple[str, ...]]:
    """Return the columns without which each site says nothing: its response, and responses that its law reads.

    Columns in which missing is a category like any other are none of them.
    """
    if not isinstance(record, Mapping):
        return dict.fromkeys(reads, ())
    columns = sorted(map(str, record))  # as JAX orders the leaves of a mapping
    if len(columns) != len(jax.tree.leaves(record)):
        return dict.fromkeys(reads, ())
    responses = frozenset[int]().union(*(each.response for each in reads.values()))
    found: dict[str, tuple[str, ...]] = {}
    for name, each in reads.items():
        needed = [columns[place] for place in sorted(each.response | (each.law & responses))]
        kinds = {} if schema is None else schema.columns
        found[name] = tuple(one for one in needed if one not in kinds or kinds[one].missing != "category")
    return found


def _facts(data: Any) -> tuple[Any, Mapping[str, tuple[float, float]]]:
    """Return the shapes of one record and the bounds that are stated for it."""
    facts = getattr(data, "facts", None)
    record, bounds = (data, {}) if facts is None else (facts.record, facts.bounds)
    if not jax.tree.leaves(record):
        raise InvalidArgument("data holds no array; expected a PrivateData, or the shapes of one record")
    try:
        return jax.tree.map(_shape, without_marks(record)), bounds
    except TypeError as error:
        raise InvalidArgument(
            f"data is a {type(data).__name__}; expected a PrivateData, or the shapes of one record"
        ) from error


def _refuse_integrated(arguments: str | tuple[str, ...], schema: Any) -> None:
    """Refuse columns whose missing cells formulas integrate over: a NumPyro model is not told which these are."""
    stated = {} if schema is None else schema.columns
    names = [name for name in stated if stated[name].missing == "integrate"]
    read = names if isinstance(arguments, str) else [name for name in names if name in arguments]
    if read:
        raise InvalidArgument(
            f"the model reads {', '.join(read)}, of which the schema says missing='integrate': formulas can do that, a "
            "NumPyro model does not know which cells are missing. State missing='indicator' or 'fill' in the schema"
        )


def _shape(leaf: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(jnp.shape(leaf), jax.dtypes.canonicalize_dtype(jnp.result_type(leaf)))


def _data_arguments(
    model: Callable[..., Any], record: Any, stated: str | Sequence[str] | None
) -> str | tuple[str, ...]:
    """Return which arguments get which part of the record: one of them all, or each its own key."""
    if isinstance(stated, str):
        return stated
    if not isinstance(record, Mapping):
        raise InvalidArgument(
            f"data_arguments={stated!r} must be one name, that of the argument which takes the record as it is: the "
            f"record is a {type(record).__name__} without keys"
        )
    keys: tuple[str, ...] = tuple(record)
    names = _taken(model, keys) if stated is None else tuple(stated)
    missing = [name for name in names if name not in keys]
    if missing or not names:
        raise InvalidArgument(
            f"data_arguments={names!r} must be keys of the record, at least one; it has {', '.join(map(str, keys))}"
        )
    return names


def _taken(model: Callable[..., Any], keys: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns that the model has arguments for; a table may have others, as for a formula."""
    parameters = inspect.signature(model).parameters
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return keys
    return tuple(key for key in keys if key in parameters)


def _check_signature(model: Any, record: Any, data: str | tuple[str, ...], public: Mapping[str, Any]) -> None:
    names = [data] if isinstance(data, str) else list(data)
    both = sorted(set(names) & set(public))
    if both:
        raise InvalidArgument(f"public_arguments has {', '.join(both)}, which are data; name each argument once")
    try:
        inspect.signature(model).bind(**dict.fromkeys([*names, *public]))
    except TypeError as error:
        keys = f"; the record has the keys {', '.join(map(str, record))}" if isinstance(record, Mapping) else ""
        raise InvalidArgument(
            f"the model cannot be called with the data {', '.join(names)} and the public arguments "
            f"{', '.join(public) or '(none)'}: {error}. Name its data in data_arguments and give it the rest in "
            f"public_arguments{keys}"
        ) from error


def _only(parameters: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the latent sites among parameters, which may have deterministic ones in them."""
    missing = sorted(set(values) - set(parameters))
    if missing:
        raise InvalidArgument(f"parameters has no {', '.join(missing)}; expected all of {', '.join(values)}")
    return {name: parameters[name] for name in values}


def _total(terms: Mapping[str, jax.Array]) -> jax.Array:
    """Return the sum of all entries of all terms."""
    return sum((jnp.sum(term) for term in terms.values()), start=jnp.zeros(()))
