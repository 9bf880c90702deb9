"""Priors as people write them, brought to one form: texts in other packages' words, and objects of NumPyro or bambi."""

import re
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import numpyro.distributions as dist

from dpmcmc import validation
from dpmcmc.model.formula.priors import FIXED, POSITIVE, REAL, UNIT

_KINDS = {kind.replace("_", ""): kind for kind in (*REAL, *POSITIVE, *UNIT, "fixed")}
_CALL = re.compile(r"\s*(\w+)\s*\(([^()]*)\)(.*)", re.DOTALL)

_ALSO: Mapping[str, tuple[str, ...]] = {
    "mean": ("mu", "loc"),
    "sd": ("sigma", "scale"),
    "scale": ("sigma", "sd", "b", "beta"),
    "df": ("nu",),
    "rate": ("lam", "beta"),
    "shape": ("alpha", "concentration"),
    "a": ("alpha", "concentration1"),
    "b": ("beta", "concentration0"),
    "value": ("v",),
}
"""What the arguments of priors are called elsewhere."""

_OBJECTS: Mapping[type, tuple[str, tuple[str, ...]]] = {
    dist.Normal: ("normal", ("loc", "scale")),
    dist.StudentT: ("student_t", ("df", "loc", "scale")),
    dist.Cauchy: ("cauchy", ("loc", "scale")),
    dist.Laplace: ("laplace", ("loc", "scale")),
    dist.HalfNormal: ("half_normal", ("scale",)),
    dist.HalfCauchy: ("half_cauchy", ("scale",)),
    dist.Exponential: ("exponential", ("rate",)),
    dist.Gamma: ("gamma", ("concentration", "rate")),
    dist.LogNormal: ("lognormal", ("loc", "scale")),
    dist.Beta: ("beta", ("concentration1", "concentration0")),
    dist.Delta: ("fixed", ("v",)),
    dist.Dirichlet: ("dirichlet", ("concentration",)),
}
"""What NumPyro's distributions are called here, and their arguments."""


def as_texts(priors: object) -> dict[str, str]:
    """Return priors as texts: objects are meant on the original scale, as results are."""
    if not isinstance(priors, Mapping):
        validation.refuse(
            "priors", priors, "must be a mapping from parameters to priors, as in {'age': 'normal(0, 1)'}"
        )
    return {name: _as_text(name, stated) for name, stated in cast(Mapping[str, Any], priors).items()}


def _as_text(name: str, stated: Any) -> Any:
    if isinstance(stated, str):
        return _plain(stated)
    if isinstance(getattr(stated, "args", None), Mapping) and isinstance(getattr(stated, "name", None), str):
        words = ", ".join(f"{key}={value}" for key, value in stated.args.items())  # of bambi.Prior("Normal", mu=0)
        return _plain(f"{stated.name}({words}) original")
    if not isinstance(stated, dist.Distribution):
        return stated  # what `read_prior` refuses
    base: Any = getattr(stated, "base_dist", None)
    half = isinstance(stated, dist.FoldedDistribution) and type(base) is dist.StudentT
    law: Any = base if half else stated
    kind, attributes = _OBJECTS.get(type(law), ("", ()))
    numbers = [np.ravel(np.asarray(getattr(law, attribute), float)) for attribute in attributes]
    if half and float(numbers.pop(1)[0]) == 0.0:
        kind = "half_student_t"
    if not kind or (kind != "dirichlet" and any(len(each) != 1 for each in numbers)) or (half and kind == "student_t"):
        validation.refuse(
            f"priors[{name!r}]",
            type(stated).__name__,
            f"must be a text such as 'normal(0, 2)', or one of NumPyro's {', '.join(of.__name__ for of in _OBJECTS)}, "
            "of one number",
        )
    words = _plain(f"{kind}({', '.join(f'{each:.7g}' for part in numbers for each in part)})")
    return words if kind in {"dirichlet", "beta"} else f"{words} original"


def _plain(text: str) -> str:
    """Return ``Normal(mu=0, sigma=1)`` as ``normal(0, 1)``; what is not understood stays as it is, and is refused."""
    found = _CALL.fullmatch(text)
    if found is None:
        return text
    called, parts = found[1].lower().replace("_", ""), [part.strip() for part in found[2].split(",")]
    if called in {"cauchy", "t"}:
        parts = ["df=1" if any("=" in part for part in parts) else "1", *parts] if called == "cauchy" else parts
        called = "studentt"
    kind = _KINDS.get(called)
    if kind is None:
        return text
    arguments = {**REAL, **POSITIVE, **UNIT, "fixed": FIXED}[kind].arguments
    if any("=" in part for part in parts):
        named = {key.strip(): value.strip() for key, _, value in (part.partition("=") for part in parts)}
        chosen = [next((key for key in (name, *_ALSO[name]) if key in named), "") for name in arguments]
        if "" in chosen or set(chosen) != set(named):
            return text
        parts = [named[key] for key in chosen]
    return f"{kind}({', '.join(parts)}){found[3]}"
