"""The folder of a run: written whole or not at all, read back with its certificate checked."""

import os
import shutil
import tempfile
import tomllib
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import tomli_w

from dpmcmc.accounting import Certificate
from dpmcmc.errors import InvalidArgument
from dpmcmc.posterior.structure import arrays

if TYPE_CHECKING:
    from dpmcmc.posterior.posterior import Posterior

NEEDED = ("draws.nc", "certificate.json", "config.toml")


def save(posterior: "Posterior", folder: str | os.PathLike[str]) -> Path:
    """Write a run folder beside its place, and move it there when it is complete."""
    import xarray as xr  # it takes a while to load, and a fit does not need it

    place = Path(folder)
    if place.exists():
        raise InvalidArgument(f"folder={str(place)!r} exists; choose a new one, a saved run is not overwritten")
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name}-") as temporary:
        written = Path(temporary) / "run"
        written.mkdir()
        xr.DataTree.from_dict(posterior.datasets).to_netcdf(written / "draws.nc", engine="h5netcdf")
        posterior.summary().to_csv(written / "summary.csv", index_label="parameter")
        (written / "certificate.json").write_text(posterior.certificate.to_json() + "\n", encoding="utf-8")
        config = {"num_warmup": posterior.num_warmup, **posterior.settings}
        (written / "config.toml").write_text(tomli_w.dumps(config), encoding="utf-8")
        table = for_r(posterior)
        _beside("draws.parquet", lambda: table.to_parquet(written / "draws.parquet", index=False), "")
        _beside("draws.csv", lambda: table.to_csv(written / "draws.csv", index=False), "")
        said = ". `dpmcmc report FOLDER` makes it later"
        _beside("its page, report.html", lambda: posterior.report(written / "report.html"), said)
        shutil.move(written, place)
    return place


def _beside(what: str, write: Callable[[], Any], said: str) -> None:
    """Write what is not needed to read the run; no trouble with it may lose draws that were paid for."""
    try:
        write()
    except Exception as error:
        words = f"the run is saved without {what}, which cannot be made: {error}{said}"
        warnings.warn(words, RuntimeWarning, stacklevel=2)


def for_r(posterior: "Posterior") -> pd.DataFrame:
    """Return the draws in the columns that R's posterior and bayesplot know: chain and draw count from one."""
    table = posterior.to_pandas()
    chain, draw = table.pop("chain") + 1, table.pop("draw") + 1
    indices = pd.DataFrame({".chain": chain, ".iteration": draw, ".draw": np.arange(1, len(table) + 1)})
    return pd.concat([indices, table], axis=1)


def load(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what a posterior is made of."""
    import xarray as xr

    place = Path(folder)
    missing = [name for name in NEEDED if not (place / name).is_file()]
    if missing:
        raise InvalidArgument(f"folder={str(place)!r} is not a run folder: {', '.join(missing)} is missing")
    config = tomllib.loads((place / "config.toml").read_text(encoding="utf-8"))
    with xr.open_datatree(place / "draws.nc", engine="h5netcdf") as tree:
        groups = {name: arrays(tree[name].to_dataset().load()) for name in tree.children}
    certificate = Certificate.from_json((place / "certificate.json").read_text(encoding="utf-8"))
    if certificate.advisory:
        warnings.warn(f"the run in {str(place)!r} was {certificate.advisory}", UserWarning, stacklevel=3)
    draws, stats = _steps(groups, "posterior"), _steps(groups, "sample_stats")
    return {
        "is_accepted": stats.pop("accepted").astype(bool),
        "sample_stats": {
            name: values.astype(bool) if name == "diverging" else values for name, values in stats.items()
        },
        "draws": draws,
        "num_warmup": config.pop("num_warmup"),
        "certificate": certificate,
        "settings": config,
        "prior": {name: groups["prior"][name] for name in draws} if "prior" in groups else {},
    }


def _steps(groups: Mapping[str, Mapping[str, np.ndarray]], kind: str) -> dict[str, np.ndarray]:
    """Return all steps of a group, those of the warm-up first."""
    before = groups[f"warmup_{kind}"]
    return {name: np.concatenate([before[name], values], axis=1) for name, values in groups[kind].items()}
