"""A row without a response contributes nothing: value, gradient and Hessian, by rows and by persons, on every path."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import dpmcmc as dp
from dpmcmc import missing_cells
from dpmcmc.enclave import CurvatureSum, ExactGradientSum, GradientSum, PrivateData
from dpmcmc.enclave.tables import read_table
from dpmcmc.errors import InvalidArgument
from dpmcmc.model import from_formula, from_numpyro, per_person
from dpmcmc.schema import Column, Schema

WARDS = ("a", "b", "c")
COLUMNS = {
    "died": Column(kind="boolean"),
    "cost": Column(kind="number", lower=0, upper=9, missing="indicator", fill=1),
    "visits": Column(kind="integer", lower=0, upper=9, missing="fill", fill=9),
    "tries": Column(kind="integer", lower=1, upper=9),
    "stage": Column(kind="category", categories=WARDS),
    "ward": Column(kind="category", categories=WARDS, missing="category"),
    "age": Column(kind="number", lower=0, upper=90),
}
SCHEMA = Schema(COLUMNS)
PERSONS = Schema(COLUMNS, person="who", max_rows_per_person=3)
FORMULAS = {
    "gaussian": "cost ~ age + stage",
    "student_t": "cost ~ age + stage",
    "bernoulli": "died ~ age + stage",
    "binomial": "visits | trials(tries) ~ age + stage",
    "poisson": "visits ~ age + stage",
    "negative_binomial": "visits ~ age + stage",
    "categorical": "stage ~ age + died",
    "ordinal": "stage ~ age + died",
}
WHOLE = {"who": "p", "died": "yes", "cost": 3, "visits": 2, "tries": 4, "stage": "b", "ward": "b", "age": 40}


def table(rows):
    return pd.DataFrame([{**WHOLE, **row} for row in rows], dtype=object)


def records(rows, schema=SCHEMA):
    return {name: jnp.asarray(leaf) for name, leaf in read_table(table(rows), schema).records.items()}


def at(found, row):
    return {name: leaf[row] for name, leaf in found.items()}


def position(model):
    return model.sample_prior(jax.random.key(3))


@pytest.mark.parametrize("family", FORMULAS)
def test_a_row_without_a_response_contributes_nothing(family):
    model = from_formula(FORMULAS[family], SCHEMA, family=family)
    found, here = records([{}, {model.response: None}, {model.response: "?"}]), position(model)
    contribution = [jax.value_and_grad(model.log_likelihood)(here, at(found, row)) for row in range(3)]
    assert contribution[0][0] != 0
    for value, gradient in contribution[1:]:
        assert value == 0
        assert all(np.all(leaf == 0) for leaf in jax.tree.leaves(gradient))
    hessian = jax.hessian(model.log_likelihood)(here, at(found, 1))
    assert all(np.all(leaf == 0) for leaf in jax.tree.leaves(hessian))


def test_a_row_with_a_response_contributes_what_it_did():
    """The same as a record that says nothing of missing cells; missing predictors keep their policies."""
    model = from_formula("died ~ age + cost + cost_missing + ward", SCHEMA, family="bernoulli")
    found, here = records([{}, {"age": None, "cost": "?", "ward": "z"}]), position(model)
    for row in range(2):
        record = at(found, row)
        bare = {name: leaf for name, leaf in record.items() if not missing_cells.is_hidden(name)}
        assert model.log_likelihood(here, record) == model.log_likelihood(here, bare) != 0
    assert (found["age"][1], found["cost"][1], found["cost_missing"][1], found["ward"][1]) == (45, 1, 1, 3)


def test_the_number_of_trials_belongs_to_the_response():
    model = from_formula(FORMULAS["binomial"], SCHEMA, family="binomial")
    found, here = records([{}, {"tries": None}]), position(model)
    assert model.log_likelihood(here, at(found, 0)) != 0
    assert model.log_likelihood(here, at(found, 1)) == 0
    assert "A row in which visits or tries is missing contributes nothing." in model.describe()


def test_missing_stays_a_class_where_the_schema_says_so():
    model = from_formula("ward ~ age", SCHEMA, family="categorical")
    found, here = records([{}, {"ward": None}]), position(model)
    assert model.classes == (*WARDS, "(missing)")
    assert model.log_likelihood(here, at(found, 1)) != 0
    assert "contributes nothing" not in model.describe()


def test_whether_a_response_is_there():
    is_there = from_formula("died ~ age", SCHEMA, family="bernoulli").coordinates.response.is_there
    found = records([{}, {"died": None}, {"age": None}])
    assert [bool(is_there(at(found, row))) for row in range(3)] == [True, False, True]
    assert bool(is_there({"died": 0.0, "age": 3.0}))


def test_a_record_that_lost_columns_is_noticed():
    model = from_formula("died ~ age", SCHEMA, family="bernoulli")
    record = at(records([{}]), 0)
    del record["cost"]
    with pytest.raises(InvalidArgument, match=r"the record has 7 columns.*as the table has it"):
        model.log_likelihood(position(model), record)


def test_a_formula_over_some_of_the_columns_or_in_another_order_reads_the_same_bits():
    found = records([{}, {"died": None}, {"age": None}])
    some = Schema({name: COLUMNS[name] for name in ("died", "age")})
    turned = Schema(dict(reversed(COLUMNS.items())))
    models = [from_formula("died ~ age", schema, family="bernoulli") for schema in (SCHEMA, some, turned)]
    values = [[float(model.log_likelihood(position(model), at(found, row))) for row in range(3)] for model in models]
    assert values[0] == values[1] == values[2]
    assert [value == 0 for value in values[0]] == [False, True, False]


def test_many_columns_take_several_leaves():
    columns = {f"x{number:02d}": Column(kind="boolean") for number in range(60)}
    schema = Schema(columns)
    frame = pd.DataFrame({name: ["1", "0", ""] if name in ("x03", "x59") else "1" for name in columns})
    found = read_table(frame, schema).records
    hidden = {name: leaf.tolist() for name, leaf in found.items() if missing_cells.is_hidden(name)}
    assert hidden == {
        "(missing cells 1-24 of 60)": [0, 0, 8],
        "(missing cells 25-48 of 60)": [0, 0, 0],
        "(missing cells 49-60 of 60)": [0, 0, 2048],
    }
    assert {name: schema.bounds[name] for name in hidden} == {
        "(missing cells 1-24 of 60)": (0, 2**24 - 1),
        "(missing cells 25-48 of 60)": (0, 2**24 - 1),
        "(missing cells 49-60 of 60)": (0, 2**12 - 1),
    }
    model = from_formula("x59 ~ x03 + x04", schema, family="bernoulli")
    values = [float(model.log_likelihood(position(model), at(found, row))) for row in range(3)]
    assert [value == 0 for value in values] == [False, False, True]


# Persons.


def test_of_a_person_the_rows_with_a_response_count():
    rows = [{"age": 10}, {"age": 20, "died": None}, {"age": 30, "died": "0"}]
    model = from_formula("died ~ age", PERSONS, family="bernoulli")
    here, person = position(model), at(records(rows, PERSONS), 0)
    single = records([rows[0], rows[2]])
    expected = sum(model.log_likelihood(here, at(single, row)) for row in range(2))
    np.testing.assert_allclose(per_person(model).log_likelihood(here, person), expected, rtol=1e-6)
    nobody = at(records([{"died": None}] * 2, PERSONS), 0)
    value, gradient = jax.value_and_grad(per_person(model).log_likelihood)(here, nobody)
    assert value == 0
    assert all(np.all(leaf == 0) for leaf in jax.tree.leaves(gradient))


def test_rows_that_differ_in_what_is_missing_are_two_rows_in_whatever_order():
    """The stand-in of a missing cell and the same value where it was stated: other rows, with places of their own."""
    rows = [{"died": "no"}, {"died": None}, {"died": "no", "age": 45}, {"died": None, "age": None}] * 2
    one, other = (records(order, PERSONS) for order in (rows, rows[::-1]))
    for leaf, values in one.items():
        np.testing.assert_array_equal(values, other[leaf], err_msg=leaf)


# In the vault.

MANY = pd.DataFrame(
    {
        "age": np.linspace(0, 90, 400),
        "stage": np.tile(WARDS, 134)[:400],
        "died": np.where(np.arange(400) % 3 == 0, "?", np.where(np.arange(400) % 2 == 0, "yes", "no")),
        "visits": np.where(np.arange(400) % 5 == 0, "", (np.arange(400) % 7).astype(str)),
    }
)
VAULT = Schema({name: COLUMNS[name] for name in ("age", "stage", "died", "visits")})


@pytest.mark.parametrize(("family", "response"), [("bernoulli", "died"), ("poisson", "visits")])
def test_all_paths_leave_out_rows_without_a_response(family, response):
    """The exact gradient of the whole table is that of the rows with a response; the fast paths are taken."""
    model = from_formula(f"{response} ~ age + stage", VAULT, family=family)
    there = MANY[response].isin(["yes", "no"] if response == "died" else list("0123456"))
    here = position(model)

    def total(frame, **options):
        found = read_table(frame, VAULT)
        data = PrivateData.without_guarantee(found.records, bounds=found.bounds, **options)
        return data.run(lambda oracle, at: oracle.force(ExactGradientSum(), at).value, here, model=model)

    expected = total(MANY[there])
    for options in ({}, {"accelerate": False}):
        for leaf, wanted in zip(jax.tree.leaves(total(MANY, **options)), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(leaf, wanted, rtol=2e-4, atol=2e-4)

    data = PrivateData.from_table(MANY, schema=VAULT, budget=dp.Budget(9.0, 1e-6))
    assert "missing cells" not in repr(data)
    gradient, curvature = GradientSum(1.0, 10.0), CurvatureSum(1.0, 10.0)
    audit = data.audit(lambda oracle, at: oracle.force(gradient, at).value, here, model=model)
    assert audit.paths == ("linear rows",)
    audit = data.audit(lambda oracle, at: oracle.curvature(curvature, at, jnp.eye(4)).value, here, model=model)
    assert audit.paths == ("rank-one squares",)


def test_numpyro_models_pass_the_bits_over():
    import numpyro
    import numpyro.distributions as dist

    def whole(rows):
        assert not any(map(missing_cells.is_hidden, rows))
        mean = numpyro.sample("m", dist.Normal())
        with numpyro.plate("rows", len(rows["age"])):
            numpyro.sample("y", dist.Normal(mean, 1.0), obs=rows["age"])

    def named(**columns):
        return whole(columns)

    data = PrivateData.from_table(MANY, schema=VAULT, budget=dp.Budget(9.0, 1e-6))
    record = at(read_table(MANY, VAULT).records, 0)
    made = [from_numpyro(named, data), from_numpyro(whole, data, data_arguments="rows")]
    values = [float(each.log_likelihood({"m": 0.5}, record)) for each in made]
    assert values[0] == values[1]
    gradient = GradientSum(1.0, 10.0)
    data.price(lambda oracle, at: oracle.force(gradient, at).value, {"m": jnp.float32(0.5)}, model=made[0])
