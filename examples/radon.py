"""Radon in houses: counties as groups of a mixed model, beside the classification that the literature on privacy has.

    python examples/radon.py      # 20 and 6 repeats at epsilon 1, 4 and 16, new noise in each, and a picture
    python examples/radon.py 3    # three of both

The table is public (Environmental Protection Agency, as Gelman and Hill use it). Two questions:

- how much radon there is, ``log_radon ~ floor + (1|county)``, in 919 houses of Minnesota's 87 counties, of which two
  have no house: the classic of multilevel models, and far too small for a small epsilon. Where `fit` refuses it is run
  all the same, and the refusal is counted;
- whether a house was measured above its basement, from radon and uranium, in eight states' 12,289 houses: the thesis
  on DP-SGHMC predicts the floor by a softmax regression, and prints the share of houses that it gets right.

Results go to ``radon/results.csv`` and ``radon/classification.csv``, the picture to ``radon/fits.png``.
"""

import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import dpmcmc as dp
from dpmcmc.diagnostics.summary import coordinates
from dpmcmc.enclave.tables.readers import read_table
from dpmcmc.errors import BudgetUnreachable
from dpmcmc.zoo.reference import nuts_reference
from public_tables import CACHE, SOURCES, fetch
from run import DELTA

HERE = Path(__file__).parent / "radon"
EPSILONS, REPEATS, CLASSIFIED = (1.0, 4.0, 16.0), 20, 6
RADON = "log_radon ~ floor + (1|county)"
ABOVE = {
    "no groups": "above ~ log_radon + log_uranium",
    "states": "above ~ log_radon + log_uranium + (1|state)",
    "counties": "above ~ log_radon + log_uranium + (1|county)",
}
MINNESOTA, HELD_OUT, UNKNOWN = 27, 0.2, 9
COMMON = ("intercept", "floor", "sigma", "1|county_sigma")
SHOWN = {"floor": (-3, 2), "1|county_sigma": (0, 2), "sigma": (0, 2)}
PRINTED = {"HMC, no privacy": 0.731, "DP-SGHMC, printed": 0.730, "DP-SGD, printed": 0.711}
"""Shares of floors that the thesis gets right; what its DP-SGHMC costs is in `experiments/dp_sghmc_thesis`."""

FAR = 4.0
"""Own standard deviations from NUTS from which on a parameter is wrong, if it is not marked."""


def houses() -> tuple[pd.DataFrame, list[int]]:
    """Return all houses whose floor is known, and all counties that there are."""
    measured, counties = (
        pd.read_parquet(fetch(name, SOURCES[name])) for name in ("radon_measurements", "radon_counties")
    )
    table = measured.merge(counties, on="fips", validate="many_to_one")
    table = table[table["floor"] != UNKNOWN]
    logs = np.log(np.maximum(table[["radon", "uranium"]], 0.1))  # readings of 0 stand for less than 0.1
    names = {"county": table["fips"].astype(str), "state": (table["fips"] // 1000).astype(str)}
    above = table["floor"] > 0
    return (
        pd.DataFrame(
            {
                "log_radon": logs["radon"],
                "log_uranium": logs["uranium"],
                "floor": table["floor"],
                "above": above,
                **names,
            }
        ),
        sorted(counties["fips"]),
    )


def schema(names: list[str], counties: list[int]) -> dp.Schema:
    """Return what a data dictionary would say of some columns: bounds of instruments and maps, which counties are."""
    states = sorted({county // 1000 for county in counties})
    stated: dict[str, dict[str, Any]] = {
        "log_radon": {"kind": "number", "lower": -2.5, "upper": 6},
        "log_uranium": {"kind": "number", "lower": -2.5, "upper": 2.5},
        "floor": {"kind": "boolean"},
        "above": {"kind": "boolean"},
        "county": {"kind": "category", "categories": tuple(map(str, counties))},
        "state": {"kind": "category", "categories": tuple(map(str, states))},
    }
    return dp.Schema({name: dp.Column(**stated[name]) for name in names})


def exact(name: str, formula: str, family: str, table: pd.DataFrame, stated: dp.Schema) -> pd.DataFrame:
    """Return draws of the posterior without privacy, by NUTS: they are made once."""
    place = CACHE / f"radon-{name}-draws.parquet"
    if not place.exists():
        model: Any = dp.from_formula(formula, stated, family=family)
        records = jax.tree.map(jnp.asarray, read_table(table, stated).records)
        draws = nuts_reference(model, records, key=jax.random.key(1), num_chains=2, dense_mass=False)
        named = jax.vmap(jax.vmap(model.constrain))(jax.tree.map(jnp.asarray, draws))
        values = coordinates({key: np.asarray(leaf) for key, leaf in named.items()})
        pd.DataFrame({key: each.ravel() for key, each in values.items()}).to_parquet(place)
    return pd.read_parquet(place)


def fitted(formula: str, family: str, table: pd.DataFrame, stated: dp.Schema, epsilon: float) -> tuple[Any, bool]:
    """Return a posterior under privacy, and whether `fit` refuses to spend so little."""
    data = dp.PrivateData.from_table(table, schema=stated, budget=dp.Budget(epsilon, DELTA))
    options: dict[str, Any] = {"family": family, "epsilon": epsilon, "progress": False}
    try:
        return dp.fit(formula, data, **options), False
    except BudgetUnreachable:
        return dp.fit(formula, data, allow_low_accuracy=True, **options), True


def one_fit(posterior: Any, without: pd.DataFrame) -> dict[str, Any]:
    """Say how far a result is from NUTS, for what is common and for the counties, and what it says of itself."""
    draws = pd.DataFrame({key: each.ravel() for key, each in coordinates(posterior.draws).items()})
    off = (draws.mean() - without.mean()) / without.std()
    own = (draws.mean() - without.mean()).abs() / draws.std()
    grades, is_bad = posterior.quality.parameters, posterior.quality.verdict == "bad"
    is_marked = {name: is_bad or bool(grades[name].reasons) for name in draws}
    counties = [name for name in draws if name.startswith("1|county[")]
    seen = [name for name in counties if not is_marked[name]]
    draws = draws[list(without)]
    low, high = draws.quantile(0.025), draws.quantile(0.975)
    inside = (without.mean() >= low) & (without.mean() <= high)
    line: dict[str, Any] = {"verdict": posterior.quality.verdict, "predicted": posterior.quality.predicted_error}
    for name in COMMON:
        line |= {f"{name}_mean": draws[name].mean(), f"{name}_sd": draws[name].std(), f"{name}_own_sds": own[name]}
    wrong = [name for name in draws if not is_marked[name] and own[name] > FAR]
    return line | {
        "counties_identified": len(seen),
        "error_of_counties": float(np.sqrt(np.mean(off[counties] ** 2))),
        "width_of_counties": float((draws[counties].std() / without[counties].std()).median()),
        "inside_of_counties": float(inside[counties].mean()),
        "wrong": len(wrong),
    }


def multilevel(table: pd.DataFrame, counties: list[int], repeats: int) -> pd.DataFrame:
    """Return a line for each fit of Minnesota's radon."""
    own = [county for county in counties if county // 1000 == MINNESOTA]
    rows = table[table["state"] == str(MINNESOTA)][["log_radon", "floor", "county"]].reset_index(drop=True)
    rows, stated = rows.assign(floor=rows["floor"] > 0), schema(list(rows), own)
    without = exact("minnesota", RADON, "gaussian", rows, stated)
    lines: list[dict[str, Any]] = []
    for epsilon in EPSILONS:
        for repeat in range(repeats):
            posterior, is_refused = fitted(RADON, "gaussian", rows, stated, epsilon)
            lines.append({"epsilon": epsilon, "repeat": repeat, "refused": is_refused, **one_fit(posterior, without)})
            print(lines[-1], file=sys.stderr, flush=True)
    names = [f"{name}_{part}" for name in COMMON for part in ("mean", "sd")]
    found = [getattr(without[name], part)() for name in COMMON for part in ("mean", "std")]
    lines.append({"epsilon": np.inf, **dict(zip(names, found, strict=True))})
    return pd.DataFrame(lines).round(4)


def classification(table: pd.DataFrame, counties: list[int], repeats: int) -> pd.DataFrame:
    """Return a line for each fit of the floor: the share of held-out houses that it gets right."""
    states = set(table["state"])
    names = ["above", "log_radon", "log_uranium", "state", "county"]
    stated = schema(names, [county for county in counties if str(county // 1000) in states])
    held = np.random.default_rng(0).random(len(table)) < HELD_OUT
    rows, new = (table[which].reset_index(drop=True) for which in (~held, held))
    right = new["floor"].to_numpy()  # a house measured on its second or third floor is never right

    def accuracy(probable: Any) -> float:
        return float(np.mean(np.where(np.asarray(probable) > 0.5, 1, 0) == right))

    lines: list[dict[str, Any]] = [{"model": "always the basement", "accuracy": accuracy(np.zeros(len(new)))}]
    for name, formula in ABOVE.items():
        for epsilon in EPSILONS:
            for repeat in range(repeats):
                posterior, is_refused = fitted(formula, "bernoulli", rows[names], stated, epsilon)
                share = accuracy(posterior.predict(new)["mean"])
                line = {"model": name, "epsilon": epsilon, "repeat": repeat, "refused": is_refused}
                lines.append(line | {"verdict": posterior.quality.verdict, "accuracy": share})
                print(lines[-1], file=sys.stderr, flush=True)
    return pd.DataFrame(lines).round(4)


def draw(fits: pd.DataFrame, floors: pd.DataFrame) -> Figure:
    """Draw the 95 % intervals of all fits beside NUTS, and how many floors are right."""
    figure = Figure(figsize=(12, 3.6), layout="constrained")
    axes = figure.subplots(1, 4)
    without, private = fits[np.isinf(fits["epsilon"])].iloc[0], fits[np.isfinite(fits["epsilon"])]
    for ax, (name, limits) in zip(axes, SHOWN.items(), strict=False):
        mean, sd = without[f"{name}_mean"], without[f"{name}_sd"]
        ax.axhspan(mean - 1.96 * sd, mean + 1.96 * sd, color="0.8", label="NUTS, no privacy")
        for place, (_, own) in enumerate(private.groupby("epsilon")):
            at = place + np.linspace(-0.35, 0.35, len(own))
            for verdict, colour in (("bad", "C3"), ("fair", "C0"), ("good", "C2")):
                which = (own["verdict"] == verdict).to_numpy()
                middle, reach = own[f"{name}_mean"][which], 1.96 * own[f"{name}_sd"][which]
                label = verdict if place == 0 else None
                ax.errorbar(at[which], middle, reach, fmt=".", ms=3, lw=0.8, color=colour, label=label)
        ax.set_xticks(range(len(EPSILONS)), [f"epsilon {epsilon:g}" for epsilon in EPSILONS])
        ax.set_title(name)
        ax.set_ylim(*limits)
    axes[0].legend(frameon=False, fontsize=8)
    for number, name in enumerate(ABOVE):
        own = floors[floors["model"] == name]
        at = np.log2(own["epsilon"]) / 2 + 0.15 * (number - 1)
        axes[3].plot(at, own["accuracy"], ".", color=f"C{number}", label=name)
    for number, (name, share) in enumerate(PRINTED.items()):
        axes[3].axhline(share, color="0.4", lw=0.9, ls=("-", "--", ":")[number], label=name)
    axes[3].set_xticks(range(len(EPSILONS)), [f"epsilon {epsilon:g}" for epsilon in EPSILONS])
    axes[3].set_title("share of floors that are right")
    axes[3].legend(frameon=False, fontsize=7)
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    return figure


def main() -> None:
    """Run both questions, and draw."""
    table, counties = houses()
    HERE.mkdir(exist_ok=True)
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else REPEATS
    fits = multilevel(table, counties, repeats)
    fits.to_csv(HERE / "results.csv", index=False)
    floors = classification(table, counties, CLASSIFIED if repeats == REPEATS else repeats)
    floors.to_csv(HERE / "classification.csv", index=False)
    draw(fits, floors).savefig(HERE / "fits.png", dpi=110)


if __name__ == "__main__":
    main()
