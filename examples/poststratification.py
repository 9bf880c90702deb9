"""From a lopsided survey to a population: multilevel regression and poststratification (MRP), private and not.

    python examples/poststratification.py

The population is the census table of 1994, 32,561 persons; how many there are in each cell of sex, age, school and
marriage is taken to be public, as a census publishes it. The survey has 12,000 of them, married men and long schooling
four times too often: its plain mean of who earns more than 50,000 is far off. A regression with random intercepts,
fitted under privacy, and the counts of the cells put that right. The truth is known here, since the table is public.
Results go to ``poststratification/results.csv``, the picture to ``poststratification/by_school.png``.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
from matplotlib.figure import Figure
from numpyro.infer import MCMC, NUTS

import dpmcmc as dp
from public_tables import SOURCES, fetch
from run import DELTA

HERE = Path(__file__).parent / "poststratification"
FORMULA = "over_50k ~ sex * married + (1|age_band) + (1|school)"
EPSILONS = (1.0, 2.0, 4.0)
CELL = ["sex", "age_band", "school", "married"]
PRIOR_SDS = np.array([2.0, 1.5, 1.5, 1.5])
"""Of the intercept and the coefficients, those that the formula has by default."""
SIZE, TIMES = 12_000, 4.0
AGES, YEARS = (0, 25, 35, 45, 55, 65, 200), (0, 7, 9, 10, 11, 13, 14, 99)


def population() -> pd.DataFrame:
    """Return the census table with bands."""
    table = pd.read_parquet(fetch("adult", SOURCES["adult"]))
    schema = dp.Schema.read(HERE / "schema.toml").columns
    bands = {"age_band": ("age", AGES), "school": ("education_years", YEARS)}
    made = {
        name: pd.cut(table[column], edges, right=False, labels=list(schema[name].levels)).astype(str)
        for name, (column, edges) in bands.items()
    }
    return table.assign(**made)[[*CELL, "over_50k"]]


def survey(table: pd.DataFrame) -> pd.DataFrame:
    """Return a sample that is lopsided by cells alone."""
    often = np.where(table["married"] & (table["sex"] == "Male"), TIMES, 1.0)
    often = often * np.where(table["school"].isin(["13", "14-16"]), TIMES, 1.0)
    chosen = np.random.default_rng(0).choice(len(table), SIZE, replace=False, p=often / often.sum())
    return table.iloc[chosen].reset_index(drop=True)


def estimates(table: pd.DataFrame, sample: pd.DataFrame) -> pd.DataFrame:
    """Return the share above 50,000 by school and in all: the truth, the plain survey, and MRP."""
    cells = table.groupby(CELL, observed=True).size().rename("count").reset_index()
    levels = ["population", *dp.Schema.read(HERE / "schema.toml").columns["school"].levels]
    shares = {"truth": table, "survey": sample}
    found = {
        name: pd.concat([pd.Series({"population": rows["over_50k"].mean()}), rows.groupby("school")["over_50k"].mean()])
        for name, rows in shares.items()
    }
    lines = [{"estimate": name, "of": level, "mean": own[level]} for name, own in found.items() for level in levels]
    for epsilon in EPSILONS:
        budget = dp.Budget(epsilon, DELTA)
        data = dp.PrivateData.from_table(sample, schema=HERE / "schema.toml", budget=budget)
        posterior = dp.fit(FORMULA, data, family="bernoulli", epsilon=epsilon, progress=False)
        own = pd.concat([posterior.poststratify(cells), posterior.poststratify(cells, by="school")])
        name, verdict = f"MRP, epsilon {epsilon:g}", posterior.quality.verdict
        lines += [{"estimate": name, "of": level, **own.loc[level], "verdict": verdict} for level in levels]
    return pd.DataFrame(lines).round(4)


def exact(table: pd.DataFrame, sample: pd.DataFrame) -> list[dict[str, object]]:
    """Return MRP without privacy: the same model by NUTS, on the counts of the survey's cells."""
    cells = table.groupby(CELL, observed=True).size().rename("count").reset_index()
    own = sample.groupby(CELL, observed=True)["over_50k"].agg(["sum", "size"]).reset_index()
    cells = cells.merge(own, how="left", on=CELL).fillna({"sum": 0, "size": 0})
    levels = dp.Schema.read(HERE / "schema.toml").columns
    codes = {name: cells[name].map(list(levels[name].levels).index).to_numpy() for name in CELL if name != "married"}
    married = cells["married"].to_numpy(float)

    def model() -> None:
        b = numpyro.sample("b", dist.Normal(0, PRIOR_SDS).to_event(1))
        eta = b[0] + b[1] * codes["sex"] + b[2] * married + b[3] * codes["sex"] * married
        for name in ("age_band", "school"):
            sigma = numpyro.sample(f"{name}_sigma", dist.HalfNormal(1.0))
            effects = numpyro.sample(name, dist.Normal(0, 1).expand([len(levels[name].levels)]).to_event(1))
            eta = eta + sigma * effects[codes[name]]
        numpyro.deterministic("share", 1 / (1 + jnp.exp(-eta)))
        numpyro.sample("y", dist.Binomial(cells["size"].to_numpy(), logits=eta), obs=cells["sum"].to_numpy())

    run = MCMC(NUTS(model, target_accept_prob=0.95), num_warmup=1000, num_samples=2000, progress_bar=False)
    run.run(jax.random.key(0))
    shares = np.asarray(run.get_samples()["share"])
    counts, parts = cells["count"].to_numpy(), {"population": np.ones(len(cells), bool)}
    parts |= {level: (cells["school"] == level).to_numpy() for level in levels["school"].levels}
    lines: list[dict[str, object]] = []
    for level, part in parts.items():
        drawn = np.average(shares[:, part], axis=1, weights=counts[part])
        low, high = np.quantile(drawn, [0.05, 0.95])
        line = {"mean": drawn.mean(), "sd": drawn.std(), "q5": low, "q95": high}
        lines.append({"estimate": "MRP, no privacy", "of": level, **line})
    return lines


def draw(lines: pd.DataFrame) -> Figure:
    """Draw the estimates by school."""
    figure = Figure(figsize=(9, 4), layout="constrained")
    ax = figure.subplots()
    levels = list(dict.fromkeys(lines["of"]))
    for place, (name, own) in enumerate(lines.groupby("estimate", sort=False)):
        x = np.arange(len(levels)) + (place - 2.5) * 0.13
        own = own.set_index("of").loc[levels]
        if name == "truth":
            ax.hlines(own["mean"], x - 0.1, x + 0.75, color="black", linewidth=1, label=name)
            continue
        if own["q5"].notna().all():
            ax.vlines(x, own["q5"], own["q95"], color=f"C{place}", linewidth=1.5)
        ax.plot(x, own["mean"], "o", markersize=5, color=f"C{place}", label=name)
    ax.set_xticks(range(len(levels)), ["all", *(f"school {level}" for level in levels[1:])])
    ax.set_ylabel("share above 50,000")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    return figure


def main() -> None:
    """Run the example."""
    table = population()
    sample = survey(table)
    lines = pd.concat([estimates(table, sample), pd.DataFrame(exact(table, sample)).round(4)], ignore_index=True)
    print(lines.to_string())
    lines.to_csv(HERE / "results.csv", index=False)
    draw(lines).savefig(HERE / "by_school.png", dpi=110)


if __name__ == "__main__":
    main()
