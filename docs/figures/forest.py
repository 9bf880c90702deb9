"""Draws forest.png, the README's picture: the demo's model at four budgets beside the posterior without privacy.

    python docs/figures/forest.py          # fits, writes forest.csv, draws
    python docs/figures/forest.py --draw   # draws forest.csv again

The patients are the first 10,000 of `dpmcmc demo`, whose seed is public; the noise of privacy is real, so that another
run gives other numbers of this size. The budget bar is that of the demo: runs with epsilon 2 of a budget of 4.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import dpmcmc as dp
from dpmcmc import accounting
from dpmcmc.cli import demo

NUM_PATIENTS = 10_000
EPSILONS = (4.0, 2.0, 1.0, 0.5)
EXACT = "no privacy"
UNITS = {"age": 10.0}
TITLES = {
    "intercept": "intercept",
    "age": "age, per 10 years",
    "smoker": "smoker",
    "ward[south]": "southern ward",
}
INK, PRIVATE, SPENT, LEFT = "#222222", "#3f51b5", ("#3f51b5", "#7986cb", "#c5cae9"), "#eeeeee"


def patients() -> pd.DataFrame:
    """Return the first patients of the demo."""
    with tempfile.TemporaryDirectory() as folder:
        demo.write_table(Path(folder) / "patients.csv", Path(folder) / "patients.toml")
        return pd.read_csv(Path(folder) / "patients.csv", nrows=NUM_PATIENTS)


def schema() -> dp.Schema:
    """Return what the demo states of its columns."""
    import tomllib

    return dp.Schema.from_dict(tomllib.loads(demo.SCHEMA))


def exact(rows: pd.DataFrame) -> pd.DataFrame:
    """Return means and 90 % intervals by NUTS on the exact rows, which only simulated ones allow."""
    import jax
    import jax.numpy as jnp

    from dpmcmc.enclave.tables.readers import read_table
    from dpmcmc.zoo.reference import nuts_reference

    model = dp.from_formula(demo.FORMULA, schema(), family="bernoulli")
    records = jax.tree.map(jnp.asarray, read_table(rows, schema()).records)
    draws = jax.tree.map(jnp.asarray, nuts_reference(model, records, key=jax.random.key(1), num_chains=2))
    named = jax.vmap(jax.vmap(model.constrain))(draws)
    return intervals({name: np.ravel(leaf) for name, leaf in named.items()})


def intervals(draws: dict[str, np.ndarray]) -> pd.DataFrame:
    """Return the mean and the ends of the 90 % interval of each coefficient."""
    return pd.DataFrame(
        {
            name: {
                "mean": draws[name].mean(),
                "q5": np.quantile(draws[name], 0.05),
                "q95": np.quantile(draws[name], 0.95),
            }
            for name in TITLES
        }
    ).T.rename_axis("parameter")


def private(rows: pd.DataFrame, epsilon: float) -> tuple[pd.DataFrame, dp.Posterior]:
    """Return the same of a private fit, and the fit."""
    data = dp.PrivateData.from_table(rows, schema=schema(), budget=dp.Budget(epsilon, 1e-6))
    posterior = dp.fit(demo.FORMULA, data, family="bernoulli", epsilon=epsilon, progress=False)
    table = intervals({name: np.ravel(posterior[name]) for name in TITLES})
    return table.assign(verdict=posterior.quality.verdict), posterior


def compute(place: Path) -> None:
    """Fit, and write what is drawn."""
    rows = patients()
    tables = {EXACT: exact(rows).assign(verdict="")}
    spent: list[float] = []
    for epsilon in EPSILONS:
        tables[f"epsilon {epsilon:g}"], posterior = private(rows, epsilon)
        if epsilon == demo.EPSILON:
            event = posterior.certificate.event
            spent = [float(accounting.epsilon(event * runs, demo.BUDGET.delta)) for runs in (1, 2, 3)]
    budget = pd.DataFrame({"mean": spent}, index=pd.Index([f"run {number}" for number in (1, 2, 3)], name="parameter"))
    pd.concat({**tables, "budget": budget}, names=["fit"]).round(5).to_csv(place)


def draw_coefficient(axes: Axes, table: pd.DataFrame, name: str) -> None:
    """Draw one coefficient under every budget, with a line at its mean without privacy."""
    fits = [EXACT, *(f"epsilon {epsilon:g}" for epsilon in EPSILONS)]
    unit = UNITS.get(name, 1.0)
    axes.axvline(unit * float(table.loc[(EXACT, name), "mean"]), color="#999999", linestyle=":", linewidth=1)
    for place, fit in enumerate(fits):
        row = unit * table.loc[(fit, name), ["mean", "q5", "q95"]].astype(float)
        colour = INK if fit == EXACT else PRIVATE
        axes.plot([row["q5"], row["q95"]], [-place, -place], color=colour, linewidth=2.2, solid_capstyle="round")
        axes.plot(row["mean"], -place, "o", color=colour, markersize=5)
    axes.set_title(TITLES[name], fontsize=11.5)
    axes.set_yticks([-place for place in range(len(fits))], fits)
    axes.set_ylim(-len(fits) + 0.4, 0.6)
    axes.locator_params(axis="x", nbins=4)
    axes.tick_params(labelsize=10.5, length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)


def draw_budget(axes: Axes, spent: list[float]) -> None:
    """Draw what three runs spend of one budget."""
    total = demo.BUDGET.epsilon
    axes.barh(0, total, color=LEFT, height=0.8)
    for number, (start, end) in enumerate(zip([0.0, *spent], spent, strict=False)):
        axes.barh(0, end - start, left=start, color=SPENT[number], height=0.8)
        words = f"run {number + 1}:\n{end:.2f}" if number else f"run 1, epsilon 2: {end:.2f} spent"
        colour = INK if number else "white"
        axes.text((start + end) / 2, 0, words, ha="center", va="center", fontsize=10.5, color=colour)
    axes.text((spent[-1] + total) / 2, 0, "left", ha="center", va="center", fontsize=10.5)
    axes.set_xlim(0, total)
    axes.set_yticks([])
    axes.set_xticks(range(int(total) + 1))
    axes.tick_params(labelsize=10.5, length=0)
    axes.set_title(f"the table's privacy budget: epsilon {total:g} for all runs together", fontsize=11.5)
    axes.spines[:].set_visible(False)


def draw(place: Path, picture: Path) -> None:
    """Draw the coefficients, and the budget under them."""
    table = pd.read_csv(place, index_col=["fit", "parameter"])
    figure = Figure(figsize=(6.4, 5.4), layout="constrained")  # narrow: the words are legible on a phone
    upper, lower = figure.subfigures(2, 1, height_ratios=[4, 1])
    panels = upper.subplots(2, 2, sharey=True)
    for axes, name in zip(panels.flat, TITLES, strict=True):
        draw_coefficient(axes, table, name)
    draw_budget(lower.subplots(), table.loc["budget", "mean"].astype(float).tolist())
    figure.savefig(picture, dpi=150)


if __name__ == "__main__":
    numbers = Path(__file__).with_suffix(".csv")
    if "--draw" not in sys.argv:
        compute(numbers)
    draw(numbers, Path(__file__).with_suffix(".png"))
