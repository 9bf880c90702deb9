"""Put the page together and write it."""

import math
import os
import re
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import jinja2
import numpy as np

from dpmcmc.catalogue import SAMPLERS
from dpmcmc.diagnostics import coordinates
from dpmcmc.diagnostics.summary import SOURCES
from dpmcmc.errors import InvalidArgument
from dpmcmc.model import FormulaModel
from dpmcmc.report import front, pictures, privacy
from dpmcmc.report.parameters import MOST_PICTURED, units
from dpmcmc.report.predictions import predictions
from dpmcmc.report.run import Run
from dpmcmc.schema import Schema

HEADINGS = {
    "mean": "mean",
    "sd": "sd",
    "q5": "5 %",
    "q95": "95 %",
    "ess_bulk": "effective draws",
    "r_hat": "R-hat",
    "data": "from data",
    "privacy": "from privacy",
    "prior": "from prior",
    "verdict": "verdict",
}


def environment(package: str = "dpmcmc.report") -> jinja2.Environment:
    """Return where templates come from, those of the report last; everything that they show is escaped."""
    made = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(package), jinja2.PackageLoader("dpmcmc.report")]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(short=short, percent=percent, probability=privacy.plain)
    return made


def write_report(run: Run, path: str | os.PathLike[str], *, known: Mapping[str, float] | None = None) -> Path:
    """Write the page of a run; `known` as for `render_report`."""
    place = Path(path)
    page = render_report(run, known=known)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(page, encoding="utf-8")
    except OSError as error:
        raise InvalidArgument(f"path={str(place)!r} cannot be written: {error.strerror}") from error
    return place


def render_report(run: Run, *, known: Mapping[str, float] | None = None) -> str:
    """Return the page of a run as HTML that needs no network.

    Args:
        run: the run; all that the page shows is in its folder.
        known: where the records are simulated, the values that made them, by the summary's names.
    """
    template = environment().get_template("report.html")
    request: dict[str, Any] = dict(run.settings.get("request", {}))
    schema = Schema.from_dict(request["schema"]) if "schema" in request else None
    shown = {
        **privacy.section(run.certificate, run.settings, schema),
        "curve": pictures.curve(run.certificate),
        **_made(run, request, schema),
        **_found(run, run.model, known or {}),
    }
    return template.render(shown)


def _made(run: Run, request: Mapping[str, Any], schema: Schema | None) -> dict[str, Any]:
    """Return what the page says of how the run was made, and of the table."""
    return {
        "title": request.get("formula") or f"Posterior of {', '.join(run.draws)}",
        "certificate": run.certificate,
        "is_private": math.isfinite(run.certificate.epsilon),
        "request": request,
        "dataset": str(run.settings.get("ledger", {}).get("dataset", "")),
        "schema": schema,
        "bounds": run.settings.get("facts", {}).get("bounds", {}),
        "glance": _glance(run, schema),
        "error_found": run.settings.get("error_found"),
        "chosen": str(run.settings.get("chosen", "")),
        "num_chains": len(run.is_accepted),
        "settings": [_flat(stage) for stage in run.settings.get("stages", [])],
        "pilot": _flat(run.settings.get("pilot", {})),
        "citations": _citations(run),
        "version": version("dpmcmc"),
        "columns": [] if schema is None else [_column(schema, name) for name in schema.columns],
        "downloads": _downloads(run),
    }


def _found(run: Run, model: FormulaModel | None, known: Mapping[str, float]) -> dict[str, Any]:
    """Return what the page shows of the posterior: tables, pictures, predictions, and what they are worth."""
    drawn = {name: values[:, run.num_warmup :] for name, values in run.draws.items()}
    tables = units(run, model, known)
    first = tables[0].table
    return {
        "units": tables,
        "headings": HEADINGS,
        "sources": SOURCES,
        "known": known,
        "has_prior": bool(run.prior),
        "quality": run.quality,
        "is_independent": run.is_independent,
        "worst": _largest(first["r_hat"]) if "r_hat" in first else math.nan,
        "found": front.found(first, model, run.quality.verdict),
        "forests": front.forests(tables, model),
        "has_classes": model is not None and bool(model.classes),
        "has_survival": model is not None and model.law.survival is not None,
        "predictions": [] if model is None else predictions(model, drawn),
        **pictures.of_chains({} if run.is_independent else dict(list(coordinates(drawn).items())[:MOST_PICTURED])),
    }


def short(value: float) -> str:
    """Write a number in four digits; a dash where there is none."""
    return "–" if math.isnan(value) else f"{value:.4g}".replace("-", "−")


def percent(value: float) -> str:
    """Write a share in percent; a dash where there is none."""
    return "–" if math.isnan(value) else f"{100 * value:.0f} %"


def _glance(run: Run, schema: Schema | None) -> list[tuple[str, str]]:
    """Return the few facts that everybody asks for first."""
    facts = run.settings.get("facts", {})
    unit = "Persons" if schema is not None and schema.person is not None else "Records"
    steps = run.is_accepted.shape[1]
    size = f"{facts['size']:,}" if "size" in facts else "not stated"
    epsilon = certificate_epsilon(run)
    return [
        ("epsilon", epsilon),
        ("delta", privacy.plain(run.certificate.delta)),
        (unit, size if facts.get("adjacency", "replace_one") == "replace_one" else f"at most {size}"),
        ("Adjacency", run.certificate.adjacency.words),
        ("Draws", f"{len(run.is_accepted)} × {steps - run.num_warmup:,}"),
        ("Sampler", str(run.settings.get("request", {}).get("sampler") or _kernels(run)[-1])),
    ]


def certificate_epsilon(run: Run) -> str:
    """Write epsilon as the certificate's own statement does: in four digits, rounded up."""
    epsilon = float(run.certificate.epsilon)
    if not 0 < epsilon < math.inf:
        return "infinite" if epsilon else "0"
    scale = 10.0 ** (3 - math.floor(math.log10(epsilon)))
    return f"{math.ceil(epsilon * scale * (1 - 1e-12)) / scale:.4g}"


def _column(schema: Schema, name: str) -> tuple[str, str, str, str]:
    """Return what was stated of a column: name, kind, values, what a missing value becomes."""
    column = schema.columns[name]
    false, true = ", ".join(column.false) or "false", ", ".join(column.true) or "true"
    values = {"category": ", ".join(column.levels), "boolean": f"{false}; {true}"}.get(
        column.kind, f"{column.range_in_words} {column.unit}".strip()
    )
    stands = {"none": "none expected", "category": "a category of its own", "integrate": "integrated over"}.get(
        column.missing, f"{column.fill}" + (", and marked" if column.missing == "indicator" else "")
    )
    return name, column.kind, values, stands


def _flat(stage: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return settings as people read them: four digits of every number."""
    return [(name.replace("_", " "), _rounded(value)) for name, value in stage.items()]


def _rounded(value: Any) -> str:
    return re.sub(r"\d+\.\d{4,}(e-?\d+)?", lambda found: f"{float(found[0]):.4g}", str(value))


def _downloads(run: Run) -> list[tuple[str, str]]:
    """Return files that the page carries, and their contents as addresses."""
    files = {
        "summary.csv": ("text/csv", run.summary().to_csv(index_label="parameter")),
        "certificate.json": ("application/json", run.certificate.to_json()),
    }
    return [(name, f"data:{kind};charset=utf-8,{quote(text)}") for name, (kind, text) in files.items()]


def _kernels(run: Run) -> list[str]:
    stages = cast(list[dict[str, Any]], run.settings.get("stages", []))
    return [str(stage["kernel"]) for stage in stages] or ["not stated"]


def _citations(run: Run) -> list[str]:
    """Return BibTeX of the library and of the papers that its samplers come from."""
    made = run.certificate.library_version
    entries = [
        f"@software{{dpmcmc,\n  author  = {{{{The dpmcmc authors}}}},\n  title   = {{dpmcmc: {{B}}ayesian posterior "
        f"sampling under differential privacy}},\n  version = {{{made}}}\n}}"
    ]
    named = [SAMPLERS[name] for name in dict.fromkeys(_kernels(run)) if name in SAMPLERS]
    return entries + ["\n\n".join(sampler.papers) for sampler in named if sampler.papers]


def _largest(values: Any) -> float:
    found = np.asarray(values, float)
    return float(np.nanmax(found)) if np.isfinite(found).any() else math.nan
