"""How a run behaves: what it charges and when, how it is cut, interrupted, shown, saved, and what it refuses."""

import os
import signal
import subprocess
import sys
import threading
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpmcmc as dp
from dpmcmc.accounting import NonPrivate
from dpmcmc.errors import BudgetExceeded, InvalidArgument
from dpmcmc.run import plan
from dpmcmc.run.plan import segment_lengths

ROWS = np.random.default_rng(0).normal(1.0, 1.0, size=(200, 2))
MODEL = dp.Model(
    lambda theta: -0.5 * jnp.sum(theta**2),
    lambda theta, x: -0.5 * jnp.sum((x - theta) ** 2),
    sample_prior=lambda key: jax.random.normal(key, (2,)),
    position=jax.ShapeDtypeStruct((2,), jnp.float32),
)
RATIO, GRADIENT = (
    dp.mechanisms.LogRatio(clip=4.0, noise_multiplier=20.0),
    dp.mechanisms.GradientSum(clip=4.0, noise_multiplier=30.0),
)
WALK = dp.kernels.dp_penalty(RATIO, proposal_scale=0.02)
HMC = dp.kernels.dp_hmc(GRADIENT, RATIO, step_size=0.01, num_leapfrog=2, reuse_gradients=True)
START = jnp.zeros(2)


def ledger(epsilon=4.0):
    book = dp.Ledger.in_memory()
    book.register("people", dp.Budget(epsilon, 1e-6), "replace_one")
    return book


def vault(book=None):
    bounds = {"records": (-5, 5)}
    if book is None:
        return dp.PrivateData.without_guarantee(ROWS, bounds=bounds)
    return dp.PrivateData(ROWS, bounds=bounds, ledger=book, dataset="people")


def test_one_charge_for_the_whole_run() -> None:
    book = ledger()
    posterior = dp.sample(HMC, MODEL, vault(book), num_steps=40, num_chains=2, init=START, progress=False)
    price = dp.price(HMC, MODEL, vault(book), num_steps=40, num_chains=2, init=START)
    assert [entry.kind for entry in book.history("people")] == ["register", "reserve", "settle"]
    assert book.account("people").spent == posterior.certificate.event == price
    assert posterior.certificate.delta == 1e-6
    assert posterior.draws["position"].shape == (2, 40, 2)
    assert posterior["position"].shape == (2, 20, 2)


def test_a_run_over_the_budget_costs_nothing() -> None:
    book = ledger(epsilon=0.1)
    with pytest.raises(BudgetExceeded):
        dp.sample(HMC, MODEL, vault(book), num_steps=40, init=START, progress=False)
    assert [entry.kind for entry in book.history("people")] == ["register"]


def test_segments_do_not_change_the_proposals_nor_the_price() -> None:
    runs = [
        dp.sample(WALK, MODEL, vault(), num_steps=12, init=START, segment_size=size, insecure_seed=5, progress=False)
        for size in (12, 12, 5)
    ]
    assert np.array_equal(runs[0].draws["position"], runs[1].draws["position"])
    assert runs[0].certificate.event == runs[2].certificate.event
    assert NonPrivate in runs[0].certificate.event.held
    assert "No privacy guarantee" in repr(runs[0])


def test_two_runs_differ() -> None:
    first, second = (dp.sample(WALK, MODEL, vault(), num_steps=30, progress=False) for _ in range(2))
    assert not np.array_equal(first.draws["position"][:, 0], second.draws["position"][:, 0])


def test_lengths_of_segments() -> None:
    assert list(segment_lengths(1000, None)) == [50] * 20
    assert list(segment_lengths(7, None)) == [1] * 7
    assert list(segment_lengths(1009, None)) == [51] * 19 + [40]
    assert list(segment_lengths(10, 4)) == [4, 4, 2]
    assert all(sum(segment_lengths(steps, None)) == steps for steps in range(1, 300))


def test_segments_are_traced_once() -> None:
    traced = []

    def log_likelihood(theta, x):
        traced.append(1)
        return -0.5 * jnp.sum((x - theta) ** 2)

    model = dp.Model(MODEL.log_prior, log_likelihood)
    counts = []
    for steps in (20, 200):
        traced.clear()
        kernel = dp.kernels.dp_penalty(RATIO, proposal_scale=0.02)
        dp.sample(kernel, model, vault(), num_steps=steps, init=START, segment_size=10, progress=False)
        counts.append(len(traced))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("segments_before", [1, 3])
def test_an_interrupt_keeps_what_was_paid_for(monkeypatch, segments_before) -> None:
    book = ledger()
    seen = []
    usual = signal.getsignal(signal.SIGINT)

    class Pressing(plan.Plan):
        def segments(self, paid, size):
            for segment in super().segments(paid, size):
                seen.append(1)
                if len(seen) == segments_before:
                    os.kill(os.getpid(), signal.SIGINT)
                yield segment

    monkeypatch.setattr(plan, "Plan", Pressing)
    posterior = dp.sample(
        WALK, MODEL, vault(book), num_steps=50, init=START, segment_size=10, num_warmup=0, progress=False
    )
    assert signal.getsignal(signal.SIGINT) is usual
    assert posterior.draws["position"].shape == (1, 10 * segments_before, 2)
    assert book.account("people").spent == dp.price(WALK, MODEL, vault(), num_steps=10, init=START) * segments_before
    assert posterior.certificate.event == book.account("people").spent


def test_a_run_in_another_thread_needs_no_signals() -> None:
    results = []
    thread = threading.Thread(
        target=lambda: results.append(dp.sample(WALK, MODEL, vault(), num_steps=5, init=START, progress=False))
    )
    thread.start()
    thread.join()
    assert results[0].draws["position"].shape == (1, 5, 2)


def test_stages_hand_over() -> None:
    stages = [dp.kernels.Stage(WALK, 6), dp.kernels.Stage(HMC, 4), dp.kernels.Stage(HMC, 5)]
    posterior = dp.sample(stages, MODEL, vault(), num_chains=3, init=START, progress=False)
    assert posterior.draws["position"].shape == (3, 15, 2)
    assert [stage["kernel"] for stage in posterior.settings["stages"]] == ["dp_penalty", "dp_hmc", "dp_hmc"]


def fisher_information(theta):
    return 200.0 * jnp.eye(2) + theta[0] ** 2


def test_a_function_is_written_down_by_its_name() -> None:
    kernel = dp.kernels.dp_langevin(dp.mechanisms.GradientSum(0.1, 1.0), step_size=0.1, metric=fisher_information)
    posterior = dp.sample(kernel, MODEL, vault(), num_steps=2, init=START, progress=False)
    assert posterior.settings["stages"][0]["metric"] == "function fisher_information", "not by where it lies in memory"


def test_starts() -> None:
    from_prior = dp.sample(WALK, MODEL, vault(), num_steps=1, num_chains=3, num_warmup=0, progress=False)
    assert len(np.unique(from_prior["position"][:, 0, 0])) == 3
    starts = [jnp.full(2, value) for value in (-1.0, 2.0)]
    stated = dp.sample(WALK, MODEL, vault(), num_steps=1, num_chains=2, init=starts, num_warmup=0, progress=False)
    assert np.allclose(stated["position"][:, 0, 0], [-1.0, 2.0], atol=0.2)


def test_pytrees_and_constraints() -> None:
    model = dp.Model(
        lambda p: -0.5 * jnp.sum(p["mean"] ** 2) - 0.5 * p["log_scale"] ** 2 + p["log_scale"],
        lambda p, x: -0.5 * jnp.sum((x - p["mean"]) ** 2) * jnp.exp(-2 * p["log_scale"]) - 2 * p["log_scale"],
        constrain=lambda p: {"mean": p["mean"], "scale": jnp.exp(p["log_scale"])},
        unconstrain=lambda q: {"mean": q["mean"], "log_scale": jnp.log(q["scale"])},
        position={"mean": jax.ShapeDtypeStruct((2,), jnp.float32), "log_scale": jax.ShapeDtypeStruct((), jnp.float32)},
    )
    start = {"mean": np.zeros(2), "scale": 2.0}
    posterior = dp.sample(HMC, model, vault(), num_steps=10, num_chains=2, init=start, progress=False)
    assert posterior.draws["scale"].shape == (2, 10)
    assert np.all(posterior.draws["scale"] > 0)
    assert abs(posterior.draws["scale"][0, 0] - 2.0) < 0.5
    assert posterior.matrix().shape == (10, 3)
    assert list(posterior.summary().index) == ["mean[0]", "mean[1]", "scale"]
    frame = posterior.to_pandas()
    assert list(frame.columns) == ["chain", "draw", "mean[0]", "mean[1]", "scale"]
    assert len(frame) == 2 * 5, "one row a draw, without the warm-up"
    for row in (frame.iloc[0], frame.iloc[7], frame.iloc[-1]):
        at = int(row["chain"]), int(row["draw"])
        assert [row["mean[0]"], row["mean[1]"], row["scale"]] == [*posterior["mean"][at], posterior["scale"][at]]


@pytest.mark.parametrize("name", ["chain", "draw", "scope/x"])
def test_names_that_cannot_be_saved_are_refused_before_the_charge(name) -> None:
    model = dp.Model(MODEL.log_prior, MODEL.log_likelihood, constrain=lambda p: {name: p})
    book = ledger()
    with pytest.raises(InvalidArgument, match=f"the parameter '{name}' cannot be saved"):
        dp.sample(WALK, model, vault(book), num_steps=2, init=np.zeros(2), progress=False)
    assert [entry.kind for entry in book.history("people")] == ["register"]


def test_a_parameter_may_be_called_accepted(tmp_path) -> None:
    model = dp.Model(
        MODEL.log_prior, MODEL.log_likelihood, constrain=lambda p: {"accepted": p}, unconstrain=lambda p: p
    )
    posterior = dp.sample(WALK, model, vault(), num_steps=4, init=np.zeros(2), progress=False)
    again = dp.Posterior.load(posterior.save(tmp_path / "run"))
    assert np.array_equal(again.draws["accepted"], posterior.draws["accepted"])
    assert np.array_equal(again.is_accepted, posterior.is_accepted)


def flat(_):
    return jnp.zeros(())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_steps": 0}, "num_steps=0 must be >= 1"),
        ({"num_steps": None}, "num_steps=None must be an integer"),
        ({"num_chains": 0}, "num_chains=0 must be >= 1"),
        ({"num_warmup": 10}, "num_warmup=10 must be < 10"),
        ({"delta": 1.5}, "delta=1.5 must be strictly between"),
        ({"segment_size": -1}, "segment_size=-1 must be >= 1"),
        ({"init": jnp.zeros(3)}, r"init has the shapes \(3,\); expected \(2,\)"),
        ({"init": [jnp.zeros(2)] * 3}, "init is a list of 3 starts; expected 1"),
        ({"init": jnp.asarray([0.0, jnp.nan])}, "init is not finite"),
        ({"init": "somewhere"}, "init holds a str"),
        ({"model": dp.Model(lambda t: jnp.log(-1.0 - jnp.sum(t**2)), MODEL.log_likelihood)}, "log-prior .* not finite"),
        ({"model": dp.Model(flat, lambda t, x: jnp.log(-1.0 - jnp.sum(t * x) ** 2))}, "log-likelihood is not finite"),
        ({"model": dp.Model(flat, MODEL.log_likelihood), "init": None}, "prior cannot be drawn from"),
        ({"kernel": [], "num_steps": None}, "at least one"),
        ({"kernel": [(WALK, 0)], "num_steps": None}, "num_steps=0 must be >= 1"),
        ({"kernel": [(WALK, 5)]}, "num_steps=10 must be left out with stages"),
        (
            {"kernel": dp.kernels.dp_sgld(dp.mechanisms.GradientSum(clip=4.0, noise_multiplier=30.0), step_size=1.0)},
            "noise of the gradient is too large for the step",
        ),
    ],
)
def test_bad_input_costs_nothing(options, message) -> None:
    book = ledger()
    arguments = {"kernel": WALK, "model": MODEL, "num_steps": 10, "init": START, **options}
    with pytest.raises(InvalidArgument, match=message):
        dp.sample(arguments.pop("kernel"), arguments.pop("model"), vault(book), progress=False, **arguments)
    assert [entry.kind for entry in book.history("people")] == ["register"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: dp.kernels.dp_hmc(GRADIENT, RATIO, step_size=0.0, num_leapfrog=1),
        lambda: dp.kernels.dp_hmc(GRADIENT, RATIO, step_size=0.1, num_leapfrog=0),
        lambda: dp.kernels.dp_hmc(GRADIENT, RATIO, step_size=0.1, num_leapfrog=1, inverse_mass=-1.0),
        lambda: dp.kernels.dp_hmc(
            GRADIENT, RATIO, step_size=0.1, num_leapfrog=1, inverse_mass=[[1.0, 2.0], [2.0, 1.0]]
        ),
        lambda: dp.kernels.dp_hmc(GRADIENT, RATIO, step_size=0.1, num_leapfrog=1, inverse_mass=np.ones((2, 3))),
        lambda: dp.kernels.dp_hmc(GRADIENT, RATIO, step_size=0.1, num_leapfrog=1, step_size_jitter=1.5),
        lambda: dp.kernels.dp_penalty(RATIO, proposal_scale=0.0),
        lambda: dp.kernels.guided_walk(RATIO, proposal_scale=np.ones((2, 2))),
        lambda: dp.kernels.dp_barker(RATIO, proposal_scale=0.1),
        lambda: dp.kernels.dp_barker(dp.mechanisms.PenaltyTest(1.0, 1.0), proposal_scale=0.1),
        lambda: dp.kernels.dp_sgld(GRADIENT, step_size=-1.0),
        lambda: dp.kernels.dp_sghmc(GRADIENT, step_size=0.1, friction=-1.0),
        lambda: dp.kernels.dp_sghmc(GRADIENT, step_size=0.1, friction=11.0),
        lambda: dp.kernels.dp_sghmc(GRADIENT, step_size=0.1, friction=1.0, batch_noise=2.0),
        lambda: dp.kernels.dp_sgnht(GRADIENT, step_size=0.1, diffusion=-1.0),
        lambda: dp.kernels.polynomial_steps(1.0, exponent=0.5, num_steps=10, floor=2.0),
    ],
)
def test_kernels_refuse_bad_settings(make) -> None:
    with pytest.raises(InvalidArgument, match=r"must|expected"):
        make()


@pytest.mark.parametrize(
    "kernel",
    [
        dp.kernels.dp_hmc(GRADIENT, RATIO, step_size=1e20, num_leapfrog=5, reuse_gradients=True),
        dp.kernels.dp_hmc(GRADIENT, dp.mechanisms.BarkerBit(0.5), step_size=1e20, num_leapfrog=5),
        dp.kernels.dp_penalty(RATIO, proposal_scale=3e38),
        dp.kernels.dp_sgld(dp.mechanisms.ExactGradientSum(), step_size=1e15),
        dp.kernels.dp_sghmc(dp.mechanisms.ExactGradientSum(), step_size=1e15, friction=0.0, num_inner=5),
        dp.kernels.dp_sgnht(dp.mechanisms.ExactGradientSum(), step_size=1e15, diffusion=1.0),
    ],
)
def test_a_step_that_diverges_stays_finite(kernel) -> None:
    posterior = dp.sample(kernel, MODEL, vault(), num_steps=20, num_chains=4, init=START, progress=False)
    assert np.all(np.isfinite(posterior.draws["position"]))
    assert posterior.acceptance_rate < 1


def test_progress_without_a_terminal(capsys, monkeypatch) -> None:
    monkeypatch.setattr("dpmcmc.run.progress.SECONDS_BETWEEN_LINES", 0.0)
    dp.sample(WALK, MODEL, vault(), num_steps=10, init=START, segment_size=5)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[-1].startswith("dp_penalty 10/10: ")
    assert "100% of epsilon" in lines[-1]


def test_progress_in_a_terminal(capsys, monkeypatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    dp.sample(WALK, MODEL, vault(), num_steps=10, init=START, segment_size=5)
    shown = capsys.readouterr().err
    assert "dp_penalty 10/10" in shown
    assert "accepted" in shown


def test_a_saved_run_can_be_read_elsewhere(tmp_path) -> None:
    posterior = dp.sample(HMC, MODEL, vault(ledger()), num_steps=20, num_chains=2, init=START, progress=False)
    folder = posterior.save(tmp_path / "runs" / "first")
    assert sorted(path.name for path in folder.iterdir()) == [
        "certificate.json",
        "config.toml",
        "draws.csv",
        "draws.nc",
        "draws.parquet",
        "report.html",
        "summary.csv",
    ]
    again = dp.Posterior.load(folder)
    assert np.array_equal(again.draws["position"], posterior.draws["position"])
    assert np.array_equal(again.is_accepted, posterior.is_accepted)
    assert again.num_warmup == posterior.num_warmup
    assert again.certificate == posterior.certificate
    assert again.settings == posterior.settings
    program = f"import dpmcmc as dp; print(dp.Posterior.load({str(folder)!r}).summary().shape)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "(2, 7)", done.stderr
    with pytest.raises(InvalidArgument, match="exists; choose a new one"):
        posterior.save(folder)
    (folder / "draws.nc").unlink()
    with pytest.raises(InvalidArgument, match=r"draws\.nc is missing"):
        dp.Posterior.load(folder)


def test_arviz_reads_the_draws() -> None:
    posterior = dp.sample(WALK, MODEL, vault(), num_steps=20, num_chains=2, init=START, progress=False)
    tree = posterior.to_arviz()
    assert tree["posterior"]["position"].shape == (2, 10, 2)
    assert tree["sample_stats"]["accepted"].shape == (2, 10)
    assert "observed_data" not in [str(name) for name in tree]


def test_summaries_of_short_runs() -> None:
    posterior = dp.sample(WALK, MODEL, vault(), num_steps=2, init=START, progress=False)
    table = posterior.summary()
    assert list(table.columns) == ["mean", "sd", "q5", "q95", "ess_bulk", "r_hat", "verdict"]
    assert table["r_hat"].isna().all()
    with pytest.raises(KeyError, match="there is no parameter 'beta'; there are position"):
        posterior["beta"]


def test_what_steps_tell_reaches_sample_stats_and_files(tmp_path) -> None:
    post = dp.sample(WALK, MODEL, vault(), num_steps=12, num_chains=2, init=START, segment_size=5, progress=False)
    stats = post.to_arviz().sample_stats
    assert set(stats) == {"accepted", "diverging", "log_alpha", "energy_change"}
    assert not stats["diverging"].any()
    assert np.isfinite(post.sample_stats["log_alpha"]).all()
    assert (post.sample_stats["log_alpha"] < -post.sample_stats["energy_change"]).all(), "the penalty is missing"
    loaded = dp.Posterior.load(post.save(tmp_path / "run"))
    assert {name: values.shape for name, values in loaded.sample_stats.items()} == dict.fromkeys(
        post.sample_stats, (2, 12)
    )
    np.testing.assert_array_equal(loaded.sample_stats["log_alpha"], post.sample_stats["log_alpha"])
    assert loaded.sample_stats["diverging"].dtype == bool


def test_a_step_that_releases_a_decision_tells_no_ratio() -> None:
    walk = dp.kernels.dp_penalty(dp.mechanisms.PenaltyTest(clip=4.0, noise_multiplier=20.0), proposal_scale=0.02)
    post = dp.sample(walk, MODEL, vault(), num_steps=4, num_chains=2, init=START, progress=False)
    assert set(post.sample_stats) == {"diverging"}


def test_a_bound_kernel_has_the_shape_of_blackjax() -> None:
    class Released(NamedTuple):
        value: jax.Array
        variance: jax.Array

    class Normal:
        def log_posterior_ratio(self, _, current, proposed):
            return Released((jnp.sum(current**2) - jnp.sum(proposed**2)) / 2, jnp.zeros(()))

    algorithm = WALK.bind(Normal())
    state = algorithm.init(jnp.ones(2), jax.random.key(0))
    again, info = algorithm.step(jax.random.key(1), state)
    _, expected = WALK.step(jax.random.key(1), state, Normal())
    assert info.log_alpha == expected.log_alpha == -info.energy_change
    assert again.position.shape == (2,)
