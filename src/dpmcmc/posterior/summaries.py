"""Tables of parameters: in the order of the formula, some of them, exponentiated, beside another posterior's."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmcmc import diagnostics, validation
from dpmcmc.diagnostics.quality import worst
from dpmcmc.diagnostics.summary import SOURCES
from dpmcmc.diagnostics.table import SummaryTable, titled
from dpmcmc.errors import InvalidArgument
from dpmcmc.posterior.intervals import quantile_names, summarise_draws
from dpmcmc.posterior.new_rows import read_rows
from dpmcmc.posterior.predictions import capitalised
from dpmcmc.posterior.structure import read_label, written

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dpmcmc.posterior.posterior import Posterior

INNER = 0.5
"""What the thick part of a line in a forest holds."""

Names = str | Sequence[str] | None


def summary(
    posterior: "Posterior", prob: float, exponentiate: bool, var_names: Names, per: Mapping[str, float] | None = None
) -> SummaryTable:
    """Return a row for each number; `Posterior.summary` says what the arguments are."""
    drawn = {name: posterior[name] for name in posterior.draws}
    quality, is_independent = posterior.quality, posterior.is_independent
    columns = diagnostics.coordinates(drawn)
    names = _chosen(posterior, list(columns), var_names)
    effects = _effects(posterior) if exponentiate else set[str]()
    units = _units(per or {}, names)
    title = f"{_ratios(posterior)}; of an intercept itself the exponential" if exponentiate else ""
    kept: dict[str, np.ndarray] = {}
    for name in names:
        values = columns[name].astype(float) * units.get(name, 1.0)
        kept[_per(name, units)] = np.exp(values) if name in effects else values
    table = summarise_draws(np.stack([each.reshape(-1) for each in kept.values()], axis=1), prob, list(kept))
    grades = quality.parameters
    if is_independent:
        for source in SOURCES:
            table[source] = [grades[name].shares.get(source, np.nan) if name in grades else np.nan for name in names]
    else:
        judged = diagnostics.summarise(kept)
        table["ess_bulk"], table["r_hat"] = judged["ess_bulk"], judged["r_hat"]
    overall = "bad" if quality.verdict == "bad" else "good"
    table["verdict"] = [worst((overall, grades[name].verdict if name in grades else "good")) for name in names]
    return titled(table, title)


def _units(per: Mapping[str, float], names: Sequence[str]) -> dict[str, float]:
    """Check by how many units numbers are to change."""
    unknown = [name for name in per if name not in names]
    if unknown:
        raise InvalidArgument(f"per= names {', '.join(unknown)}; expected some of {', '.join(names)}")
    return {name: validation.number(f"per[{name!r}]", units) for name, units in per.items()}


def _per(name: str, units: Mapping[str, float]) -> str:
    return f"{name} (per {units[name]:g})" if name in units else name


def _ratios(posterior: "Posterior") -> str:
    """Say what the exponentials of coefficients are."""
    model = posterior.fitted.model
    if not (ratios := model.link.ratios):
        raise InvalidArgument(
            f"exponentiate=True means nothing for family={model.family!r}: its coefficients are "
            f"{posterior.fitted.coefficients_are}"
        )
    return capitalised(ratios)


def _effects(posterior: "Posterior") -> set[str]:
    """Return what is added up in the linear predictor: coefficients and effects of groups."""
    own = posterior.fitted.model.coordinates
    levels = [f"{name}[{level}]" for name, (groups, _) in own.groups.items() for level in groups.levels]
    return {label.replace("/", "∕") for name in (*own.read_names, *levels) for label in own.labels(name)}


def _chosen(posterior: "Posterior", labels: Sequence[str], var_names: Names) -> list[str]:
    """Return the labels of the parameters that were asked for, by their own names or those of their terms."""
    if var_names is None:
        return list(labels)
    asked = [var_names] if isinstance(var_names, str) else list(var_names)
    wanted = [written(posterior.model, name) for name in asked]
    classes = () if posterior.model is None else posterior.model.classes[1:]
    called = {label: {label, read_label(label, classes).base} for label in labels}
    unknown = [name for name in wanted if not any(name in names for names in called.values())]
    if unknown:
        known = ", ".join(dict.fromkeys(read_label(label, classes).base for label in labels))
        raise InvalidArgument(f"var_names has {', '.join(unknown)}; there are {known}")
    return [label for label in labels if called[label] & set(wanted)]


def forest(
    posterior: "Posterior", prob: float, exponentiate: bool, var_names: Names, per: Mapping[str, float] | None
) -> "Figure":
    """Draw a line for each number."""
    from dpmcmc.diagnostics.effect_plots import draw_forest

    if var_names is None and posterior.model is not None:
        names = posterior.model.coordinates.read_names
        var_names = [
            label for name in names if name != "intercept" for label in posterior.model.coordinates.labels(name)
        ]
        var_names = [name.replace("/", "∕") for name in var_names] or None
    table = summary(posterior, prob, exponentiate, var_names, per)
    label = _ratios(posterior) if exponentiate else "coefficient"
    inner = summary(posterior, INNER, exponentiate, var_names, per)
    return draw_forest(table, inner, f"{label}, {100 * prob:g} % and 50 %", 1.0 if exponentiate else 0.0)


def compare(one: "Posterior", other: "Posterior", rows: Any, prob: float) -> SummaryTable:
    """Return for each number both means and sds, and the difference; `Posterior.compare` says more."""
    _check_alike(one, other)
    first, second = (_predicted(each, rows) if rows is not None else _numbers(each) for each in (one, other))
    names = [name for name in first if name in second]
    if not names:
        raise InvalidArgument(f"the posteriors have no parameter in common: {', '.join(first)}; {', '.join(second)}")
    length = min(len(next(iter(first.values()))), len(next(iter(second.values()))))
    low, high = quantile_names(prob)
    gaps = np.stack([first[name][:length] - _some(second[name], length) for name in names], axis=1)
    table = summarise_draws(gaps, prob, names)
    made = SummaryTable(
        {
            "first": [float(np.mean(first[name])) for name in names],
            "second": [float(np.mean(second[name])) for name in names],
            "difference": table["mean"],
            "sd": table["sd"],
            low: table[low],
            high: table[high],
            "P(higher)": np.mean(gaps > 0, axis=0),
        },
        index=names,
    )
    return titled(made, "The first posterior less the second, as if of different records")


def _check_alike(one: "Posterior", other: "Posterior") -> None:
    """Refuse to compare numbers that mean different things."""
    if one.model is None or other.model is None:
        return
    kinds = [(each.coordinates.response.label, each.link.name) for each in (one.model, other.model)]
    if kinds[0] != kinds[1]:
        said = " and ".join(f"{response} ({link} link)" for response, link in kinds)
        raise InvalidArgument(f"the posteriors are about {said}; expected the same response on the same scale")


def _some(values: np.ndarray, length: int) -> np.ndarray:
    """Return the given number of draws, in an order that has nothing to do with that of another posterior."""
    return np.random.default_rng(len(values)).permutation(values)[:length]


def _numbers(posterior: "Posterior") -> dict[str, np.ndarray]:
    columns = diagnostics.coordinates({name: posterior[name] for name in posterior.draws})
    return {name: values.reshape(-1) for name, values in columns.items()}


def _predicted(posterior: "Posterior", rows: Any) -> dict[str, np.ndarray]:
    """Return draws of what is predicted for each row, and class."""
    fitted = posterior.fitted
    read = read_rows(rows, fitted.model, fitted.schema)
    found = fitted.means(read)
    labels = [str(row) for row in read.frame.index]
    if found.ndim == 2:
        return dict(zip(labels, found.T, strict=True))
    classes = fitted.model.classes
    return {
        f"{label}: {each}": found[:, row, place]
        for row, label in enumerate(labels)
        for place, each in enumerate(classes)
    }
