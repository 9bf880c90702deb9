"""What is computed from draws, against the same computed by hand: design, link, averages, ratios, priors."""

import tomllib

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit, softmax

import dpmcmc as dp
from dpmcmc.accounting import Gaussian
from dpmcmc.errors import InvalidArgument
from dpmcmc.model.formula.host import constrain_all, draw_prior
from dpmcmc.posterior.new_rows import read_rows

NUM_DRAWS = 400
SCHEMA = dp.Schema(
    {
        "age": dp.Column(kind="number", lower=18, upper=100, unit="years"),
        "bmi": dp.Column(kind="number", lower=12, upper=60, missing="fill", fill=26),
        "weight": dp.Column(kind="number", lower=30, upper=200, missing="indicator", fill=80),
        "smoker": dp.Column(kind="boolean", true=("ja",), false=("nein",)),
        "ward": dp.Column(kind="category", categories=("surgery", "medicine", "other"), missing="category"),
        "site": dp.Column(kind="category", categories=("north", "south")),
        "beds": dp.Column(kind="integer", lower=1, upper=40),
        "pain": dp.Column(kind="integer", lower=1, upper=4),
        "readmitted": dp.Column(kind="boolean"),
        "cost": dp.Column(kind="number", lower=0, upper=20_000, unit="EUR"),
        "visits": dp.Column(kind="integer", lower=0, upper=400),
    }
)
ROWS = pd.DataFrame(
    {
        "age": [40.0, 70.5, 18.0],
        "bmi": [22.0, None, 59.0],
        "weight": [None, 90.0, 60.0],
        "smoker": ["ja", "nein", "JA"],
        "ward": ["medicine", None, "surgery"],
        "site": ["south", "north", "south"],
        "beds": [3, 10, 1],
    },
    index=["anna", "bert", "cleo"],
)
AGE, BMI = np.array([40.0, 70.5, 18.0]), np.array([22.0, 26.0, 59.0])
WEIGHT, UNWEIGHED = np.array([80.0, 90.0, 60.0]), np.array([1.0, 0, 0])
SMOKER, BEDS = np.array([1.0, 0, 1]), np.array([3, 10, 1])
MEDICINE, OTHER, MISSING = (np.array(each, float) for each in ([1, 0, 0], [0, 0, 0], [0, 1, 0]))
SOUTH = np.array([1.0, 0, 1])
CERTIFICATE = dp.Certificate(Gaussian(5.0) * 3, "replace_one", 1e-6)


def posterior(formula: str, family: str, priors=None, shrink: float = 0.2) -> dp.Posterior:
    """A posterior whose draws are known: those of the prior, drawn together so that counts stay countable."""
    model = dp.from_formula(formula, SCHEMA, family=family, priors=priors)
    positions = draw_prior(model.coordinates, np.random.default_rng(4), NUM_DRAWS)
    drawn = constrain_all(model.coordinates, {name: shrink * values for name, values in positions.items()})
    request = {"formula": formula, "family": family, "priors": model.priors, "schema": tomllib.loads(SCHEMA.to_toml())}
    draws = {name: drawn[name].reshape(2, -1, *drawn[name].shape[1:]) for name in sorted(drawn)}
    return dp.Posterior(draws, np.ones((2, NUM_DRAWS // 2), bool), 0, CERTIFICATE, {"request": request})


def numbers(made: dp.Posterior) -> dict[str, np.ndarray]:
    """The draws, double, one after the other, with an axis for rows."""
    return {name: made[name].astype(float).reshape(NUM_DRAWS, 1, *made[name].shape[2:]) for name in made.draws}


def check(table: pd.DataFrame, drawn: np.ndarray, prob: float = 0.9, tolerance: float = 2e-4) -> None:
    """The table holds mean, standard deviation and quantiles of draws (draw, row)."""
    tail = (1 - prob) / 2
    expected = {"mean": drawn.mean(0), "sd": drawn.std(0, ddof=1)}
    low, high = np.quantile(drawn, (tail, 1 - tail), axis=0)
    found = table.to_numpy()[:, :4].astype(float)
    scale = np.maximum(np.abs(drawn).max(), 1e-3)
    np.testing.assert_allclose(found, np.stack([*expected.values(), low, high], axis=1), atol=tolerance * scale)


def logit_by_hand() -> tuple[dp.Posterior, np.ndarray]:
    made = posterior("readmitted ~ age*smoker + bmi + weight + weight_missing + ward + (1|site)", "bernoulli")
    of = numbers(made)
    eta = of["intercept"] + of["age"] * AGE + of["smoker"] * SMOKER + of["age:smoker"] * AGE * SMOKER + of["bmi"] * BMI
    eta = eta + of["weight"] * WEIGHT + of["weight_missing"] * UNWEIGHED
    eta = eta + of["ward[medicine]"] * MEDICINE + of["ward[other]"] * OTHER + of["ward[(missing)]"] * MISSING
    return made, eta + of["1|site[south]"] * SOUTH + of["1|site[north]"] * (1 - SOUTH)


def test_probabilities_by_hand() -> None:
    made, eta = logit_by_hand()
    table = made.predict(ROWS, prob=0.8)
    assert list(table.index) == ["anna", "bert", "cleo"]
    assert list(table.columns) == ["mean", "sd", "q10", "q90"]
    check(table, expit(eta), 0.8)
    likely = made.predict(ROWS, "response")
    np.testing.assert_allclose(likely["P(True)"], expit(eta).mean(0), atol=1e-4)
    assert likely["readmitted"].tolist() == (expit(eta).mean(0) > 0.5).tolist()


def test_the_order_is_that_of_the_formula() -> None:
    made, _ = logit_by_hand()
    expected = ["intercept", "age", "smoker", "bmi", "weight", "weight_missing", "ward[medicine]", "ward[other]"]
    expected += ["ward[(missing)]", "age:smoker", "1|site[north]", "1|site[south]", "1|site_sigma"]
    assert list(made.draws) == list(made.summary().index) == expected


def test_costs_by_hand() -> None:
    made = posterior("cost ~ I(age**2) + age + smoker", "gaussian")
    of = numbers(made)
    mean = of["intercept"] + of["age"] * AGE + of["age**2"] * AGE**2 + of["smoker"] * SMOKER
    check(made.predict(ROWS), mean)
    contrast = made.contrast("age", 70, 40, at={"smoker": "ja"})
    assert list(contrast.index) == ["expected cost"]
    by_hand = 30 * of["age"] + (70**2 - 40**2) * of["age**2"]
    check(contrast, by_hand)
    assert contrast["P(higher)"].item() == np.mean(by_hand > 0)


def test_counts_with_an_offset_by_hand() -> None:
    made = posterior("visits ~ age + site + offset(log(beds))", "poisson")
    of = numbers(made)
    rate = np.exp(of["intercept"] + of["age"] * AGE + of["site[south]"] * SOUTH + np.log(BEDS))
    check(made.predict(ROWS), rate)
    contrast = made.contrast("site", "south", "north", rows=ROWS)
    assert list(contrast.index) == ["log of the mean", "ratio of means", "expected visits"]
    check(contrast.iloc[[0]], of["site[south]"])
    check(contrast.iloc[[1]], np.exp(of["site[south]"]))
    base = np.exp(of["intercept"] + of["age"] * AGE + np.log(BEDS))
    check(contrast.iloc[[2]], (base * (np.exp(of["site[south]"]) - 1)).mean(1, keepdims=True))


def test_successes_by_hand() -> None:
    made = posterior("visits | trials(beds) ~ age", "binomial")
    of = numbers(made)
    check(made.predict(ROWS), BEDS * expit(of["intercept"] + of["age"] * AGE))


def test_classes_by_hand() -> None:
    made = posterior("ward ~ age + smoker", "categorical")
    of = numbers(made)
    names = ("medicine", "other", "(missing)")
    etas = [of[f"{ward}: intercept"] + of[f"{ward}: age"] * AGE + of[f"{ward}: smoker"] * SMOKER for ward in names]
    shares = softmax(np.stack([np.zeros_like(etas[0]), *etas], axis=-1), axis=-1)
    table = made.predict(ROWS)
    assert table.index.names == ["row", "ward"]
    check(table, shares.reshape(NUM_DRAWS, -1))
    np.testing.assert_allclose(made.predict(ROWS, "response")["P(other)"], shares.mean(0)[:, 2], atol=1e-4)
    ratios = made.odds_ratios(per={"age": 10})
    assert list(ratios.index[:3]) == [f"{ward}: age (per 10)" for ward in names]
    check(ratios.iloc[:1], np.exp(10 * of["medicine: age"]))


def test_ordered_classes_by_hand() -> None:
    made = posterior("pain ~ age + smoker", "ordinal")
    of = numbers(made)
    eta = of["age"] * AGE + of["smoker"] * SMOKER
    cuts = of["cutpoints"]
    below = expit(cuts - eta[..., None])
    shares = np.diff(np.concatenate([np.zeros_like(below[..., :1]), below, np.ones_like(below[..., :1])], axis=-1))
    check(made.predict(ROWS), shares.reshape(NUM_DRAWS, -1))
    likely = made.predict(ROWS, "response")
    assert likely["pain"].tolist() == (1 + shares.mean(0).argmax(1)).tolist()


def test_effects_by_hand() -> None:
    made, _ = logit_by_hand()
    of = numbers(made)
    held = {"bmi": 26.0, "weight": 80.0}
    table = made.effects("age", by="smoker", at={"ward": "other", "site": "south"}, values=[30, 60])
    assert list(table.columns[:2]) == ["age", "smoker"]
    assert table[["age", "smoker"]].to_numpy().tolist() == [[30, False], [30, True], [60, False], [60, True]]
    ages, smokes = np.array([30.0, 30, 60, 60]), np.array([0.0, 1, 0, 1])
    eta = of["intercept"] + of["age"] * ages + of["smoker"] * smokes + of["age:smoker"] * ages * smokes
    eta = eta + of["bmi"] * held["bmi"] + of["weight"] * held["weight"] + of["ward[other]"] + of["1|site[south]"]
    check(table.iloc[:, 2:], expit(eta))
    assert "ward other" in table.title
    levels = made.effects("ward")
    assert levels["ward"].tolist() == ["surgery", "medicine", "other", "(missing)"]
    averaged = made.effects("smoker", rows=ROWS)
    _, eta = logit_by_hand()
    slope = of["smoker"] + of["age:smoker"] * AGE
    none, all_of_them = eta - slope * SMOKER, eta + slope * (1 - SMOKER)
    check(averaged.iloc[:, 1:], np.stack([expit(none).mean(1), expit(all_of_them).mean(1)], axis=1))


def test_ratios_and_exponentials_by_hand() -> None:
    made, _ = logit_by_hand()
    of = numbers(made)
    ratios = made.odds_ratios(per={"age": 10})
    assert "intercept" not in ratios.index
    check(ratios.loc[["age (per 10)"]], np.exp(10 * of["age"]))
    table = made.summary(exponentiate=True, prob=0.5, var_names=["ward", "1|site", "1|site_sigma"])
    assert list(table.columns[:4]) == ["mean", "sd", "q25", "q75"]
    check(table.loc[["ward[other]"]], np.exp(of["ward[other]"]), 0.5)
    check(table.loc[["1|site[south]"]], np.exp(of["1|site[south]"]), 0.5)
    check(table.loc[["1|site_sigma"]], of["1|site_sigma"], 0.5)


NEW = {"age": [30.0, 90.0], "smoker": ["nein", "ja"], "beds": [20, 20]}
LAWS = {
    "gaussian": ("cost ~ age + smoker", lambda mean, of: stats.norm(mean, of["sigma"])),
    "poisson": ("visits ~ age + smoker", lambda mean, _: stats.poisson(mean)),
}


@pytest.mark.parametrize("family", LAWS)
def test_new_responses_have_the_law_of_the_family(family) -> None:
    """Randomised ranks of a response within the law of its draw are uniform; false alarms at most 1e-5 each."""
    formula, law = LAWS[family]
    made = posterior(formula, family, {"sigma": "lognormal(-15, 0.1)"} if family == "gaussian" else None)
    rows = read_rows(NEW, made.model, SCHEMA)
    drawn, means = made.fitted.responses(rows, 7).astype(float), made.fitted.means(rows).astype(float)
    for wrong, alarm in ((1.0, False), (0.7, True)):
        laws = law(means * wrong, numbers(made))
        below = laws.cdf(drawn - 1)
        share = np.random.default_rng(1).random(drawn.shape)
        ranks = laws.cdf(drawn) if family == "gaussian" else below + share * (laws.cdf(drawn) - below)
        assert (min(stats.kstest(each, "uniform").pvalue for each in ranks.T) < 1e-5) == alarm


@pytest.mark.parametrize(
    ("key", "stated", "name", "law"),
    [
        ("age", "normal(0, 100) per year", "age", stats.norm(0, 100)),
        ("age", "normal(5, 100) per 10 years", "age", stats.norm(0.5, 10)),
        ("age", "student_t(4, 3, 50) original", "age", stats.t(4, 3, 50)),
        ("bmi", "laplace(0, 40) per unit", "bmi", stats.laplace(0, 40)),
        ("ward", "normal(0, 700) original", "ward[other]", stats.norm(0, 700)),
        ("slopes", "normal(0, 30) original", "bmi", stats.norm(0, 30)),
        ("sigma", "half_normal(900) original", "sigma", stats.halfnorm(scale=900)),
        ("sigma", "exponential(0.01) original", "sigma", stats.expon(scale=100)),
        ("sigma", "gamma(3, 0.01) original", "sigma", stats.gamma(3, scale=100)),
        ("sigma", "lognormal(6, 0.5) original", "sigma", stats.lognorm(0.5, scale=np.exp(6))),
        ("1|site", "half_cauchy(200) original", "1|site_sigma", stats.halfcauchy(scale=200)),
    ],
)
def test_priors_on_the_original_scale(key, stated, name, law) -> None:
    """Draws of the original coefficient have the law that was written; false alarms at most 1e-5 each."""
    formula = "cost ~ age + bmi + ward + (1|site)"
    model = dp.from_formula(formula, SCHEMA, family="gaussian", priors={key: stated})
    drawn = constrain_all(model.coordinates, draw_prior(model.coordinates, np.random.default_rng(3), 4000))[name]
    assert stats.kstest(drawn, law.cdf).pvalue > 1e-5
    other = stats.kstest(1.3 * drawn, law.cdf)
    assert other.pvalue < 1e-5, "a scale that is wrong by a third is noticed"


def test_the_nearest_prior_counts_whatever_its_scale() -> None:
    priors = {"slopes": "normal(0, 1) original", "ward": "normal(0, 0.1)", "age": "normal(0, 2) per 10 years"}
    model = dp.from_formula("readmitted ~ age + bmi + ward", SCHEMA, family="bernoulli", priors=priors)
    expected = {"age": "normal(0, 8.2)", "bmi": "normal(0, 24)", "ward[other]": "normal(0, 0.1)"}
    assert {name: model.priors[name] for name in expected} == expected
    again = dp.from_formula("readmitted ~ age + bmi + ward", SCHEMA, family="bernoulli", priors=model.priors)
    assert again.priors == model.priors


def test_interactions_leave_what_can_be_stated() -> None:
    model = dp.from_formula(
        "cost ~ age*smoker", SCHEMA, family="gaussian", priors={"age:smoker": "normal(0, 50) original"}
    )
    drawn = constrain_all(model.coordinates, draw_prior(model.coordinates, np.random.default_rng(0), 4000))
    assert stats.kstest(drawn["age:smoker"], stats.norm(0, 50).cdf).pvalue > 1e-5


# Two posteriors as one

PRIORS = {"intercept": "normal(0.2, 0.8)", "x": "normal(0.1, 0.3)", "sigma": "fixed(0.1)"}
LINE = dp.Schema({"x": dp.Column(kind="number", lower=-1, upper=1), "y": dp.Column(kind="number", lower=-2, upper=2)})


def line(rows: np.ndarray, targets: np.ndarray, seed: int) -> tuple[dp.Posterior, np.ndarray, np.ndarray]:
    """The exact posterior of a line with known noise, as 40,000 draws; with its mean and covariance."""
    prior_mean, prior_precision = np.array([0.4, 0.2]), np.diag([1.6**-2, 0.6**-2])  # 2 is half the range of y
    precision = rows.T @ rows / 0.2**2 + prior_precision
    mean = np.linalg.solve(precision, rows.T @ targets / 0.2**2 + prior_precision @ prior_mean)
    drawn = np.random.default_rng(seed).multivariate_normal(mean, np.linalg.inv(precision), 40_000)
    request = {"formula": "y ~ x", "family": "gaussian", "priors": PRIORS, "schema": tomllib.loads(LINE.to_toml())}
    draws = {name: drawn[:, place].reshape(2, -1).astype(np.float32) for place, name in enumerate(("intercept", "x"))}
    made = dp.Posterior(draws, np.ones((2, 20_000), bool), 0, CERTIFICATE, {"request": request})
    return made, mean, np.linalg.inv(precision)


def test_two_posteriors_make_that_of_all_records() -> None:
    """Against the exact posterior of both tables; means of 40,000 draws are off by 5 errors once in a million times."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, 9)  # few records, so that a prior that counts twice is noticed
    rows, targets = np.stack([np.ones(9), x], axis=1), 1 - 0.5 * x + 0.2 * rng.normal(size=9)
    first, _, _ = line(rows[:4], targets[:4], 2)
    second, mean_of_second, _ = line(rows[4:], targets[4:], 3)
    _, mean, covariance = line(rows, targets, 4)
    both = second.combine(first, seed=5)
    drawn = both.matrix()
    errors = np.sqrt(np.diag(covariance) / 40_000)
    assert (np.abs(drawn.mean(axis=0) - mean) < 5 * 3 * errors).all(), "three estimates of the kind enter"
    np.testing.assert_allclose(np.cov(drawn.T), covariance, rtol=0.06, atol=0.03 * covariance.max())
    assert (np.abs(mean_of_second - mean) > 30 * errors).any(), "the test would notice that nothing was combined"
    assert both.certificate.event == first.certificate.event + second.certificate.event
    assert both.predict({"x": 0.3}).shape == (1, 4)


def test_posteriors_that_cannot_be_combined() -> None:
    one = posterior("cost ~ age", "gaussian")
    with pytest.raises(InvalidArgument, match="expected the same formula"):
        one.combine(posterior("cost ~ age + smoker", "gaussian"))
    with pytest.raises(InvalidArgument, match="random intercepts and their standard deviation"):
        logit_by_hand()[0].combine(logit_by_hand()[0])
