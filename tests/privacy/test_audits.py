"""Audits in small: bounds that hold, mechanisms that keep to their claims, and planted bugs that are noticed.

Every lower bound here is wrong with a probability of at most 1e-6, with fresh keys: all tests of this file together
raise a false alarm in fewer than one of 1e5 runs. How many were raised in repeats is in docs/audits.md.
"""

import csv
import json
import math
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from benchmarks import mutants
from dpmcmc.accounting import Adjacency, Gaussian, epsilon
from dpmcmc.audits import bounds, catalogue, models, sensitivity, spaced
from dpmcmc.audits.audit import CONFIDENCE_ERROR, Tally, audit, judge
from dpmcmc.audits.fits import judge as judge_fits
from dpmcmc.cli.main import app
from dpmcmc.enclave.core.mechanism import CERTIFIED
from dpmcmc.errors import InvalidArgument
from dpmcmc.model import Model

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_OR_REMOVE_ONE
DELTA, ROOT = 1e-6, Path(__file__).parents[2]


def ideal(mu, runs, seed, deviation=1.0):
    """A tally of normal draws that are mu apart."""
    draws, tally = np.random.default_rng(seed), Tally()
    for to_choose, share in ((True, 0.2), (False, 0.8)):
        for side, sign in enumerate((1, -1)):
            tally.take(side, draws.normal(sign * mu / 2, deviation, int(share * runs)), 0, to_choose)
    return tally


def test_clopper_pearson_is_exact():
    for successes, trials in ((0, 10), (3, 10), (10, 10), (500, 10_000)):
        low, high = bounds.clopper_pearson(successes, trials, 1e-3)
        assert successes == 0 or stats.binom.sf(successes - 1, trials, low) == pytest.approx(1e-3)
        assert successes == trials or stats.binom.cdf(successes, trials, high) == pytest.approx(1e-3)


@pytest.mark.parametrize(("claimed", "least"), [(1.0, 0.5), (4.0, 2.3)])
def test_what_is_seen_of_ideal_gaussians(claimed, least):
    """At 95 % and 1e5 runs as much as can be seen of a Gaussian at all; at 1 - 1e-6 never more than the claim."""
    from dpmcmc.accounting import noise_for

    pair = catalogue.sums(claimed, DELTA, REPLACE, "exact", False)
    tally = ideal(1 / noise_for(Gaussian, claimed, DELTA), 100_000, seed=3)
    usual, strict = judge(pair, tally, DELTA, 0.05), judge(pair, tally, DELTA, 1e-6)
    assert usual.lower_no_assumption > 0.7 * least
    assert 0.87 * claimed < usual.lower_trade_off < 1.05 * claimed
    assert not strict.is_broken
    assert judge(pair, ideal(1 / noise_for(Gaussian, claimed, DELTA), 100_000, 3, 2 / 3), DELTA, 1e-6).is_broken


def test_bits_are_composed_exactly():
    """Two coins, tossed sixteen times: the binomial laws give the epsilon that brute force over all runs does."""
    first, second, times = 0.56, 0.5, 8
    words = np.array(np.meshgrid(*[[0, 1]] * times)).reshape(times, -1).sum(axis=0)
    laws = [chance**words * (1 - chance) ** (times - words) for chance in (first, second)]
    found = bounds.binomial_epsilon(first, second, times, 1e-3)
    for epsilon_, sign in ((found - 1e-6, 1), (found + 1e-6, -1)):
        worst = max(np.maximum(p - math.exp(epsilon_) * q, 0).sum() for p, q in (laws, laws[::-1]))
        assert sign * (worst - 1e-3) > 0
    assert bounds.lower_of_bits((560_000, 500_000), 1_000_000, times, 1e-3, 1e-6) < found
    assert bounds.lower_of_bits((440_000, 500_000), 1_000_000, times, 1e-3, 1e-6) > 0.9 * found


def test_every_certified_mechanism_is_in_the_catalogue():
    """Both adjacencies, where both have a price; and each claims the epsilon that was asked for."""
    pairs = [make() for make in catalogue.catalogue()]
    names = {pair.mechanism.split(",")[0].split(" ")[0] for pair in pairs}
    private = {name.split(".")[1] for name in CERTIFIED if not name.startswith("exact.")}
    assert names == private
    assert len({pair.words for pair in pairs}) == len(pairs) >= 31
    only_replace = {"BarkerTest", "MinibatchLogRatio", "SubsampledGradientSum (fixed)", "SpacedSum"}
    both = {pair.mechanism for pair in pairs if pair.adjacency is ADD}
    assert both == {pair.mechanism for pair in pairs} - only_replace
    for pair in pairs[::5]:
        assert epsilon(pair.price(), DELTA) == pytest.approx(1.0, rel=1e-6)


SMALL = {
    "Sum": (catalogue.sums, REPLACE, "exact", True),
    "GradientSum by rows": (catalogue.gradients, ADD, "exact", True),
    "BarkerBit": (catalogue.barker_bits, REPLACE),
    "SpacedSum": (partial(spaced.of_some, catalogue.sums),),
}


@pytest.mark.parametrize("name", SMALL)
def test_mechanisms_keep_to_their_claims(name):
    make, *arguments = SMALL[name]
    found = audit(make(1.0, DELTA, *arguments), 30_000, delta=DELTA, error=CONFIDENCE_ERROR)
    assert not found.is_broken, found
    assert found.lower_trade_off > 0.5 * found.claimed, "an audit that sees nothing says nothing"


@pytest.mark.slow
@pytest.mark.parametrize(
    "make", [pytest.param(make, id=str(number)) for number, make in enumerate(catalogue.catalogue())]
)
def test_every_pair_keeps_to_its_claim(make):
    pair = make()
    found = audit(pair, 100_000, delta=DELTA, error=CONFIDENCE_ERROR)
    assert not found.is_broken, found
    assert found.lower_trade_off > 0.4 * found.claimed
    assert pair.path in {*pair.paths(), "numbers as arguments"}


@pytest.mark.parametrize("name", ["Sum", "GradientSum, linear rows", "BlockSum", "Counts"])
def test_hostile_records_add_no_more_than_a_clip(name):
    (question,) = (one for one in sensitivity.questions() if one.name == name)
    found = list(sensitivity.contributions(question, ADD))
    assert not [one for one in found if one.is_broken]
    assert max(one.clips for one in found[:-2]) > 0.999, "some of them are clipped"


NOTICED = ("noise at two thirds", "one key for all turns of a loop", "a chunk counted twice")


def test_there_are_twenty_five_mutants_and_all_were_caught():
    assert len({mutant.words for mutant in mutants.MUTANTS}) == len(mutants.MUTANTS) >= 25
    with (ROOT / "benchmarks" / "results" / "mutants.csv").open() as file:
        rows = {row["mutant"]: row for row in csv.DictReader(file)}
    assert set(rows) == {mutant.words for mutant in mutants.MUTANTS}
    assert all(row["caught"] == "True" for row in rows.values())


@pytest.mark.parametrize("name", NOTICED)
def test_a_planted_bug_is_noticed(name, monkeypatch):
    monkeypatch.setattr(mutants, "RUNS", (10_000, 30_000))
    (mutant,) = (one for one in mutants.MUTANTS if one.words == name)
    assert mutants.caught(mutant)


@pytest.mark.slow
@pytest.mark.parametrize("name", [mutant.words for mutant in mutants.MUTANTS if mutant.words not in NOTICED])
def test_every_planted_bug_is_noticed(name):
    (mutant,) = (one for one in mutants.MUTANTS if one.words == name)
    assert mutants.caught(mutant) is not None


def test_no_published_bound_lies_above_its_claim():
    for file in sorted((ROOT / "benchmarks" / "results").glob("audits*.csv")):
        with file.open() as opened:
            rows = list(csv.DictReader(opened))
        for row in rows:
            if row["claimed_epsilon"]:
                claimed = float(row["claimed_epsilon"])
                assert float(row["lower_no_assumption"]) <= claimed
                assert float(row["lower_trade_off"]) <= claimed


def test_an_attacker_of_whole_runs():
    """Of features of which one is shifted he sees the shift, and of none nothing."""
    draws = np.random.default_rng(2)
    first, second = (draws.normal(size=(1500, 4)) + np.array([0, shift, 0, 0]) for shift in (0.8, -0.8))
    seen = judge_fits(first, second, 10.0, DELTA)
    assert seen.signal == pytest.approx(1.6, abs=0.25)
    assert 1.0 < seen.lower_no_assumption < seen.lower_trade_off < float(epsilon(Gaussian(1 / 1.6), DELTA))
    blind = judge_fits(first, first[::-1] + 0.0, 10.0, DELTA)
    assert blind.lower_no_assumption == 0


def test_the_benchmark_writes_its_table(tmp_path):
    """One command, with a limit of time, as it runs on a machine with a GPU."""
    output = tmp_path / "audits.csv"
    command = [sys.executable, "-W", "ignore", str(ROOT / "benchmarks" / "audits.py"), "--output", str(output)]
    options = ["--runs", "2e6", "--chains", "1000", "--seconds", "3", "--workers", "2", "--only", "NoisyCount"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with output.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["adjacency"] for row in rows] == ["replace_one", "add_or_remove_one"] or len(rows) == 2
    assert all(2000 <= int(row["runs"]) < 2_000_000 for row in rows)
    assert all(row["device"].startswith(jax.devices()[0].platform) for row in rows)


SCHEMA = """
[columns.age]
kind = "number"
lower = 18
upper = 90

[columns.ward]
kind = "category"
categories = ["north", "south"]

[columns.y]
kind = "boolean"
"""


def test_a_formula_is_audited_at_the_shell(tmp_path):
    (tmp_path / "schema.toml").write_text(SCHEMA)
    page = tmp_path / "pages" / "audit.html"
    options = ["--formula", "y ~ age + ward", "--family", "bernoulli", "--schema", str(tmp_path / "schema.toml")]
    done = CliRunner().invoke(app, ["audit", *options, "--runs", "2000", "--output", str(page)])
    assert done.exit_code == 0, done.output
    assert "nothing exceeds the claim" in done.output
    text = page.read_text()
    assert "linear rows" in text
    assert "age" in text
    assert "missing cells" not in text
    assert "http" not in text.replace("http-equiv", "")


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--formula", "y ~ age"],
        ["--formula", "y ~ age", "--model", "m.py:name"],
        ["--model", "none.py:name"],
        ["--formula", "y ~ age", "--family", "bernoulli", "--schema", "none.toml"],
    ],
)
def test_what_cannot_be_audited_is_refused(options):
    done = CliRunner().invoke(app, ["audit", *options])
    assert isinstance(done.exception, InvalidArgument), json.dumps(options)


MODELS = """
import dpmcmc as dp
import jax
import jax.numpy as jnp
import numpy as np

TABLE = np.arange(25, dtype=np.float32)
AT = jnp.zeros(2)


def prior(t):
    return -0.5 * jnp.sum(t**2)


def call(t):
    shape = jax.ShapeDtypeStruct((), jnp.float32)
    return -0.5 * jnp.sum(t**2) * jax.pure_callback(np.float32, shape, jax.lax.stop_gradient(t[0]))


def normal(t, row):
    return -0.5 * jnp.sum((t - row["age"] / 100) ** 2)


plain = dp.Model(prior, normal, position=AT)
of_a_table = dp.Model(lambda t: -0.5 * jnp.sum((t - jnp.asarray(TABLE).mean()) ** 2), normal, position=AT)
table_in_rows = dp.Model(prior, lambda t, row: normal(t, row) - jnp.sum(TABLE) * t[0], position=AT)
same = dp.Model(prior, lambda t, row: -0.5 * jnp.sum((t - 1.0) ** 2) + 0 * row["age"], position=AT)
flat = dp.Model(prior, lambda t, row: 0.0 * jnp.sum(t) * row["age"], position=AT)
raises = dp.Model(prior, lambda t, row: 1 / 0, position=AT)
absent = dp.Model(prior, lambda t, row: -0.5 * jnp.sum((t - row["nope"]) ** 2), position=AT)
vector = dp.Model(prior, lambda t, row: -0.5 * (t - row["age"]) ** 2, position=AT)
empty = dp.Model(lambda t: 0.0, lambda t, row: row["age"], position={})
calls = dp.Model(call, normal, position=AT)


def near(sd):
    return lambda t: -0.5 * jnp.sum((t / sd) ** 2)


strong = dp.Model(near(0.03), normal, position=AT)
stronger = dp.Model(near(1e-4), normal, position=AT)
faint = dp.Model(prior, lambda t, row: 1e-30 * normal(t, row), position=AT)


@jax.custom_vjp
def slope(t):
    return 0.0 * jnp.sum(t)


slope.defvjp(lambda t: (slope(t), t), lambda t, g: (g * jnp.sum(TABLE) + 0 * t,))
table_in_slopes = dp.Model(prior, lambda t, row: normal(t, row) + slope(t), position=AT)
table_in_slopes_of_prior = dp.Model(lambda t: prior(t) + slope(t), normal, position=AT)
"""


@pytest.fixture
def audit_of(tmp_path):
    (tmp_path / "m.py").write_text(MODELS)
    (tmp_path / "schema.toml").write_text(SCHEMA)

    def done(name):
        options = ["--model", f"{tmp_path / 'm.py'}:{name}", "--schema", str(tmp_path / "schema.toml")]
        return CliRunner().invoke(app, ["audit", *options, "--runs", "300", "--output", str(tmp_path / "audit.html")])

    return done


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("same", "no synthetic row can be told from another: the clipped gradient"),
        ("flat", "no synthetic row has a gradient that is finite and not zero"),
        ("raises", "the model and its gradient cannot be computed on a synthetic row: ZeroDivisionError"),
        ("absent", "KeyError: 'nope'"),
        ("vector", r"arrays of the shapes \(\) and \(2,\)"),
        ("empty", "a model has a position of at least one number"),
        ("calls", "cannot be computed on a synthetic row"),
        ("faint", "too small, for single precision"),
    ],
)
def test_a_model_that_cannot_be_audited_is_refused_in_words(name, words, audit_of):
    """Not with a traceback, and not as a claim that is broken (exit 6)."""
    done = audit_of(name)
    assert isinstance(done.exception, InvalidArgument), done.exception
    assert re.search(words, str(done.exception)), done.exception


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("of_a_table", "log_prior"),
        ("table_in_rows", "log_likelihood"),
        ("table_in_slopes", "the gradient of log_likelihood"),
        ("table_in_slopes_of_prior", "the gradient of log_prior"),
    ],
)
def test_what_a_model_closes_over_is_said(name, where, audit_of, tmp_path):
    done = audit_of(name)
    assert done.exit_code == 0, done.output
    words = f"25 numbers that the audit cannot vary: an array of shape (25,) in {where}"
    assert words in done.stderr
    assert "except for what the model closes over" in " ".join(done.output.split())
    assert words in (tmp_path / "audit.html").read_text()


def test_a_model_that_closes_over_nothing_has_no_warning(audit_of, tmp_path):
    done = audit_of("plain")
    assert done.exit_code == 0, done.output
    assert "closes over" not in done.output + done.stderr + (tmp_path / "audit.html").read_text()


def moved_with_prior_at(place, monkeypatch=None):
    """How far the sums of each pair of a normal model are apart, if its prior lies at a place."""

    def prior(position):
        return -0.5 * jnp.sum((position - place) ** 2)

    def normal(position, row):
        return -0.5 * jnp.sum((position - row["age"] / 100) ** 2)

    if monkeypatch is not None:
        monkeypatch.setattr(models, "_Likelihood", lambda likelihood, _: Model(prior, likelihood))
    record, limits = {"age": jax.ShapeDtypeStruct((), jnp.float32)}, {"age": (0.0, 100.0)}
    model = Model(prior, normal, position=jnp.zeros(2))
    rows, positions = models._examined(model, record, limits)
    return [models._moved(pair) for pair, _ in models._pairs(model, rows, positions, 1.0, DELTA)]


def test_where_the_prior_lies_moves_no_sum(monkeypatch):
    """It is public, the same on both sides. Added to the sums, at 1e5 of its sds from zero, it rounds them: the control
    sees nothing of a log-ratio, and another sensitivity of the gradient (one of 100.4 % was called a broken claim)."""
    near, far = moved_with_prior_at(0.0), moved_with_prior_at(1e5)
    assert far == near
    assert near[-1] == pytest.approx(1.0, abs=1e-5)
    rounded = moved_with_prior_at(1e5, monkeypatch)
    assert rounded[-1] == 0.0
    assert abs(rounded[0] - near[0]) > 1e-3


@pytest.mark.parametrize("name", ["strong", "stronger"])
def test_a_strong_prior_hides_no_row_and_breaks_no_claim(name, audit_of):
    """It is far larger than the likelihood: in one sum with it, single precision moved that by a part of a clip."""
    done = audit_of(name)
    assert done.exit_code == 0, done.output
    used = [float(share) for share in re.findall(r"([0-9.]+) %", done.output)]
    assert len(used) == 2, done.output
    assert all(50 < share <= 100 for share in used), done.output
