"""Which family a response has: as stated, or as it plainly is; and whether the two fit."""

from dpmcmc import validation
from dpmcmc.errors import InvalidArgument
from dpmcmc.model.formula.columns import Columns
from dpmcmc.model.formula.families import FAMILIES, find_family, find_survival_family, plain_family
from dpmcmc.model.formula.families.family import Family
from dpmcmc.model.formula.kinds import KINDS, words
from dpmcmc.model.formula.parse import Parsed
from dpmcmc.model.formula.transforms import Transform


def choose_family(stated: str | None, parsed: Parsed, transform: Transform, columns: Columns) -> Family:
    """Return the family, after refusing one that the response does not fit."""
    column = columns[transform.column]
    if parsed.event is not None:
        family = find_survival_family(stated)
    elif stated is not None:
        family = find_family(stated)
    else:
        has_trials = parsed.trials is not None
        plain = plain_family(column, has_trials=has_trials) if transform.is_plain else FAMILIES["gaussian"]
        if plain is None:
            raise InvalidArgument(
                f"family=None must be stated: the response {transform.text!r} is {words(column)}, which could be "
                f"{', '.join(_fitting(transform, columns))}"
            )
        family = plain
    _check(family, parsed, transform, columns)
    return family


def _fitting(transform: Transform, columns: Columns) -> list[str]:
    """Return the families that a response without trials and without an event may have."""
    column = columns[transform.column]
    kinds = {name: KINDS[family.response] for name, family in FAMILIES.items() if family.response != "proportion"}
    return [
        name
        for name, kind in kinds.items()
        if not kind.problem(column, transform.bounds) and (transform.is_plain or kind.is_number)
    ]


def _check(family: Family, parsed: Parsed, transform: Transform, columns: Columns) -> None:
    kind, column = KINDS[family.response], columns[transform.column]
    fitting = "" if parsed.event is not None else ", ".join(_fitting(transform, columns))
    others = f". Families for it are {fitting}" if fitting else ""
    if not transform.is_plain and not kind.is_number:
        raise InvalidArgument(
            f"the response is {transform.text!r}; family={family.name!r} needs a column as it is, not a function of "
            f"it{others}"
        )
    problem = kind.problem(column, transform.bounds)
    if problem:
        lower, upper = transform.bounds
        own = words(column) if transform.is_plain else f"a number between {lower:g} and {upper:g}"
        raise InvalidArgument(
            f"the response {transform.text!r} is {own}; family={family.name!r} needs {problem}{others}"
        )
    if (parsed.trials is not None) != (family.response == "proportion"):
        validation.refuse(
            "family",
            family.name,
            "has no trials; leave out '| trials(...)' or choose binomial or beta_binomial"
            if parsed.trials
            else "needs the number of trials: write 'y | trials(n) ~ ...', n a column of integers or a number",
        )
