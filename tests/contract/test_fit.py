"""`fit`: what it takes, what it charges, what it refuses before any charge; and the command of the same name."""

import json
import os
import signal
import sys

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest

import dpmcmc as dp
from dpmcmc.cli.main import run
from dpmcmc.errors import BudgetExceeded, BudgetUnreachable, InvalidArgument
from dpmcmc.fitting import RECIPES, prepare_fit
from dpmcmc.fitting.score_histogram import CLIP_SCALES
from dpmcmc.run import plan

NUM_RECORDS = 4000
SCHEMA = dp.Schema(
    {
        "age": dp.Column(kind="number", lower=18, upper=90),
        "smoker": dp.Column(kind="boolean"),
        "readmitted": dp.Column(kind="boolean"),
    }
)
FORMULA = "readmitted ~ age + smoker"
SMALL = {"num_steps": 20, "allow_low_accuracy": True, "progress": False}


def table() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    age, smoker = rng.uniform(18, 90, NUM_RECORDS).round(1), rng.random(NUM_RECORDS) < 0.4
    readmitted = rng.random(NUM_RECORDS) < 1 / (1 + np.exp(0.5 - 0.03 * (age - 54) - 0.8 * smoker))
    patients = [f"p{number}" for number in rng.integers(0, NUM_RECORDS // 2, NUM_RECORDS)]
    return pd.DataFrame({"patient": patients, "age": age, "smoker": smoker, "readmitted": readmitted})


TABLE = table()


def numpyro_model(age, smoker, readmitted):
    beta = numpyro.sample("beta", dist.Normal(0.0, 2.0).expand([3]).to_event(1))
    with numpyro.plate("rows", len(age)):
        eta = beta[0] + beta[1] * (age - 54) / 36 + beta[2] * smoker
        numpyro.sample("y", dist.Bernoulli(logits=eta), obs=readmitted)


MODEL = dp.Model(
    lambda theta: -0.5 * jnp.sum(theta**2) / 4,
    lambda theta, row: jax.nn.log_sigmoid(
        (2 * row["readmitted"] - 1) * (theta[0] + theta[1] * (row["age"] - 54) / 36 + theta[2] * row["smoker"])
    ),
    sample_prior=lambda key: 2 * jax.random.normal(key, (3,)),
    position=jax.ShapeDtypeStruct((3,), jnp.float32),
)


def ledger(epsilon=4.0):
    book = dp.Ledger.in_memory()
    book.register("patients", dp.Budget(epsilon, 1e-6), "replace_one")
    return book


def vault(book=None, schema=SCHEMA):
    return dp.PrivateData.from_table(TABLE, schema=schema, ledger=book or ledger(), dataset="patients")


def kinds(book) -> list[str]:
    return [entry.kind for entry in book.history("patients")]


@pytest.mark.parametrize(
    ("model", "options", "names"),
    [
        (FORMULA, {"family": "bernoulli"}, {"intercept", "age", "smoker"}),
        (numpyro_model, {}, {"beta"}),
    ],
    ids=["formula", "numpyro"],
)
def test_models_in_one_charge(model, options, names) -> None:
    book = ledger()
    posterior = dp.fit(model, vault(book), epsilon=2.0, num_chains=3, **options, **SMALL)
    assert set(posterior.draws) == names
    assert posterior.matrix().shape == (3 * 20, 3), "independent draws need no warm-up"
    assert kinds(book) == ["register", "reserve", "settle"]
    assert book.account("patients").spent == posterior.certificate.event
    assert posterior.certificate.delta == 1e-6
    if model is FORMULA:
        assert posterior.settings["pilot"]["steps"] == 8
        assert "bounding them causes no bias" in posterior.settings["chosen"]
    else:
        assert posterior.settings["pilot"]["approach_steps"] == 6
        assert posterior.settings["pilot"]["clip_scale"] in CLIP_SCALES
        assert "private_laplace was chosen by simulation" in posterior.settings["chosen"]


LONG = ("guided_walk", "minibatch_barker", "minibatch_penalty")
TOLD = {"minibatch_penalty": ("log_alpha", "energy_change")}
"""What steps tell beside whether they moved, of samplers that release a ratio; the tests of others release a bit."""


@pytest.mark.parametrize(
    "sampler", [pytest.param(one, marks=pytest.mark.slow) if one in LONG else one for one in RECIPES]
)
def test_every_sampler_runs_and_spends_what_was_asked(sampler) -> None:
    posterior = dp.fit(MODEL, vault(), epsilon=2.0, sampler=sampler, **SMALL)
    assert np.all(np.isfinite(posterior.draws["position"]))
    assert posterior.certificate.epsilon <= 2.0 * (1 + 1e-6)
    told = {"accepted"} if posterior.num_warmup == 0 else {"accepted", "diverging", *TOLD.get(sampler, ())}
    assert set(posterior.to_arviz().sample_stats) == told, "what the steps of a chain tell, and nothing of others"
    if sampler != "minibatch_barker":  # its noise is part of the method: there is no use for all of a large budget
        assert posterior.certificate.epsilon >= 2.0 * 0.99


def test_a_prepared_fit_charges_nothing_and_knows_its_price() -> None:
    book = ledger()
    prepared = prepare_fit(FORMULA, vault(book), family="bernoulli", epsilon=2.0, num_steps=20, insecure_seed=1)
    words = prepared.describe()
    assert kinds(book) == ["register"]
    for part in (
        "family bernoulli",
        "4,000 records",
        "8 private scoring steps",
        "bounding them causes no bias",
        "epsilon = 1.999 at delta = 1e-06",
    ):
        assert part in words
    assert dp.Certificate(prepared.event, "replace_one", 1e-6).epsilon == pytest.approx(2.0, rel=1e-3)
    assert 0 < prepared.expected_error < 1
    again = prepare_fit(FORMULA, vault(book), family="bernoulli", epsilon=2.0, num_steps=20)
    assert again.event == prepared.event, "settings follow from public facts alone"
    assert again.strategy.questions.pilot == prepared.strategy.questions.pilot
    with pytest.warns(UserWarning, match=r"delta = 0\.001 is not below one over"), pytest.raises(BudgetExceeded):
        dp.fit(MODEL, vault(ledger(1.0)), epsilon=2.0, delta=1e-3, **SMALL)
    careless = prepare_fit(MODEL, vault(), epsilon=2.0, delta=1e-3, num_steps=20)
    assert "Warning: delta = 0.001 is not below one over the number of records" in careless.describe()


BOUNDS = {"age": (18, 90), "smoker": (0, 1), "readmitted": (0, 1)}


def test_a_numpyro_model_of_numbers_without_a_schema() -> None:
    rows = {name: TABLE[name].to_numpy(np.float32) for name in BOUNDS}  # half a yes has no likelihood
    data = dp.PrivateData(rows, bounds=BOUNDS, budget=dp.Budget(2.0, 1e-6))
    assert prepare_fit(numpyro_model, data, epsilon=2.0).expected_error < 1


def test_persons(tmp_path) -> None:
    schema = dp.Schema(SCHEMA.columns, person="patient", max_rows_per_person=3)
    book = ledger()
    data = vault(book, schema)
    assert data.facts.size == TABLE["patient"].nunique()
    unit = "person (patient, of whom at most 3 rows count)"
    words = prepare_fit(FORMULA, data, family="bernoulli", epsilon=4.0).describe()
    assert f"{data.facts.size:,} persons, replace-one adjacency. The unit of protection is a {unit}." in words
    posterior = dp.fit(FORMULA, data, family="bernoulli", epsilon=4.0, **SMALL)
    assert set(posterior.draws) == {"intercept", "age", "smoker"}
    assert np.abs(posterior["smoker"].mean() - 0.8) < 1.0
    assert f"if any one {unit} is replaced by another" in repr(posterior)
    saved = dp.Posterior.load(posterior.save(tmp_path / "run"))
    assert saved.certificate.unit == unit
    assert unit in saved.settings["data"]
    once = dp.Schema(SCHEMA.columns, person="patient")
    assert vault(schema=once).unit == "person (patient, of whom at most 1 row counts)"
    assert vault().unit == "record"
    with pytest.raises(InvalidArgument, match="a person has several rows"):
        dp.fit(numpyro_model, data, epsilon=1.0, **SMALL)
    assert kinds(book) == ["register", "reserve", "settle"]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"model": "age ~ smoker", "family": None}, InvalidArgument, "family=None must be stated"),
        ({"model": MODEL}, InvalidArgument, "family= and priors= are for formulas"),
        ({"model": "readmitted ~ agee"}, InvalidArgument, "agee"),
        ({"priors": {"height": "normal(0, 1)"}}, InvalidArgument, "priors has height"),
        (
            {"sampler": "dp_magic"},
            InvalidArgument,
            "sampler='dp_magic' must be one of auto, clipped_laplace, dp_barker",
        ),
        ({"epsilon": 0.0}, InvalidArgument, "epsilon=0.0 must be > 0"),
        ({"epsilon": float("nan")}, InvalidArgument, "not NaN"),
        ({"delta": 1.0}, InvalidArgument, "delta=1.0 must be strictly between"),
        ({"num_steps": 0}, InvalidArgument, "num_steps=0 must be >= 1"),
        ({"num_chains": 0}, InvalidArgument, "num_chains=0 must be >= 1"),
        ({"insecure_seed": -1}, InvalidArgument, "insecure_seed=-1 must be >= 0"),
        (
            {"epsilon": 0.05, "allow_low_accuracy": False},
            BudgetUnreachable,
            r"noise would hide what the records say. About epsilon = .* would do, or .* records; nothing",
        ),
        ({"epsilon": 5.0}, BudgetExceeded, "patients"),
    ],
)
def test_refusals_cost_nothing(options, error, message) -> None:
    book = ledger()
    arguments = {"model": FORMULA, "family": "bernoulli", "epsilon": 1.0, **SMALL, **options}
    with pytest.raises(error, match=message):
        dp.fit(arguments.pop("model"), vault(book), **arguments)
    assert kinds(book) == ["register"]


def test_data_that_cannot_be_fitted_cost_nothing() -> None:
    book = ledger()
    rows = {name: TABLE[name].to_numpy(np.float32) for name in BOUNDS}

    def without_schema(**bounds):
        return dp.PrivateData(rows, bounds=bounds, ledger=book, dataset="patients")

    with pytest.raises(InvalidArgument, match="a formula needs the columns of a table"):
        dp.fit(FORMULA, without_schema(**BOUNDS), family="bernoulli", epsilon=1.0, **SMALL)
    with pytest.raises(InvalidArgument, match="bounds of smoker are not stated"):
        dp.fit(MODEL, without_schema(age=(18, 90), readmitted=(0, 1)), epsilon=1.0, **SMALL)
    flat = dp.Model(MODEL.log_prior, lambda theta, row: 0.0 * theta[0] * row["age"], sample_prior=MODEL.sample_prior)
    with pytest.raises(InvalidArgument, match="no finite, non-zero gradient"):
        dp.fit(flat, without_schema(**BOUNDS), epsilon=1.0, **SMALL)
    assert kinds(book) == ["register"]


def test_what_a_useless_run_is_told_would_do_does() -> None:
    with pytest.raises(BudgetUnreachable, match="About epsilon = ") as refusal:
        prepare_fit(MODEL, vault(), epsilon=0.1)
    enough = float(str(refusal.value).split("About epsilon = ")[1].split(" ")[0])
    assert prepare_fit(MODEL, vault(), epsilon=1.05 * enough).expected_error <= 1
    with pytest.raises(BudgetUnreachable):
        prepare_fit(MODEL, vault(), epsilon=0.9 * enough)


def test_a_sampler_that_would_be_useless_points_to_the_one_that_would_not() -> None:
    with pytest.raises(BudgetUnreachable, match=r"with dp_hmc the posterior would be off .* sampler='auto' would make"):
        prepare_fit(MODEL, vault(), epsilon=3.0, sampler="dp_hmc")
    book = ledger()
    many = dp.Model(
        lambda theta: -0.5 * jnp.sum(theta**2),
        lambda theta, row: jax.nn.log_sigmoid((2 * row["readmitted"] - 1) * jnp.sum(theta) * row["age"]),
        sample_prior=lambda key: jax.random.normal(key, (20,)),
    )
    with pytest.raises(BudgetUnreachable, match=r"records, or \d+ parameters; nothing was spent"):
        prepare_fit(many, vault(book), epsilon=2.5)
    assert kinds(book) == ["register"]


def test_the_choice_knows_public_facts_alone() -> None:
    """Other rows, of the same number and under the same schema, lead to the same choice, start, clips and price."""
    others = TABLE.assign(age=18.0, smoker=False, readmitted=True)
    budget = dp.Budget(4.0, 1e-6)
    choices = [
        prepare_fit(MODEL, dp.PrivateData.from_table(rows, schema=SCHEMA, budget=budget), epsilon=2.0, num_steps=20)
        for rows in (TABLE, others)
    ]
    assert choices[0].strategy.choice == choices[1].strategy.choice
    assert np.array_equal(choices[0].strategy.pilot.start.centre, choices[1].strategy.pilot.start.centre)
    assert choices[0].strategy.pilot.settings == choices[1].strategy.pilot.settings
    assert choices[0].event == choices[1].event


def test_the_normal_approximation_costs_its_releases_and_no_draw() -> None:
    few, many = (
        prepare_fit(MODEL, vault(), epsilon=2.0, sampler="private_laplace", num_steps=steps, num_chains=chains)
        for steps, chains in ((10, 1), (2000, 4))
    )
    assert few.event == many.event
    pilot, noise = few.strategy.pilot, few.strategy.choice.noise.refinement
    multipliers = [pilot.reach.sums.noise_multiplier, noise]
    for phase in (pilot.approach, pilot.refine):
        multipliers += [phase.gradient.noise_multiplier, phase.curvature.noise_multiplier] * phase.num_steps
    assert few.event.gaussian_rho == pytest.approx(sum(0.5 / multiplier**2 for multiplier in multipliers))


def test_an_interrupt_keeps_what_was_paid_for(monkeypatch) -> None:
    book = ledger()

    class Pressing(plan.Plan):
        def segments(self, paid, size):
            for segment in super().segments(paid, size):
                os.kill(os.getpid(), signal.SIGINT)
                yield segment

    monkeypatch.setattr(plan, "Plan", Pressing)
    options = {"sampler": "dp_langevin", "num_steps": 40, "allow_low_accuracy": True, "progress": False}
    posterior = dp.fit(MODEL, vault(book), epsilon=2.0, **options)
    assert posterior.draws["position"].shape == (2, 2, 3)
    assert kinds(book) == ["register", "reserve", "settle"]
    assert book.account("patients").spent == posterior.certificate.event
    assert posterior.certificate.epsilon < 1.3, "the pilot and two of forty steps"


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    """Run the command in a folder with a table, a schema and a model; returns (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    TABLE.to_csv("patients.csv", index=False)
    (tmp_path / "patients.toml").write_text(SCHEMA.to_toml())
    (tmp_path / "model.py").write_text(MODEL_FILE)
    (tmp_path / "broken.py").write_text("import numpyro\nnot_there\n")

    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["dpmcmc", "fit", *words])
        with pytest.raises(SystemExit) as stopped:
            run()
        captured = capsys.readouterr()
        return stopped.value.code or 0, captured.out, captured.err

    return call


MODEL_FILE = """
import numpyro
import numpyro.distributions as dist

text = "no model"


def readmission(age, smoker, readmitted):
    level = numpyro.sample("level", dist.Normal(0.0, 2.0))
    slope = numpyro.sample("slope", dist.Normal(0.0, 2.0))
    with numpyro.plate("rows", len(age)):
        numpyro.sample("y", dist.Bernoulli(logits=level + slope * smoker), obs=readmitted)
"""
FILES = ("--data", "patients.csv", "--schema", "patients.toml", "--ledger", "sqlite:///ledger.db")
GRANT = ("--grant-epsilon", "4", "--grant-delta", "1e-6")
RUN = (*FILES, *GRANT, "--epsilon", "2", "--steps", "20")
OUTPUT = ("--output", "runs/readmission")
FAMILY = ("--family", "bernoulli")


def test_the_command_goes_from_a_table_to_a_run_folder(command, tmp_path) -> None:
    code, out, _ = command(FORMULA, *RUN, *OUTPUT, *FAMILY, "--prior", "age=normal(0, 1)")
    assert code == 0
    for part in (
        "age ~ normal(0, 1)",
        "Total cost: epsilon = 1.999 ",
        "privacy",
        "intercept",
        "1e-06)-differentially private",
    ):
        assert part in out
    assert "The run is in runs/readmission" in out
    saved = dp.Posterior.load(tmp_path / "runs" / "readmission")
    assert f"Quality: {saved.quality.verdict}." in out
    assert json.loads((tmp_path / "runs" / "readmission" / "certificate.json").read_text())["epsilon"] <= 2
    book = dp.Ledger("sqlite:///ledger.db")
    assert kinds(book) == ["register", "reserve", "settle"]
    assert book.account("patients").spent == saved.certificate.event

    code, _, err = command(FORMULA, *RUN, *OUTPUT, *FAMILY)
    assert code == 2
    assert "a saved run is not overwritten" in err
    code, out, _ = command("model.py:readmission", *FILES, "--epsilon", "3.9", "--dry-run", *OUTPUT)
    assert code == 3
    assert "does NOT fit" in out
    code, _, err = command("model.py:readmission", *FILES, "--epsilon", "3.9", "--output", "runs/second")
    assert code == 3
    assert "Nothing was charged" in err
    assert "one more run of up to about epsilon 3.3" in err
    assert not (tmp_path / "runs" / "second").exists()
    assert kinds(book) == ["register", "reserve", "settle"]


def test_a_dry_run_leaves_no_trace(command, tmp_path) -> None:
    before = sorted(tmp_path.iterdir())
    code, out, _ = command("model.py:readmission", *RUN, *OUTPUT, "--dry-run")
    assert code == 0
    assert "Total cost: epsilon = 1.999 at delta = 1e-06" in out
    assert "It fits.\nNothing was charged." in out
    assert sorted(tmp_path.iterdir()) == before
    dp.Ledger.create("sqlite:///ledger.db").register("patients", dp.Budget(4.0, 1e-6), "replace_one")
    assert command("model.py:readmission", *RUN, *OUTPUT, "--dry-run")[0] == 0
    assert kinds(dp.Ledger("sqlite:///ledger.db")) == ["register"]
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((FORMULA, *RUN, *FAMILY), "--output is missing"),
        ((FORMULA, *RUN, *FAMILY, "--output", "patients.csv/run"), "cannot be written"),
        (("age ~ smoker", *RUN, *OUTPUT), "--family must be stated"),
        ((FORMULA, *RUN, *OUTPUT, "--family", "gauss"), "--family 'gauss' must be one of"),
        (("readmitted ~ agee", *RUN, *OUTPUT, *FAMILY), "agee"),
        (("readmitted", *RUN, *OUTPUT, *FAMILY), "readmitted"),
        ((FORMULA, *RUN, *OUTPUT, *FAMILY, "--prior", "age"), "--prior 'age' must be NAME=PRIOR"),
        ((FORMULA, *RUN, *OUTPUT, *FAMILY, "--sampler", "nuts"), "--sampler 'nuts' must be one of"),
        ((FORMULA, *RUN, *OUTPUT, *FAMILY, "--chains", "0"), "--chains 0 must be >= 1"),
        ((FORMULA, *RUN, *OUTPUT, *FAMILY, "--data", "nobody.csv"), "no such file"),
        (
            (FORMULA, *RUN, *OUTPUT, *FAMILY, "--schema", "nothing.toml"),
            "--schema 'nothing.toml' cannot be read: No such file",
        ),
        ((FORMULA, *RUN, *OUTPUT, *FAMILY, "--epsilon", "0"), "--epsilon 0.0 must be > 0"),
        ((FORMULA, *RUN, *OUTPUT, *FAMILY, "--epsilon", "0.1"), "would do, or"),
        ((FORMULA, *FILES, *OUTPUT, *FAMILY, "--epsilon", "1"), "dpmcmc ledger init"),
        ((FORMULA, *RUN[:-6], *OUTPUT, *FAMILY, "--epsilon", "1"), "--grant-epsilon and --grant-delta together"),
        (("model.py", *RUN, *OUTPUT), "must say which model of the file"),
        (("models.py:readmission", *RUN, *OUTPUT), "'models.py' cannot be read: no such file"),
        (("model.py:admission", *RUN, *OUTPUT), "'model.py' has no 'admission'"),
        (("model.py:text", *RUN, *OUTPUT), "'text' in 'model.py' is a str"),
        (("broken.py:readmission", *RUN, *OUTPUT), "'broken.py' cannot be imported: NameError"),
    ],
)
def test_bad_input_is_one_line_and_costs_nothing(command, tmp_path, words, message) -> None:
    code, out, err = command(*words)
    assert code == (4 if message == "would do, or" else 2)
    assert out == ""
    assert err.startswith("dpmcmc: ")
    assert err.count("\n") == 1
    assert message in err
    if (tmp_path / "ledger.db").exists():
        assert kinds(dp.Ledger("sqlite:///ledger.db")) == ["register"]
