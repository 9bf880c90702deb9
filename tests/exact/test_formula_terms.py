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


def test_natural_splines_are_scipys() -> None:
    found = features("cr(x, df=4)", {"x": PLACES})
    expected = CubicSpline(np.linspace(2, 12, 5), np.eye(5)[:, 1:], bc_type="natural")(PLACES)
    np.testing.assert_allclose(np.stack(list(found.values())[1:], axis=1), expected, atol=2e-6)


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
    with pytest.raises(InvalidArgument, match="could be gaussian"):
        from_formula("y ~ x", SCHEMA)
    with pytest.raises(InvalidArgument, match="Did you mean 'gamma'"):
        from_formula("y ~ x", SCHEMA, family="gama")


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("y ~ bs(x)", "df"),
        ("y ~ bs(x, df=2)", "from 3 to"),
        ("y ~ bs(x, df=grade)", "number > 0"),
        ("y ~ bs(x, knots=3)", "only df, degree"),
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
