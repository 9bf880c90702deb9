"""The families by name: one file each. A new one is a file like these, and its name in the list below."""

import difflib
import re
from collections.abc import Mapping

from dpmcmc.errors import InvalidArgument
from dpmcmc.model.formula.families import (
    bernoulli,
    beta,
    beta_binomial,
    binomial,
    categorical,
    censored_lognormal,
    censored_weibull,
    exponential,
    gamma,
    gaussian,
    geometric,
    hurdle_gamma,
    hurdle_lognormal,
    hurdle_negative_binomial,
    hurdle_poisson,
    inverse_gaussian,
    laplace,
    lognormal,
    negative_binomial,
    ordinal,
    piecewise_exponential,
    poisson,
    probit,
    student_t,
    weibull,
    zero_inflated_negative_binomial,
    zero_inflated_poisson,
)
from dpmcmc.model.formula.families.family import Family
from dpmcmc.schema import Column

FAMILIES: Mapping[str, Family] = {
    module.FAMILY.name: module.FAMILY
    for module in (
        gaussian,
        student_t,
        laplace,
        lognormal,
        gamma,
        exponential,
        weibull,
        inverse_gaussian,
        hurdle_gamma,
        hurdle_lognormal,
        beta,
        bernoulli,
        probit,
        binomial,
        beta_binomial,
        poisson,
        negative_binomial,
        geometric,
        zero_inflated_poisson,
        zero_inflated_negative_binomial,
        hurdle_poisson,
        hurdle_negative_binomial,
        categorical,
        ordinal,
    )
}
"""All families by name."""

SURVIVAL: Mapping[str, Family] = {
    family.name: family
    for family in (censored_weibull.WEIBULL, censored_weibull.EXPONENTIAL, censored_lognormal.FAMILY)
}
"""Those of a time and whether the event was seen then, by name; beside them piecewise_exponential, with its cuts."""

ALIASES: Mapping[str, str] = {alias: name for name, family in FAMILIES.items() for alias in family.aliases}
"""What else they are called."""

CUTPOINTS = "normal(0, 2)"
"""The default prior of the cutpoints of an ordinal response: independent normals, in order."""


def find_family(name: object) -> Family:
    """Return a family by its name or by what else it is called, after refusing others."""
    plain = _squeezed(name) if isinstance(name, str) else ""
    known = {_squeezed(each): ALIASES.get(each, each) for each in (*FAMILIES, *ALIASES)}
    if plain in known:
        return FAMILIES[known[plain]]
    if plain.startswith((*_TIMES, _squeezed(piecewise_exponential.NAME))):
        raise InvalidArgument(
            f"family={name!r} needs a time and its event: write 'Surv(time, event) ~ ...', with "
            f"family='{piecewise_exponential.NAME}(30, 90)', weibull, exponential or lognormal"
        )
    near = difflib.get_close_matches(plain, known, n=1, cutoff=0.75)
    hint = f". Did you mean {known[near[0]]!r}?" if near else ""
    raise InvalidArgument(f"family={name!r} must be one of {', '.join(FAMILIES)}{hint}")


_TIMES = ("cox", "coxph", "survival")
"""What models of times to an event are called elsewhere."""


def _squeezed(name: str) -> str:
    """Return a name in small letters without what other packages put between its parts, or do not."""
    return re.sub(r"[\s_.-]", "", name.lower())


def find_survival_family(name: object) -> Family:
    """Return the family of a time and its event, after refusing others."""
    called, has_cuts, rest = name.strip().lower().partition("(") if isinstance(name, str) else ("", "", "")
    called = called.strip().replace("-", "_").replace(" ", "_")
    called = ALIASES.get(called, called)
    if called == piecewise_exponential.NAME:
        return piecewise_exponential.piecewise_exponential(_cuts(name, rest))
    if called in SURVIVAL and not has_cuts:
        return SURVIVAL[called]
    known = ", ".join([*SURVIVAL, f"{piecewise_exponential.NAME}(30, 90)"])
    raise InvalidArgument(f"family={name!r} must be one of {known}, for a time and whether the event was seen then")


def _cuts(name: object, text: str) -> tuple[float, ...]:
    """Return the numbers between the brackets of ``piecewise_exponential(30, 90)``."""
    try:
        return tuple(float(part) for part in text.removesuffix(")").split(",") if part.strip())
    except ValueError as error:
        raise InvalidArgument(
            f"family={name!r} must have numbers in its brackets, as in {piecewise_exponential.NAME}(30, 90)"
        ) from error


def plain_family(column: Column, *, has_trials: bool = False) -> Family | None:
    """Return the family that a response of this kind plainly has; None where there are several."""
    if has_trials:
        return FAMILIES["binomial"]
    if column.kind == "boolean" or (column.kind == "category" and len(column.levels) == 2):
        return FAMILIES["bernoulli"]
    return FAMILIES["categorical"] if column.kind == "category" else None
