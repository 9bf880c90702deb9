"""Estimators: scikit-learn can use them, what they predict is a mean over draws, and every fit is charged."""

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import dpmcmc as dp
from dpmcmc import estimators
from dpmcmc.errors import BudgetExceeded, InvalidArgument

NUM_ROWS = 4000
RNG = np.random.default_rng(11)
X = RNG.uniform(-1, 1, (NUM_ROWS, 2))
LINE = 1.0 + 2.0 * X[:, 0] - X[:, 1]
Y = LINE + 0.5 * RNG.normal(size=NUM_ROWS)
LABELS = np.where(RNG.random(NUM_ROWS) < 1 / (1 + np.exp(-2 * LINE + 2)), "ill", "well")
BOUNDS = ((-1, 1), (-1, 1))
FEW = {"num_steps": 40, "allow_low_accuracy": True}


def book(epsilon=8.0):
    ledger = dp.Ledger.in_memory()
    ledger.register("patients", dp.Budget(epsilon, 1e-6), "replace_one")
    return ledger


def regressor(**changes):
    stated = {"bounds": BOUNDS, "target_bounds": (-4, 6), "epsilon": 4.0, "dataset": "patients", **FEW}
    return dp.PrivateBayesRegressor(**{**stated, "ledger": book(), **changes})


def classifier(**changes):
    stated = {"bounds": BOUNDS, "classes": ("well", "ill"), "epsilon": 4.0, "dataset": "patients", **FEW}
    return dp.PrivateBayesClassifier(**{**stated, "ledger": book(), **changes})


def charges(ledger) -> int:
    return sum(entry.kind == "reserve" for entry in ledger.history("patients"))


@pytest.mark.slow
def test_a_regressor_predicts_the_mean_over_draws(monkeypatch) -> None:
    model = regressor()
    assert is_regressor(model)
    assert model.fit(X, Y) is model
    predicted = model.predict(X[:50])
    draws = model.posterior_
    by_hand = draws["intercept"][..., None] + sum(draws[f"x{at}"][..., None] * X[:50, at] for at in (0, 1))
    np.testing.assert_allclose(predicted, by_hand.mean(axis=(0, 1)), rtol=1e-4, atol=1e-4)
    assert model.score(X, LINE) > 0.9
    assert model.n_features_in_ == 2
    assert charges(model.ledger) == 1
    assert draws.certificate.epsilon <= 4.0
    monkeypatch.setattr(estimators, "MOST_NUMBERS", 7 * draws.is_accepted.size)
    np.testing.assert_allclose(model.predict(X[:50]), predicted, rtol=1e-6)
    with pytest.raises(NotFittedError):
        clone(model).predict(X)
    model.ledger = None  # a book in memory cannot travel
    again = pickle.loads(pickle.dumps(model))  # noqa: S301
    np.testing.assert_array_equal(again.predict(X[:5]), model.predict(X[:5]))
    beyond = np.array([[50.0, -1.0], [1.0, -50.0], [1.0, -1.0]])
    assert len(set(model.predict(beyond).tolist())) == 1


def test_a_classifier_in_a_pipeline() -> None:
    classes, y = (False, True), LABELS == "ill"
    inner = classifier(classes=classes)
    pipeline = make_pipeline(FunctionTransformer(lambda rows: rows * 1.0), inner)
    assert is_classifier(pipeline)
    pipeline.fit(X, y)
    probabilities = pipeline.predict_proba(X)
    assert probabilities.shape == (NUM_ROWS, 2)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    draws = inner.posterior_
    eta = draws["intercept"][..., None] + sum(draws[f"x{at}"][..., None] * X[:20, at] for at in (0, 1))
    np.testing.assert_allclose(probabilities[:20, 1], (1 / (1 + np.exp(-eta))).mean(axis=(0, 1)), rtol=1e-3)
    assert set(pipeline.predict(X)) == set(classes)
    assert np.mean(pipeline.predict(X) == y) > 0.7
    assert list(inner.classes_) == list(classes)


@pytest.mark.slow
def test_frames_with_categories_and_three_classes(tmp_path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    granted = {"ledger": url, "budget": dp.Budget(6.0, 1e-6)}
    ward = RNG.integers(0, 3, NUM_ROWS)
    frame = pd.DataFrame({"name": "nobody's", "ward of stay": np.array(["a", "b", "c"])[ward], "y": X[:, 0]})
    bounds = {"y": (-1, 1), "ward of stay": dp.Column(kind="category", categories=("a", "b", "c"), missing="category")}
    likely = np.where(RNG.random(NUM_ROWS) < 0.8, ward, RNG.integers(0, 3, NUM_ROWS))
    model = classifier(bounds=bounds, classes=(10, 20, 30), **granted).fit(frame, 10 * (likely + 1))
    assert charges(dp.Ledger(url)) == 1
    probabilities = model.predict_proba(frame[:30])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    assert np.mean(model.predict(frame) == 10 * (ward + 1)) > 0.8
    assert not [name for name in model.posterior_.draws if "name" in name]
    unknown = frame[:2].assign(**{"ward of stay": [None, "z"]})
    np.testing.assert_array_equal(*model.predict_proba(unknown.assign(y=0.0)))


def test_parameters_can_be_read_set_and_cloned() -> None:
    model = regressor(priors={"x0": "normal(0, 1)"})
    assert set(model.get_params()) >= {"bounds", "target_bounds", "family", "epsilon", "ledger", "dataset", "budget"}
    copied = clone(model.set_params(epsilon=2.0))
    assert copied.epsilon == 2.0
    assert copied.ledger is model.ledger, "a copied book would grant the budget twice"
    assert "epsilon=2.0" in repr(copied)


@pytest.mark.slow
def test_a_search_spends_with_every_fit_until_the_book_refuses() -> None:
    ledger = book(2.0)
    search = GridSearchCV(
        regressor(ledger=ledger, epsilon=1.5),
        {"priors": [{"x0": "normal(0, 1)"}, {"x0": "normal(0, 2)"}]},
        cv=2,
        error_score="raise",
    )
    with pytest.raises(BudgetExceeded, match="patients"):
        search.fit(X, Y)
    assert charges(ledger) == 1


@pytest.mark.parametrize(
    ("made", "rows", "target", "message"),
    [
        (lambda: regressor(ledger=None), X, Y, "ledger= and dataset= must be given"),
        (lambda: regressor(dataset=None), X, Y, "ledger= and dataset= must be given"),
        (lambda: regressor(bounds=None), X, Y, "bounds must state"),
        (lambda: regressor(bounds=()), X, Y, "bounds must state"),
        (lambda: regressor(bounds=((1, -1), (0, 1))), X, Y, "bounds of x0: lower=1.0 must be < upper=-1.0"),
        (lambda: regressor(bounds=(3, 4)), X, Y, r"bounds of x0=3 must be \(lower, upper\)"),
        (lambda: regressor(bounds=((0, 1),)), X, Y, r"X has the shape \(4000, 2\); bounds states 1 features"),
        (lambda: regressor(bounds={"a": (0, 1)}), X, Y, "X is not a pandas DataFrame"),
        (lambda: regressor(bounds={"a": (0, 1)}), pd.DataFrame({"b": [1.0]}), [1.0], "has no column a"),
        (lambda: regressor(), X, Y[:-1], r"y has the shape \(3999,\)"),
        (lambda: regressor(), X, np.stack([Y, Y], axis=1), r"y has the shape \(4000, 2\)"),
        (lambda: regressor(target_bounds=(1, 1)), X, Y, "target_bounds: lower=1.0 is upper=1.0"),
        (
            lambda: regressor(family="bernoulli"),
            X,
            Y,
            "family='bernoulli' must be one of beta, exponential, gamma, gaussian",
        ),
        (lambda: classifier(classes=("well",)), X, LABELS, "at least two"),
        (lambda: regressor(epsilon=0), X, Y, "epsilon=0 must be > 0"),
    ],
)
def test_refusals_cost_nothing(made, rows, target, message) -> None:
    model = made()
    with pytest.raises(InvalidArgument, match=message):
        model.fit(rows, target)
    if model.ledger is not None:
        assert charges(model.ledger) == 0


def test_without_scikit_learn_only_the_estimators_are_missing() -> None:
    program = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import dpmcmc as dp; dp.fit\n"
        "try:\n    dp.PrivateBayesRegressor\nexcept ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert 'pip install "dpmcmc[sklearn]"' in done.stdout, done.stderr
