"""The rules of `experiments.stress`, on results that are made up: what is wrong must be called so.

Everything is drawn from fixed seeds. References are compared with answers that are known, at a tolerance of more than
five standard errors each: together they fail by chance less than once in 10,000.
"""

import json
import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpmcmc.diagnostics.quality import Grade, Quality
from dpmcmc.enclave import BlockSum
from experiments.stress import store
from experiments.stress.emulated import Emulated, FloatOracle
from experiments.stress.judge import judged
from experiments.stress.pareto import smoothed
from experiments.stress.problems import PROBLEMS, Problem
from experiments.stress.reference import Reference, exact
from experiments.stress.run import Prepared
from experiments.stress.workers import work_through

NAMES = tuple(f"x{number}" for number in range(6))


class Made:
    holds = True
    truth = dict.fromkeys(NAMES, 0.0)


class Wide:
    """A prior much wider than all else."""

    def share(self, name, sd, found):
        del name, found
        return sd / 100.0


def result(*, shift=(), narrow=(), marked=(), verdict="good", reasons=()):
    """Judge a result whose parameters are right, but for some that are shifted or too narrow."""
    rng = np.random.default_rng(0)
    shares = {"data": 0.8, "privacy": 0.2, "prior": 0.0}
    draws = {
        name: (0.1 if name in narrow else 1.0) * rng.standard_normal((2, 1000)) + (5.0 if name in shift else 0.2)
        for name in NAMES
    }
    grades = {name: Grade("bad" if name in marked else "good", (), shares) for name in NAMES}
    quality = Quality(verdict, tuple(reasons), grades, 0.5)
    found = Reference("nuts", True, 1.0, dict.fromkeys(NAMES, 0.0), dict.fromkeys(NAMES, 0.9))
    return judged(Made(), quality, draws, found, Wide())


def test_what_is_right_is_called_right() -> None:
    found = result()
    assert found["right"]
    assert not found["false_alarm"]
    assert (found["inside"], found["intervals"]) == (6, 6)


@pytest.mark.parametrize("wrong", [{"shift": ("x1",)}, {"narrow": ("x2",)}])
def test_one_parameter_makes_a_result_wrong_unless_it_is_marked(wrong) -> None:
    (name,) = next(iter(wrong.values()))
    found = result(**wrong)
    assert not found["right"]
    assert not found["honest"]
    assert list(found["offending"]) == [name]
    assert result(**wrong, marked=(name,))["honest"]
    assert not result(**wrong, marked=(name,))["right"], "a parameter that records identify is not right for a mark"
    assert not result(**wrong, marked=("x5",))["honest"], "another one's mark is no excuse"
    assert result(**wrong, verdict="bad")["honest"]


def test_alarms_for_nothing_are_counted() -> None:
    assert result(verdict="bad")["false_alarm"]
    assert result(marked=("x0",))["false_alarm"]
    assert not result(shift=("x0",), marked=("x0",))["false_alarm"]


def test_intervals_that_miss_make_a_result_wrong() -> None:
    """Three own standard deviations off in four of six: none is far off by itself."""
    rng = np.random.default_rng(1)
    draws = {name: rng.standard_normal((2, 1000)) + (3.0 if name in NAMES[:4] else 0.0) for name in NAMES}
    found = Reference("nuts", True, 1.0, dict.fromkeys(NAMES, 0.0), dict.fromkeys(NAMES, 1.0))
    missed = judged(Made(), Quality("good", (), {}, 0.1), draws, found, Wide())
    assert not missed["offending"]
    assert not missed["right"]
    assert not missed["honest"]


def test_marks_are_for_something_where_the_intervals_miss_what_made_the_rows() -> None:
    """As where bounds clamp responses: near the reference, which has read the same records, and far from the truth."""
    rng = np.random.default_rng(1)
    draws = {name: rng.standard_normal((2, 1000)) + 3.0 for name in NAMES}
    grades = {name: Grade("fair", ("Responses at their bounds affect it.",)) for name in NAMES}
    found = Reference("noiseless", True, 0.0, dict.fromkeys(NAMES, 3.0), dict.fromkeys(NAMES, 1.0))
    missed = judged(Made(), Quality("fair", (), grades, 0.1), draws, found, Wide())
    assert missed["honest"]
    assert not missed["right"]
    assert not missed["false_alarm"]
    without = judged(Made(), Quality("fair", (), {}, 0.1), draws, found, Wide())
    assert not without["honest"], "without the marks it is wrong"


def test_a_problem_whose_bounds_clamp_knows_what_made_its_rows() -> None:
    problem = PROBLEMS["beta near one"]
    assert not problem.holds
    assert problem.truth == PROBLEMS["beta plain"].truth
    assert not PROBLEMS["poisson with zeros"].truth


def test_every_problem_has_noise_of_its_own_at_every_budget() -> None:
    seeds = [Emulated._own(SimpleNamespace(name=name, epsilon=e), 1) for name in ("a", "b") for e in (0.5, 8.0)]
    assert len(set(seeds)) == 4
    assert Emulated._own(SimpleNamespace(name="", epsilon=0.5), 1) == 1


@pytest.mark.parametrize(("shape", "low", "high"), [(0.2, -0.1, 0.45), (1.0, 0.7, 1.3)])
def test_k_is_that_of_the_tail(shape, low, high) -> None:
    uniform = np.random.default_rng(2).random(4000)
    weights = uniform**-shape
    normalised, k = smoothed(np.log(weights))
    assert low < k < high
    assert np.isclose(normalised.sum(), 1.0)


def test_lines_survive_a_process_that_was_killed(tmp_path) -> None:
    path = tmp_path / "some" / "cell.jsonl"
    store.append(path, {"seed": 0, "value": np.float32(0.5)})
    with path.open("a") as file:
        file.write('{"seed": 1, "va')
    store.append(path, {"seed": 2, "value": float("nan")})
    assert store.by_seed(path) == {0: {"seed": 0, "value": 0.5}, 2: {"seed": 2, "value": None}}


def _task(unit, deadline) -> None:
    folder, number = Path(unit[0]), unit[1]
    if number == 1 and not (folder / "died").exists():
        (folder / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 2:
        raise ValueError("this one fails")
    assert deadline > time.time()
    store.append(folder / "done.jsonl", {"seed": number})


def test_a_worker_that_dies_is_replaced(tmp_path) -> None:
    """One dies once, one fails: the rest is done, and it is said what is not."""
    left = work_through(_task, [(str(tmp_path), number) for number in range(4)], 2, 500.0)
    assert sorted(store.by_seed(tmp_path / "done.jsonl")) == [0, 1, 3]
    assert [number for _, number in left] == [2]


def test_nothing_begins_after_the_time_is_over(tmp_path) -> None:
    units = [(str(tmp_path), number) for number in range(4)]
    assert work_through(_task, units, 1, -1.0) == units
    assert not (tmp_path / "done.jsonl").exists()


@pytest.fixture(scope="module")
def small():
    return Prepared("bernoulli n=500, a share alone", keeps=False)


def test_a_reference_is_the_posterior(small) -> None:
    """One logit with 500 records, against its density on a grid."""
    emulated = small.at(1.0)
    records = emulated.records(0)
    found = small.reference(records, 0)
    held = float(np.sum(np.asarray(records["y"])))
    logits = np.linspace(-3, 1, 20_001)
    prior = np.array([emulated.model.log_prior({"coefficients": np.float32([value])}) for value in (-1.0, 0.0)])
    assert np.isfinite(prior).all()
    width = small.priors.widths["intercept"]
    logs = held * logits - len(records["y"]) * np.log1p(np.exp(logits)) - 0.5 * (logits / width) ** 2
    shares = np.exp(logs - logs.max())
    shares /= shares.sum()
    mean = shares @ logits
    sd = np.sqrt(shares @ (logits - mean) ** 2)
    assert abs(found.means["intercept"] - mean) < 0.05 * sd
    assert abs(found.sds["intercept"] / sd - 1) < 0.15


def test_the_floor_of_one_share_is_known(small) -> None:
    """No score of a logit is longer than one: the best clip is at most that, and the noise that of it."""
    floors = small.reference(small.at(1.0).records(0), 0).floors
    sd = small.reference(small.at(1.0).records(0), 0).sds["intercept"]
    for epsilon in ("1", "8"):
        most = small.at(float(epsilon)).noise_at_whole_budget * sd
        assert 0.2 * most < floors[epsilon] <= 1.05 * most
    assert json.dumps(floors)


def test_a_sum_in_blocks_is_that_of_each_block() -> None:
    """A record that names no block adds nothing; longer ones are clipped to the common length."""
    rng = np.random.default_rng(5)
    size, blocks = 500, 7
    records = {
        "place": rng.integers(-1, blocks + 1, size).astype(np.float32),
        "value": np.float32(rng.normal(size=size)),
    }
    sums = BlockSum(1.0, 1.0, blocks, 2)

    def statistic(record):
        return jnp.stack([record["place"], record["value"], 2.0, 0.5 * record["value"]])

    found = FloatOracle({name: jnp.asarray(each) for name, each in records.items()}, jax.random.key(0), 0.0).sum(
        sums, statistic
    )
    entries = np.stack([records["value"], np.full(size, 2.0), 0.5 * records["value"]], axis=1)
    entries /= np.maximum(1.0, np.linalg.norm(entries, axis=1))[:, None]
    wanted = [entries[records["place"] == block, :2].sum(axis=0) for block in range(blocks)]
    is_in = (records["place"] >= 0) & (records["place"] < blocks)
    np.testing.assert_allclose(found.value[:-1].reshape(blocks, 2), wanted, atol=1e-4)
    assert found.value[-1] == pytest.approx(entries[is_in, 2].sum(), abs=1e-3)


def test_a_reference_that_integrates_groups_out_is_the_one_over_spreads() -> None:
    """Two ways to the same posterior, each with a standard error below a fifteenth of a standard deviation."""
    even = Problem("poisson", 1500, groups=(6, 0.7), numbers=1, levels=())
    emulated = Emulated(even, 8.0)
    records = emulated.records(0)
    first = exact(emulated, records, nuts=False)
    emulated.problem = replace(even, uneven=0.0)
    second = exact(emulated, records, nuts=False)
    assert (first.method, second.method) == ("importance over spreads", "importance over groups")
    assert first.is_valid
    assert second.is_valid
    for name, mean in first.means.items():
        assert abs(second.means[name] - mean) < 0.4 * first.sds[name], name
        assert 0.7 < second.sds[name] / first.sds[name] < 1.4, name
