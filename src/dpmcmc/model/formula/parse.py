"""Read the text of a formula with formulaic's parser. No data is near: formulaic's own matrices are not used."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from dpmcmc import validation
from dpmcmc.errors import InvalidArgument
from dpmcmc.model.formula.groups import GroupTerm

_NAME = r"(?:[^\W\d]\w*|`[^`]+`)"
_ADDED = re.compile(rf"\s*(trials|weights|cens|trunc)\(\s*({_NAME}|\d+)\s*\)\s*")
_SURV = re.compile(r"Surv\(([^()]*)\)")
_ALL = re.compile(r"(?<![\w.`)])\.(?![\w.`(])")
_BAR = re.compile(r"\(([^()|]*)\|\|?([^()|]*)\)")  # intercepts and slopes are apart anyway, which || asks for
_PAIR = re.compile(rf"(?P<what>p|prop|proportion|weighted)\(\s*(?P<first>{_NAME})\s*,\s*(?P<second>{_NAME}|\d+)\s*\)")
_OF_A_LEVEL = re.compile(rf"({_NAME})\[.+\]")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m|[⧛⧚]")
_GROUPS = "groups"
_SLOPES = re.compile(rf"(?:(?P<whole>[01])\s*\+\s*)?(?P<names>{_NAME}(?:\s*\+\s*{_NAME})*)|1")
_FACTORS = re.compile(rf"{_NAME}(?:\s*[:/]\s*{_NAME})*")


@dataclass(frozen=True)
class Parsed:
    """A formula in parts; factors are still text, as formulaic writes them.

    Attributes:
        response: the column on the left, or a function of it.
        trials: the column or the number in ``y | trials(n)``.
        weights: the column in ``y | weights(w)``.
        event: the column in ``Surv(time, event)`` or ``time | cens(event)``: whether the event was seen.
        entry: the column in ``Surv(entry, time, event)`` or ``time | cens(event) + trunc(entry)``.
        has_intercept: whether there is one.
        terms: the factors of each term on the right, short terms first, as in every design matrix.
        groups: the terms with a bar.
        offsets: the expressions that are added with the coefficient one.
        scale: the formula of a scale, whose response is the scale's name.
    """

    response: str
    trials: str | None
    weights: str | None
    has_intercept: bool
    terms: tuple[tuple[str, ...], ...]
    groups: tuple[GroupTerm, ...]
    offsets: tuple[str, ...]
    scale: "Parsed | None" = None
    event: str | None = None
    entry: str | None = None


def parse_all(formula: str, names: Sequence[str] = ()) -> Parsed:
    """Take a formula apart that may have a second one for a scale behind a semicolon, as in ``y ~ x; sigma ~ x``."""
    first, *others = validation.text("formula", formula).split(";")
    if len(others) > 1 or (others and not others[0].strip()):
        validation.refuse("formula", formula, "must have at most one further formula, as in 'y ~ x; sigma ~ x'")
    parsed = parse(first.strip(), names)
    if not others:
        return parsed
    scale = parse(others[0].strip(), names)
    if (
        not (scale.has_intercept and parsed.has_intercept)
        or scale.groups
        or scale.offsets
        or scale.trials
        or scale.weights
        or scale.event
    ):
        validation.refuse(
            "formula", formula, "must have an intercept in both parts, and only columns in the second one"
        )
    missing = [":".join(term) for term in scale.terms if term not in parsed.terms]
    if missing:
        validation.refuse(
            "formula", formula, f"has {', '.join(missing)} only in its second part; write it in the first one as well"
        )
    return replace(parsed, scale=scale)


def parse(formula: str, names: Sequence[str] = ()) -> Parsed:
    """Take a formula apart.

    Args:
        formula: the text.
        names: the columns that ``.`` stands for, those that the formula names elsewhere left out.
    """
    formula = validation.text("formula", formula)
    sides = formula.split("~")
    if len(sides) != 2:
        more = "; a second formula, for sigma, stands behind a semicolon" if len(sides) > 2 else ""
        said = f"must have one ~ between response and predictors, as in 'y ~ age + bmi'{more}"
        validation.refuse("formula", formula, said)
    response, added = _left(formula, sides[0])
    right = _with_all(formula, sides, names) if _ALL.search(sides[1]) else sides[1]
    groups: list[GroupTerm] = []
    right = _BAR.sub(lambda bar: _group(formula, bar, groups), right)
    terms = [_factors(formula, term) for term in _terms(formula, right)]
    special = {name: [_argument(formula, name, term) for term in terms if _calls(name, term)] for name in _SPECIAL}
    fixed = [term for term in terms if term and not any(_calls(name, term) for name in _SPECIAL)]
    return Parsed(
        response=response,
        trials=added.get("trials"),
        weights=added.get("weights"),
        has_intercept=() in terms,
        terms=tuple(sorted(fixed, key=len)),
        groups=tuple(dict.fromkeys(groups)),
        offsets=tuple(special["offset"]),
        event=added.get("cens"),
        entry=added.get("trunc"),
    )


def _left(formula: str, side: str) -> tuple[str, dict[str, str]]:
    """Return the response, and what is added behind a bar: trials and weights, an event and an entry."""
    response, bar, rest = side.strip().partition("|")
    if _OF_A_LEVEL.fullmatch(response.strip()):
        said = "has a level of its response in brackets; the event is the second category: put it there in the schema"
        validation.refuse("formula", formula, said)
    parts = [_ADDED.fullmatch(part) for part in rest.split("+")] if bar else []
    found = [(part[1], unquoted(part[2])) for part in parts if part is not None]
    if pair := _PAIR.fullmatch(response.strip()):  # as bambi has it
        response = pair["first"]
        found.append(("weights" if pair["what"] == "weighted" else "trials", unquoted(pair["second"])))
    response, found = _survival(formula, response.strip(), found)
    names = [name for name, _ in found]
    if not response or None in parts or len(set(names)) < len(names):
        validation.refuse(
            "formula",
            formula,
            "must have a column of the schema on the left, or a function of one, perhaps with trials or weights, as in "
            "'y ~ ...', 'log(y) ~ ...', 'y | trials(n) ~ ...', 'y | weights(w) ~ ...', 'Surv(time, event) ~ ...' or "
            "'time | cens(event) ~ ...'",
        )
    return response, dict(found)


def _survival(formula: str, response: str, found: list[tuple[str, str]]) -> tuple[str, list[tuple[str, str]]]:
    """Return the time of ``Surv(time, event)`` or ``Surv(entry, time, event)``, and what was found with the others."""
    survival = _SURV.fullmatch(response)
    if response.startswith("Surv("):
        names = [] if survival is None else [name.strip() for name in survival[1].split(",")]
        if len(names) not in {2, 3} or any(re.fullmatch(_NAME, name) is None for name in names):
            validation.refuse(
                "formula", formula, "must have columns in Surv(time, event), or in Surv(entry, time, event)"
            )
        parts = [("cens", names[-1]), *([("trunc", names[0])] if len(names) == 3 else [])]
        return names[-2], [*((part, unquoted(name)) for part, name in parts), *found]
    if any(name == "trunc" for name, _ in found) and not any(name == "cens" for name, _ in found):
        validation.refuse(
            "formula", formula, "has trunc(...) without an event; write 'time | cens(event) + trunc(entry)'"
        )
    return response, found


def _with_all(formula: str, sides: Sequence[str], names: Sequence[str]) -> str:
    """Return the right side with all columns for the dot, but those on the left and of random intercepts."""
    used = set(re.findall(r"\w+", sides[0])) | {unquoted(name) for name in re.findall(r"`([^`]+)`", sides[0])}
    used |= {unquoted(name) for bar in _BAR.finditer(sides[1]) for name in re.split("[:/]", bar[2])}
    rest = [f"`{name}`" for name in names if name not in used]
    if not rest:
        validation.refuse("formula", formula, "has a dot, but the schema has no other column that it could stand for")
    return _ALL.sub(lambda _: f"({' + '.join(rest)})", sides[1])


_SPECIAL = (_GROUPS, "offset")


def unquoted(name: str) -> str:
    """Return a name without the backticks that formulas have around names with blanks in them."""
    return name.strip().removeprefix("`").removesuffix("`")


def _terms(formula: str, right: str) -> list[Any]:
    from formulaic.errors import FormulaicError  # it takes a while to load, and only formulas need it
    from formulaic.parser import DefaultFormulaParser

    try:
        found: Any = DefaultFormulaParser().get_terms(right.strip() or "0")
    except (FormulaicError, SyntaxError) as error:  # formulaic gives what is in parentheses to Python's own parser
        raise InvalidArgument(f"formula={formula!r} cannot be read: {_reason(right, error)}") from error
    terms: list[Any] = list(found)
    if not right.strip() or any(not hasattr(term, "factors") for term in terms):
        validation.refuse(
            "formula", formula, "must have terms joined by + on its right; random intercepts are written (1|ward)"
        )
    return terms


def _reason(right: str, error: Exception) -> str:
    """Say why terms cannot be read, in words of our own where it is plain."""
    if re.search(r"[+*:/-]\s*$", right):
        return f"a term is missing after {right.strip()[-1]!r}"
    if re.search(r"[<>=]", right):
        return "a comparison goes within I(...), as in I(age > 50)"
    message = " ".join(_COLOUR.sub("", getattr(error, "msg", str(error))).split()).rstrip(".")
    hint = ". Names with spaces or signs go in backticks, as in `length of stay`; at a shell, quote all with '...'"
    return message if "`" in right else message + hint


def _group(formula: str, bar: re.Match[str], found: list[GroupTerm]) -> str:
    """Take note of a term with a bar, and write it as a call, which formulaic can read.

    ``(age|ward)`` is ``(1|ward) + (0 + age|ward)``, intercepts and slopes apart, as bambi has it; ``(1|a/b)`` is
    ``(1|a) + (1|a:b)``.
    """
    effects, factors = _SLOPES.fullmatch(bar[1].strip()), _FACTORS.fullmatch(bar[2].strip())
    if effects is None or factors is None:
        validation.refuse(
            "formula",
            formula,
            f"has {bar[0]}; expected intercepts or slopes of numbers over categories, as in (1|ward), (age|ward), "
            "(0 + age|ward), (1|region:ward) or (1|region/ward)",
        )
    numbers = [unquoted(name) for name in (effects["names"] or "").split("+") if name.strip()]
    slopes = [*([] if effects["whole"] == "0" else [None]), *numbers]
    parts = [tuple(unquoted(name) for name in part.split(":")) for part in factors[0].split("/")]
    nested = [sum(parts[: place + 1], ()) for place in range(len(parts))]
    for names in nested:
        found += [GroupTerm(tuple(dict.fromkeys(names)), slope) for slope in slopes]
    return f"{_GROUPS}({len(found)})"


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
        validation.refuse("formula", formula, f"has {':'.join(term)}; {name}(...) cannot be part of an interaction")
    return unquoted(term[0][len(name) + 1 : -1])
