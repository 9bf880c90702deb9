"""Build a model from a formula."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.errors import InvalidArgument
from dpmcmc.model.formula.columns import Columns, Record
from dpmcmc.model.formula.coordinates import Coordinates, Position, Scale
from dpmcmc.model.formula.design import Design, Steps, build_design, without_slash
from dpmcmc.model.formula.expression import Expression, read_expression
from dpmcmc.model.formula.families import CUTPOINTS, FAMILIES
from dpmcmc.model.formula.families.family import Family, default
from dpmcmc.model.formula.family_choice import choose_family
from dpmcmc.model.formula.groups import Groups, read_groups
from dpmcmc.model.formula.integration import observed_of, read_integration, refuse_others
from dpmcmc.model.formula.model import FormulaModel
from dpmcmc.model.formula.monotone import CoefficientPrior, Monotone, read_concentrations
from dpmcmc.model.formula.original_scale import to_scaled
from dpmcmc.model.formula.parse import Parsed, parse_all
from dpmcmc.model.formula.persons import OfPersons, persons_terms, refuse_with_persons
from dpmcmc.model.formula.prior_texts import as_texts
from dpmcmc.model.formula.priors import Prior, VectorPrior, choose, read_prior, support_of
from dpmcmc.model.formula.response import Response, read_response
from dpmcmc.model.formula.transforms import Transform, read_transform
from dpmcmc.schema import Schema


def from_formula(
    formula: str,
    schema: Schema | Mapping[str, Any],
    *,
    family: str | None = None,
    priors: Mapping[str, Any] | None = None,
    temperature: float = 1.0,
) -> FormulaModel:
    """Return the model of a formula such as ``"readmitted ~ age + bmi + C(ward) + age:smoker + (1|site)"``.

    The columns of the design follow from the schema: numbers are scaled by their bounds to [-1, 1], categories become
    indicators against the first one. A record is a mapping from column names to values; categories are codes. A row
    without a response contributes nothing.

    Args:
        formula: the response, ``~``, and terms. Numbers may be transformed one record at a time (``I(age**2)``,
            ``log(income)``), ``offset(...)`` is added as it is, ``(1|ward)`` is a random intercept and ``(age|ward)`` a
            random slope as well, ``(1|a:b)`` and ``(1|a/b)`` cross and nest groups, ``0 +`` leaves the intercept out.
            A binomial response is written ``y | trials(n)``.
        schema: the columns with their public bounds and categories.
        family: one of `dpmcmc.model.FAMILIES`, or another name for it, such as ``"logistic"``; by default the one
            that a boolean, a category, or successes in trials imply.
        priors: priors that replace the defaults, for the scaled columns: by the name of a coefficient
            (``"age"``, ``"ward[b]"``), of a term (``"ward"``), ``"intercept"``, ``"slopes"`` for all others, of a
            parameter of the family (``"sigma"``, ``"nu"``, ``"concentration"``, ``"cutpoints"``), or of a random
            intercept (``"1|ward"``, its standard deviation). Written ``"normal(0, 2)"``, ``"half_normal(1)"``;
            ``"fixed(1)"`` fixes a positive parameter. On the scale of the results: ``"normal(0, 0.1) per year"``, with
            the unit of the schema, ``"normal(0, 1) per 10 units"``, ``"half_normal(500) original"``, or a NumPyro
            distribution, ``dist.Normal(0, 0.1)``.
        temperature: the power of the likelihood.

    Raises:
        InvalidArgument: the formula, the schema, the family or a prior is not valid; the message says which and why.
    """
    schema = Schema.read(schema)
    columns = Columns(schema)
    parsed = parse_all(formula, tuple(schema.columns))
    persons = persons_terms(parsed, schema, columns) if parsed.groups else {}
    parsed = replace(parsed, groups=tuple(group for group in parsed.groups if group.name not in persons))
    transform = read_transform(parsed.response, columns)
    of = choose_family(family, parsed, transform, columns)
    offsets = tuple(read_expression(text, columns) for text in parsed.offsets)
    design, read = build_design(parsed.terms, parsed.has_intercept, columns)
    response = read_response(transform, parsed, of, columns, has_constant=design.constant is not None)
    of_groups = [name for group in parsed.groups for name in group.columns]
    of_groups += [groups.number for groups in persons.values() if groups.number is not None]
    used = {*read, *of_groups, *(name for offset in offsets for name in offset.columns)}
    _check(parsed, transform, of, used)
    stated = {} if priors is None else as_texts(priors)
    coordinates = _coordinates(parsed, columns, design, response, of, offsets, stated, persons)
    beside = {
        name for name in (response.trials, response.weights, response.event, response.entry) if isinstance(name, str)
    }

    hidden = [name for name in used if columns[name].missing == "integrate"]
    integration = read_integration(hidden, columns) if hidden else None
    if integration is not None:
        refuse_others(integration, of, coordinates)
    if persons:
        refuse_with_persons(integration, of, coordinates)
    own = OfPersons(coordinates, of) if persons else None

    def log_density(position: Position, record: Record) -> jax.Array:
        natural = coordinates.natural(position)
        eta = coordinates.predictor(natural, record)
        return of.log_density(
            eta, response.read(record), response.read_trials(record), coordinates.others_of(natural, record)
        )

    def log_likelihood(position: Position, record: Record) -> jax.Array:
        if own is not None:
            return own.row(position, record)
        if integration is None:
            density = log_density(position, record)
        else:
            density = integration.log_mean(integration.at_nodes(record, lambda one: log_density(position, one)))
        weighted = density if response.weights is None else density * response.read_weight(record)
        return jnp.where(response.is_there(record), weighted, 0.0)

    return FormulaModel(
        coordinates.log_prior,
        log_likelihood,
        temperature=temperature,
        constrain=coordinates.constrain,
        unconstrain=coordinates.unconstrain,
        sample_prior=coordinates.sample_prior,
        position=dict(coordinates.shapes),
        observed=None if integration is None else observed_of(integration, of, coordinates),
        of_rows=None if own is None else own.rows,
        own=own,
        integrated=() if integration is None else integration.names,
        formula=formula,
        family=of.name,
        columns=(*sorted({*used, *beside}), response.name),
        coordinates=coordinates,
        known=columns,
        law=of,
    )


def _check(parsed: Parsed, transform: Transform, of: Family, used: set[str]) -> None:
    family = of.name
    if parsed.weights is not None and parsed.weights in {transform.column, parsed.trials}:
        raise InvalidArgument(f"weights({parsed.weights}) is the response or its trials; expected another column")
    if transform.column in used:
        raise InvalidArgument(
            f"the formula has {transform.column!r} on both sides; a response cannot explain itself, leave it out on "
            "the right"
        )
    followed = [name for name in (parsed.event, parsed.entry) if name is not None]
    twice = [name for name in followed if name in {*used, transform.column} or followed.count(name) > 1]
    if twice:
        raise InvalidArgument(f"the formula has {twice[0]!r} twice; the time, the event and the entry are columns each")
    if of.response == "order" and not parsed.has_intercept:
        raise InvalidArgument(f"family={family!r} has cutpoints for an intercept; leave out '0 +' or '- 1'")
    if of.response == "classes" and parsed.offsets:
        raise InvalidArgument(f"family={family!r} has no offset: it would be the same for every class; leave it out")
    if not (parsed.terms or parsed.has_intercept or parsed.groups):
        raise InvalidArgument("the formula has no parameter; expected an intercept or a term")


def _coordinates(
    parsed: Parsed,
    columns: Columns,
    design: Design,
    response: Response,
    of: Family,
    offsets: tuple[Expression, ...],
    stated: Mapping[str, str],
    persons: Mapping[str, Groups],
) -> Coordinates:
    """Choose the priors and put the parameters together."""
    ordered, has_classes = of.response == "order", of.response == "classes"
    skipped = 1 if ordered else 0
    names, terms, steps_of, sds = design.names[skipped:], design.terms[skipped:], design.steps, design.sds
    groups = {group.name: read_groups(group, columns) for group in parsed.groups}
    halves = {name: each.half for name, each in {**groups, **persons}.items()}
    others = {**of.others, **({"cutpoints": CUTPOINTS} if ordered else {})}
    others |= {_share(steps): "dirichlet(1)" for steps in steps_of.values()}
    wanted = {without_slash(key.replace(" ", "") if key not in names else key): text for key, text in stated.items()}
    of_scale = [f"{of.scale}:{name}" for name in names] if parsed.scale is not None else []
    of_steps = {name: effect for effect, steps in steps_of.items() for name in steps}
    read = tuple(dict.fromkeys(of_steps.get(name, name) for name in names))
    of_terms = [term if name not in of_steps else term[1:] for name, term in zip(names, terms, strict=True)]
    _check_names(wanted, read, of_terms, [*others, *groups, *persons, *of_scale])
    for effect, steps in steps_of.items():  # its prior is that of each step, until it is that of all together
        wanted |= {name: wanted[effect] for name in steps if effect in wanted}
    if wanted:
        wanted = to_scaled(wanted, design, response, columns, halves)
    defaults = {name: default(prior, response) for name, prior in of.others.items()}
    intercept = default(of.intercept, response)
    slope = read_prior("slopes", of.coefficients).arguments[1]

    def usual(name: str) -> str:
        own = sds.get(name)
        return f"normal(0, {slope * own:.4g})" if own is not None else of.coefficients

    chosen = choose(names, terms, wanted, lambda name: intercept if name == "intercept" else usual(name))
    monotone = _monotone(names, chosen, design, wanted)
    stand_ins = {place: prior for term in monotone for place, prior in zip(term.places, term.stand_ins, strict=True)}
    chosen = tuple(stand_ins.get(place, prior) for place, prior in enumerate(chosen))
    scale = _scale(parsed, of, design, wanted)
    defaults = {name: prior for name, prior in defaults.items() if scale is None or name != scale.name}
    return Coordinates(
        design=design,
        response=response,
        coefficients=CoefficientPrior(chosen, monotone),
        others={name: _positive(name, wanted, prior) for name, prior in defaults.items()}
        | {f"{name}_sigma": _positive(name, wanted, of.spread) for name in persons},
        cutpoints=read_prior("cutpoints", wanted.get("cutpoints", CUTPOINTS)) if ordered else None,
        groups={name: (each, _positive(name, wanted, of.spread)) for name, each in groups.items()},
        offsets=offsets,
        has_classes=has_classes,
        scale=scale,
        persons=persons,
    )


def _monotone(
    names: Sequence[str], chosen: Sequence[Prior], design: Design, stated: Mapping[str, str]
) -> tuple[Monotone, ...]:
    """Return the monotonic effects, with the priors that were chosen for their columns."""
    found: list[Monotone] = []
    for effect, steps in design.steps.items():
        places = tuple(names.index(name) for name in steps)
        share, (levels, labels) = _share(steps), zip(*steps.values(), strict=True)
        alpha = read_concentrations(share, stated.get(share, "dirichlet(1)"), len(steps))
        found.append(Monotone(effect, levels, places, chosen[places[0]], alpha, labels))
    return tuple(sorted(found, key=lambda term: term.places))


def _share(steps: Steps) -> str:
    """Return what the shares of an effect are called together."""
    level, label = next(iter(steps.values()))
    return label.replace(f"[{level}]", "", 1)


def _scale(parsed: Parsed, of: Family, design: Design, stated: Mapping[str, str]) -> Scale | None:
    """Return the formula of a scale, should there be one."""
    if parsed.scale is None:
        return None
    if of.scale is None or parsed.scale.response != of.scale:
        known = ", ".join(name for name, family in FAMILIES.items() if family.scale is not None)
        raise InvalidArgument(
            f"the formula has a part for {parsed.scale.response!r}; expected {of.scale or 'none'} with "
            f"family={of.name!r}{' of a time to an event' if of.survival is not None else ''}. "
            f"Families whose sigma may have a formula, of numbers that are not censored, are {known}"
        )
    written = {"1", *(":".join(term) for term in parsed.scale.terms)}
    places = [place for place, block in enumerate(design.blocks_of_columns) if block.block.term.written in written]
    if any(design.blocks_of_columns[place].block.term.step for place in places):
        raise InvalidArgument(f"the second part of the formula has mo(...); expected steps(x) or C(x) for {of.scale}")
    others = np.setdiff1d(np.arange(len(design.names)), places)
    if np.any(design.to_unscaled[np.ix_(others, np.array(places))]):
        raise InvalidArgument("the second part of the formula has a product without its factors; add these to it")
    names = [f"{of.scale}: {design.names[place]}" for place in places]
    texts = [
        stated.get(without_slash(name.replace(" ", "")), LOG_SCALE if not at else SLOPE)
        for at, name in enumerate(names)
    ]
    return Scale(of.scale, tuple(places), VectorPrior(tuple(map(read_prior, names, texts))))


LOG_SCALE, SLOPE = "normal(-1, 1)", "normal(0, 0.5)"
"""The default priors of the logarithm of a scale that has a formula, and of its slopes."""


def _positive(name: str, stated: Mapping[str, str], usual: str) -> Prior:
    return read_prior(name, stated.get(name, usual), support=support_of(usual))


def _check_names(
    stated: Mapping[str, str], names: Sequence[str], terms: Sequence[Sequence[str]], others: Sequence[str]
) -> None:
    clash = sorted(set(names) & {*others, *(f"{name}_sigma" for name in others), "slopes"})
    if clash:
        raise InvalidArgument(f"the column {', '.join(clash)} has the name of a parameter of the model; rename it")
    known = [*names, *(["slopes"] if set(names) - {"intercept"} else []), *others]
    unknown = sorted(set(stated) - {*known, *(alias for term in terms for alias in term)})
    if unknown:
        near = difflib.get_close_matches(unknown[0].lower(), known, n=1, cutoff=0.7)
        hint = f". Did you mean {near[0]!r}?" if near else ""
        raise InvalidArgument(f"priors has {', '.join(unknown)}; expected some of {', '.join(known)}{hint}")
