"""Which models have so many groups that their matrices must be arrows, and which cannot be had at all."""

from typing import Any

from dpmcmc.errors import InvalidArgument
from dpmcmc.fitting.in_words import counted
from dpmcmc.model import FormulaModel
from dpmcmc.schema import Schema

MANY, MANY_IN_MEMORY = 60, 15
"""From more effects of groups than this on matrices are arrows, and from more groups than this on where rows may be
read a dozen times: noise of a dense slope grows with all effects, and a small group suffers first."""

MOST_DENSE = 300
"""So many effects of groups may a model have whose matrices are no arrows."""

MOST_EFFECTS = 2
"""Of a group, with arrows."""


def has_many_groups(model: FormulaModel, size: int, schema: Schema | None, *, may_read_often: bool) -> bool:
    """Say whether a model has many groups, in one term or in several of the same groups.

    Args:
        model: the model.
        size: how many records there are.
        schema: of their table.
        may_read_often: whether all rows may be read a dozen times.

    Raises:
        InvalidArgument: it has more than can be taken.
    """
    groups: dict[str, Any] = dict(model.coordinates.groups)
    terms = [term for term, _ in groups.values()]
    number = sum(len(term.levels) for term in terms)
    levels = max((len(term.levels) for term in terms), default=0)
    if number <= MANY and not (levels > MANY_IN_MEMORY and may_read_often):
        return False
    why = _why_not(model, schema)
    if why and number > MOST_DENSE:
        raise InvalidArgument(
            f"{model.formula!r} has {counted(number, 'effect')} of groups; more than {MOST_DENSE} are possible only if "
            f"{why}. Nothing was charged. Take coarser groups, or leave a term out"
        )
    if not why and levels > size:
        raise InvalidArgument(
            f"{model.formula!r} has {levels:,} groups and the data {size:,} records: most groups have none. "
            "Nothing was charged. Take coarser groups"
        )
    return not why


def _why_not(model: FormulaModel, schema: Schema | None) -> str:
    """Say what would have to be otherwise for matrices to be arrows; nothing if they can be."""
    coordinates = model.coordinates
    terms = [term for term, _ in coordinates.groups.values()]
    factors = {tuple(category.name for category in term.categories) for term in terms}
    if len(factors) > 1:
        return (
            f"all terms with a bar have the same groups, not {' and '.join(':'.join(one) for one in sorted(factors))}"
        )
    if len(terms) > MOST_EFFECTS:
        return f"a group has at most {MOST_EFFECTS} effects, not {len(terms)}"
    if coordinates.outputs:
        return "the response has one predictor, not one for each class"
    if coordinates.scale is not None:
        return f"{coordinates.scale.name} has no formula"
    if coordinates.response.weights is not None:
        return "rows state no weights"
    if schema is not None and schema.person is not None:
        return "a record is one row, not a person with several"
    return ""
