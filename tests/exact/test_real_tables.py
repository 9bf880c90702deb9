"""Comparisons on real tables: peers do what they say, and a method that is further off is said to be."""

import json
import sys
import tomllib
from functools import cached_property
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from jax.flatten_util import ravel_pytree

import dpmcmc as dp

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True, scope="module")
def importable():
    sys.path.insert(0, str(ROOT))
    yield
    sys.path.remove(str(ROOT))


def small_question(family: str, response: str, has_persons: bool = False, size: int = 60):
    from experiments.beyond.real_tables import Question

    rng = np.random.default_rng(3)
    rows = pd.DataFrame({"a": rng.integers(0, 10, size), "b": rng.random(size) < 0.4})
    rows["y"] = rng.random(size) < 0.3 if response == "boolean" else np.clip(rng.normal(0.3 * rows["a"], 1.0), -9, 9)
    columns = {"a": {"kind": "number", "lower": 0, "upper": 10}, "b": {"kind": "boolean"}}
    columns["y"] = {"kind": "boolean"} if response == "boolean" else {"kind": "number", "lower": -9, "upper": 9}
    stated = {"columns": columns}
    if has_persons:
        rows["person"], stated = np.arange(size) // 4, {"person": "person", "max_rows_per_person": 5, **stated}

    class Small(Question):
        @cached_property
        def schema(self):
            return dp.Schema.from_dict(stated)

        @cached_property
        def rows(self):
            return rows

    return Small("small", "y ~ a + b", family)


@pytest.mark.parametrize(
    ("family", "response", "has_persons"),
    [("bernoulli", "boolean", False), ("bernoulli", "boolean", True), ("student_t", "number", False)],
)
def test_the_sum_of_clipped_gradients_is_that_of_the_records_one_by_one(family, response, has_persons) -> None:
    from experiments.beyond.dp_gd import clipped_sum, rows_of

    question = small_question(family, response, has_persons)
    flat, nest = ravel_pytree(jax.tree.map(lambda leaf: 0.3 * jnp.ones(leaf.shape), dict(question.of_row.position)))
    each = jax.vmap(jax.grad(lambda at, record: question.model.log_likelihood(nest(at), record)), (None, 0))
    gradients = np.asarray(each(flat, jax.tree.map(jnp.asarray, question.records)))
    lengths = np.linalg.norm(gradients, axis=1)
    clip = float(np.median(lengths))
    expected = (gradients * np.minimum(1.0, clip / lengths)[:, None]).sum(axis=0)
    found = np.asarray(clipped_sum(question, flat, rows_of(question), clip))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert np.linalg.norm(gradients.sum(axis=0) - expected) > 0.1, "nothing was clipped"
    assert (len(rows_of(question).counts) < question.num_records) == (family == "bernoulli" and not has_persons)


def test_no_record_moves_the_statistics_by_more_than_their_sensitivity() -> None:
    from experiments.beyond.noisy_statistics import sensitivity

    corners = np.stack(np.meshgrid([-1.0, 0.0, 1.0], [-1.0, 0.0, 1.0], [-1.0, 0.0, 1.0]), axis=-1).reshape(-1, 3)
    rows = np.column_stack([np.ones(len(corners)), corners])
    products = np.einsum("ni,nj->nij", rows, rows)
    apart = np.linalg.norm(products[:, None] - products[None], axis=(2, 3)).max()
    assert 0.8 * sensitivity(4) < apart <= sensitivity(4) + 1e-12


@pytest.fixture(scope="module")
def released():
    """The statistics of rows that follow the model, without noise and with some, and what made them."""
    from experiments.beyond.noisy_statistics import Released

    rng = np.random.default_rng(5)
    size, truth, sigma = 4000, np.array([0.1, 0.3]), 0.1
    features = np.column_stack([np.ones(size), rng.uniform(-1, 1, size)])
    rows = np.column_stack([features, features @ truth + sigma * rng.normal(size=size)])
    sd, matrix = 40.0, rows.T @ rows

    def noisy() -> Released:
        noise = rng.normal(size=(3, 3)) * sd / np.sqrt(2.0)
        noise = np.triu(noise, 1) + np.triu(noise, 1).T + np.sqrt(2.0) * np.diag(np.diag(noise))
        noise[0, 0] = 0.0
        return Released(matrix + noise, sd, float(size))

    best = np.linalg.solve(matrix[:2, :2], matrix[:2, 2])
    widths = sigma * np.sqrt(np.diag(np.linalg.inv(matrix[:2, :2])))
    return Released(matrix, 1e-3, float(size)), [noisy() for _ in range(3)], best, widths


def draws_of(released, sd=None):
    from experiments.beyond.noisy_statistics import draws_given

    columns = {"x": {"kind": "number", "lower": -1, "upper": 1}, "y": {"kind": "number", "lower": -1, "upper": 1}}
    model = MODELS.setdefault(
        "one", dp.from_formula("y ~ x", dp.Schema.from_dict({"columns": columns}), family="gaussian")
    )
    given = released if sd is None else released._replace(sd=sd)
    return np.asarray(draws_given(model, given, 1)["coefficients"])


MODELS = {}
"""One model, so that its sampler is compiled once."""


def test_without_noise_the_posterior_of_statistics_is_that_of_the_records(released) -> None:
    exact, _, best, widths = released
    draws = draws_of(exact)
    # 600 draws and 200 effective ones at least: five standard errors, a false alarm in a million
    np.testing.assert_allclose(draws.mean(axis=0), best, atol=5 * widths.max() / np.sqrt(200))
    np.testing.assert_allclose(draws.std(axis=0), widths, rtol=0.25)


def test_the_posterior_of_noisy_statistics_knows_its_noise(released) -> None:
    _, noisy, best, _ = released
    own = [(each.mean(axis=0) - best) / each.std(axis=0) for each in map(draws_of, noisy)]
    squares = float(np.sum(np.square(own)))  # chi-square with 6 degrees
    assert squares < 28.0  # a false alarm in 1e4
    draws = draws_of(noisy[0], sd=1.0)  # who does not know it is far too sure
    assert np.max(np.abs(draws.mean(axis=0) - best) / draws.std(axis=0)) > 4 * np.max(np.abs(own[0]))


def errors(fit, peer, other=None, repeats=30):
    rng = np.random.default_rng(1)
    rows = [
        {"table": "t", "epsilon": 1.0, "method": method, "setting": setting, "repeat": place, "announced": False}
        | {"median_error": size * value, "largest_error": 2 * size * value}
        for method, setting, size in (("fit", "", fit), ("peer", "a", peer), ("peer", "b", other or 9.0))
        for place, value in enumerate(rng.gamma(4.0, 0.25, repeats))
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize(("fit", "verdict"), [(1.0, "as near"), (2.0, "further"), (0.5, "nearer")])
def test_who_is_further_off_is_said_to_be(fit, verdict) -> None:
    from experiments.beyond.verdicts import verdicts, with_hindsight

    (row,) = verdicts(with_hindsight(errors(fit, 1.0)), 0.05, 500).to_dict("records")
    assert (row["verdict"], row["setting"], row["repeats"]) == (verdict, "a", 30)
    assert row["ratio_low"] < row["ratio"] < row["ratio_high"]


def test_tests_of_one_law_are_wrong_as_often_as_they_say() -> None:
    from experiments.beyond.verdicts import further_by_chance, holm

    rng = np.random.default_rng(2)
    wrong = np.mean([further_by_chance(*rng.gamma(4.0, 1.0, (2, 30))) < 0.05 for _ in range(2000)])
    assert abs(wrong - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 2000)  # a false alarm in 1e4
    assert holm(np.array([0.04, 0.001, 0.02]), 0.05).tolist() == [True, True, True]
    assert holm(np.array([0.04, 0.001, 0.03]), 0.05).tolist() == [False, True, False]


def test_a_default_is_taken_without_looking_at_errors() -> None:
    from experiments.beyond.verdicts import with_hindsight, without_hindsight

    table = errors(1.0, 1.0, 3.0)
    assert set(with_hindsight(table)["setting"]) == {"", "a"}
    assert set(without_hindsight(table, {"peer": "b"})["setting"]) == {"", "b"}


def test_every_table_has_a_schema_that_its_formula_can_be_read_with() -> None:
    from experiments.beyond.more_tables import MORE, schema_of

    settings = tomllib.loads((ROOT / "experiments" / "beyond" / "real_data.toml").read_text())["real_data"]
    assert set(MORE) < set(settings["asked"]) == set(settings["tables"])
    assert set(settings["first_run_when_frozen"]) < set(MORE)
    for name, asked in settings["tables"].items():
        model = dp.from_formula(asked["formula"], dp.Schema.read(schema_of(name)), family=asked["family"])
        assert len(model.feature_names) > 3


def test_a_comparison_that_was_stopped_goes_on(tmp_path, monkeypatch) -> None:
    from experiments.beyond import compare, real_data
    from experiments.machinery.study import Paper, Study

    done = []

    def run(cell):
        done.append((cell["table"], cell["epsilon"], cell["repeat"]))
        return [{"setting": "", "median_error": 1.0}]

    study = Study("real_posteriors", real_data.cells, run)
    monkeypatch.setattr(real_data, "STUDY", study)
    monkeypatch.setattr(compare, "PAPER", Paper("beyond", "", tmp_path))
    whole = compare.Paper("beyond", "", ROOT / "experiments" / "beyond").configuration()
    asked = {"repeats": 2, "epsilons": [1.0], "methods": ["fit"], "tables": ["adult", "drugs"]}
    settings = compare.changed(whole, asked)
    assert compare.run([study], settings, 1, 0.0, quick=False) == 2
    assert compare.run([study], settings, 1, 1.0, quick=False) == 0
    assert sorted(done) == [("adult", 1.0, 0), ("adult", 1.0, 1), ("drugs", 1.0, 0), ("drugs", 1.0, 1)]
    assert compare.run([study], compare.changed(whole, asked | {"repeats": 3}), 1, 1.0, quick=False) == 0
    assert len(done) == 6
    assert len([json.loads(one.read_text()) for one in tmp_path.rglob("*.json")]) == 6


def test_every_way_of_a_fit_can_be_taken_away_and_is_given_back() -> None:
    from dpmcmc.fitting.strategies.weighted_scores import bounds, budget, draws, newton, release, releases, strategy
    from experiments.beyond.ablation import LONG_PILOT, WAYS, without

    def what_a_fit_calls():
        own = (strategy.best_bounds, strategy.carried, strategy.expected_misfit, strategy.WeightedScores._step)
        of_others = (draws.join_or_last, newton.Steps.pooled, release.Release.pooled, releases.weighed)
        return (*own, *of_others, budget.PROBE_SHARE, bounds.BOUNDS)

    before = what_a_fit_calls()
    for way in WAYS:
        with without(way):
            assert (what_a_fit_calls() == before) == (way in ("all of it", LONG_PILOT)), way
        assert what_a_fit_calls() == before, way
