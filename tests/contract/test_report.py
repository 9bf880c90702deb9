"""The page of a run: of every kind of model, from the folder alone, and safe whatever the names are."""

import re
import sys
import tomllib
from dataclasses import replace
from datetime import datetime
from urllib.parse import unquote

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import dpmcmc as dp
from dpmcmc.accounting import Approximation, Gaussian, LogisticBit, Parallel, Partition, noise_for
from dpmcmc.accounting.event import NonPrivate
from dpmcmc.cli.main import run
from dpmcmc.errors import InvalidArgument
from dpmcmc.report import front, privacy, render_report
from dpmcmc.report.chart import Chart
from dpmcmc.run.folder import is_complete, put
from dpmcmc.run.plan import prior_draws

HOSTILE = "</script><script>alert('x')</script>"
SCHEMA = dp.Schema(
    {
        "age": dp.Column(kind="number", lower=18, upper=90, unit="years", missing="indicator", fill=50),
        "visits": dp.Column(kind="integer", lower=0, upper=30),
        "beds": dp.Column(kind="integer", lower=1, upper=40),
        "ward": dp.Column(kind="category", categories=("north", HOSTILE, "west"), missing="category"),
        "ill": dp.Column(kind="boolean"),
        "cost": dp.Column(kind="number", lower=0, upper=1000),
    },
    person="patient",
    max_rows_per_person=3,
)
CERTIFICATE = dp.Certificate(Gaussian(5.0) * 3, "replace_one", 1e-6)


def posterior(formula: str, family: str, certificate=CERTIFICATE) -> dp.Posterior:
    """A run whose posterior is its prior: the page does not ask whether it is any good."""
    model = dp.from_formula(formula, SCHEMA, family=family)
    prior = prior_draws(model)
    draws = {name: values[0, :80].reshape(2, 40, *values.shape[2:]) for name, values in prior.items()}
    request = {"formula": formula, "family": family, "priors": model.priors, "description": model.describe()}
    settings = {
        "stages": [{"kernel": "dp_hmc", "num_steps": 50, "step_size": 0.1}],
        "facts": {"size": 1000, "adjacency": "replace_one", "bounds": {}},
        "request": {**request, "schema": tomllib.loads(SCHEMA.to_toml())},
    }
    return dp.Posterior(draws, np.ones((2, 40), bool), 10, certificate, settings, prior)


@pytest.mark.parametrize(
    ("formula", "family", "predicted"),
    [
        ("cost ~ age + age_missing + ward", "gaussian", "expected cost"),
        ("visits ~ age + (1|ward)", "poisson", "expected visits"),
        ("visits | trials(beds) ~ age", "binomial", "expected visits"),
        ("ward ~ age + ill", "categorical", "probability of each ward"),
        ("ill ~ age", "bernoulli", "probability of ill"),
    ],
    ids=lambda value: value if value.isalpha() else "",
)
def test_every_family_has_its_pictures(formula, family, predicted) -> None:
    made = posterior(formula, family)
    page = render_report(made)
    model = dp.from_formula(formula, SCHEMA, family=family)
    varied = set(model.columns) - {model.response, model.coordinates.response.trials}
    assert page.count('class="card prediction"') == len(varied)
    assert f">{predicted}</text>" in page
    is_number = family in ("gaussian", "poisson", "binomial")
    assert ('class="new"' in page) == ("new responses\nwould lie" in page) == is_number
    for kind in ("trace", "ranks"):
        assert page.count(f'<figure class="{kind}"') == len(made.summary())
    assert not re.search(r'points="[^"]*(nan|inf)', page)
    assert "any one person&#39;s data (all rows of theirs, of which 3 count)" in page
    assert "raisa2021hmc" in page


def table(**intervals: tuple[float, float]) -> pd.DataFrame:
    return pd.DataFrame(
        [{"q5": low, "mean": (low + high) / 2, "q95": high} for low, high in intervals.values()], index=list(intervals)
    )


NAMES, LONG_NAMES = ("a", "b", "c"), ("Internal medicine", "Ear, nose and throat", "Surgery", "Paediatrics")


def test_what_was_found_is_told_in_a_sentence() -> None:
    model = dp.from_formula("ill ~ age + visits + beds", SCHEMA, family="bernoulli")
    numbers = {"intercept": (1.0, 2.0), "age": (0.1, 0.2), "visits": (-0.3, -0.1), "beds": (-0.1, 0.1)}
    assert front.found(table(**numbers), model, "good") == (
        "Of the 3 coefficients of ill, 2 clearly differ from zero: age (positive), visits (negative); the other one "
        "does not."
    )
    told = front.found(table(**numbers | {"beds": (0.1, 0.3)}), model, "fair")
    assert (
        told == "Of the 3 coefficients of ill, all 3 clearly differ from zero: age, beds (positive), visits (negative)."
    )
    none = front.found(table(**dict.fromkeys(numbers, (-1.0, 1.0))), model, "good")
    assert none.startswith("Of the 3 coefficients of ill, none clearly differs from zero")
    assert "Do not rely on" in front.found(table(**numbers), model, "bad")


def test_what_cannot_be_relied_on_is_not_told_as_found() -> None:
    model = dp.from_formula("ill ~ age + visits + beds", SCHEMA, family="bernoulli")
    numbers = table(age=(0.1, 0.2), visits=(-0.3, -0.1), beds=(-0.1, 0.1))
    told = front.found(numbers.assign(verdict=["good", "bad", "fair"]), model, "fair")
    assert told == (
        "Of the 2 coefficients of ill, 1 clearly differs from zero: age (positive); the other one does not. Do not "
        "rely on the estimate of visits."
    )
    every = front.found(numbers.assign(verdict="bad"), model, "fair")
    assert every == "Do not rely on the estimates of age, visits, beds."


def test_only_a_small_factor_is_called_little() -> None:
    for epsilon, little in ((1.0, True), (4.0, False)):
        made = dp.Certificate(Gaussian(noise_for(Gaussian, epsilon, 1e-6)), "replace_one", 1e-6)
        first = privacy.in_plain_words(made, "any one person's data (one row of the table)")[0]
        assert first.startswith("Had any one person's data (one row of the table) been different, any result would ")
        assert f"at most {2.72 if little else 54.6} times as likely or unlikely, give or take 0.000001." in first
        assert first.endswith("So the result depends little on any one person's data.") == little


def test_ratios_are_drawn_where_they_mean_something() -> None:
    numbers = table(age=(0.1, 0.2), visits=(-0.3, -0.1))
    odds = front.forest(numbers, dp.from_formula("ill ~ age + visits", SCHEMA, family="bernoulli"))
    assert odds.words == "odds ratios"
    assert "visits: 0.8187, 90 % from 0.7408 to 0.9048" in odds.ratios
    assert "visits: -0.2, 90 % from -0.3 to -0.1" in odds.plain
    assert front.forest(numbers, dp.from_formula("cost ~ age + visits", SCHEMA, family="gaussian")).words == ""
    assert front.forest(numbers, None) is None


@pytest.mark.parametrize(("low", "high"), [(-0.01, 0.02), (-1.0, 1.0), (-8.0, 9.0), (-700.0, 700.0)])
def test_ratios_beside_an_axis(low: float, high: float) -> None:
    places = [place for place, _ in front._ratio_ticks(low, high)]
    assert 2 <= len(places) <= 8
    assert all(low <= place <= high for place in places)


def test_releases_have_shares_of_the_budget_and_the_names_of_steps() -> None:
    certificate = dp.Certificate(Gaussian(10.0) * 8 + Gaussian(5.0) * 2 + Approximation(1e-16), "replace_one", 1e-6)
    pilot, final, allowance = privacy.released(certificate, {"pilot steps": 10.0})
    assert pilot.words.startswith("pilot steps: a sum over all records")
    assert (pilot.times, pilot.share) == (8, pytest.approx(0.5))
    assert (final.times, final.share) == (2, pytest.approx(0.5))
    assert np.isnan(allowance.share)
    assert np.isnan(privacy.released(dp.Certificate(LogisticBit(0.1) * 3, "replace_one", 1e-6))[0].share)


def test_every_release_of_a_formula_has_a_name() -> None:
    table = pd.DataFrame({"ill": np.arange(4000) % 3 == 0, "age": np.linspace(18, 90, 4000)})
    columns = {"ill": {"kind": "boolean"}, "age": {"kind": "number", "lower": 18, "upper": 90}}
    data = dp.PrivateData.from_table(table, schema={"columns": columns}, budget=dp.Budget(4.0, 1e-6))
    prepared = dp.prepare_fit("ill ~ age", data, epsilon=4.0, sampler="private_laplace")
    certificate = dp.Certificate(prepared.event, "replace_one", 1e-6)
    steps = privacy._steps(prepared.strategy.questions.settings)
    told = [each.words for each in privacy.released(certificate, steps) if each.share > 0]
    assert len(told) > 3
    assert not [words for words in told if words.startswith("a sum")]
    assert [words for words in privacy.released(certificate) if words.words.startswith("a sum")]


def test_names_of_categories_do_not_run_into_each_other() -> None:
    short, long = (Chart((-0.4, 3.6), (0.0, 1.0), "ward", "share", x_names=names) for names in (NAMES, LONG_NAMES))
    assert (short.aslant, "rotate" in short.svg("a", "b")) == (0, False)
    assert long.aslant > 0
    assert long.svg("a", "b").count('text-anchor="end" transform="rotate(-45') == len(LONG_NAMES)
    assert "Intern…edicine" in long.svg("a", "b")


def test_the_page_carries_its_numbers_as_files() -> None:
    made = posterior("ill ~ age", "bernoulli")
    address = re.search(r'download="summary.csv" href="data:text/csv;charset=utf-8,([^"]*)"', render_report(made))
    assert unquote(address[1]).splitlines()[1:] == made.summary().to_csv(index_label="parameter").splitlines()[1:]


def test_purpose_and_contact_are_the_runs_and_stand_on_top() -> None:
    rows = {"ill": np.arange(400) % 2 == 0, "age": np.linspace(18, 90, 400).astype(np.float32)}
    schema = {"columns": {"ill": {"kind": "boolean"}, "age": {"kind": "number", "lower": 18, "upper": 90}}}
    data = dp.PrivateData.from_table(pd.DataFrame(rows), schema=schema, budget=dp.Budget(1.0, 1e-4))
    asked = {"epsilon": 1.0, "allow_low_accuracy": True, "purpose": "beds for 2027", "contact": f"Ada {HOSTILE}"}
    stated = dp.prepare_fit("ill ~ age", data, **asked)._request()
    made = posterior("ill ~ age", "bernoulli")
    made.settings["request"].update({name: stated[name] for name in ("purpose", "contact")})
    page = render_report(made)
    assert page.index("Purpose: beds for 2027") < page.index("Contact: Ada &lt;/script&gt;") < page.index("<h2")
    assert "Purpose:" not in render_report(posterior("ill ~ age", "bernoulli"))
    with pytest.raises(InvalidArgument, match="purpose=3 must be a text"):
        dp.prepare_fit("ill ~ age", data, **{**asked, "purpose": 3})


def test_names_cannot_become_code() -> None:
    page = render_report(posterior("cost ~ ward", "gaussian"))
    assert HOSTILE not in page
    assert page.count("<script>") == page.count("</script>") == 1
    assert "&lt;/script&gt;&lt;script&gt;alert(&#39;x&#39;)" in page


def test_trouble_with_the_page_loses_no_draws(tmp_path, monkeypatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    made = posterior("cost ~ age", "gaussian")
    with monkeypatch.context() as patch:
        patch.setattr("dpmcmc.report.page.write_report", broken)
        with pytest.warns(RuntimeWarning, match=r"without its page.*no space left.*dpmcmc report"):
            folder = made.save(tmp_path / "run")
        (tmp_path / "resumed").mkdir()
        with pytest.warns(RuntimeWarning, match="without its page"):
            put(made, tmp_path / "resumed")
    assert is_complete(folder)
    assert is_complete(tmp_path / "resumed")
    assert not (folder / "report.html").exists()
    again = dp.Posterior.load(folder)
    assert again.report(folder / "report.html").read_text(encoding="utf-8") == render_report(again)
    (folder / "certificate.json").unlink()
    assert not is_complete(folder)


def test_what_was_released_of_cells_is_shown_with_its_places():
    cells = {0: Gaussian(50.0) * 3 + Approximation(1e-12), 1: LogisticBit(0.01)}
    event = Parallel(Partition((0, 100, 3000)), cells)
    page = render_report(posterior("cost ~ age", "gaussian", dp.Certificate(event, "replace_one", 1e-6)))
    assert "places 0 to 99: a sum over all records there, with Gaussian noise" in page
    assert "places 100 to 2999: an accept decision of a Barker test over all records there" in page


def test_a_run_without_guarantee_says_so() -> None:
    certificate = dp.Certificate(NonPrivate(), "replace_one", 1e-6)
    page = render_report(posterior("cost ~ age", "gaussian", certificate))
    assert "<strong>No privacy guarantee" in page
    assert "times as likely" not in page
    assert 'id="curve"' not in page


MODEL = dp.Model(
    lambda theta: -0.5 * jnp.sum(theta**2),
    lambda theta, record: -0.5 * jnp.sum((record - theta) ** 2),
    sample_prior=lambda key: jax.random.normal(key, (2,)),
    position=jax.ShapeDtypeStruct((2,), jnp.float32),
)


def test_the_page_of_a_model_by_hand_is_made_again_from_its_folder(tmp_path, monkeypatch, capsys) -> None:
    data = dp.PrivateData(np.zeros((50, 2), np.float32), bounds={"records": (-1, 1)}, budget=dp.Budget(1e4, 1e-6))
    kernel = dp.kernels.dp_penalty(dp.mechanisms.LogRatio(clip=1.0, noise_multiplier=5.0), proposal_scale=0.1)
    made = dp.sample(kernel, MODEL, data, num_steps=60, num_chains=1, num_warmup=2, progress=False)
    folder = made.save(tmp_path / "run")
    first = (folder / "report.html").read_text(encoding="utf-8")
    assert "Posterior of position" in first
    assert "epsilon 10000 at delta 0.000001" in first, "the ledger"
    settings = made.settings["ledger"]
    day = datetime.fromisoformat(settings["charged_at"])
    assert len(settings["run"]) == 32
    assert f"{settings['run']}, charged {day:%-d %B %Y, %H:%M} UTC" in first, "the entry that paid"
    assert first.count('class="beside"') == 2, "prior against posterior"
    assert 'id="predictions"' not in first
    again = dp.Posterior.load(folder)
    np.testing.assert_array_equal(again.prior["position"], made.prior["position"])
    assert again.prior["position"].shape == (1, 1000, 2)
    assert set(again.to_arviz().prior.data_vars) == {"position"}
    monkeypatch.setattr(sys, "argv", ["dpmcmc", "report", str(folder), "--output", str(tmp_path / "page.html")])
    with pytest.raises(SystemExit):
        run()
    assert "page.html" in capsys.readouterr().out
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == first
    truth = {"position[0]": 0.25}
    known = again.report(tmp_path / "known.html", known=truth).read_text(encoding="utf-8")
    assert "the value that made the records: 0.25" in known
    with pytest.raises(InvalidArgument, match="cannot be written"):
        again.report(tmp_path / "page.html" / "below.html")


def test_independent_draws_have_no_traces_and_predictions_are_in_the_formulas_order() -> None:
    """Traces, ranks and R-hat of independent draws are even whatever they are draws of."""
    chain = posterior("ill ~ visits + age", "bernoulli")
    shares = {"verdict": "good", "reasons": [], "shares": {"data": 0.7, "privacy": 0.2, "prior": 0.1}}
    quality = {"verdict": "good", "reasons": [], "parameters": dict.fromkeys(chain.summary().index, shares)}
    independent = replace(chain, settings={**chain.settings, "quality": quality})
    assert not chain.is_independent
    assert independent.is_independent
    page = render_report(independent)
    assert 'id="chains"' in render_report(chain)
    for absent in ('id="chains"', '#chains"', "r_hat", "R-hat</th>", '<figure class="trace"', '<figure class="ranks"'):
        assert absent not in page, absent
    assert "so R-hat and traces would say nothing about the result" in page
    held = re.findall(r"Held: (\w+) ", page)
    assert held == ["age", "visits"], "the chart over visits comes first"
