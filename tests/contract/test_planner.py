"""The planner's answers are those of `fit`, and follow the laws that it states."""

import json
import math
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpmcmc as dp
from dpmcmc.catalogue.settings import TEST_NOISE, WALK_EFFICIENCY
from dpmcmc.cli.main import run
from dpmcmc.errors import BudgetUnreachable, InvalidArgument
from dpmcmc.fitting import RECIPES, prepare_fit
from dpmcmc.fitting.budget_split import LEFT, REFINEMENT_SHARE
from dpmcmc.fitting.simulation import SIMULABLE
from dpmcmc.planner import GRID, Grid, plan_fit, plan_formula
from dpmcmc.planner.page import SIMULATED

SETTINGS = {"epsilon": 2.0, "delta": 1e-6, "num_records": 4000, "num_parameters": 3}
SCHEMA = {name: dp.Column(kind="number", lower=-1, upper=1) for name in ("a", "b", "y")}


@pytest.mark.parametrize("sampler", ["clipped_laplace", "dp_langevin", "dp_sgld", "dp_penalty"])
def test_a_plan_is_what_fit_would_do(sampler) -> None:
    table = pd.DataFrame(np.zeros((4000, 3)), columns=list(SCHEMA))
    data = dp.PrivateData.from_table(
        table, schema=dp.Schema(SCHEMA), ledger=dp.Ledger.in_memory(), dataset="made up", budget=dp.Budget(5.0, 1e-6)
    )
    prepared = prepare_fit(
        "y ~ a + b",
        data,
        family="gaussian",
        priors={"sigma": "fixed(1)"},
        sampler=sampler,
        epsilon=2.0,
        allow_low_accuracy=True,
    )
    answer = plan_fit(sampler, **SETTINGS)
    assert answer.noise == pytest.approx(prepared.strategy.choice.noise.sampler, rel=1e-3)
    if sampler in SIMULABLE:  # a chain that was tried in simulation does worse
        assert answer.floor <= prepared.expected_error * (1 + 1e-3)
    else:
        assert answer.floor == pytest.approx(prepared.expected_error, rel=1e-3)
    assert answer.num_steps == prepared.num_steps
    assert answer.epsilon["tight"] == pytest.approx(
        dp.Certificate(prepared.event, "replace_one", 1e-6).epsilon, rel=1e-3
    )


def test_the_laws() -> None:
    langevin, walk = plan_fit("dp_langevin", **SETTINGS), plan_fit("dp_penalty", **SETTINGS)
    of_polish = math.sqrt(LEFT / (LEFT - REFINEMENT_SHARE))
    assert langevin.error == pytest.approx(langevin.floor * of_polish, rel=1e-3), (
        "Langevin dynamics loses the refinement"
    )
    assert plan_fit("clipped_laplace", **SETTINGS).error == langevin.floor
    assert plan_fit("private_laplace", **SETTINGS).error < langevin.floor, "bounded scores without bias are shorter"
    assert walk.error > langevin.error
    more = plan_fit("dp_langevin", **{**SETTINGS, "num_records": 16_000})
    assert more.error == pytest.approx(langevin.error / 2, rel=1e-6), "one over the root of the records"
    larger = [plan_fit("dp_penalty", **{**SETTINGS, "num_parameters": number}).error for number in (3, 12)]
    assert larger[1] == pytest.approx(2 * larger[0], rel=1e-6), "the root of the parameters"
    one = plan_fit("dp_langevin", **SETTINGS, adjacency="add_or_remove_one")
    assert one.error == pytest.approx(langevin.error / 2, rel=1e-6)
    assert langevin.effective_draws == pytest.approx(1 / langevin.error**2)
    assert min(langevin.epsilon, key=langevin.epsilon.get) == "tight"
    assert math.isclose(langevin.epsilon["tight"], 2.0, rel_tol=1e-3)
    useless = plan_fit("dp_sgld", **{**SETTINGS, "num_records": 50})
    assert useless.is_refused
    assert not useless.is_known


def test_a_walk_gets_furthest_at_the_noise_of_its_recipe() -> None:
    noise = np.linspace(0.5, 6, 2000)
    worth = noise**2 * stats.norm.cdf(-noise / 2) / 8
    assert worth.max() == pytest.approx(WALK_EFFICIENCY, abs=5e-4)
    assert noise[worth.argmax()] == pytest.approx(TEST_NOISE, abs=0.01)


def test_a_grid_holds_every_combination_in_order() -> None:
    grid = Grid((1.0, 2.0), (1e-6,), (1000, 2000, 4000), (3,), (2, 3), ("dp_langevin",))
    shares = []
    answers = grid.answers(shares.append)
    assert len(answers) == 12
    assert shares[-1] == 1.0
    place = 0
    for name, value in {"num_chains": 3, "epsilon": 2.0, "num_records": 4000}.items():
        place = place * len(grid.axes[name]) + grid.axes[name].index(value)
    assert answers[place] == plan_fit("dp_langevin", **{**SETTINGS, "num_chains": 3}).to_dict()
    assert set(GRID.sampler) == set(RECIPES) - {"minibatch_barker"}


def test_the_page_says_what_the_simulations_found() -> None:
    table = pd.read_csv(Path(__file__).parents[2] / "benchmarks" / "results" / "planner.csv")
    ratio = table.groupby("sampler")["simulated_over_predicted"].agg(["min", "max"])
    for sampler in ("clipped_laplace", "dp_langevin", "dp_penalty"):
        low, high = (f"{ratio.loc[sampler, end]:.2f}" for end in ("min", "max"))
        assert re.search(rf"{low} to {high} times (the prediction )?for {sampler}", SIMULATED)
    low, high = (f"{ratio.loc['guided_walk', end]:.1f}" for end in ("min", "max"))
    assert f"for guided_walk {low} to {high} times" in SIMULATED
    assert f"for dp_hmc up to {ratio.loc['dp_hmc', 'max']:.1f} times" in SIMULATED
    for row in table[table.epsilon == 2.0].itertuples():
        settings = {"epsilon": 2.0, "delta": 1e-6, "num_records": row.records, "num_parameters": row.parameters}
        assert plan_fit(row.sampler, **settings).error == pytest.approx(row.predicted, abs=1e-4)


@pytest.mark.parametrize(
    ("name", "value"), [("epsilon", 0.0), ("num_records", 0), ("num_parameters", 0), ("delta", 1.0)]
)
def test_refusals(name, value) -> None:
    with pytest.raises(InvalidArgument, match=name):
        plan_fit("dp_langevin", **{**SETTINGS, name: value})


def test_in_a_shell(monkeypatch, capsys) -> None:
    command = ["dpmcmc", "plan", "fit", "--epsilon", "2", "--delta", "1e-6", "--records", "4000", "--parameters", "3"]
    answer = plan_fit("private_laplace", **SETTINGS)
    for more in ([], ["--json"]):
        monkeypatch.setattr(sys, "argv", [*command, *more])
        with pytest.raises(SystemExit) as ended:
            run()
        assert ended.value.code == 0
        told = capsys.readouterr().out
        if more:
            assert json.loads(told)["noise"] == answer.noise
        else:
            assert f"off by about {answer.error:.3g} of its standard deviations" in told
    monkeypatch.setattr(sys, "argv", ["dpmcmc", "plan"])
    with pytest.raises(SystemExit) as ended:
        run()
    assert ended.value.code == 0
    assert "--open" in capsys.readouterr().out


def test_passes_are_part_of_the_plan():
    """Few rows lead no way; many do, and the result is about as good as if every step reads them."""
    terms = {"epsilon": 1.0, "delta": 1e-9, "num_parameters": 11}

    def error(num_records, passes):
        return plan_fit("private_laplace", num_records=num_records, passes=passes, **terms).error

    assert error(10**6, None) < 1 < error(10**6, 1)
    assert 0.9 < error(10**8, 1) / error(10**8, None) < 1.1
    assert error(10**8, 50) == error(10**8, None)
    with pytest.raises(InvalidArgument, match="passes=1 must be left out for 'dp_langevin'"):
        plan_fit("dp_langevin", num_records=10**6, passes=1, **terms)


def test_a_formula_is_planned_as_fit_would_expect() -> None:
    schema = dp.Schema(SCHEMA)
    table = pd.DataFrame(np.zeros((4000, 3)), columns=list(SCHEMA))
    data = dp.PrivateData.from_table(table, schema=schema, budget=dp.Budget(5.0, 1e-6))
    for family in ("gaussian", "student_t"):
        found = plan_formula("y ~ a + b", schema, family=family, num_records=4000, delta=1e-6, epsilons=[0.5, 2.0])
        for one in found:
            options = {"family": family, "epsilon": one.epsilon, "allow_low_accuracy": True}
            assert one.error == pytest.approx(prepare_fit("y ~ a + b", data, **options).expected_error)
            assert one.is_refused == (one.error > 1)
        few, many = found
        assert few.records > many.records
        again = plan_formula("y ~ a + b", schema, family=family, num_records=few.records, delta=1e-6, epsilons=[0.5])
        assert again[0].error == pytest.approx(0.5, rel=0.02)


def test_effects_of_persons_are_planned_as_fit_would_expect() -> None:
    """Few persons and a small budget are refused by both: noise hides the slopes of the pilot."""
    schema = dp.Schema({**SCHEMA, "y": dp.Column(kind="boolean")}, person="id", max_rows_per_person=3)
    table = pd.DataFrame({"a": 0.0, "b": 0.0, "y": True, "id": np.arange(12_000) // 3})
    formula, budgets = "y ~ a + b + (1|person)", [0.5, 4.0]
    small, large = plan_formula(formula, schema, num_records=4000, delta=1e-6, epsilons=budgets)
    data = dp.PrivateData.from_table(table, schema=schema, budget=dp.Budget(5.0, 1e-6))
    prepared = prepare_fit(formula, data, epsilon=4.0, delta=1e-6)
    assert prepared.strategy.expected_error == pytest.approx(large.error)
    assert not large.is_refused
    assert small.is_refused
    with pytest.raises(BudgetUnreachable):
        prepare_fit(formula, data, epsilon=0.5, delta=1e-6)
    assert data.account.epsilon_spent == 0


def test_a_formula_is_planned_at_the_shell_with_what_a_ledger_has_left(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    Path("schema.toml").write_text(dp.Schema(SCHEMA).to_toml(), encoding="utf-8")
    dp.Ledger.create("sqlite:///book.db").register("trial", dp.Budget(3.0, 1e-6), "add_or_remove_one")

    def command(*options: str) -> tuple[int, str, str]:
        monkeypatch.setattr(
            sys,
            "argv",
            ["dpmcmc", "plan", "formula", "y ~ a", "--schema", "schema.toml", "--records", "9000", *options],
        )
        with pytest.raises(SystemExit) as left:
            run()
        return int(left.value.code or 0), *capsys.readouterr()

    code, out, _ = command("--family", "gaussian", "--ledger", "book.db", "--dataset", "trial", "--json")
    assert code == 0
    (one,) = json.loads(out)
    of_one = {"family": "gaussian", "num_records": 9000, "delta": 1e-6, "epsilons": [3.0]}
    (expected,) = plan_formula("y ~ a", dp.Schema(SCHEMA), adjacency="add_or_remove_one", **of_one)
    assert one == {**expected._asdict(), "is_refused": False}
    code, _, err = command("--family", "gaussian")
    assert (code, "--delta is missing" in err) == (2, True)
    code, _, err = command("--family", "gaussian", "--ledger", "book.db")
    assert (code, "--ledger and --dataset go together" in err) == (2, True)
