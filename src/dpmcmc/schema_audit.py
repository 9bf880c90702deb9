"""How well a schema fits a table: noisy counts of the cells that it does not fit, charged like any other release.

One vector is released: for each column how many cells are missing, unknown or clamped (`enclave.tables.flags`), with
Gaussian noise. Of k flags of a column at most one is set, so that under replace-one, where the number of records is
public, the flags less 1/k have a squared norm of at most 1 - 1/k: that is a fifth to a third less noise than for the
flags themselves. Under add-or-remove-one the number of records is released with them, as one more entry.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from dpmcmc import validation
from dpmcmc.accounting import Adjacency, Budget, Certificate, noise_for
from dpmcmc.column import Column
from dpmcmc.enclave import PrivateData, Sum
from dpmcmc.enclave.tables.flags import CLAMPED, MISSING, UNKNOWN, flag_names, read_flags
from dpmcmc.enclave.tables.vault import open_vault
from dpmcmc.run.sampling import delta_of
from dpmcmc.schema import Schema

CLEAR = 4.0
"""A count is clearly above the noise if it is so many standard deviations of the noise: one false alarm in 30,000."""


@dataclass(frozen=True, eq=False)
class SchemaAudit:
    """Noisy counts of the cells that a schema does not fit. All of it may be published.

    Attributes:
        schema: what was audited.
        counts: for each column of the schema the number of cells that are ``missing`` (blank), ``unknown`` (a text that
            is no value of the column) and, for numbers, ``clamped`` (outside the bounds). They include noise and may be
            negative. If a record is a person with several rows, it counts by the share of these rows.
        num_records: the number of records; under add-or-remove-one with noise.
        noise_sd: the standard deviation of the noise on each count.
        certificate: the privacy certificate of the release.
    """

    schema: Schema
    counts: Mapping[str, Mapping[str, float]]
    num_records: float
    noise_sd: float
    certificate: Certificate

    @property
    def shares(self) -> dict[str, dict[str, float]]:
        """The counts as shares of the records, between 0 and 1."""
        size = max(self.num_records, 1.0)
        return {
            name: {problem: min(max(count / size, 0.0), 1.0) for problem, count in counts.items()}
            for name, counts in self.counts.items()
        }

    def to_frame(self) -> pd.DataFrame:
        """Return the counts as a table, with NaN where a column cannot be clamped."""
        return pd.DataFrame.from_dict(dict(self.counts), orient="index", columns=[MISSING, UNKNOWN, CLAMPED])

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Problems that are clearly above the noise, one sentence each."""
        return tuple(words for name in self.schema.columns for words in self._warnings(name))

    def _warnings(self, name: str) -> list[str]:
        column, shares = self.schema.columns[name], self.shares[name]
        found = [problem for problem, count in self.counts[name].items() if count > CLEAR * self.noise_sd]
        words = {
            UNKNOWN: f"unknown; {what_counts(column, self.schema.decimal)}",
            CLAMPED: f"outside the bounds and moved to them; {what_counts(column, self.schema.decimal)}",
            MISSING: 'missing, though the schema says missing = "none"' if column.missing == "none" else "",
        }
        return [f"{name}: about {percent(shares[problem])} {words[problem]}" for problem in found if words[problem]]

    def __str__(self) -> str:
        table = [
            f"{name}: {', '.join(f'{percent(share)} {problem}' for problem, share in shares.items())}"
            for name, shares in self.shares.items()
        ]
        noise = f"Each count has noise of standard deviation {self.noise_sd:.3g}."
        return "\n".join([*table, noise, *self.warnings, self.certificate.statement])


def audit_schema(
    source: Any,
    schema: Any,
    *,
    epsilon: float,
    delta: float | None = None,
    ledger: Any = None,
    dataset: str | None = None,
    budget: Budget | None = None,
    adjacency: Adjacency | str = Adjacency.REPLACE_ONE,
    capacity: int | None = None,
) -> SchemaAudit:
    """Count with noise the cells of a table that do not fit a schema: missing, unknown or clamped ones.

    The ledger is charged, as for a fit; epsilon 0.1 is enough for most tables.

    Args:
        source: the table, as `PrivateData.from_table` takes it.
        schema: the schema, or the path of its TOML file.
        epsilon: epsilon of the audit.
        delta: delta of the audit (default: that of the budget).
        ledger: the ledger to charge, or its URL.
        dataset: the name of the table in the ledger (default: for a file, its name without the extension).
        budget: the budget that the ledger grants the table or, without a ledger, the whole budget, as for
            `PrivateData.from_table`.
        adjacency: which data sets count as neighbours.
        capacity: an upper bound on the number of records, known without the data; required under
            ``add_or_remove_one``.
    """
    stated = Schema.read(schema)
    epsilon = validation.positive("epsilon", epsilon)
    data = open_vault(
        lambda: ({"flags": read_flags(source, stated)}, {}),
        source,
        stated,
        ledger=ledger,
        dataset=dataset,
        budget=budget,
        adjacency=adjacency,
        capacity=capacity,
    )
    return _release(data, stated, epsilon, delta_of(delta, data))


def _release(data: PrivateData, schema: Schema, epsilon: float, delta: float) -> SchemaAudit:
    """Spend the price on one noisy sum of the flags of all records."""
    names = flag_names(schema)
    owners = [name for name, _ in names]
    sizes = np.array([owners.count(name) for name in owners])
    is_counted = data.facts.adjacency is Adjacency.ADD_OR_REMOVE_ONE
    centre = np.zeros(len(names)) if is_counted else 1 / sizes
    clip = math.sqrt(len(schema.columns) + 1 if is_counted else float(np.sum((1 - 1 / sizes) / sizes)))

    def flags(record: Any) -> jax.Array:
        centred = record["flags"].astype(jnp.float32) - centre.astype(np.float32)
        return jnp.append(centred, 1.0) if is_counted else centred

    def program(noise: float) -> Callable[[Any], Any]:
        mechanism = Sum(clip, noise)
        return lambda oracle: oracle.sum(mechanism, flags)

    chosen = program(noise_for(lambda noise: data.price(program(noise)), epsilon, delta))
    audit = data.audit(chosen)
    found = data.run(chosen, description="schema audit")
    totals = np.asarray(found.value, np.float64)
    size = float(totals[-1]) if is_counted else float(data.facts.size)
    counts: dict[str, dict[str, float]] = {name: {} for name in schema.columns}
    for (name, problem), total, mean in zip(names, totals, centre, strict=False):
        counts[name][problem] = float(total + size * mean)
    return SchemaAudit(
        schema, counts, size, math.sqrt(float(found.variance)), data.certificate(audit.event, delta, audit.paths)
    )


def percent(share: float) -> str:
    """Return a share in words."""
    return f"{100 * share:.0f} %" if share >= 0.01 else f"{100 * share:.1g} %"


def what_counts(column: Column, decimal: str = "") -> str:
    """Say which cells a column takes."""
    if column.kind == "category":
        return f"the categories stated are {', '.join(column.categories)}"
    if column.kind == "boolean":
        return f"{column.words_for(True)} count as true; {column.words_for(False)} as false"
    if column.kind == "date":
        written = (
            f"are written as {column.format}" if column.format else "begin like 2024-02-29 (or state their format)"
        )
        return f"the dates that count lie between {column.lower} and {column.upper}, and {written}"
    comma = decimal == ","
    mark = (
        ", with a decimal comma" if comma else ""
    ) + f"; texts such as NA and {'1.5' if comma else '1,5'} are unknown"
    return f"the numbers that count lie between {column.bounds[0]:g} and {column.bounds[1]:g}{mark}"
