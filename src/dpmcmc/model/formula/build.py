"""Build a model from a formula."""

from collections.abc import Mapping, Sequence
from math import log
from typing import Any

import jax
import jax.numpy as jnp

from dpmcmc import validation
from dpmcmc.errors import InvalidArgument
from dpmcmc.model.formula.columns import Columns, Record
from dpmcmc.model.formula.coordinates import Coordinates, Position
from dpmcmc.model.formula.design import Design, build_design, without_slash
from dpmcmc.model.formula.expression import Expression, read_expression
from dpmcmc.model.formula.families import CUTPOINTS, FAMILIES, Family
from dpmcmc.model.formula.model import FormulaModel
from dpmcmc.model.formula.original_scale import to_scaled
from dpmcmc.model.formula.parse import Parsed, parse
from dpmcmc.model.formula.priors import Prior, VectorPrior, choose, read_prior
from dpmcmc.model.formula.response import Response, read_response
from dpmcmc.schema import Schema


def from_formula(
    formula: str,
    schema: Schema | Mapping[str, Any],
    *,
    family: str,
    priors: Mapping[str, str] | None = None,
    temperature: float = 1.0,
) -> FormulaModel:
    """Return the model of a formula such as ``"readmitted ~ age + bmi + C(ward) + age:smoker + (1|site)"``.

    The columns of the design follow from the schema: numbers are scaled by their bounds to [-1, 1], categories become
    indicators against the first one. A record is a mapping from column names to values; categories are codes. A row
    of a table without a response contributes nothing.

    Args:
        formula: the response, ``~``, and terms. Numbers may be transformed one record at a time (``I(age**2)``,
            ``log(income)``), ``offset(...)`` is added as it is, ``(1|ward)`` is a random intercept, ``0 +`` leaves the
            intercept out. A binomial response is written ``y | trials(n)``.
        schema: the columns with their public bounds and categories.
        family: gaussian, student_t, bernoulli, binomial, poisson, negative_binomial, categorical or ordinal.
        priors: priors that replace the defaults, on the scale of the scaled columns: by the name of a coefficient
            (``"age"``, ``"ward[b]"``), of a term (``"ward"``), ``"intercept"``, ``"slopes"`` for all the rest, of a
            parameter of the family (``"sigma"``, ``"nu"``, ``"concentration"``, ``"cutpoints"``), or of a random
            intercept (``"1|ward"``, its standard deviation). Written ``"normal(0, 2)"``, ``"half_normal(1)"``;
            ``"fixed(1)"`` holds a positive parameter. On the scale of the results: ``"normal(0, 0.1) per year"``, with
            the unit of the schema, ``"normal(0, 1) per 10 units"``, or ``"half_normal(500) original"``.
        temperature: the power of the likelihood.

    Raises:
        InvalidArgument: the formula, the schema, the family or a prior do not fit; the message says which and why.
    """
    parsed = parse(formula)
    columns = Columns(Schema.read(schema))
    of = FAMILIES[validation.choice("family", family, FAMILIES)]
    design, read = build_design(parsed.terms, parsed.has_intercept, columns)
    offsets = tuple(read_expression(text, columns) for text in parsed.offsets)
    response = read_response(parsed.response, parsed.trials, family, columns, has_constant=design.constant is not None)
    used = {*read, *parsed.groups, *(name for offset in offsets for name in offset.columns)}
    _check(parsed, family, used)
    coordinates = _coordinates(parsed, columns, design, response, of, offsets, priors or {})
    trials = {response.trials} if isinstance(response.trials, str) else set[str]()

    def log_likelihood(position: Position, record: Record) -> jax.Array:
        natural = coordinates.natural(position)
        eta = coordinates.predictor(natural, record)
        density = of.log_density(eta, response.read(record), response.read_trials(record), natural.others)
        return jnp.where(response.is_there(record), density, 0.0)

    return FormulaModel(
        coordinates.log_prior,
        log_likelihood,
        temperature=temperature,
        constrain=coordinates.constrain,
        unconstrain=coordinates.unconstrain,
        sample_prior=coordinates.sample_prior,
        position=dict(coordinates.shapes),
        formula=formula,
        family=family,
        columns=(*sorted({*used, *trials}), response.name),
        coordinates=coordinates,
        known=columns,
    )


def _check(parsed: Parsed, family: str, used: set[str]) -> None:
    if parsed.response in used:
        raise InvalidArgument(
            f"the formula has {parsed.response!r} on both sides; a response cannot explain itself, leave it out on the "
            "right"
        )
    if family == "ordinal" and not parsed.has_intercept:
        raise InvalidArgument("family='ordinal' has cutpoints for an intercept; leave out '0 +' or '- 1'")
    if family == "categorical" and parsed.offsets:
        raise InvalidArgument("family='categorical' has no offset: it would be the same for every class; leave it out")
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
) -> Coordinates:
    """Choose the priors and put the parameters together."""
    ordered, has_classes = of.response == "order", of.response == "classes"
    skipped = 1 if ordered else 0
    names, terms = design.names[skipped:], design.terms[skipped:]
    groups = {f"1|{group}": columns.category(group) for group in parsed.groups}
    others = {**of.others, **({"cutpoints": CUTPOINTS} if ordered else {})}
    wanted = {without_slash(key.replace(" ", "") if key not in names else key): text for key, text in stated.items()}
    _check_names(wanted, names, terms, [*others, *groups])
    wanted = to_scaled(wanted, design, response, columns)
    intercept = _intercept(of, response)
    chosen = choose(names, terms, wanted, lambda name: intercept if name == "intercept" else of.coefficients)
    return Coordinates(
        design=design,
        response=response,
        coefficients=VectorPrior(chosen),
        others={name: _positive(name, wanted, default) for name, default in of.others.items()},
        cutpoints=read_prior("cutpoints", wanted.get("cutpoints", CUTPOINTS), positive=False) if ordered else None,
        groups={name: (category, _positive(name, wanted, of.spread)) for name, category in groups.items()},
        offsets=offsets,
        has_classes=has_classes,
    )


def _positive(name: str, stated: Mapping[str, str], default: str) -> Prior:
    return read_prior(name, stated.get(name, default), positive=True)


def _intercept(of: Family, response: Response) -> str:
    """Return the default prior of the intercept; the one of a count reaches from one to the largest count."""
    if of.intercept:
        return of.intercept
    middle = log(1 + response.bounds[1]) / 2
    return f"normal({middle:.3g}, {max(1.0, middle):.3g})"


def _check_names(
    stated: Mapping[str, str], names: Sequence[str], terms: Sequence[Sequence[str]], others: Sequence[str]
) -> None:
    clash = sorted(set(names) & {*others, *(f"{name}_sigma" for name in others), "slopes"})
    if clash:
        raise InvalidArgument(f"the column {', '.join(clash)} has the name of a parameter of the model; rename it")
    known = [*names, *(["slopes"] if set(names) - {"intercept"} else []), *others]
    unknown = sorted(set(stated) - {*known, *(alias for term in terms for alias in term)})
    if unknown:
        raise InvalidArgument(f"priors has {', '.join(unknown)}; expected some of {', '.join(known)}")
