"""What a run leaves behind: draws, what the chains told, and the certificate of what it cost.

Everything in here may be published. It is made of releases; no record and no exact function of records is in it.
"""

import os
import shutil
import tempfile
import tomllib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import tomli_w
import xarray as xr

from dpmcmc import diagnostics
from dpmcmc.accounting import Certificate
from dpmcmc.diagnostics.quality import Quality, judge_chains, worst
from dpmcmc.diagnostics.summary import summarise_independent
from dpmcmc.errors import InvalidArgument


@dataclass(frozen=True, eq=False)
class Posterior:
    """Draws from a posterior.

    Attributes:
        draws: every step of every chain by parameter, with the axes (chain, step, ...).
        is_accepted: whether each step moved, (chain, step).
        num_warmup: how many steps at the beginning are not counted as draws.
        certificate: what it cost.
        settings: how it was made: sampler, model temperature, the public facts of the data.
        prior: draws from the prior by parameter, with the axes (1, draw, ...); empty where it cannot be drawn from.
    """

    draws: Mapping[str, np.ndarray]
    is_accepted: np.ndarray
    num_warmup: int
    certificate: Certificate
    settings: Mapping[str, Any]
    prior: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])

    def __repr__(self) -> str:
        chains, steps = self.is_accepted.shape
        names = ", ".join(f"{name}{list(values.shape[2:]) or ''}" for name, values in self.draws.items())
        made = (
            f"{chains * steps} independent draws"
            if self.is_independent
            else f"{chains} chains of {steps} steps, {self.num_warmup} of them warm-up, "
            f"{self.acceptance_rate:.0%} accepted"
        )
        return f"Posterior({names}; {made})\n{self.quality.words}\n{self.certificate.statement}"

    def __getitem__(self, name: str) -> np.ndarray:
        """Return the draws of one parameter after the warm-up, (chain, draw, ...)."""
        if name not in self.draws:
            raise KeyError(f"there is no parameter {name!r}; there are {', '.join(self.draws)}")
        return self.draws[name][:, self.num_warmup :]

    @property
    def quality(self) -> Quality:
        """How good it is: a verdict with its reasons, for the whole and for each parameter."""
        return self._quality

    @cached_property
    def _quality(self) -> Quality:
        if "quality" in self.settings:
            return Quality.from_plain(self.settings["quality"])
        return judge_chains({name: self[name] for name in self.draws})

    @property
    def is_independent(self) -> bool:
        """Whether the draws are independent ones: then R-hat and effective sizes say nothing."""
        return any(grade.shares for grade in self.quality.parameters.values())

    @property
    def acceptance_rate(self) -> float:
        """The share of the steps after the warm-up that moved."""
        return float(np.mean(self.is_accepted[:, self.num_warmup :]))

    def matrix(self) -> np.ndarray:
        """Return all draws after the warm-up, chains pooled, one row a draw and one column a coordinate."""
        parts = [self[name].reshape(-1, int(np.prod(self.draws[name].shape[2:], dtype=int))) for name in self.draws]
        return np.concatenate(parts, axis=1)

    @cached_property
    def datasets(self) -> dict[str, xr.Dataset]:
        """The draws and what the chains told as xarray, in ArviZ's groups."""
        steps = {"posterior": slice(self.num_warmup, None), "warmup_posterior": slice(0, self.num_warmup)}
        groups = {group: _dataset(self.draws, kept) for group, kept in steps.items()}
        moved = {"accepted": self.is_accepted}
        groups["sample_stats"] = _dataset(moved, steps["posterior"])
        groups["warmup_sample_stats"] = _dataset(moved, steps["warmup_posterior"])
        if self.prior:
            groups["prior"] = _dataset(self.prior, slice(None))
        return groups

    def to_arviz(self) -> Any:
        """Return the draws in ArviZ's own structure: a DataTree from version 1 on, InferenceData before."""
        return diagnostics.to_arviz(self.datasets)

    def to_pandas(self) -> pd.DataFrame:
        """Return one row a draw after the warm-up: its chain, its number, and a column for each number in it.

        The columns are named as the rows of `summary`: ``age``, ``beta[0]``, ``beta[1, 2]``.
        """
        chain, draw = np.indices(self.is_accepted[:, self.num_warmup :].shape)
        columns = {"chain": chain, "draw": draw, **self._columns()}
        return pd.DataFrame({label: values.reshape(-1) for label, values in columns.items()})

    def summary(self) -> pd.DataFrame:
        """Return mean, standard deviation and quantiles of every coordinate, and its verdict.

        Of chains also the effective sample size and R-hat; of independent draws, for which these are good whatever they
        are draws of, the share of the variance that comes from the data, from the noise of privacy and from the prior.
        """
        draws = {name: self[name] for name in self.draws}
        grades = self.quality.parameters
        if self.is_independent:
            table = summarise_independent(draws, {name: grade.shares for name, grade in grades.items()})
        else:
            table = diagnostics.summarise(draws)
        overall = "bad" if self.quality.verdict == "bad" else "good"
        table["verdict"] = [
            worst((overall, grades[name].verdict if name in grades else "good")) for name in table.index
        ]
        return table

    def _columns(self) -> dict[str, np.ndarray]:
        """Return the draws of every number by its label, (chain, draw)."""
        return diagnostics.coordinates({name: self[name] for name in self.draws})

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write a run folder: draws.nc, summary.csv, certificate.json, config.toml, report.html. It must be new.

        It is written beside its place and moved there when it is complete. If the page cannot be made, whatever the
        reason, the run is saved without it, with a warning: `report` and ``dpmcmc report`` make it later.
        """
        place = Path(folder)
        if place.exists():
            raise InvalidArgument(f"folder={str(place)!r} exists; choose a new one, a saved run is not overwritten")
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name}-") as temporary:
            written = Path(temporary) / "run"
            written.mkdir()
            xr.DataTree.from_dict(self.datasets).to_netcdf(written / "draws.nc", engine="h5netcdf")
            self.summary().to_csv(written / "summary.csv", index_label="parameter")
            (written / "certificate.json").write_text(self.certificate.to_json() + "\n", encoding="utf-8")
            config = {"num_warmup": self.num_warmup, **self.settings}
            (written / "config.toml").write_text(tomli_w.dumps(config), encoding="utf-8")
            try:
                self.report(written / "report.html")
            except Exception as error:  # no trouble with a page may lose draws that were paid for
                said = f"the run is saved without its page, report.html, which cannot be made: {error}"
                warnings.warn(f"{said}. `dpmcmc report FOLDER` makes it later", RuntimeWarning, stacklevel=2)
            shutil.move(written, place)
        return place

    def report(self, path: str | os.PathLike[str], *, known: Mapping[str, float] | None = None) -> Path:
        """Write the page that people read: one HTML file that needs nothing else, made of what may be published.

        Args:
            path: the file.
            known: where the records are simulated, the values that made them, by the summary's names; drawn in.
        """
        from dpmcmc.report.page import write_report  # with what draws pictures, for which a fit does not wait

        return write_report(self, path, known=known)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "Posterior":
        """Read a run folder; the certificate is checked by computing its epsilon again.

        Warns where something became known of the version that made the run and weakens what the certificate claims.
        """
        place = Path(folder)
        missing = [name for name in ("draws.nc", "certificate.json", "config.toml") if not (place / name).is_file()]
        if missing:
            raise InvalidArgument(f"folder={str(place)!r} is no run folder: {', '.join(missing)} is missing")
        config = tomllib.loads((place / "config.toml").read_text(encoding="utf-8"))
        with xr.open_datatree(place / "draws.nc", engine="h5netcdf") as tree:
            groups = {name: tree[name].to_dataset().load() for name in tree.children}

        def steps(kind: str, name: str) -> np.ndarray:
            return np.concatenate([groups[f"warmup_{kind}"][name].to_numpy(), groups[kind][name].to_numpy()], axis=1)

        draws = {name: steps("posterior", name) for name in map(str, groups["posterior"].data_vars)}
        certificate = Certificate.from_json((place / "certificate.json").read_text(encoding="utf-8"))
        if certificate.advisory:
            warnings.warn(f"the run in {str(place)!r} was {certificate.advisory}", UserWarning, stacklevel=2)
        return cls(
            is_accepted=steps("sample_stats", "accepted").astype(bool),
            draws=draws,
            num_warmup=config.pop("num_warmup"),
            certificate=certificate,
            settings=config,
            prior={name: groups["prior"][name].to_numpy() for name in draws} if "prior" in groups else {},
        )


def _dataset(values: Mapping[str, np.ndarray], kept: slice) -> xr.Dataset:
    """Return arrays (chain, step, ...) as a Dataset with ArviZ's names of axes."""
    variables = {
        name: (("chain", "draw", *(f"{name}_dim_{axis}" for axis in range(array.ndim - 2))), array[:, kept])
        for name, array in values.items()
    }
    chains, steps = next(iter(variables.values()))[1].shape[:2]
    return xr.Dataset(variables, coords={"chain": range(chains), "draw": range(steps)})
