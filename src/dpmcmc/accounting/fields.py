"""What the fields of events may be: validated here, when an event is made, and nowhere else."""

from collections.abc import Mapping
from typing import Any, cast

from dpmcmc import validation
from dpmcmc.errors import InvalidArgument


def noise(name: str, value: object) -> float:
    """Return a ratio of noise and sensitivity whose square is a float."""
    checked = validation.positive(name, value)
    if not 1e-100 <= checked <= 1e100:
        validation.refuse(name, value, "must be between 1e-100 and 1e100")
    return checked


def rate(name: str, value: object) -> float:
    """Return the chance that a record is in a batch, by which losses are divided."""
    checked = validation.fraction(name, value)
    if checked < 1e-100:
        validation.refuse(name, value, "must be at least 1e-100")
    return checked


def times(name: str, value: object, *, at_least: int) -> int:
    """Return a number of things, which books keep in 64 bits."""
    checked = validation.integer(name, value, at_least=at_least)
    if checked >= 2**63:  # not repeated in the message, for it may have any number of digits
        raise InvalidArgument(f"{name} must be at most 2^63 - 1")
    return checked


def batch(batch_size: object, population: object) -> dict[str, int]:
    """Return the size of a batch and of the table that it is drawn from, by the names of the fields."""
    records = times("population", population, at_least=1)
    drawn = validation.integer("batch_size", batch_size, at_least=1)
    if drawn > records:
        validation.refuse("batch_size", drawn, f"must be <= population={records}")
    return {"batch_size": drawn, "population": records}


def parts(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the parts of a composition, as they were read from a file."""
    items = cast(Any, values.get("parts"))
    if set(values) != {"parts"} or not isinstance(items, list) or not all(map(_is_part, cast(list[Any], items))):
        raise InvalidArgument("Composed has a list of parts, each with an 'event' and a 'count', and nothing else")
    return cast(list[dict[str, Any]], items)


def _is_part(item: Any) -> bool:
    return isinstance(item, dict) and set(cast(Any, item)) == {"event", "count"} and isinstance(item["event"], dict)
