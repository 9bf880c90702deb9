"""Draws as ArviZ has them: the coefficients of a category are one variable, its levels a coordinate.

Parameters have a name for each number, ``ward[medicine]``, ``1|site[north]``, ``other: age`` for a class of the
response. Here they are put together as bambi does: ``ward`` over ``ward_dim``, ``1|site`` over ``site__factor_dim``.
Each variable says in its attribute ``parameters`` what its numbers are called, so that files can be read back.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

    from dpmcmc.model import FormulaModel

NAMES = "parameters"
"""The attribute that lists what the numbers of a variable are called, in order."""

CUTPOINTS = "cutpoints"

_LEVEL = re.compile(r"([^\[\]]+)\[(.+)\]")


class Label(NamedTuple):
    """The parts of the name of a number: the class of the response, the term, and the levels."""

    of_class: str
    base: str
    level: str


@dataclass(frozen=True)
class Variable:
    """Numbers that belong together.

    Attributes:
        name: of the variable.
        coords: its dimensions beside chain and draw, each with its labels.
        parameters: the names of its numbers, in the order of the dimensions.
    """

    name: str
    coords: Mapping[str, Sequence[str]]
    parameters: tuple[str, ...]


def read_label(name: str, classes: Sequence[str]) -> Label:
    """Take a name apart; interactions of levels are joined with commas."""
    called = {each: f"{each.replace('/', '∕')}: " for each in classes}  # no name has a slash
    of_class = next((each for each in classes if name.startswith(called[each])), "")
    factors = re.split(r"(?<=\]):", name.removeprefix(called[of_class]) if of_class else name)
    parts = [_LEVEL.fullmatch(factor) for factor in factors]
    base = ":".join(part[1] if part else factor for part, factor in zip(parts, factors, strict=True))
    return Label(of_class, base, ", ".join(part[2] for part in parts if part))


def written(model: "FormulaModel | None", name: str) -> str:
    """Return what results call a parameter or a term that is written as in the formula: `I(x ** 2)` is `x**2`."""
    if model is None:
        return name
    design, short = model.coordinates.design, name.replace(" ", "")
    terms = zip(design.names, design.terms, strict=True)
    called = {term: read_label(own, ()).base for own, others in terms for term in others[1:]}
    return short if short in design.names else called.get(short, name)


def variables(names: Sequence[str], classes: Sequence[str], response: str) -> list[Variable]:
    """Put single numbers together: those of one term whose levels and classes make a whole table."""
    groups: dict[str, dict[tuple[str, str], str]] = {}
    for name in names:
        label = read_label(name, classes)
        groups.setdefault(label.base, {})[label.level, label.of_class] = name
    made: list[Variable] = []
    known: dict[str, Sequence[str]] = {}
    for base, members in groups.items():
        levels, own = (list(dict.fromkeys(key[place] for key in members)) for place in (0, 1))
        is_whole = len(members) == len(levels) * len(own) and (len(levels) == 1 or "" not in levels)
        if not is_whole or ("" in own and len(own) > 1):
            made += [Variable(name, {}, (name,)) for name in members.values()]
            continue
        coords: dict[str, Sequence[str]] = {}
        if levels != [""]:
            dimension = _dimension(base)
            shown = _as_stated(levels)
            coords[dimension if known.get(dimension, shown) == shown else f"{base}_dim"] = shown
        if own != [""]:
            coords[f"{response}_dim"] = own
        known |= coords
        made.append(Variable(base, coords, tuple(members[level, each] for level in levels for each in own)))
    return made


def _as_stated(levels: Sequence[str]) -> list[str]:
    """Return levels with their slashes, which names of numbers do not have; as they are if two would be one."""
    found = [level.replace("∕", "/") for level in levels]
    return found if len(set(found)) == len(found) else list(levels)


def _dimension(base: str) -> str:
    _, bar, group = base.partition("|")
    return f"{group}__factor_dim" if bar else f"{base}_dim"


def dataset(
    values: Mapping[str, np.ndarray], kept: slice, classes: Sequence[str] = (), response: str = ""
) -> "xr.Dataset":
    """Return arrays (chain, step, ...) as a Dataset with ArviZ's names of axes.

    Args:
        values: the arrays by parameter.
        kept: which steps.
        classes: those of the response that have parameters of their own: all but the first.
        response: what the dimension of the classes is called after.
    """
    import xarray as xr  # it takes a while to load, and a fit does not need it

    single = [name for name, array in values.items() if array.ndim == 2]
    whole: dict[str, Any] = {
        name: (("chain", "draw", *(f"{name}_dim_{axis}" for axis in range(array.ndim - 2))), array[:, kept])
        for name, array in values.items()
        if array.ndim != 2
    }
    coords: dict[str, Any] = {}
    if CUTPOINTS in whole and classes:  # each lies between the classes below and the class above
        whole[CUTPOINTS] = (("chain", "draw", f"{CUTPOINTS}_dim"), whole[CUTPOINTS][1])
        coords[f"{CUTPOINTS}_dim"] = [f"below {each}" for each in classes]
    for each in variables(single, classes, response):
        stacked = np.stack([values[name][:, kept] for name in each.parameters], axis=-1)
        shape = (*stacked.shape[:2], *map(len, each.coords.values()))
        attributes = {NAMES: json.dumps(each.parameters)} if each.coords else {}
        whole[each.name] = (("chain", "draw", *each.coords), stacked.reshape(shape), attributes)
        coords |= each.coords
    chains, steps = next(iter(whole.values()))[1].shape[:2]
    made = {"inference_library": "dpmcmc", "inference_library_version": version("dpmcmc")}
    return xr.Dataset(whole, coords={"chain": range(chains), "draw": range(steps), **coords}, attrs=made)


def arrays(group: "xr.Dataset") -> dict[str, np.ndarray]:
    """Return the draws of a Dataset by the names of their numbers, (chain, draw, ...): the way back."""
    found: dict[str, np.ndarray] = {}
    for name, variable in group.data_vars.items():
        values = variable.to_numpy()
        if NAMES not in variable.attrs:
            found[str(name)] = values
            continue
        labels = json.loads(variable.attrs[NAMES])
        flat = values.reshape(*values.shape[:2], len(labels))
        found |= {label: flat[..., place] for place, label in enumerate(labels)}
    return found
