"""Say in words what a formula stands for: the columns, how they are scaled, and every prior."""

from collections.abc import Iterator, Sequence

from dpmcmc.model.formula.columns import Columns
from dpmcmc.model.formula.coordinates import Coordinates
from dpmcmc.model.formula.families.family import Family


def describe(formula: str, family: Family, coordinates: Coordinates, columns: Columns, names: tuple[str, ...]) -> str:
    """Return the description, a text of several lines."""
    return "\n".join(_lines(formula, family, coordinates, columns, names))


def prior_words(coordinates: Coordinates) -> dict[str, str]:
    """Return the prior of each parameter on the model's scale, as it would be written in ``priors=``."""
    words = {name: str(prior) for name, prior in zip(coordinates.names, coordinates.coefficients.priors, strict=True)}
    for term in coordinates.monotone:
        steps = [coordinates.names[place] for place in term.places]
        words = {
            term.name if name == steps[0] else name: prior for name, prior in words.items() if name not in steps[1:]
        }
        words[term.name] = str(term.prior)
        words[term.share] = f"dirichlet({', '.join(f'{each:g}' for each in term.concentrations)})"
    if coordinates.cutpoints is not None:
        words["cutpoints"] = str(coordinates.cutpoints)
    spreads = {f"{name}_sigma": name for name in coordinates.persons}
    words.update({spreads.get(name, name): str(prior) for name, prior in coordinates.others.items()})
    if coordinates.scale is not None:
        words.update(zip(coordinates.scale_names, map(str, coordinates.scale.prior.priors), strict=True))
    words.update({name: str(prior) for name, (_, prior) in coordinates.groups.items()})
    return words


def _lines(
    formula: str, family: Family, coordinates: Coordinates, columns: Columns, names: tuple[str, ...]
) -> Iterator[str]:
    response = coordinates.response
    yield f"{formula}, family {family.name}"
    yield f"  {response.label} is {family.words}."
    if response.half != 1.0 or response.centre != 0.0:
        yield f"  The response is scaled to ({response.label} - {response.centre:g}) / {response.half:g}."
    if response.classes:
        yield f"  Its classes are {', '.join(response.classes)}."
    if response.trials is not None:
        yield f"  The number of trials is {response.trials}."
    if response.event:
        yield f"  {response.event} says whether the event was observed; otherwise {response.name} is censored."
    if response.entry:
        yield f"  A row is under observation from {response.entry} on (left truncation)."
    if response.weights is not None:
        yield f"  Rows are weighted by {response.weights}."
    if response.required:
        yield f"  A row in which {' or '.join(response.required)} is missing contributes nothing."
    blocks = [block for block in coordinates.design.blocks if not block.block.term.step]
    scaled = [f"{block.block.term.label}: {block.words}" for block in blocks if block.words]
    if scaled:
        yield "Predictors are scaled to [-1, 1] by the bounds in the schema, never by the data:"
        yield from (f"  {line}" for line in dict.fromkeys(scaled))
    for term in coordinates.monotone:
        yield f"{term.name} is monotonic: its steps to {', '.join(term.levels)} have one sign and share an effect;"
        yield "  results show the average step and the share of each step."
    references = {
        category.name: category.levels[0]
        for block in coordinates.design.blocks
        for category, first in block.block.categories
        if first
    }
    if references:
        yield "Categories are compared with a reference:"
        yield from (f"  {name}: {level}" for name, level in references.items())
    if coordinates.offsets:
        yield f"Added without a coefficient: {', '.join(offset.text for offset in coordinates.offsets)}."
    yield "Priors, on the scaled predictors" + (" and response:" if response.half != 1.0 else ":")
    for name, prior in prior_words(coordinates).items():
        yield f"  {name} ~ {prior}{_role(name, coordinates)}"
    yield "Results are on the original scale."
    yield from _notes(columns, [name for name in names if name not in response.required])


def _role(name: str, coordinates: Coordinates) -> str:
    if name in coordinates.groups:
        groups = coordinates.groups[name][0]
        return f" for the standard deviation of {len(groups.levels)} {groups.words}, normal around zero"
    if name in coordinates.persons:
        what = coordinates.persons[name].words
        return f" for the standard deviation of {what} of persons, normal around zero, which are integrated over"
    return ", in increasing order" if name == "cutpoints" else ""


def _notes(columns: Columns, names: Sequence[str]) -> Iterator[str]:
    """Remind of values that are filled in where the model does not ask whether they were missing, and of others."""
    for name in names:
        column = columns[name]
        if column.missing == "integrate":
            law = {"category": "probabilities", "boolean": "probability"}.get(column.kind, "normal distribution")
            yield f"Rows in which {name} is missing: the likelihood is averaged over the {law} stated in the schema."
        if column.missing == "indicator" and f"{name}_missing" not in names:
            flag = f"{name}_missing"
            term = flag if flag.isidentifier() else f"`{flag}`"
            yield f"Note: missing values of {name} count as {column.fill}. Add {term} to let these rows differ."
