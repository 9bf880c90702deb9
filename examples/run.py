"""Three tables of real people, fitted under privacy without a knob, and held against the posterior without privacy.

    python examples/run.py adult                     # epsilon 1 and 4, the sampler chosen by itself
    python examples/run.py adult --every-sampler     # epsilon 4, every sampler there is

The tables are public. That alone allows the comparison: it reads the rows exactly. The results are added to
``results.csv`` beside the schema.
"""

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

import dpmcmc as dp
from dpmcmc.enclave.tables.readers import read_table
from dpmcmc.errors import BudgetUnreachable
from dpmcmc.fitting import RECIPES
from dpmcmc.zoo.reference import nuts_reference
from public_tables import CACHE, SOURCES, fetch

DELTA = 1e-6
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Example:
    """A question to a table."""

    name: str
    formula: str
    family: str
    folder: str = ""

    @property
    def schema(self) -> dp.Schema:
        """What is stated of the columns."""
        return dp.Schema.read(HERE / (self.folder or self.name) / "schema.toml")


EXAMPLES = {
    example.name: example
    for example in (
        Example("adult", "over_50k ~ age + education_years + hours + sex + married", "bernoulli"),
        Example("wages", "log_wage ~ education + exper + I(exper**2)", "gaussian"),
        Example("doctor_visits", "visited ~ age + female + coinsurance + limited", "bernoulli"),
    )
}


def reference(example: Example, table: pd.DataFrame) -> pd.DataFrame:
    """Return means and standard deviations of the posterior without privacy, by NUTS."""
    model: Any = dp.from_formula(example.formula, example.schema, family=example.family)
    constrain = model.constrain
    if example.schema.person is not None:
        model = dp.model.per_person(model)
    records = jax.tree.map(jnp.asarray, read_table(table, example.schema).records)
    draws = jax.tree.map(jnp.asarray, nuts_reference(model, records, key=jax.random.key(1), num_chains=2))
    named = jax.vmap(jax.vmap(constrain))(draws)
    return pd.DataFrame({name: {"mean": np.mean(leaf), "sd": np.std(leaf)} for name, leaf in named.items()}).T


def cached_reference(example: Example, table: pd.DataFrame) -> pd.DataFrame:
    """Return the reference, which is made once."""
    place = CACHE / f"{example.name}-reference.csv"
    if not place.exists():
        reference(example, table).to_csv(place)
    return pd.read_csv(place, index_col=0)


def compare(
    example: Example, table: pd.DataFrame, exact: pd.DataFrame, epsilon: float, sampler: str, **options: Any
) -> dict[str, Any]:
    """Return one line of the results."""
    row: dict[str, Any] = {"epsilon": epsilon, "sampler": sampler}
    budget = dp.Budget(epsilon, DELTA)
    data = dp.PrivateData.from_table(table, schema=example.schema, budget=budget)
    started = time.perf_counter()
    try:
        posterior = dp.fit(
            example.formula,
            data,
            family=example.family,
            epsilon=epsilon,
            sampler=sampler,
            progress=False,
            **options,
        )
    except BudgetUnreachable as refusal:
        return {**row, "outcome": "announced useless", "words": str(refusal)}
    seconds = time.perf_counter() - started
    found = posterior.summary().loc[exact.index]
    off = (found["mean"] - exact["mean"]).abs() / exact["sd"]
    return {
        **row,
        "outcome": "fitted",
        "median_error": round(float(off.median()), 3),
        "largest_error": round(float(off.max()), 3),
        "median_width": round(float((found["sd"] / exact["sd"]).median()), 3),
        "largest_r_hat": round(float(found["r_hat"].max()), 3) if "r_hat" in found else "",
        "verdict": posterior.quality.verdict,
        "predicted_error": posterior.quality.predicted_error,
        "seconds": round(seconds, 1),
        "words": posterior.settings["chosen"],
    }


def main() -> None:
    """Run an example."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("example", choices=EXAMPLES)
    parser.add_argument("--every-sampler", action="store_true")
    asked = parser.parse_args()
    example = EXAMPLES[asked.example]
    table = pd.read_parquet(fetch(example.name, SOURCES[example.name]))
    exact = cached_reference(example, table)
    print(exact.to_string())
    place = HERE / example.name / "results.csv"
    runs = [(4.0, name) for name in RECIPES] if asked.every_sampler else [(1.0, "auto"), (4.0, "auto")]
    for epsilon, sampler in runs:
        row = compare(example, table, exact, epsilon, sampler)
        print(row, flush=True)
        rows = pd.concat([pd.read_csv(place), pd.DataFrame([row])]) if place.exists() else pd.DataFrame([row])
        rows = rows.drop_duplicates(["epsilon", "sampler"], keep="last").sort_values(["epsilon", "sampler"])
        rows.to_csv(place, index=False)


if __name__ == "__main__":
    main()
