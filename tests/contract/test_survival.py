"""Survival formulas: what is refused before anything is charged, and what comes out."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import dpmcmc as dp
from dpmcmc.errors import InvalidArgument

COLUMNS = {
    "months": dp.Column(kind="number", lower=0, upper=60, unit="months"),
    "died": dp.Column(kind="boolean"),
    "state": dp.Column(kind="category", categories=("alive", "dead")),
    "code": dp.Column(kind="integer", lower=0, upper=1),
    "entered": dp.Column(kind="number", lower=0, upper=60),
    "age": dp.Column(kind="number", lower=20, upper=90),
    "change": dp.Column(kind="number", lower=-5, upper=5),
    "grade": dp.Column(kind="integer", lower=0, upper=3),
}
SCHEMA = dp.Schema(COLUMNS)
ROWS = {"age": [40, 70]}


def model(formula, family="weibull", **options):
    return dp.from_formula(formula, SCHEMA, family=family, **options)


@pytest.mark.parametrize(
    ("formula", "family", "words"),
    [
        ("Surv(change, died) ~ age", "weibull", "a time with lower >= 0"),
        ("Surv(months, age) ~ grade", "weibull", "the event 'age' is a number between 20 and 90"),
        ("Surv(months, grade) ~ age", "weibull", "expected a boolean, an integer from 0 to 1, or a category"),
        ("Surv(months) ~ age", "weibull", "Surv(time, event)"),
        ("Surv(months, died, age, grade) ~ age", "weibull", "Surv(entry, time, event)"),
        ("Surv(log(months), died) ~ age", "weibull", "must have"),
        ("Surv(change, months, died) ~ age", "weibull", "the entry 'change' is a number between -5 and 5"),
        ("Surv(months, dead) ~ age", "weibull", "not a column of the schema"),
        ("Surv(months, died) ~ died", "weibull", "has 'died' twice"),
        ("Surv(entered, months, died) ~ entered", "weibull", "has 'entered' twice"),
        ("Surv(months, died) ~ months", "weibull", "on both sides"),
        ("months | trunc(entered) ~ age", "weibull", "trunc(...) without an event"),
        ("Surv(months, died) ~ age", "gaussian", "must be one of weibull, exponential, lognormal"),
        ("Surv(months, died) ~ age", None, "must be one of weibull, exponential, lognormal"),
        ("Surv(months, died) ~ age", "piecewise_exponential", "has 0 cuts"),
        ("Surv(months, died) ~ age", "piecewise_exponential(12, 6)", "each larger than the one before"),
        ("Surv(months, died) ~ age", "piecewise_exponential(-1, 6)", "expected positive times"),
        ("Surv(months, died) ~ age", "piecewise_exponential(six)", "must have numbers in its brackets"),
        ("Surv(months, died) ~ age", "piecewise_exponential(12, 60, 90)", "has cuts at 60, 90; 'months' is stated"),
        ("months ~ age", "piecewise_exponential(12)", "needs a time and its event"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_charged(formula, family, words) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        model(formula, family)
    assert words in str(refusal.value)


def test_both_ways_to_write_it_are_one_model() -> None:
    record = {"months": 7.0, "died": 1.0, "entered": 2.0, "age": 50.0}
    first, second = model("Surv(entered, months, died) ~ age"), model("months | cens(died) + trunc(entered) ~ age")
    position = first.sample_prior(jax.random.key(1))
    assert first.log_likelihood(position, record) == second.log_likelihood(position, record)
    assert "died says whether the event was observed; otherwise months is censored" in first.describe()
    assert first.predictor_columns == ("age",)


def test_an_event_may_be_a_category_or_zero_and_one() -> None:
    position = model("Surv(months, died) ~ age").sample_prior(jax.random.key(1))
    record = {"months": 7.0, "died": 1.0, "state": 1, "code": 1.0, "age": 50.0}
    found = {
        float(model(f"Surv(months, {name}) ~ age").log_likelihood(position, record))
        for name in COLUMNS
        if name in ("died", "state", "code")
    }
    assert len(found) == 1


def test_a_time_outside_its_bounds_counts_as_the_bound() -> None:
    own = model("Surv(months, died) ~ age")
    position = own.sample_prior(jax.random.key(1))

    def density(months):
        return float(own.log_likelihood(position, {"months": months, "died": 1.0, "age": 50.0}))

    assert density(-3.0) == density(0.0)
    assert density(99.0) == density(60.0)
    assert np.isfinite(density(0.0))


def prior(family):
    return dp.prior_predictive("Surv(months, died) ~ age", SCHEMA, family=family)


@pytest.mark.parametrize("family", ["weibull", "exponential", "lognormal", "piecewise_exponential(6, 24)"])
def test_curves_fall_from_one(family) -> None:
    table = prior(family).predict(ROWS, kind="survival", times=[0, 6, 30, 60], prob=0.8)
    assert list(table.columns) == ["mean", "sd", "q10", "q90"]
    assert table.index.names == ["row", "months"]
    curve = table.loc[0]["mean"].to_numpy()
    assert curve[0] == pytest.approx(1.0)
    assert np.all(np.diff(curve) <= 1e-7)
    assert len(prior(family).plot_survival(ROWS).axes) == 1


@pytest.mark.parametrize("family", ["weibull", "exponential", "piecewise_exponential(6, 24)"])
def test_hazard_ratios_are_those_of_the_curves(family) -> None:
    """-log S is the cumulative hazard: that of one row over that of another is the hazard ratio, draw by draw."""
    one = prior(family)
    rows = {"age": [50.0, 60.0]}
    ratios = one.hazard_ratios(per={"age": 10})
    fitted = one.fitted
    curves = np.asarray(fitted.model.survival(fitted.draws, {"age": jnp.asarray(rows["age"])}, [30.0]), float)[:, :, 0]
    usable = (curves.min(axis=1) > 1e-4) & (curves.max(axis=1) < 0.999)
    shape = -np.asarray(fitted.draws["shape"]) if family == "weibull" else -1.0 if family == "exponential" else 1.0
    expected = np.exp(10 * shape * np.asarray(fitted.draws["age"], float))
    assert usable.sum() > 50
    found = np.log(curves[usable, 1]) / np.log(curves[usable, 0])
    np.testing.assert_allclose(found, expected[usable], rtol=2e-2)
    assert ratios["mean"].iloc[0] == pytest.approx(expected.mean(), rel=1e-5)


def test_what_has_no_hazard_ratio_or_no_curve_says_so() -> None:
    with pytest.raises(InvalidArgument, match="they change with time"):
        prior("lognormal").hazard_ratios()
    other = dp.prior_predictive("change ~ age", SCHEMA, family="gaussian")
    with pytest.raises(InvalidArgument, match="no hazard"):
        other.hazard_ratios()
    with pytest.raises(InvalidArgument, match="not a time to an event"):
        other.predict(ROWS, kind="survival")
    with pytest.raises(InvalidArgument, match="must be times from 0 to 60"):
        prior("weibull").predict(ROWS, kind="survival", times=[90])
    with pytest.raises(InvalidArgument, match="is for kind='survival'"):
        prior("weibull").predict(ROWS, times=[30])


def test_a_table_in_which_all_are_censored_is_fitted_without_an_error_that_tells() -> None:
    """Whether any event was seen is private: it shows in what the fit says of itself, not in an error."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"months": rng.uniform(-5, 70, 4000), "died": False, "age": rng.uniform(20, 90, 4000)})
    columns = {name: COLUMNS[name] for name in rows}
    data = dp.PrivateData.from_table(rows, schema=dp.Schema(columns), budget=dp.Budget(4.0, 1e-6))
    posterior = dp.fit("Surv(months, died) ~ age", data, family="weibull", epsilon=4.0, progress=False)
    assert np.isfinite(posterior["shape"]).all()
    assert posterior.quality.verdict != "good"
