"""How long people live after a blood sample: 7,874 residents of Olmsted County, with privacy and without.

    python examples/survival.py                # epsilon 2, 4 and 20, and a picture of survival curves
    python examples/survival.py --peers        # the same laws by lifelines and scikit-survival, if they are installed

The table is public (Dispenzieri and others 2012, as scikit-survival ships it). That alone allows the comparison with
NUTS on the exact rows. Results go to ``survival/results.csv``, the picture to ``survival/curves.png``.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import dpmcmc as dp
from public_tables import SOURCES, fetch
from run import DELTA, Example, cached_reference

HERE = Path(__file__).parent / "survival"
FORMULA = "Surv(years, died) ~ age + sex + log(light_chains)"
FAMILIES = ("weibull", "exponential", "lognormal", "piecewise_exponential(2, 5, 9)")
EPSILONS = (2.0, 4.0, 20.0)
PEOPLE = {"age": [60, 75, 75], "sex": ["F", "F", "M"], "light_chains": [2.5, 2.5, 6.0]}


def name_of(family: str) -> str:
    """Return the name of a family as that of a file."""
    return f"survival-{family.partition('(')[0]}"


def fitted(table: pd.DataFrame, example: Example, epsilon: float) -> tuple[dp.Posterior, float]:
    """Return the posterior under privacy, and how long it took."""
    data = dp.PrivateData.from_table(table, schema=example.schema, budget=dp.Budget(epsilon, DELTA))
    started = time.perf_counter()
    posterior = dp.fit(example.formula, data, family=example.family, epsilon=epsilon, progress=False)
    return posterior, time.perf_counter() - started


def compare(table: pd.DataFrame, family: str) -> list[dict[str, Any]]:
    """Return lines of the results: how far each coefficient is from NUTS without privacy, in its sds."""
    example = Example(name_of(family), FORMULA, family, folder="survival")
    exact = cached_reference(example, table)
    lines: list[dict[str, Any]] = []
    for epsilon in EPSILONS:
        posterior, seconds = fitted(table, example, epsilon)
        found = posterior.summary().loc[exact.index]
        off, width = (found["mean"] - exact["mean"]) / exact["sd"], found["sd"] / exact["sd"]
        line = {"family": family, "epsilon": epsilon, "verdict": posterior.quality.verdict}
        line |= {"median_error": off.abs().median(), "largest_error": off.abs().max(), "median_width": width.median()}
        line |= {"seconds": seconds, "reasons": " ".join(posterior.quality.reasons)}
        lines.append({key: round(value, 3) if isinstance(value, float) else value for key, value in line.items()})
        print(lines[-1], flush=True)
    return lines


def draw(table: pd.DataFrame) -> Figure:
    """Draw the curves of three people: with privacy as bands, without as lines."""
    example = Example(name_of("weibull"), FORMULA, "weibull", folder="survival")
    model: Any = dp.from_formula(FORMULA, example.schema, family="weibull")
    exact = cached_reference(example, table)["mean"]
    times = np.linspace(0, 14.5, 60)
    records = {"age": np.array(PEOPLE["age"]), "sex": np.array([0, 0, 1]), "light_chains": PEOPLE["light_chains"]}
    lines = np.asarray(model.survival({name: np.array([value]) for name, value in exact.items()}, records, times))[0]
    figure = Figure(figsize=(10, 4), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for ax, epsilon in zip(axes, (2.0, 8.0), strict=True):
        bands = fitted(table, example, epsilon)[0].predict(PEOPLE, kind="survival", times=times)
        for row, label in enumerate(["woman, 60", "woman, 75", "man, 75, many light chains"]):
            own = bands.loc[row]
            ax.fill_between(times, own["q5"], own["q95"], color=f"C{row}", alpha=0.35, linewidth=0, label=label)
            ax.plot(times, lines[row], color=f"C{row}", linewidth=1.2)
        ax.set_title(f"epsilon {epsilon:g}: bands with privacy, lines without")
        ax.set_xlabel("years after the blood sample")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("probability to be alive")
    axes[0].set_ylim(0, 1.02)
    axes[1].legend(frameon=False)
    return figure


def peers(table: pd.DataFrame) -> pd.DataFrame:
    """Return the coefficients of NUTS, and of lifelines and scikit-survival, which have no priors."""
    from lifelines import CoxPHFitter, LogNormalAFTFitter, WeibullAFTFitter
    from sksurv.linear_model import CoxPHSurvivalAnalysis

    rows = table.assign(sex=(table["sex"] == "M").astype(float), died=table["died"].astype(int))
    rows = rows.assign(light_chains=rows["light_chains"].clip(0.1, 12), age=rows["age"].clip(50, 100))
    rows = rows.assign(light_chains=np.log(rows["light_chains"]), years=rows["years"].clip(lower=14.5e-5))
    names, found = ["age", "sex", "light_chains"], {}
    for family, fitter in (("weibull", WeibullAFTFitter), ("lognormal", LogNormalAFTFitter)):
        own = fitter().fit(rows, duration_col="years", event_col="died")
        location = own.params_.index.get_level_values(0)[0]
        found[f"lifelines {family}"] = own.params_[location][names]
    found["lifelines Cox"] = CoxPHFitter().fit(rows, "years", "died").params_[names]
    outcome = np.array(
        list(zip(rows["died"] > 0, rows["years"], strict=True)), dtype=[("died", bool), ("years", float)]
    )
    cox = CoxPHSurvivalAnalysis(ties="efron").fit(rows[names].to_numpy(), outcome)
    found["scikit-survival Cox"] = pd.Series(cox.coef_, names)
    labels = ["age", "sex[M]", "log(light_chains)"]
    for family in ("weibull", "lognormal", "piecewise_exponential(2, 5, 9)"):
        exact = cached_reference(Example(name_of(family), FORMULA, family, folder="survival"), table)
        found[f"NUTS {family}"] = pd.Series(exact["mean"][labels].to_numpy(), names)
        found[f"NUTS {family}, sd"] = pd.Series(exact["sd"][labels].to_numpy(), names)
    return pd.DataFrame(found).T.round(5)


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", action="store_true")
    asked = parser.parse_args()
    table = pd.read_parquet(fetch("survival", SOURCES["survival"]))
    if asked.peers:
        found = peers(table)
        print(found.to_string())
        found.to_csv(HERE / "peers.csv", index_label="estimate")
        return
    pd.DataFrame([line for family in FAMILIES for line in compare(table, family)]).to_csv(
        HERE / "results.csv", index=False
    )
    draw(table).savefig(HERE / "curves.png", dpi=110)


if __name__ == "__main__":
    main()
