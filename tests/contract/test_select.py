"""`select`: what it takes, what it charges before any run, and what it shows of them."""

import tomllib

import jax
import numpy as np
import pandas as pd
import pytest

import dpmcmc as dp
from dpmcmc.accounting import NonPrivate, Selected, compose
from dpmcmc.accounting.event import counts
from dpmcmc.accounting.parallel import contains
from dpmcmc.enclave.tables.readers import read_table
from dpmcmc.errors import BudgetUnreachable, InvalidArgument
from dpmcmc.fitting.selection import SCORE_DRAWS, Candidate, LogPredictive
from dpmcmc.run.plan import parameters
from dpmcmc.run.program import Layout

SCHEMA = dp.Schema(
    {
        "age": dp.Column(kind="number", lower=18, upper=90),
        "smoker": dp.Column(kind="boolean"),
        "readmitted": dp.Column(kind="boolean"),
    }
)
SMALL = {"family": "bernoulli", "sampler": "private_laplace", "num_steps": 20, "allow_low_accuracy": True}
CANDIDATES = {name: {"model": f"readmitted ~ {name}", **SMALL} for name in ("smoker", "age")}


def table(size: int = 3000) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    age, smoker = rng.uniform(18, 90, size).round(1), rng.random(size) < 0.4
    readmitted = rng.random(size) < 1 / (1 + np.exp(0.5 - 0.06 * (age - 54)))
    return pd.DataFrame({"age": age, "smoker": smoker, "readmitted": readmitted})


def vault(allowed: float = 4.0) -> dp.PrivateData:
    return dp.PrivateData.from_table(table(), schema=SCHEMA, budget=dp.Budget(allowed, 1e-6))


def test_everything_is_charged_once_and_one_fit_is_shown() -> None:
    data = vault()
    post = dp.select(CANDIDATES, data, epsilon=3.0, score_range=(-5, 0), mean_runs=1.0)
    chosen = post.settings["selection"]["selected"]
    assert post.settings["selection"]["candidates"] == ["smoker", "age"]
    assert set(post.draws) == {"intercept", chosen}
    assert Selected in post.certificate.event.held
    assert 2.9 < float(post.certificate.epsilon) <= 3.0
    assert data.account.spent == post.certificate.event
    assert any("only the best run was shown" in words for words in post.certificate.holds_if)
    assert f"{chosen} was selected from smoker, age" in post.settings["request"]["description"]
    assert dp.Certificate.from_json(post.certificate.to_json()) == post.certificate


@pytest.mark.parametrize(
    ("candidates", "changes", "words"),
    [
        ({"a": {"family": "bernoulli"}}, {}, "expected model"),
        ({"a": {"model": "readmitted ~ age", "epsilon": 1.0}}, {}, "has model, epsilon"),
        (CANDIDATES, {"score_range": (0, -5)}, "score_range"),
        (CANDIDATES, {"score_range": (-np.inf, 0)}, "score_range"),
        (CANDIDATES, {"mean_runs": 0.5}, "mean=0.5"),
        (CANDIDATES, {"shape": -1.0}, "shape=-1.0"),
    ],
)
def test_what_cannot_be_is_refused_before_any_charge(candidates, changes, words) -> None:
    data = vault()
    with pytest.raises(InvalidArgument, match=words):
        dp.select(candidates, data, **{"epsilon": 3.0, "score_range": (-5, 0), **changes})
    assert data.account.epsilon_spent == 0


def test_useless_and_dear_candidates_are_refused_before_any_charge() -> None:
    data = vault()
    with pytest.raises(BudgetUnreachable, match="too little"):
        dp.select({"a": {"model": "readmitted ~ age", "family": "bernoulli"}}, data, epsilon=0.2, score_range=(-5, 0))
    batches = {**SMALL, "model": "readmitted ~ age", "sampler": "dp_sgld"}  # Poisson batches have no small divergence
    with pytest.raises(BudgetUnreachable, match="Renyi divergences"):
        dp.select({"a": batches}, data, epsilon=3.0, score_range=(-5, 0))
    assert data.account.epsilon_spent == 0


def test_the_score_is_the_clipped_log_predictive_density() -> None:
    data = dp.PrivateData.without_guarantee(read_table(table(200), SCHEMA).records)
    model = dp.from_formula("readmitted ~ age", SCHEMA, family="bernoulli")
    layout = Layout.of(jax.eval_shape(model.sample_prior, jax.random.key(0)))
    positions = 6 * jax.random.normal(jax.random.key(1), (SCORE_DRAWS, 2))
    score = LogPredictive(model, layout, dp.mechanisms.Sum(0.5, 0.002), middle=-0.5)
    found = float(data.run(score, positions, model=model))
    age, readmitted = (np.asarray(table(200)[name], float) for name in ("age", "readmitted"))
    predictor = np.asarray(positions) @ np.stack([np.ones_like(age), (age - 54) / 36])
    chance = np.mean(1 / (1 + np.exp(-predictor)), axis=0)
    each = np.clip(np.log(np.where(readmitted > 0, chance, 1 - chance)), -1.0, 0.0) + 0.5
    assert np.any(each == -0.5)
    assert found == pytest.approx(each.sum(), abs=0.05)


def test_draws_are_judged_under_their_own_names() -> None:
    """A posterior has parameters in the order of its formula, programs in that of the alphabet: `age` comes first."""
    model = dp.from_formula("readmitted ~ age", SCHEMA, family="bernoulli")
    layout = Layout.of(jax.eval_shape(model.sample_prior, jax.random.key(0)))
    positions = np.random.default_rng(1).normal(size=(1, SCORE_DRAWS, 2)).astype(np.float32)
    request = {"formula": "readmitted ~ age", "family": "bernoulli", "priors": model.priors}
    request["schema"] = tomllib.loads(SCHEMA.to_toml())
    moved = np.ones((1, SCORE_DRAWS), bool)
    certificate = dp.Certificate(NonPrivate(), "replace_one", 1e-6)
    found = dp.Posterior(parameters(model, layout, positions), moved, 0, certificate, {"request": request})
    assert list(found.draws) == ["intercept", "age"]
    candidate = Candidate(None, LogPredictive(model, layout, dp.mechanisms.Sum(0.5, 0.002), middle=-0.5))
    np.testing.assert_allclose(candidate._positions(found), positions[0], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_the_better_model_wins() -> None:
    """The scores differ by many of their standard deviations; with this seed each is run once, the worse one first."""
    read = read_table(table(20_000), SCHEMA)
    data = dp.PrivateData.without_guarantee(read.records, bounds=read.bounds, schema=SCHEMA)
    post = dp.select(CANDIDATES, data, epsilon=2.0, delta=1e-6, score_range=(-5, 0), mean_runs=6.0, insecure_seed=5)
    assert post.settings["selection"]["selected"] == "age"
    assert NonPrivate in post.certificate.event.held


def test_all_candidates_are_compiled_before_anything_is_charged(monkeypatch) -> None:
    """So that neither the first run of a candidate nor which of them are drawn takes the time."""
    asked = []

    def note(data, event):
        asked.append((event, data.account.spent))

    data = vault()
    monkeypatch.setattr(dp.PrivateData, "compile_for", note)
    dp.select(CANDIDATES, data, epsilon=3.0, score_range=(-5, 0), mean_runs=1.0)
    ((event, spent),) = asked
    assert spent == compose([])
    (selected,) = (part for part in counts(data.account.spent) if isinstance(part, Selected))
    assert all(contains(event, candidate) for candidate in selected.candidates)
