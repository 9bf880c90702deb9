"""Models of bambi's own examples in both packages: bambi without privacy, and fits under privacy of the same rows.

    python examples/bambi_models.py bambi     # with bambi installed: NUTS without privacy, to bambi_models/bambi.csv
    python examples/bambi_models.py fits      # the fits, to bambi_models/results.csv, beside what bambi.csv has

The tables of those examples have some hundred rows and are downloaded. These are like them, with the same columns and
effects of the same size, and 10,000 rows: fewer tell little under privacy.
"""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

HERE = Path(__file__).parent / "bambi_models"
SIZE = 10_000
EPSILONS = (2.0, 10.0)
DELTA = 1e-6
Numbers = Any


def _logistic(eta: Numbers) -> Numbers:
    return 1 / (1 + np.exp(-eta))


def anes(rng: np.random.Generator) -> pd.DataFrame:
    """Votes of 2016 by party and age, in years above 50."""
    party, age = rng.choice(3, SIZE, p=[0.4, 0.25, 0.35]), rng.uniform(-32, 40, SIZE).round()
    eta = np.array([1.8, -0.3, -1.9])[party] + np.array([0.013, 0.005, -0.02])[party] * age
    names = np.array(["democrat", "independent", "republican"])
    return pd.DataFrame(
        {"party_id": names[party], "age50": age, "clinton": (rng.random(SIZE) < _logistic(eta)).astype(int)}
    )


def students(rng: np.random.Generator) -> pd.DataFrame:
    """Days of absence by programme and mark in mathematics."""
    prog, math = rng.choice(3, SIZE, p=[0.15, 0.5, 0.35]), rng.normal(48, 25, SIZE).clip(1, 99).round()
    mean = np.exp(np.array([2.6, 2.2, 1.35])[prog] - 0.006 * (math - 48))
    days = rng.poisson(rng.gamma(1.0, mean))
    return pd.DataFrame({"prog": np.array(["General", "Academic", "Vocational"])[prog], "math": math, "daysabs": days})


def robust(rng: np.random.Generator) -> pd.DataFrame:
    """A line with residuals that have heavy tails."""
    x = rng.uniform(0, 1, SIZE)
    return pd.DataFrame({"x": x, "y": 1 + 2 * x + 0.5 * rng.standard_t(3, SIZE)})


def fish(rng: np.random.Generator) -> pd.DataFrame:
    """Fish that parties of campers caught, many of which did not fish."""
    live, camper = rng.random(SIZE) < 0.8, rng.random(SIZE) < 0.6
    persons = rng.integers(1, 5, SIZE)
    child = np.minimum(rng.integers(0, 4, SIZE), persons - 1)
    mean = np.exp(-1.6 + 0.9 * live + 0.7 * camper + 0.75 * persons - 0.9 * child)
    count = np.where(rng.random(SIZE) < 0.4, 0, rng.poisson(mean)).clip(0, 150)
    return pd.DataFrame(
        {"livebait": live.astype(int), "camper": camper.astype(int), "persons": persons, "child": child, "count": count}
    )


def trolley(rng: np.random.Generator) -> pd.DataFrame:
    """How permissible something is, from 1 to 7."""
    columns = {name: (rng.random(SIZE) < 0.45).astype(int) for name in ("action", "intention", "contact")}
    eta = -0.7 * columns["action"] - 0.7 * columns["intention"] - 0.95 * columns["contact"]
    cuts = np.array([-2.8, -2.2, -1.6, -0.55, 0.1, 1.0])
    response = 1 + np.sum(eta[:, None] + rng.logistic(size=(SIZE, 1)) > cuts, axis=1)
    return pd.DataFrame({**columns, "response": response})


def insurance(rng: np.random.Generator) -> pd.DataFrame:
    """What claims cost, by age and gender of the driver."""
    agecat, female = rng.choice(4, SIZE), rng.random(SIZE) < 0.5
    mean = np.exp(7.6 - np.array([0.0, 0.2, 0.3, 0.45])[agecat] - 0.15 * female)
    cost = (mean * rng.gamma(0.8, 1 / 0.8, SIZE)).clip(1, 60_000)
    return pd.DataFrame(
        {"agecat": np.array(list("1234"))[agecat], "gender": np.where(female, "F", "M"), "claimcst": cost}
    )


def blossoms(rng: np.random.Generator) -> pd.DataFrame:
    """The day of the first cherry blossom, over 1,200 years."""
    year = rng.integers(812, 2016, SIZE)
    t = (year - 812) / 1203
    day = 105 + 2.5 * np.sin(7 * t) - 6 * np.maximum(t - 0.85, 0) / 0.15 + rng.normal(0, 5.5, SIZE)
    return pd.DataFrame({"year": year, "doy": day.clip(70, 140)})


def radon(rng: np.random.Generator) -> pd.DataFrame:
    """Radon in houses of twelve counties, in the basement or above it."""
    county, floor = rng.choice(12, SIZE), (rng.random(SIZE) < 0.17).astype(int)
    effects = np.random.default_rng(7).normal(0, 0.35, 12)
    log_radon = 1.45 - 0.65 * floor + effects[county] + rng.normal(0, 0.75, SIZE)
    return pd.DataFrame({"county": [f"c{each:02d}" for each in county], "floor": floor, "log_radon": log_radon})


@dataclass(frozen=True)
class Pair:
    """One model in both packages.

    Attributes:
        make: its rows.
        bambi: formula and family there.
        ours: the same here.
        names: what is compared: the names there and here.
        schema: the columns, as public facts.
        at: rows to predict for, instead of coefficients.
        turned: what bambi has as one minus ours.
    """

    make: Callable[[np.random.Generator], pd.DataFrame]
    bambi: tuple[str, str]
    ours: tuple[str, str]
    names: Mapping[str, str]
    schema: Mapping[str, Mapping[str, Any]]
    at: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    turned: frozenset[str] = frozenset()


def _category(*levels: str) -> dict[str, Any]:
    return {"kind": "category", "categories": levels}


def _number(lower: float, upper: float, kind: str = "number") -> dict[str, Any]:
    return {"kind": kind, "lower": lower, "upper": upper}


YES = {"kind": "boolean"}
PAIRS = {
    "votes (ANES)": Pair(
        anes,
        ("clinton ~ party_id + party_id:age50", "bernoulli"),
        ("clinton ~ party_id + party_id:age50", "bernoulli"),
        {
            "party_id[independent]": "party_id[independent]",
            "party_id:age50[democrat]": "party_id[democrat]:age50",
            "party_id:age50[republican]": "party_id[republican]:age50",
        },
        {"party_id": _category("democrat", "independent", "republican"), "age50": _number(-32, 40), "clinton": YES},
    ),
    "absences (students)": Pair(
        students,
        ("daysabs ~ prog + math", "negativebinomial"),
        ("daysabs ~ prog + math", "negbin"),
        {
            "prog[General]": "prog[General]",
            "prog[Vocational]": "prog[Vocational]",
            "math": "math",
            "alpha": "concentration",
        },
        {
            "prog": _category("Academic", "General", "Vocational"),
            "math": _number(0, 100),
            "daysabs": _number(0, 180, "integer"),
        },
    ),
    "robust line": Pair(
        robust,
        ("y ~ x", "t"),
        ("y ~ x", "t"),
        {"Intercept": "intercept", "x": "x", "sigma": "sigma", "nu": "nu"},
        {"x": _number(0, 1), "y": _number(-15, 15)},
    ),
    "fish": Pair(
        fish,
        ("count ~ livebait + camper + persons + child", "zero_inflated_poisson"),
        ("count ~ livebait + camper + persons + child", "zip"),
        {"livebait": "livebait", "camper": "camper", "persons": "persons", "child": "child", "psi": "zi"},
        {
            "livebait": YES,
            "camper": YES,
            "persons": _number(1, 4, "integer"),
            "child": _number(0, 3, "integer"),
            "count": _number(0, 150, "integer"),
        },
        turned=frozenset({"psi"}),
    ),
    "trolley problems": Pair(
        trolley,
        ("response ~ action + intention + contact", "cumulative"),
        ("response ~ action + intention + contact", "cumulative"),
        {
            "action": "action",
            "intention": "intention",
            "contact": "contact",
            "threshold[0]": "cutpoints[0]",
            "threshold[5]": "cutpoints[5]",
        },
        {"action": YES, "intention": YES, "contact": YES, "response": _number(1, 7, "integer")},
    ),
    "insurance claims": Pair(
        insurance,
        ("claimcst ~ agecat + gender", "gamma"),
        ("claimcst ~ agecat + gender", "gamma"),
        {"agecat[2]": "agecat[2]", "agecat[4]": "agecat[4]", "gender[M]": "gender[M]", "alpha": "shape"},
        {"agecat": _category(*"1234"), "gender": _category("F", "M"), "claimcst": _number(1, 60_000)},
    ),
    "cherry blossoms": Pair(
        blossoms,
        ("doy ~ bs(year, df=8)", "gaussian"),
        ("doy ~ bs(year, df=8)", "gaussian"),
        {
            "mean in 1000": "mean in 1000",
            "mean in 1500": "mean in 1500",
            "mean in 1990": "mean in 1990",
            "sigma": "sigma",
        },
        {"year": _number(812, 2015), "doy": _number(60, 150)},
        at={"year": [1000, 1500, 1990]},
    ),
    "radon": Pair(
        radon,
        ("log_radon ~ floor + (1|county)", "gaussian"),
        ("log_radon ~ floor + (1|county)", "gaussian"),
        {
            "Intercept": "intercept",
            "floor": "floor",
            "1|county_sigma": "1|county_sigma",
            "1|county[c03]": "1|county[c03]",
            "sigma": "sigma",
        },
        {
            "county": _category(*(f"c{each:02d}" for each in range(12))),
            "floor": YES,
            "log_radon": _number(-4, 7),
        },
    ),
}


SEEDS = dict(zip(PAIRS, (0, 1, 2, 4, 5, 6, 7, 8), strict=True))


def rows_of(name: str) -> pd.DataFrame:
    """Return the rows of a model: the same every time."""
    return PAIRS[name].make(np.random.default_rng(SEEDS[name]))


def by_bambi(name: str) -> list[dict[str, Any]]:
    """Return what bambi finds without privacy: mean and sd of each number."""
    import arviz as az
    import bambi as bmb

    pair, table = PAIRS[name], rows_of(name)
    formula, family = pair.bambi
    if family == "cumulative":
        table["response"] = pd.Categorical(table["response"], ordered=True)
    model = bmb.Model(formula, table, family=family, **({"link": "log"} if family == "gamma" else {}))
    started = time.perf_counter()
    idata = model.fit(draws=300, tune=250, chains=2, inference_method="numpyro", random_seed=1)
    seconds = time.perf_counter() - started
    found = az.summary(idata, kind="stats", round_to="none")[["mean", "sd"]]
    if pair.at:
        idata = model.predict(idata, kind="response_params", data=pd.DataFrame(pair.at), inplace=False)
        values = idata.posterior["mu"].stack(draw_=("chain", "draw")).to_numpy()
        for year, own in zip(pair.at["year"], values, strict=True):
            found.loc[f"mean in {year}"] = own.mean(), own.std()
    print(found, flush=True)
    lines: list[dict[str, Any]] = []
    for there, here in pair.names.items():
        mean, sd = found.loc[there]
        own = 1 - mean if there in pair.turned else mean
        lines.append({"model": name, "name": here, "mean": own, "sd": sd, "seconds": round(seconds, 1)})
    return lines


def by_fit(name: str, epsilon: float) -> list[dict[str, Any]]:
    """Return what a fit finds under privacy, with its verdict."""
    import dpmcmc as dp

    pair, table = PAIRS[name], rows_of(name)
    formula, family = pair.ours
    schema = dp.Schema({column: dp.Column(**dict(stated)) for column, stated in pair.schema.items()})
    data = dp.PrivateData.from_table(table, schema=schema, budget=dp.Budget(epsilon, DELTA))
    started = time.perf_counter()
    posterior = dp.fit(formula, data, family=family, epsilon=epsilon, progress=False)
    seconds = time.perf_counter() - started
    found = posterior.summary()[["mean", "sd"]]
    if pair.at:
        means = posterior.predict(dict(pair.at))
        for year, mean, sd in zip(pair.at["year"], means["mean"], means["sd"], strict=True):
            found.loc[f"mean in {year}"] = mean, sd
    print(name, epsilon, posterior.quality.verdict, posterior.quality.reasons, round(seconds, 1), flush=True)
    return [
        {
            "model": name,
            "epsilon": epsilon,
            "name": here,
            "mean": float(found.loc[here, "mean"]),
            "sd": float(found.loc[here, "sd"]),
            "verdict": posterior.quality.verdict,
            "seconds": round(seconds, 1),
        }
        for here in pair.names.values()
    ]


def formulas() -> str:
    """Return the table of formulas of the page."""
    lines = ["| model | bambi | here |", "|---|---|---|"]
    for name, pair in PAIRS.items():
        there, here = (f"`{formula}`, {family}".replace("|", "\\|") for formula, family in (pair.bambi, pair.ours))
        lines.append(f"| {name} | {there} | {here} |")
    return "\n".join(lines)


def page() -> str:
    """Return the table of results of the page."""
    exact, fits = (pd.read_csv(HERE / each) for each in ("bambi.csv", "results.csv"))
    lines = [
        f"| model | number | bambi | epsilon {EPSILONS[1]:g} | epsilon {EPSILONS[0]:g} |",
        "|---|---|---|---|---|",
    ]
    for name in PAIRS:
        for row in exact[exact["model"] == name].to_dict("records"):
            own = fits[(fits["model"] == name) & (fits["name"] == row["name"])].set_index("epsilon")
            cells = [_cell(row["mean"], row["sd"])]
            for epsilon in reversed(EPSILONS):
                mean, sd, verdict = (own.loc[epsilon, column] for column in ("mean", "sd", "verdict"))
                cells.append(_cell(mean, sd) + ("" if verdict == "good" else f", {verdict}"))
            number = str(row["name"]).replace("|", "\\|")
            lines.append(f"| {name} | `{number}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(mean: float, sd: float) -> str:
    digits = max(0, 1 - int(np.floor(np.log10(sd))))
    return f"{mean:.{digits}f} ± {sd:.{digits}f}"


def main(what: str, names: Sequence[str]) -> None:
    """Run what was asked for; models that are named replace those of before."""
    file = HERE / ("bambi.csv" if what == "bambi" else "results.csv")
    for name in names or PAIRS:
        lines = by_bambi(name) if what == "bambi" else [line for each in EPSILONS for line in by_fit(name, each)]
        before = pd.read_csv(file) if file.exists() else pd.DataFrame({"model": []})
        found = pd.concat([before[before["model"] != name], pd.DataFrame(lines)])
        found.to_csv(file, index=False, float_format="%.6g")


if __name__ == "__main__":
    if sys.argv[1] == "page":
        print(f"{formulas()}\n\n{page()}")
    else:
        main(sys.argv[1], sys.argv[2:])
