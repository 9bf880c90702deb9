"""After the fit: rows that may be, what is refused, what files hold, and that objects show themselves in few lines."""

import json
import pickle
import sys
import tomllib
import warnings
from dataclasses import replace
from datetime import date
from pathlib import Path

import arviz
import jax
import numpy as np
import pandas as pd
import polars
import pyarrow
import pytest

import dpmcmc as dp
from dpmcmc.accounting import Gaussian
from dpmcmc.cli.main import run
from dpmcmc.diagnostics.table import SummaryTable
from dpmcmc.errors import InvalidArgument
from dpmcmc.fitting import prepare_fit
from dpmcmc.model import FAMILIES
from dpmcmc.posterior.structure import arrays, dataset, read_label
from dpmcmc.run.plan import prior_draws

HOSTILE = "<script>alert(1)</script>"
SCHEMA = dp.Schema(
    {
        "age": dp.Column(kind="number", lower=18, upper=90, unit="years"),
        "bmi": dp.Column(kind="number", lower=12, upper=60, missing="fill", fill=26),
        "smoker": dp.Column(kind="boolean"),
        "group": dp.Column(kind="category", categories=("(0,18]", "(18,30]", "(30,99]")),
        "ward": dp.Column(kind="category", categories=("north", HOSTILE, "west")),
        "readmitted": dp.Column(kind="boolean"),
        "cost": dp.Column(kind="number", lower=0, upper=1000),
    }
)
FORMULA = "readmitted ~ age + bmi + smoker + group + group:smoker + (1|ward)"
CERTIFICATE = dp.Certificate(Gaussian(5.0) * 3, "replace_one", 1e-6)
ROW = {"age": [40, 70], "bmi": [22, 31], "smoker": [True, False], "group": ["(0,18]", "(30,99]"], "ward": ["west"] * 2}


def posterior(
    formula: str = FORMULA, family: str = "bernoulli", seed: int = 0, schema: dp.Schema = SCHEMA
) -> dp.Posterior:
    model = dp.from_formula(formula, schema, family=family)
    prior = prior_draws(model)
    draws = {name: values[0, seed : 80 + seed].reshape(2, 40, *values.shape[2:]) for name, values in prior.items()}
    request = {"formula": formula, "family": family, "priors": model.priors, "schema": tomllib.loads(schema.to_toml())}
    return dp.Posterior(draws, np.ones((2, 40), bool), 0, CERTIFICATE, {"request": request}, prior)


def test_numbers_need_no_decimal_comma_where_the_texts_of_a_table_have_one(made) -> None:
    german = posterior(schema=replace(SCHEMA, decimal=","))
    expected = made.effects("age", at={"bmi": 22.5})
    pd.testing.assert_frame_equal(german.effects("age", at={"bmi": 22.5}), expected)
    assert "bmi 22.5" in expected.title


@pytest.fixture(scope="module")
def made() -> dp.Posterior:
    return posterior()


@pytest.fixture(scope="module")
def folder(made, tmp_path_factory):
    return made.save(tmp_path_factory.mktemp("runs") / "run")


def test_rows_may_come_in_any_form(made, tmp_path) -> None:
    frame = pd.DataFrame(ROW)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.to_parquet(tmp_path / "rows.parquet")
    first = made.predict(ROW)
    others = [
        frame,
        frame.astype({"group": "category", "age": "string"}).assign(more=1),
        polars.from_pandas(frame),
        pyarrow.Table.from_pandas(frame),
        frame.to_dict("records"),
        tmp_path / "rows.csv",
        str(tmp_path / "rows.parquet"),
    ]
    for rows in others:
        np.testing.assert_allclose(made.predict(rows), first, rtol=1e-12)
    alone = {name: values[0] for name, values in ROW.items()}
    np.testing.assert_allclose(made.predict(alone), first.iloc[:1], rtol=1e-12)
    np.testing.assert_allclose(made.predict(frame.iloc[0]), first.iloc[:1], rtol=1e-12)
    assert list(made.predict(frame.set_index(pd.Index(["anna", "bert"]))).index) == ["anna", "bert"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"group": ["(0,18]", "(18,31]"]}, r"'\(18,31\]' \(row 1\) for 'group'; expected one of \(0,18\], \(18,30\]"),
        ({"smoker": ["yes", "perhaps"]}, r"'perhaps' \(row 1\) for 'smoker'; expected true, yes"),
        ({"age": ["old", 50]}, r"'old' \(row 0\) for 'age'; expected a number"),
        ({"age": [None, 50]}, "no 'age' in row 0; the schema says nothing of missing values"),
        ({"age": []}, "cannot be read"),
    ],
)
def test_cells_that_are_refused(made, change, said) -> None:
    with pytest.raises(InvalidArgument, match=said):
        made.predict({**ROW, **change})


def test_a_file_with_another_delimiter_says_so(made, tmp_path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("age;smoker\n40;yes\n")
    with pytest.raises(InvalidArgument, match=r"They have .*;.*\. Fields are separated by ',', as in the schema"):
        made.predict(file)


def test_rows_that_are_refused(made) -> None:
    with pytest.raises(InvalidArgument, match=r"no column bmi, ward; the formula needs it\. They have age, smoker"):
        made.predict({name: ROW[name] for name in ("age", "smoker", "group")})
    with pytest.raises(InvalidArgument, match="there are no rows"):
        made.predict(pd.DataFrame(ROW).iloc[:0])
    with pytest.raises(InvalidArgument, match="the rows are a int; expected a mapping"):
        made.predict(3)
    with pytest.raises(InvalidArgument, match="no such file"):
        made.predict("nowhere.csv")


def test_what_is_outside_counts_as_the_bound_and_is_said(made) -> None:
    with pytest.warns(UserWarning, match="1 of 2 rows have 'age' outside 18 to 90") as caught:
        outside = made.predict({**ROW, "age": [40, 170]})
    assert caught[0].filename == __file__, "where it was asked, not in the depths"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(outside, made.predict({**ROW, "age": [40, 90]}))
        blank = made.predict({**ROW, "bmi": [22, None]})
        np.testing.assert_array_equal(blank, made.predict({**ROW, "bmi": [22, 26]}))


def test_simulated_tables_are_as_people_write_them(made) -> None:
    table = made.simulate(ROW, seed=3)
    assert list(table.columns) == ["age", "bmi", "smoker", "group", "ward", "readmitted"]
    assert table["readmitted"].dtype == bool
    assert table["group"].tolist() == ROW["group"]
    several = made.simulate(ROW, 5, seed=3)
    assert several["draw"].nunique() == 5
    assert len(several) == 10
    pd.testing.assert_frame_equal(made.simulate(ROW, 5, seed=3), several)
    with pytest.raises(InvalidArgument, match="must be at most 80"):
        made.simulate(ROW, 81)
    wards = posterior("ward ~ age", "categorical").simulate({"age": [30.0] * 50}, seed=1)
    assert set(wards["ward"]) <= set(SCHEMA.columns["ward"].categories)


def test_large_tables_are_predicted_in_parts(made, monkeypatch) -> None:
    rows = pd.concat([pd.DataFrame(ROW)] * 40, ignore_index=True)
    whole = made.predict(rows)
    monkeypatch.setattr("dpmcmc.posterior.fitted.MOST_NUMBERS", 7 * 80 * 2)
    np.testing.assert_allclose(made.predict(rows), whole, rtol=1e-6)


def test_columns_that_a_formula_does_not_have(made) -> None:
    with pytest.raises(InvalidArgument, match="no predictor 'cost'; it has age, bmi, smoker, group, ward"):
        made.effects("cost")
    with pytest.raises(InvalidArgument, match="no predictor agee"):
        made.contrast("age", 40, 70, at={"agee": 3})
    with pytest.raises(InvalidArgument, match="at= fixes age, which is varied"):
        made.effects("age", at={"age": 3})
    with pytest.raises(
        InvalidArgument, match=r"per= names ward; expected some of age, bmi, smoker, group\[\(18,30\]\]"
    ):
        made.odds_ratios(per={"ward": 2})
    with pytest.raises(InvalidArgument, match="family='gaussian' has no ratios"):
        posterior("cost ~ age", "gaussian").odds_ratios()
    with pytest.raises(InvalidArgument, match="exponentiate=True means nothing"):
        posterior("cost ~ age", "gaussian").summary(exponentiate=True)


def test_posteriors_without_a_formula_say_so() -> None:
    bare = dp.Posterior({"theta": np.zeros((1, 10))}, np.ones((1, 10), bool), 0, CERTIFICATE, {})
    with pytest.raises(InvalidArgument, match="not fitted by `fit` from a formula"):
        bare.predict({"age": 3})
    assert bare.plot_forest() is not None


def test_a_formula_that_is_not_understood_loses_no_draws(made) -> None:
    request = {**made.settings["request"], "family": "of the future"}
    later = dp.Posterior(made.draws, made.is_accepted, 0, CERTIFICATE, {"request": request})
    np.testing.assert_array_equal(later["age"], made["age"])
    assert set(later.datasets["posterior"]) == set(made.datasets["posterior"])
    with pytest.raises(InvalidArgument, match="of the future"):
        later.predict(ROW)


def test_summaries_can_be_asked_for_parts(made) -> None:
    assert list(made.summary(var_names="group").index) == ["group[(18,30]]", "group[(30,99]]"]
    table = made.summary(prob=0.95, var_names=["age", "1|ward"])
    assert list(table.index) == ["age", "1|ward[north]", f"1|ward[{HOSTILE.replace('/', '∕')}]", "1|ward[west]"]
    assert list(table.columns[:4]) == ["mean", "sd", "q2.5", "q97.5"]
    with pytest.raises(InvalidArgument, match="var_names has wards; there are intercept, age"):
        made.summary(var_names=["wards"])


def test_parameters_may_be_called_as_the_formula_writes_them() -> None:
    made = posterior("readmitted ~ age + I(age ** 2) + group:I(age ** 2) + I((age - 50) * (age > 50))")
    for called in ("I(age ** 2)", "I(age**2)", "age ** 2", "age**2"):
        assert list(made.summary(var_names=called).index) == ["age**2"]
        np.testing.assert_array_equal(made[called], made["age**2"])
        assert "age**2 (per 10)" in made.odds_ratios(per={called: 10}).index
    assert list(made.summary(var_names=["I((age - 50) * (age > 50))"]).index) == ["(age-50)*(age>50)"]
    of_levels = list(made.summary(var_names=["group:I(age ** 2)"]).index)
    assert of_levels == [f"group[{level}]:age**2" for level in ("(18,30]", "(30,99]")]
    with pytest.raises(InvalidArgument, match=r"var_names has I\(age \*\* 3\)"):
        made.summary(var_names=["I(age ** 3)"])


def test_tables_print_within_80_characters_and_keep_their_digits() -> None:
    names = [f"diagnosis[C{number}]" for number in range(22)]
    rng = np.random.default_rng(1)
    table = SummaryTable(
        {
            "mean": rng.normal(size=22),
            "sd": 0.00123,
            "q5": -rng.random(22),
            "q95": rng.random(22),
            "data": 0.25,
            "privacy": 0.5,
            "prior": 0.25,
            "verdict": "good",
        },
        index=names,
    )
    lines = str(table).splitlines()
    assert len(lines) == 23
    assert max(map(len, lines)) <= 80
    assert "..." not in str(table)
    assert f"{table['mean'].iloc[3]:.4f}" in lines[4], "two digits of the standard deviation"
    assert type(table[["mean"]]) is SummaryTable
    assert "50%" in table._repr_html_()
    long = SummaryTable({"mean": np.arange(500.0)})
    assert str(long).splitlines()[-1] == "... and 440 more"


def test_two_posteriors_side_by_side(made) -> None:
    other = posterior("readmitted ~ age + smoker", seed=100)
    table = made.compare(other)
    assert list(table.index) == ["intercept", "age", "smoker"]
    np.testing.assert_allclose(table["difference"], table["first"] - table["second"], atol=1e-6)
    first, second = (each["age"].astype(float).var(ddof=1) for each in (made, other))
    np.testing.assert_allclose(table.loc["age", "sd"], np.sqrt(first + second), rtol=0.25)
    same = made.compare(made)
    assert (same["sd"] > 0.5 * made.summary()["sd"]).all(), "not the draws of one subtracted from themselves"
    rows = made.compare(other, rows=ROW)
    np.testing.assert_allclose(rows["first"], made.predict(ROW)["mean"], rtol=1e-5)
    with pytest.raises(InvalidArgument, match="expected the same response"):
        made.compare(posterior("cost ~ age", "gaussian"))


# Files


def test_levels_are_coordinates(made) -> None:
    tree = made.to_arviz()
    own = tree["posterior"]
    assert own["group"].dims == ("chain", "draw", "group_dim")
    assert own["group_dim"].to_numpy().tolist() == ["(18,30]", "(30,99]"]
    assert own["1|ward"].dims[2] == "ward__factor_dim"
    assert own["group:smoker"].sizes["group:smoker_dim"] == 2
    np.testing.assert_array_equal(own["group"].sel(group_dim="(30,99]"), made["group[(30,99]]"])
    found = arviz.summary(tree, var_names=["group", "age"], kind="stats")
    assert list(found.index) == ["group[(18,30]]", "group[(30,99]]", "age"]
    np.testing.assert_allclose(found["mean"], made.summary().loc[found.index, "mean"], atol=6e-4)
    classes = posterior("ward ~ age + group", "categorical").to_arviz()["posterior"]
    assert classes["group"].dims == ("chain", "draw", "group_dim", "ward_dim")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("age", ("", "age", "")),
        ("ward[b]", ("", "ward", "b")),
        ("ward[b]:sex[m]", ("", "ward:sex", "b, m")),
        ("age:ward[b]", ("", "age:ward", "b")),
        ("ward[b]:age", ("", "ward:age", "b")),
        ("group[(18,30]]", ("", "group", "(18,30]")),
        ("ii: ward[b]", ("ii", "ward", "b")),
        ("1|ward[b]", ("", "1|ward", "b")),
    ],
)
def test_names_are_taken_apart(name, expected) -> None:
    assert tuple(read_label(name, ("i", "ii"))) == expected


def test_a_class_with_a_slash_is_one_of_the_classes() -> None:
    """Names of parameters have another sign for it, which had made it a variable of its own."""
    values = {name: np.zeros((2, 5)) for name in ("and∕or: age", "none: age", "and∕or: ward[b]", "none: ward[b]")}
    group = dataset(values, slice(None), ("and/or", "none"), "y")
    assert set(group.data_vars) == {"age", "ward"}
    assert group["y_dim"].values.tolist() == ["and/or", "none"]
    assert set(arrays(group)) == set(values)


def test_levels_with_a_slash_are_found_as_the_schema_has_them() -> None:
    values = {name: np.zeros((2, 5)) for name in ("h[and∕or]", "h[none]", "g[a/b]", "g[a∕b]")}
    group = dataset(values, slice(None))
    assert group["h"].sel(h_dim="and/or").shape == (2, 5)
    assert group["g_dim"].values.tolist() == ["a/b", "a∕b"], "two levels stay two"
    assert set(arrays(group)) == set(values)


def test_what_does_not_make_a_whole_table_stays_as_it_is() -> None:
    values = {name: np.random.default_rng(0).normal(size=(2, 5)) for name in ("a[x]", "a", "i: b", "b", "c[1]", "c[2]")}
    values["theta"] = np.zeros((2, 5, 3))
    group = dataset(values, slice(None), ("i",), "y")
    assert set(group.data_vars) == {"a[x]", "a", "i: b", "b", "c", "theta"}
    back = arrays(group)
    assert set(back) == set(values)
    assert all(np.array_equal(back[name], values[name]) for name in values)


def test_a_loaded_posterior_can_do_the_same(made, folder) -> None:
    again = dp.Posterior.load(folder)
    assert list(again.draws) == list(made.draws)
    assert all(np.array_equal(again.draws[name], made.draws[name]) for name in made.draws)
    assert all(np.array_equal(again.prior[name], made.prior[name]) for name in made.draws)
    pd.testing.assert_frame_equal(again.predict(ROW), made.predict(ROW))
    pd.testing.assert_frame_equal(again.contrast("smoker", True, False), made.contrast("smoker", True, False))
    pd.testing.assert_frame_equal(again.effects("group", by="smoker"), made.effects("group", by="smoker"))
    pd.testing.assert_frame_equal(again.summary(exponentiate=True), made.summary(exponentiate=True))
    read = arviz.from_netcdf(folder / "draws.nc")
    np.testing.assert_array_equal(read["posterior"]["group"][..., 0], made["group[(18,30]]"])


def test_a_posterior_can_be_pickled(made) -> None:
    """To other processes and into scikit-learn's pipelines; its model is built again."""
    made.predict(ROW)
    again = pickle.loads(pickle.dumps(made))  # noqa: S301
    assert all(np.array_equal(again.draws[name], made.draws[name]) for name in made.draws)
    assert again.certificate == made.certificate
    pd.testing.assert_frame_equal(again.predict(ROW), made.predict(ROW))


def test_other_languages_read_the_draws(made, folder) -> None:
    for table in (pd.read_parquet(folder / "draws.parquet"), pd.read_csv(folder / "draws.csv")):
        assert list(table.columns) == [".chain", ".iteration", ".draw", *made.draws]
        assert table[".draw"].tolist() == list(range(1, 81))
        assert table[".chain"].tolist() == [1] * 40 + [2] * 40
        assert table[".iteration"].tolist() == [*range(1, 41)] * 2
        np.testing.assert_array_equal(table["age"].astype(np.float32), made["age"].reshape(-1))
    table = pd.read_csv(folder / "summary.csv", index_col="parameter")
    np.testing.assert_allclose(table["mean"], made.summary()["mean"], rtol=1e-12)


@pytest.mark.filterwarnings("ignore:Passing a dict or None as alias_mapping")  # ArviZ, of the newest matplotlib
@pytest.mark.filterwarnings("ignore:Your data appears to have a single value")  # a wide prior is all at its bounds
def test_predictive_groups(made) -> None:
    tree = made.to_arviz({**ROW, "readmitted": [True, False]}, seed=2)
    assert tree["posterior_predictive"]["readmitted"].shape == (2, 40, 2)
    assert tree["observed_data"]["readmitted"].to_numpy().tolist() == [1.0, 0.0]
    assert tree["constant_data"]["age"].to_numpy().tolist() == [40.0, 70.0]
    assert "readmitted" not in tree["constant_data"]
    assert "observed_data" not in list(made.to_arviz(ROW))
    costs = {"age": np.linspace(20, 80, 30), "cost": np.linspace(100, 900, 30)}
    shown = posterior("cost ~ age", "gaussian").to_arviz(costs, seed=1)
    assert arviz.plot_ppc(shown, num_pp_samples=5, kind="cumulative") is not None  # no densities: all may be at a bound


def test_predicting_at_the_shell(made, folder, tmp_path, monkeypatch, capsys) -> None:
    rows = tmp_path / "rows.csv"
    pd.DataFrame(ROW).to_csv(rows, index=False)

    def call(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["dpmcmc", "predict", str(folder), "--data", str(rows), *arguments])
        with pytest.raises(SystemExit) as ended:
            run()
        assert not ended.value.code
        return capsys.readouterr().out

    assert call("--prob", "0.5").splitlines()[1].split() == ["mean", "sd", "q25", "q75"]
    call("--kind", "response", "--output", str(tmp_path / "found.csv"))
    found = pd.read_csv(tmp_path / "found.csv")
    np.testing.assert_allclose(found["P(True)"], made.predict(ROW, "response")["P(True)"], rtol=1e-6)


# What is shown


LATER = dp.Schema(
    {
        **SCHEMA.columns,
        "cost": dp.Column(kind="number", lower=1, upper=1000),
        "day": dp.Column(kind="date", lower="2023-01-01", upper="2023-12-31", format="%d/%m/%Y"),
        "w": dp.Column(kind="number", lower=0.1, upper=5),
    }
)


def test_dates_are_shown_and_stated_as_days() -> None:
    drawn = dp.prior_predictive("cost ~ age + day + month(day)", LATER, family="gamma", num_draws=20, seed=1)
    table = drawn.effects("day")
    assert table["day"].iloc[[0, -1]].tolist() == [date(2023, 1, 1), date(2023, 12, 31)]
    assert "day 2023-07-02" in drawn.effects("age").title
    stated = drawn.effects("age", values=[40], at={"day": "05/02/2023"})
    np.testing.assert_allclose(stated["mean"], drawn.predict({"age": 40, "day": date(2023, 2, 5)})["mean"])
    mixed = drawn.predict({"age": [40, 40], "day": ["05/02/2023", pd.Timestamp("2023-02-05 10:00")]})
    np.testing.assert_allclose(mixed["mean"].iloc[0], mixed["mean"].iloc[1])
    assert len(drawn.plot_effects("day").axes[0].lines) == 1
    with pytest.raises(InvalidArgument, match=r"'2023' \(row 0\) for 'day'; expected a day, as in %d/%m/%Y"):
        drawn.predict({"age": 40, "day": 2023})
    with pytest.warns(UserWarning, match="outside 2023-01-01 to 2023-12-31"):
        drawn.predict({"age": 40, "day": "01/01/2030"})


def test_rows_to_predict_need_no_weights() -> None:
    drawn = dp.prior_predictive("cost | weights(w) ~ age", LATER, family="gamma", num_draws=20, seed=1)
    assert drawn.predict({"age": [30, 40]}).shape == (2, 4)
    assert "w" not in drawn.effects("age").title
    _, records = drawn.fitted.model.simulate(jax.random.key(0), 5)
    assert set(records) == {"age", "w", "cost"}, "a record has its weight"


def test_rows_are_returned_as_they_came() -> None:
    """A list with dates of several kinds had come back cut off, as text of the first one's length."""
    drawn = dp.prior_predictive("cost ~ age + day", LATER, family="gamma", num_draws=20, seed=1)
    rows = [{"age": 30, "day": "5/5/2023"}, {"age": 40, "day": pd.Timestamp("2023-05-06")}]
    table = drawn.simulate(rows, seed=1)
    assert table["day"].tolist() == ["5/5/2023", pd.Timestamp("2023-05-06")]
    assert table["age"].tolist() == [30, 40]


@pytest.mark.parametrize(
    ("formula", "family", "ratios"),
    [
        ("cost ~ age", "gamma", "Ratios of means of cost"),
        ("cost ~ age", "lognormal", "Ratios of medians of cost"),
        ("log(cost) ~ age", "gaussian", "Ratios of medians of cost"),
        ("log(cost / 100) ~ age", "gaussian", "Ratios of medians of cost"),
        ("readmitted ~ age", "bernoulli", "Odds ratios of readmitted"),
    ],
)
def test_ratios_are_those_of_the_link(formula, family, ratios) -> None:
    drawn = dp.prior_predictive(formula, LATER, family=family, num_draws=20, seed=1)
    table = drawn.odds_ratios(per={"age": 10})
    assert table.title == ratios
    np.testing.assert_allclose(table["mean"], np.mean(np.exp(10.0 * drawn.draws["age"].astype(float))), rtol=1e-6)
    one = drawn.fitted.model.link.ratio
    np.testing.assert_allclose(drawn.contrast("age", 50, 40).loc[one, "mean"], table["mean"].iloc[0], rtol=1e-3)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_says_what_its_predictor_is(family) -> None:
    """In words that agree with its link: a logarithm or log-odds has ratios, an identity has none."""
    words, link = FAMILIES[family].words, FAMILIES[family].link
    named = {"log": "the log of ", "logit": "odds", "probit": "probit", "identity": "around the predictor"}[link.name]
    assert named in words or link.name == "logit" or "logarithm is normal" in words
    assert bool(link.ratio) == (link.name in {"log", "logit"})


def test_the_title_names_the_function_of_the_response() -> None:
    drawn = dp.prior_predictive("log(cost) ~ age", LATER, family="gaussian", num_draws=20, seed=1)
    assert drawn.predict({"age": 40}).title.startswith("Expected log(cost)")
    assert drawn.predict({"age": 40}, "response").title.startswith("New cost")


def test_cutpoints_have_coordinates() -> None:
    own = posterior("group ~ age", "ordinal").to_arviz()["posterior"]
    assert own["cutpoints"].dims == ("chain", "draw", "cutpoints_dim")
    assert own["cutpoints_dim"].to_numpy().tolist() == ["below (18,30]", "below (30,99]"]


def test_everything_shows_itself_in_five_lines(made, folder) -> None:
    book = dp.Ledger.in_memory()
    book.register("patients", dp.Budget(4.0, 1e-6), "replace_one")
    rows = pd.DataFrame(ROW).assign(readmitted=[True, False], cost=[1.0, 2.0])
    data = dp.PrivateData.from_table(pd.concat([rows] * 3000), schema=SCHEMA, ledger=book, dataset="patients")
    prepared = prepare_fit("readmitted ~ age", data, family="bernoulli", epsilon=2.0, allow_low_accuracy=True)
    shown = [made, made.certificate, data, prepared, made.model, data.account, dp.Posterior.load(folder), made.quality]
    for each in shown:
        assert len(repr(each).splitlines()) <= 5, repr(each)
        html = each._repr_html_()
        assert html.startswith("<div>")
        assert HOSTILE not in html
    assert "readmitted ~ age" in repr(made)
    assert made.certificate.claim in repr(made)
    assert "5 releases" not in repr(made.certificate)
    assert "3 releases" in repr(made.certificate)
    assert "epsilon 4 at delta 1e-06" in repr(data.account)


def test_pictures(made) -> None:
    forest = made.plot_forest(exponentiate=True)
    (ax,) = forest.axes
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels == [name for name in made.draws if "|" not in name and name != "intercept"], "the first on top"
    assert ax.get_xscale() == "log"
    figure = made.plot_effects(by="smoker")
    assert [ax.get_xlabel() for ax in figure.axes] == ["age (years)", "bmi", "group", "ward"]
    assert len(figure.axes[0].lines) == 2
    assert len(posterior("ward ~ age", "categorical").plot_effects("age").axes[0].lines) == 3
    with pytest.raises(InvalidArgument, match="from 1 to 8"):
        posterior("cost ~ 1", "gaussian").plot_effects()


def test_prior_predictive_in_one_call() -> None:
    made = dp.prior_predictive("cost ~ age + (1|ward)", SCHEMA, family="gaussian", num_draws=50, seed=1)
    assert made.responses.shape == (50, 200)
    assert (made.responses >= 0).all()
    assert (made.responses <= 1000).all()
    assert "lowest" in repr(made)
    assert made.predict({"age": 30, "ward": "west"}).shape == (1, 4)
    again = dp.prior_predictive("cost ~ age + (1|ward)", SCHEMA, family="gaussian", num_draws=50, seed=1)
    np.testing.assert_array_equal(again.responses, made.responses)
    classes = dp.prior_predictive("ward ~ age", SCHEMA, family="categorical", num_draws=50, rows={"age": [30, 40]})
    assert classes.responses.shape == (50, 2)
    np.testing.assert_allclose(classes.statistics["mean"].sum(), 1.0)
    assert made.plot().axes
    assert classes.plot().axes


@pytest.mark.parametrize(
    ("formula", "priors", "said"),
    [
        ("cost ~ age*smoker", {"smoker": "normal(0, 1) original"}, "which depends on age:smoker as well"),
        ("cost ~ age", {"intercept": "normal(0, 1) original"}, "which depends on age as well"),
        ("cost ~ 0 + ward", {"ward": "normal(0, 1) original"}, "which depends on the bounds as well"),
        ("cost ~ age", {"age": "normal(0, 1) per decade"}, "per 'decade', and its unit is 'years'; write 'per unit'"),
        ("cost ~ bmi", {"bmi": "normal(0, 1) per kg"}, "the schema states no unit of it"),
        ("cost ~ bmi", {"bmi": "normal(0) per unit"}, r"must have the numbers normal\(mean, sd\)"),
        ("cost ~ bmi", {"bmi": "normal(0, 1) per 0 units"}, "must be > 0"),
    ],
)
def test_priors_that_cannot_be_stated_so(formula, priors, said) -> None:
    with pytest.raises(InvalidArgument, match=said):
        dp.from_formula(formula, SCHEMA, family="gaussian", priors=priors)


def test_old_runs_are_read_as_ever() -> None:
    """A run of version 0.1 has one variable for each number."""
    old = Path(__file__).parent / "old" / "run-0.1"
    with pytest.warns(UserWarning, match="version 0.1"):
        loaded = dp.Posterior.load(old)
    assert loaded.summary().shape[0] >= 1
    assert json.loads((old / "certificate.json").read_text())["delta"] == loaded.certificate.delta
