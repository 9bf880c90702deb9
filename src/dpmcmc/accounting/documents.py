"""Reading JSON that anybody may have written: whatever is wrong with it is `InvalidArgument`."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

from dpmcmc.errors import InvalidArgument

DEEPEST = 32
"""How many levels an event may have when it is read; selections of compositions, as they are written, have nine."""


def read_json(document: str, what: str) -> Any:
    """Return what a JSON text holds; `what` names it in the refusal."""
    try:
        return json.loads(document, object_pairs_hook=_named_once)
    except (ValueError, TypeError) as error:
        raise InvalidArgument(f"{what} is not JSON: {error}") from error
    except RecursionError:
        raise InvalidArgument(f"{what} has too many levels") from None


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; which of two values of one name counts would be up to the reader."""
    if len(named := dict(pairs)) < len(pairs):
        raise ValueError("an object has two values of one name")
    return named


def check_levels(plain: object, what: str) -> None:
    """Refuse plain values with too many levels, before anything walks down them."""
    level = [plain]
    for _ in range(DEEPEST):
        level = [part for whole in level for part in _parts_of(whole)]
        if not level:
            return
    raise InvalidArgument(f"{what} has more than {DEEPEST} levels")


def _parts_of(plain: object) -> list[Any]:
    """Return the objects and lists that are held by one."""
    if isinstance(plain, Mapping):
        held = cast(Iterable[Any], plain.values())
    else:
        held = cast(Iterable[Any], plain) if isinstance(plain, list | tuple) else ()
    return [part for part in held if isinstance(part, Mapping | list | tuple)]
