"""Read the text of a formula with formulaic's parser. No data is near: formulaic's own matrices are not used."""

import re
from dataclasses import dataclass
from typing import Any, NoReturn

from dpmcmc import validation
from dpmcmc.errors import InvalidArgument

_NAME = r"(?:[^\W\d]\w*|`[^`]+`)"
_RESPONSE = re.compile(rf"({_NAME})\s*(?:\|\s*trials\(\s*({_NAME}|\d+)\s*\))?")
_BAR = re.compile(r"\(([^()|]*)\|([^()|]*)\)")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m|[⧛⧚]")
_RANDOM_INTERCEPT = "random_intercept"


@dataclass(frozen=True)
class Parsed:
    """A formula in parts; factors are still text, as formulaic writes them.

    Attributes:
        response: the column on the left.
        trials: the column or the number in ``y | trials(n)``.
        has_intercept: whether there is one.
        terms: the factors of each term on the right, short terms first, as in every design matrix.
        groups: the columns of random intercepts.
        offsets: the expressions that are added with the coefficient one.
    """

    response: str
    trials: str | None
    has_intercept: bool
    terms: tuple[tuple[str, ...], ...]
    groups: tuple[str, ...]
    offsets: tuple[str, ...]


def parse(formula: str) -> Parsed:
    """Take a formula apart."""
    formula = validation.text("formula", formula)
    sides = formula.split("~")
    if len(sides) != 2:
        validation.refuse("formula", formula, "must have one ~ between response and predictors, as in 'y ~ age + bmi'")
    left = _RESPONSE.fullmatch(sides[0].strip())
    if left is None:
        validation.refuse(
            "formula",
            formula,
            "must have one column of the schema on the left, perhaps with trials, as in 'y ~ ...' or "
            "'y | trials(n) ~ ...'. Transform a response before it enters the table",
        )
    terms = [_factors(formula, term) for term in _terms(formula, _BAR.sub(lambda bar: _group(formula, bar), sides[1]))]
    special = {name: [_argument(formula, name, term) for term in terms if _calls(name, term)] for name in _SPECIAL}
    fixed = [term for term in terms if term and not any(_calls(name, term) for name in _SPECIAL)]
    return Parsed(
        response=unquoted(left[1]),
        trials=None if left[2] is None else unquoted(left[2]),
        has_intercept=() in terms,
        terms=tuple(sorted(fixed, key=len)),
        groups=tuple(dict.fromkeys(special[_RANDOM_INTERCEPT])),
        offsets=tuple(special["offset"]),
    )


_SPECIAL = (_RANDOM_INTERCEPT, "offset")


def unquoted(name: str) -> str:
    """Return a name without the backticks that formulas have around names with blanks in them."""
    return name.strip().removeprefix("`").removesuffix("`")


def _terms(formula: str, right: str) -> list[Any]:
    from formulaic.errors import FormulaicError  # it takes a while to load, and only formulas need it
    from formulaic.parser import DefaultFormulaParser

    try:
        found: Any = DefaultFormulaParser().get_terms(right.strip() or "0")
    except FormulaicError as error:
        message = " ".join(_COLOUR.sub("", str(error)).split())
        raise InvalidArgument(f"formula={formula!r} cannot be read: {message}") from error
    terms: list[Any] = list(found)
    if not right.strip() or any(not hasattr(term, "factors") for term in terms):
        validation.refuse(
            "formula", formula, "must have terms joined by + on its right; random intercepts are written (1|ward)"
        )
    return terms


def _group(formula: str, bar: re.Match[str]) -> str:
    """Write a random intercept as a call, which formulaic can read."""
    effect, group = bar[1].strip(), bar[2].strip()
    if effect != "1" or re.fullmatch(_NAME, group) is None:
        validation.refuse(
            "formula",
            formula,
            f"has {bar[0]}; of the terms with a bar only random intercepts over one category are known, as in (1|ward)",
        )
    return f"{_RANDOM_INTERCEPT}({group})"


def _factors(formula: str, term: Any) -> tuple[str, ...]:
    """Return the factors of a term; the constant has none."""
    factors: list[str] = []
    for factor in term.factors:
        if factor.eval_method.value != "literal":
            # a column may have any name: it is quoted wherever it could be taken for an expression
            is_name = factor.eval_method.value == "lookup"
            factors.append(f"`{factor.expr}`" if is_name and not factor.expr.isidentifier() else factor.expr)
        elif str(factor.expr) != "1":
            _refuse_literal(formula, factor.expr)
    return tuple(factors)


def _refuse_literal(formula: str, literal: object) -> NoReturn:
    validation.refuse(
        "formula", formula, f"multiplies a term with {literal}; leave the number out, a prior scales the coefficient"
    )


def _calls(name: str, term: tuple[str, ...]) -> bool:
    return any(factor.startswith(f"{name}(") for factor in term)


def _argument(formula: str, name: str, term: tuple[str, ...]) -> str:
    if len(term) != 1:
        validation.refuse("formula", formula, f"has {':'.join(term)}; {name}(...) stands alone, not in an interaction")
    return unquoted(term[0][len(name) + 1 : -1])
