"""Terms of several columns, dates, the dot, functions of the response: by what is stated, never by the data."""

from datetime import date

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from formulaic import model_matrix
from scipy.interpolate import CubicSpline

from dpmcmc.enclave.tables import cells
from dpmcmc.enclave.tables.columns import numbers
from dpmcmc.enclave.tables.frames import frame_of, read_frame
from dpmcmc.errors import InvalidArgument
from dpmcmc.model import FAMILIES, from_formula
from dpmcmc.model.formula.families import ALIASES
from dpmcmc.schema import Column, Schema

SCHEMA = Schema(
    {
        "y": Column(kind="number", lower=1, upper=100),
        "sick": Column(kind="boolean"),
        "stage": Column(kind="category", categories=("i", "ii", "iii")),
        "hits": Column(kind="integer", lower=0, upper=9),
        "x": Column(kind="number", lower=2, upper=12),
        "grade": Column(kind="integer", lower=1, upper=4),
        "ward": Column(kind="category", categories=("a", "b", "c")),
        "day": Column(kind="date", lower="2023-01-01", upper=date(2024, 12, 31)),
    }
)
PLACES = np.linspace(2, 12, 41).astype(np.float32)


def features(right: str, records) -> dict[str, np.ndarray]:
    """The scaled columns of a right side, by name, unscaled again as they stand in the formula."""
    model = from_formula(f"y ~ {right}", SCHEMA, family="gaussian")
    scaled = np.asarray(jax.vmap(model.features)(records), float)
    unscaled = scaled @ np.linalg.inv(model.coordinates.design.to_unscaled)
    return dict(zip(model.feature_names, unscaled.T, strict=True))


@pytest.mark.parametrize(("df", "degree"), [(3, 3), (5, 3), (7, 3), (4, 2), (2, 1)])
def test_b_splines_are_formulaics_with_even_knots(df, degree) -> None:
    found = features(f"bs(x, df={df}, degree={degree})", {"x": PLACES})
    knots = np.linspace(2, 12, df - degree + 2)[1:-1]
    stated = f"bs(x, knots={[float(knot) for knot in knots]}, degree={degree}, lower_bound=2, upper_bound=12)"
    expected = model_matrix(f"0 + {stated}", pd.DataFrame({"x": PLACES.astype(float)})).to_numpy()
    assert list(found)[1:] == [f"bs(x,df={df},degree={degree})[{place}]" for place in range(df)]
    np.testing.assert_allclose(np.stack(list(found.values())[1:], axis=1), expected, atol=2e-6)


def test_knots_may_be_stated() -> None:
    found = features("bs(x, knots=[4, 5.5], degree=2) + cr(x, knots=(3, 9))", {"x": PLACES})
    assert "bs(x,knots=(4,5.5),degree=2)[3]" in found, "brackets in a name say which column it is"
    stated = "bs(x, knots=[4.0, 5.5], degree=2, lower_bound=2, upper_bound=12)"
    expected = model_matrix(f"0 + {stated}", pd.DataFrame({"x": PLACES.astype(float)})).to_numpy()
    np.testing.assert_allclose(np.stack(list(found.values())[1:5], axis=1), expected, atol=3e-6)
    natural = CubicSpline([2, 3, 9, 12], np.eye(4)[:, 1:], bc_type="natural")(PLACES)
    np.testing.assert_allclose(np.stack(list(found.values())[5:], axis=1), natural, atol=3e-6)


def test_comparisons_are_flags() -> None:
    records = {"x": PLACES, "ward": np.arange(41, dtype=np.int32) % 3}
    found = features("I(x > 5) + I((x - 5) * (x > 5)) + I(ward != 'b') + I(ward == \"c\"):x", records)
    np.testing.assert_array_equal(found["x>5"], PLACES > 5)
    np.testing.assert_allclose(found["(x-5)*(x>5)"], np.maximum(PLACES - 5, 0), atol=2e-6)
    np.testing.assert_array_equal(found["ward!='b'"], records["ward"] != 1)
    np.testing.assert_allclose(found["ward=='c':x"], PLACES * (records["ward"] == 2), atol=2e-6)


def test_natural_splines_are_scipys() -> None:
    found = features("cr(x, df=4)", {"x": PLACES})
    expected = CubicSpline(np.linspace(2, 12, 5), np.eye(5)[:, 1:], bc_type="natural")(PLACES)
    np.testing.assert_allclose(np.stack(list(found.values())[1:], axis=1), expected, atol=2e-6)


def test_columns_may_be_called_as_words_of_python_are() -> None:
    """`pass` is a likely name of an outcome, `class` and `from` are of predictors."""
    columns = {
        "pass": Column(kind="boolean"),
        "class": Column(kind="boolean"),
        "from": Column(kind="number", lower=0, upper=4),
    }
    for right in ("class + from + class:from", "`class` * `from`", ". + class:from"):
        model = from_formula(f"pass ~ {right}", Schema(columns), family="bernoulli")
        assert model.parameter_names == ("intercept", "class", "from", "class:from")
    with pytest.raises(InvalidArgument, match="while"):
        from_formula("pass ~ while", Schema(columns), family="bernoulli")


def test_polynomials_are_legendres_and_span_powers() -> None:
    found = features("poly(x, 3)", {"x": PLACES})
    for place, name in enumerate(["poly(x,3)[0]", "poly(x,3)[1]", "poly(x,3)[2]"]):
        np.testing.assert_allclose(found[name], np.polynomial.Legendre.basis(place + 1)((PLACES - 7) / 5), atol=2e-6)


def test_the_gaussian_process_has_its_kernel() -> None:
    model = from_formula("y ~ 0 + hsgp(x, m=30, c=2, length=0.4)", SCHEMA, family="gaussian")
    rows = np.asarray(jax.vmap(model.features)({"x": PLACES}), float)
    sds = np.array([prior.arguments[1] for prior in model.coordinates.coefficients.priors])
    kernel = (rows * sds**2) @ rows.T
    apart = (PLACES[:, None] - PLACES) / 5
    np.testing.assert_allclose(kernel, 0.5**2 * np.exp(-0.5 * (apart / 0.4) ** 2), atol=2e-3)


def test_steps_add_up_to_levels() -> None:
    found = features("steps(grade)", {"grade": np.arange(1.0, 5.0, dtype=np.float32)})
    np.testing.assert_allclose(np.stack(list(found.values())[1:], axis=1), np.tri(4, 3, -1), atol=1e-6)


def test_terms_of_several_columns_interact_and_have_priors() -> None:
    model = from_formula("y ~ ward*poly(x, 2)", SCHEMA, family="gaussian", priors={"poly(x, 2)": "normal(0, 3)"})
    assert {"poly(x,2)[1]", "poly(x,2)[0]:ward[b]"} <= {":".join(sorted(n.split(":"))) for n in model.feature_names}
    assert model.priors["poly(x,2)[0]"] == "normal(0, 3)"
    assert from_formula("y ~ hsgp(x, 3)", SCHEMA, family="gaussian").priors["hsgp(x,3)[2]"] != "normal(0, 0.5)"


def test_columns_never_leave_their_bounds() -> None:
    records = {"x": np.linspace(-5, 30, 200).astype(np.float32)}
    model = from_formula("y ~ bs(x, df=6) + poly(x, 4) + hsgp(x, 5) + cr(x, df=3)", SCHEMA, family="gaussian")
    rows = np.asarray(jax.vmap(model.coordinates.row)(records))
    unclipped = jax.vmap(lambda r: jnp.concatenate([block.values(r) for block in model.coordinates.blocks]))(records)
    np.testing.assert_allclose(rows, unclipped, atol=1e-5)


def test_dates_are_days_years_months() -> None:
    days = np.array([0, 31, 364, 365, 424, 730], np.float32)
    found = features("day + year(day) + month(day) + weekday(day)", {"day": days})
    np.testing.assert_allclose(found["day"], days, atol=1e-3)
    np.testing.assert_allclose(found["year(day)"], [2023, 2023, 2023, 2024, 2024, 2024], atol=1e-3)
    np.testing.assert_allclose(found["month(day)[Feb]"], [0, 1, 0, 0, 1, 0], atol=1e-5)
    np.testing.assert_allclose(found["weekday(day)[Sun]"], [1, 0, 1, 0, 0, 0], atol=1e-5)


def test_years_and_quarters_may_be_categories() -> None:
    days = np.array([0, 120, 364, 365, 650], np.float32)
    found = features("C(year(day)) + quarter(day)", {"day": days})
    np.testing.assert_allclose(found["year(day)[2024]"], [0, 0, 0, 1, 1], atol=1e-5)
    np.testing.assert_allclose(found["quarter(day)[Q2]"], [0, 1, 0, 0, 0], atol=1e-5)
    np.testing.assert_allclose(found["quarter(day)[Q4]"], [0, 0, 1, 0, 1], atol=1e-5)
    one = Schema({**SCHEMA.columns, "day": Column(kind="date", lower="2023-02-01", upper="2023-04-01")})
    with pytest.raises(InvalidArgument, match="one year"):
        from_formula("y ~ C(year(day))", one, family="gaussian")


def test_cells_of_dates() -> None:
    reading = cells.days_since(date(2023, 1, 1))
    assert [reading(cell) for cell in ("2023-02-01", date(2024, 1, 1), pd.Timestamp("2023-01-02 23:59"))] == [
        31,
        365,
        1,
    ]
    assert all(np.isnan(reading(cell)) for cell in ("31.12.2023", "", None, 7, "2023-13-01"))


def test_cells_of_dates_in_a_stated_form() -> None:
    reading = cells.days_since(date(2023, 1, 1), "%d/%m/%Y")
    assert [reading(cell) for cell in ("01/02/2023", " 1/2/2023", date(2024, 1, 1), b"02/01/2023")] == [31, 31, 365, 1]
    assert all(np.isnan(reading(cell)) for cell in ("2023-02-01", "13/13/2023", "01/02/2023 10:00", "", None, 7))


@pytest.mark.parametrize("written_as", ["", "%d/%m/%Y", "%Y-%d-%m"])
def test_dates_among_texts_are_read_as_dates(written_as) -> None:
    """A column of Python objects becomes texts, cell by cell, whatever form its own texts have."""
    column = Column(kind="date", lower="2023-01-01", upper="2024-12-31", format=written_as)
    text = date(2023, 2, 5).strftime(written_as or "%Y-%m-%d")
    series = pd.DataFrame(
        {"day": [date(2023, 2, 5), pd.Timestamp("2023-02-05 10:00"), text, pd.NaT, None]}, dtype=object
    )
    kept = read_frame(frame_of(series), ["day"]).column("day")
    np.testing.assert_array_equal(numbers("day", kept, column), [35, 35, 35, np.nan, np.nan])


@pytest.mark.parametrize("written_as", ["%d/%m", "%Y-%j", "%d/%d/%Y", "%d/%m/%Y %Z", "day", "%d/%m/%Y%"])
def test_forms_of_dates_that_are_none_are_refused(written_as) -> None:
    with pytest.raises(InvalidArgument, match="format="):
        Column(kind="date", lower="2023-01-01", upper="2023-01-31", format=written_as)
    with pytest.raises(InvalidArgument, match="format is for kind='date'"):
        Column(kind="boolean", format="%d/%m/%Y")


def test_dates_of_a_schema() -> None:
    assert Schema.from_dict(
        {"columns": {"day": {"kind": "date", "lower": "2023-01-01", "upper": "2023-01-31"}}}
    ).columns["day"].bounds == (0.0, 30.0)
    for wrong in ({"lower": "2023-01-01"}, {"lower": "2023-02-30", "upper": "2023-03-01"}, {"lower": 3, "upper": 9}):
        with pytest.raises(InvalidArgument):
            Column(kind="date", **wrong)
    with pytest.raises(InvalidArgument, match="kind='date'"):
        from_formula("y ~ month(x)", SCHEMA, family="gaussian")


def test_the_dot_is_all_other_columns() -> None:
    model = from_formula("y ~ . - day - sick + (1|ward)", SCHEMA, family="gaussian")
    assert set(model.columns) == {"stage", "hits", "x", "grade", "ward", "y"}
    assert not any(name.startswith("ward[") for name in model.feature_names)
    with pytest.raises(InvalidArgument, match="no other column"):
        from_formula("y ~ .", Schema({"y": SCHEMA.columns["y"]}), family="gaussian")


def test_a_function_of_the_response() -> None:
    model = from_formula("log(y / 10) ~ x", SCHEMA, family="gaussian")
    plain = from_formula(
        "y ~ x",
        Schema({**SCHEMA.columns, "y": Column(kind="number", lower=np.log(0.1), upper=np.log(10))}),
        family="gaussian",
    )
    position = plain.sample_prior(jax.random.key(0))
    record = {"x": 3.0, "y": 40.0}
    assert model.log_likelihood(position, record) == pytest.approx(
        float(plain.log_likelihood(position, {"x": 3.0, "y": np.log(4.0)})), rel=1e-5
    )
    drawn = np.asarray(model.simulate(jax.random.key(1), 500).records["y"])
    assert 1 <= drawn.min() < drawn.max() <= 100
    assert "log(y/10) is normal" in model.describe()
    for wrong, why in (
        ("log(y - 5)", "log needs"),
        ("log(y*x)", "one column"),
        ("abs(y)", "undone"),
        ("I(5 - y)", "undone"),
    ):
        with pytest.raises(InvalidArgument, match=why):
            from_formula(f"{wrong} ~ grade", SCHEMA, family="gaussian")
    with pytest.raises(InvalidArgument, match="column as it is"):
        from_formula("sqrt(hits) ~ x", SCHEMA, family="poisson")


def test_families_by_other_names_and_by_the_response() -> None:
    for name, family in (("logistic", "bernoulli"), ("Normal", "gaussian"), ("negbin", "negative_binomial")):
        response = {"bernoulli": "sick", "gaussian": "y", "negative_binomial": "hits"}[family]
        assert from_formula(f"{response} ~ x", SCHEMA, family=name).family == family
    assert not set(ALIASES) & set(FAMILIES)
    for response, family in (("sick", "bernoulli"), ("stage", "categorical"), ("hits | trials(9)", "binomial")):
        assert from_formula(f"{response} ~ x", SCHEMA).family == family
    for name in ("ZeroInflatedPoisson", "zero-inflated Poisson", "zero_inflated.poisson", "zip"):
        assert from_formula("hits ~ x", SCHEMA, family=name).family == "zero_inflated_poisson"
    for name in ("hurdle_negbinomial", "HurdleNegativeBinomial"):
        assert from_formula("hits ~ x", SCHEMA, family=name).family == "hurdle_negative_binomial"
    assert from_formula("log(y + 2) ~ x", SCHEMA).family == "gaussian"
    with pytest.raises(InvalidArgument, match=r"Surv\(time, event\)"):
        from_formula("y ~ x", SCHEMA, family="cox")
    with pytest.raises(InvalidArgument, match="Families for it are bernoulli, probit"):
        from_formula("sick ~ x", SCHEMA, family="binomial")
    with pytest.raises(InvalidArgument, match="could be gaussian"):
        from_formula("y ~ x", SCHEMA)
    with pytest.raises(InvalidArgument, match="Did you mean 'gamma'"):
        from_formula("y ~ x", SCHEMA, family="gama")


def test_formulas_of_bambi_and_lme4() -> None:
    for one, other, family in (
        ("p(hits, 9) ~ x", "hits | trials(9) ~ x", None),
        ("proportion(hits, grade) ~ x", "hits | trials(grade) ~ x", "binomial"),
        ("weighted(y, x) ~ grade", "y | weights(x) ~ grade", "gaussian"),
        ("y ~ (x||ward)", "y ~ (x|ward)", "gaussian"),
    ):
        first, second = (from_formula(text, SCHEMA, family=family) for text in (one, other))
        assert first.priors == second.priors
        assert first.columns == second.columns
        assert first.coordinates.response.weights == second.coordinates.response.weights


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("y ~ bs(x, df=4, knots=[3, 4])", "df or knots"),
        ("y ~ bs(x, knots=[4, 3])", "ascending"),
        ("y ~ poly(x, 2, knots=[3])", "of poly only degree"),
        ("y ~ x > 5", r"within I\(...\)"),
        ("y ~ I(ward == 'z')", "one of 'a', 'b', 'c'"),
        ("y ~ I(ward > 'a')", "one of 'a', 'b', 'c'"),
        ("y ~ mi(x)", "missing='integrate'"),
        ("y ~ X", "Did you mean 'x'"),
        ("sick['yes'] ~ x", "the second category"),
        ("y ~ x, sigma ~ x", "behind a semicolon"),
        ("y ~ bs(x)", "df"),
        ("y ~ bs(x, df=2)", "from 3 to"),
        ("y ~ bs(x, df=grade)", "number > 0"),
        ("y ~ bs(x, knots=3)", "ascending order between 2 and 12"),
        ("y ~ bs(ward, df=4)", "category"),
        ("y ~ hsgp(x, m=5, c=0.5)", "c >= 1"),
        ("y ~ steps(x)", "integer column|at most"),
        ("y ~ s(x)", r"Write bs\(x, df=5\)"),
        ("y ~ monotonic(grade)", r"steps\(x\)"),
        ("y | weights(2) + weights(3) ~ x", "on the left"),
    ],
)
def test_what_cannot_be_read_says_why(wrong, why) -> None:
    with pytest.raises(InvalidArgument, match=why):
        from_formula(wrong, SCHEMA, family="gaussian")
