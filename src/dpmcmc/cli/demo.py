"""``dpmcmc demo``: from a table to a private posterior and its report, by the way that any table goes."""

import shlex
from itertools import count
from pathlib import Path
from typing import Annotated

import typer

from dpmcmc import accounting
from dpmcmc.accounting import Budget
from dpmcmc.cli.fit import fit
from dpmcmc.errors import BudgetExceeded, DatasetExists, InvalidArgument

BUDGET = Budget(epsilon=4.0, delta=1e-6)
EPSILON = 2.0
"""What one run spends: the budget lasts for three."""

NUM_PATIENTS = 100_000
FORMULA = "readmitted ~ age + smoker + ward"
TRUTH = {"intercept": -2.5, "age": 0.03, "smoker": 0.8, "ward[south]": -0.5}
"""The coefficients that the patients are simulated with."""

SCHEMA = """\
# What is known without looking at a row: bounds and categories.
[columns]
age = { kind = "number", lower = 18, upper = 90, unit = "years" }
smoker = { kind = "boolean" }
ward = { kind = "category", categories = ["north", "south"] }
readmitted = { kind = "boolean" }
"""


def demo(
    output: Annotated[Path, typer.Option(help="Folder for the table, the ledger, the runs and the report.")] = Path(
        "demo"
    ),
) -> None:
    """Simulate a table, fit a model to it, and write the report. Repeated demos share one budget."""
    data, schema, ledger = output / "patients.csv", output / "patients.toml", f"sqlite:///{output / 'ledger.db'}"
    try:
        write_table(data, schema)
        folder = next(place for number in count(1) if not (place := output / "runs" / str(number)).exists())
    except OSError as error:
        raise InvalidArgument(
            f"--output {str(output)!r} is not a folder that can be written: {error.strerror}"
        ) from error
    typer.echo(f"1. A table: {NUM_PATIENTS:,} synthetic patients in {data}; their schema is {schema}.")
    typer.echo(f"2. A model, and epsilon = {EPSILON:g} of the table's budget, {BUDGET}. At a shell:\n")
    typer.echo(_command(data, schema, ledger, folder))
    try:
        fit(
            FORMULA,
            data=str(data),
            schema=schema,
            ledger=ledger,
            epsilon=EPSILON,
            family="bernoulli",
            output=folder,
            grant_epsilon=BUDGET.epsilon,
            grant_delta=BUDGET.delta,
            yes=True,
        )
    except (BudgetExceeded, DatasetExists) as refusal:
        raise type(refusal)(
            f"{refusal}. A real table has one budget for good; these patients are synthetic: delete the folder "
            f"{str(output)!r} to start anew"
        ) from refusal
    from dpmcmc.posterior import Posterior

    page = Posterior.load(folder).report(output / "report.html", known=TRUTH)
    spent = float(accounting.epsilon(accounting.Ledger(ledger).account("patients").spent, BUDGET.delta))
    typer.echo(
        f"\n3. The ledger: epsilon = {spent:.3g} of {BUDGET.epsilon:g} is spent. The next demo continues from there."
    )
    typer.echo(f"\nOpen {page}")


def write_table(data: Path, schema: Path) -> None:
    """Write the table and its schema. The patients are simulated, and the same every time: the seed is no secret."""
    import numpy as np  # what takes a while to load is loaded where it is needed
    import pandas as pd

    data.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(2026)
    age, smoker, south = rng.integers(18, 91, NUM_PATIENTS), *(rng.random((2, NUM_PATIENTS)) < [[0.3], [0.5]])
    log_odds = np.stack([np.ones(NUM_PATIENTS), age, smoker, south], axis=1) @ list(TRUTH.values())
    readmitted = rng.random(NUM_PATIENTS) < 1 / (1 + np.exp(-log_odds))
    ward = np.where(south, "south", "north")
    table = pd.DataFrame({"age": age, "smoker": smoker, "ward": ward, "readmitted": readmitted})
    table.to_csv(data, index=False)
    schema.write_text(SCHEMA, encoding="utf-8")


def _command(data: Path, schema: Path, ledger: str, folder: Path) -> str:
    """Return the command that does the same."""
    lines = [
        f'dpmcmc fit "{FORMULA}" --family bernoulli',
        shlex.join(["--data", str(data), "--schema", str(schema), "--ledger", ledger]),
        f"--grant-epsilon {BUDGET.epsilon:g} --grant-delta {BUDGET.delta:g} --epsilon {EPSILON:g}",
        shlex.join(["--output", str(folder)]),
    ]
    return "   " + " \\\n       ".join(lines) + "\n"
