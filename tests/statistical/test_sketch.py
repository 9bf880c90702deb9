"""The likelihood sketch: its rank where that is known, what it releases and costs, and whether it knows its own noise.

The statistical test has a fixed seed and a tolerance of 4.5 standard errors, a false alarm in 100,000.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpmcmc as dp
from dpmcmc import zoo
from dpmcmc.accounting import accountants
from dpmcmc.accounting.event import Approximation, Gaussian, RatioApproximation, counts
from dpmcmc.enclave import Sum
from dpmcmc.errors import InvalidArgument, RankTooLarge
from dpmcmc.fitting import prepare_fit
from dpmcmc.fitting.strategies.sketch.draws import Sketched
from dpmcmc.fitting.strategies.sketch.sketch import Release

NUM_RECORDS = 2000
BOUNDS = {"records": (-12.0, 12.0)}


def normal_model(**options) -> dp.Model:
    """Return N(mean, exp(log_scale)^2), whose log-likelihood is linear in (x, x^2)."""

    def log_likelihood(theta, x):
        return -0.5 * ((x - theta[0]) * jnp.exp(-theta[1])) ** 2 - theta[1]

    return dp.Model(
        lambda theta: -0.5 * jnp.sum(theta**2 / jnp.array([4.0, 0.25])),
        log_likelihood,
        sample_prior=lambda key: jax.random.normal(key, (2,)) * jnp.array([2.0, 0.5]),
        position=jax.ShapeDtypeStruct((2,), jnp.float32),
        **options,
    )


def records() -> np.ndarray:
    return np.random.default_rng(1).normal(1.0, 1.5, NUM_RECORDS).astype(np.float32)


def vault(rows=None, adjacency="replace_one", **options) -> dp.PrivateData:
    size = {"capacity": 2300} if adjacency == "add_or_remove_one" else {}
    rows = records() if rows is None else rows
    options = options or {"budget": dp.Budget(20.0, 1e-6)}
    return dp.PrivateData(rows, bounds=BOUNDS, adjacency=adjacency, **size, **options)


@pytest.fixture(scope="module")
def prepared():
    return prepare_fit(normal_model(), vault(), epsilon=8.0, num_steps=500)


def test_an_exponential_family_is_sketched_exactly(prepared) -> None:
    coarse = prepared.strategy.stages.coarse
    assert prepared.sampler == "sketch", "auto takes it"
    assert coarse.rank == 2
    assert "A sketch of rank 2 was chosen because 2 numbers per record determine" in prepared.describe()
    rng = np.random.default_rng(2)
    rows, positions = rng.uniform(-12, 12, 50), rng.normal(size=(40, 2)) * [2.0, 0.5]
    table = coarse.likelihood.differences(rows, positions, coarse.origin)
    coefficients = coarse.skeleton.coefficients(coarse.likelihood.differences(rows, coarse.nodes, coarse.origin))
    basis = coarse.basis(positions)
    scale = np.abs(table).max()
    np.testing.assert_allclose(basis[:, 0] + coefficients @ basis[:, 1:].T, table, atol=1e-9 * scale)
    with pytest.raises(AssertionError):  # a coefficient less
        np.testing.assert_allclose(basis[:, 0] + coefficients[:, :1] @ basis[:, 1:2].T, table, atol=1e-3 * scale)


def test_the_price_is_two_gaussians_of_the_whole_budget(prepared) -> None:
    parts = counts(prepared.event)
    noises = sorted(part.noise_multiplier for part in parts if isinstance(part, Gaussian))
    assert noises == sorted(prepared.strategy.stages.multipliers)
    assert noises[1] / noises[0] == pytest.approx(3), "a tenth of the mean loss is for the coarse one"
    assert {type(part) for part in parts} == {Gaussian, Approximation, RatioApproximation}
    assert sum(times for part, times in parts.items() if isinstance(part, Gaussian)) == 2
    assert 0.99 * 8.0 <= accountants.epsilon(prepared.event, 1e-6) <= 8.0


def test_one_record_moves_the_sum_by_two_clips_at_most(prepared) -> None:
    coarse = prepared.strategy.stages.coarse
    rows = records()
    other = rows.copy()
    rows[0], other[0] = 12.0, -12.0

    def moved(clip: float) -> float:
        release = Release(coarse.likelihood.of_record, Sum(clip, 1.0))
        sums = [
            dp.PrivateData.without_guarantee(part, bounds=BOUNDS).run(release, *coarse.query(5), insecure_seed=1)
            for part in (rows, other)
        ]
        return float(np.linalg.norm(np.asarray(sums[0].value) - np.asarray(sums[1].value)))

    lengths = np.linalg.norm(
        coarse.skeleton.coefficients(coarse.likelihood.differences(rows.astype(float), coarse.nodes, coarse.origin)),
        axis=1,
    )
    short = 0.01 * lengths[0]
    assert 0 < moved(short) <= 2 * short * (1 + 1e-5)
    assert moved(1e3) > 2 * short, "the mutant without a clip"


def test_the_posterior_knows_its_own_noise(prepared) -> None:
    """Of a normal law around noise: the variance is that of the posterior and that of what noise does to its mean."""
    coarse = prepared.strategy.stages.coarse
    rows = records().astype(np.float64)
    total = coarse.skeleton.coefficients(coarse.likelihood.differences(rows, coarse.nodes, coarse.origin)).sum(axis=0)
    mean, scale = rows.mean(), 1.5
    axis = np.linspace(-12, 12, 241) * scale / math.sqrt(NUM_RECORDS) + mean  # the mean alone, at a known scale
    line = np.column_stack([axis, np.full_like(axis, math.log(scale))])
    slope = (coarse.basis(line)[-1] - coarse.basis(line)[0])[1:] / (axis[-1] - axis[0])
    deviation = math.sqrt(NUM_RECORDS) / scale / float(np.linalg.norm(slope))  # moves the mean by its own deviation

    def width(believed: float) -> float:
        rng = np.random.default_rng(3)
        known = Sketched(coarse, total, believed, NUM_RECORDS)
        sums = np.concatenate([known.replicates(rng) for _ in range(8)])
        weights = known.weigh(line, np.zeros(len(line)), sums).weights.mean(axis=1)
        return float(weights @ (axis - weights @ axis) ** 2) * NUM_RECORDS / scale**2

    replicates = 8 * 256
    tolerance = 4.5 * math.sqrt(2 / replicates)
    assert abs(width(deviation) - 2) < tolerance
    assert abs(width(1e-9) - 1) < 0.05, "the mutant that leaves the noise out is half as wide"


@pytest.mark.parametrize("adjacency", ["replace_one", "add_or_remove_one"])
def test_a_fit_by_sketch(adjacency) -> None:
    book = dp.Ledger.in_memory()
    book.register("rows", dp.Budget(8.0, 1e-6), adjacency)
    data = vault(adjacency=adjacency, ledger=book, dataset="rows")
    posterior = dp.fit(normal_model(), data, epsilon=8.0, sampler="sketch", num_chains=2, num_steps=300, progress=False)
    assert [entry.kind for entry in book.history("rows")] == ["register", "reserve", "settle"]
    assert book.account("rows").spent == posterior.certificate.event
    assert posterior.certificate.epsilon <= 8.0
    assert posterior.draws["position"].shape == (2, 300, 2)
    stage = posterior.settings["stages"][0]
    assert stage["kernel"] == "sketch"
    assert stage["fine_rank"] == (2 if adjacency == "replace_one" else 3), "a number for the number of records"
    off = posterior.matrix().mean(axis=0) - [records().mean(), math.log(records().std())]
    widths = np.array([1.5, 1.5 / math.sqrt(2) / 1.5]) / math.sqrt(NUM_RECORDS)
    # the noise of about 0.3 deviations, and a false alarm would need thirteen of its own
    assert np.all(np.abs(off) < 4 * widths)
    assert np.all(np.abs(np.log(posterior.matrix().std(axis=0) / widths)) < math.log(1.6))


def test_the_banana_has_rank_two() -> None:
    banana = zoo.problem("banana", np.random.default_rng(0), num_records=1000)
    data = dp.PrivateData(banana.records, bounds=banana.bounds, budget=dp.Budget(4.0, 1e-6))
    fit = prepare_fit(banana.model, data, epsilon=4.0, allow_low_accuracy=True)
    assert (fit.sampler, fit.strategy.stages.coarse.rank) == ("sketch", 2)


def test_a_likelihood_without_a_short_sketch_is_refused() -> None:
    spike = dp.Model(
        lambda theta: -0.5 * jnp.sum(theta**2) / 25,
        lambda theta, x: -jnp.log1p((50 * (x - theta[0])) ** 2),
        sample_prior=lambda key: 5 * jax.random.normal(key, (1,)),
        position=jax.ShapeDtypeStruct((1,), jnp.float32),
    )
    data = vault(budget=dp.Budget(8.0, 1e-6))
    with pytest.raises(
        RankTooLarge, match=r"48 numbers of a record .* nats .* sampler='private_laplace'.* nothing was"
    ):
        prepare_fit(spike, data, epsilon=8.0, sampler="sketch")
    assert data.account.epsilon_spent == 0
    assert prepare_fit(spike, data, epsilon=8.0, allow_low_accuracy=True).sampler != "sketch", "auto takes another"


def test_a_prior_that_cannot_be_drawn_from_is_refused() -> None:
    model = dp.Model(lambda theta: 0.0 * jnp.sum(theta), normal_model().log_likelihood)
    with pytest.raises(InvalidArgument, match=r"give the model sample_prior=.*Nothing was charged"):
        prepare_fit(model, vault(), epsilon=8.0, sampler="sketch", init=jnp.zeros(2))


@pytest.mark.parametrize("heavy", [False, True])
def test_more_records_that_are_cut_than_the_model_says_are_noticed(heavy) -> None:
    """Of records that follow the model the count is above four standard deviations in one of 30,000 runs.

    A tenth of the heavy ones is at the bounds, three to four of their standard deviations from the mean.
    """
    rng = np.random.default_rng(6)
    rows = records()
    if heavy:
        rows = np.where(rng.random(len(rows)) < 0.1, 12 * np.sign(rng.standard_normal(len(rows))), 0.2 * rows)
    data = dp.PrivateData.without_guarantee(rows.astype(np.float32), bounds=BOUNDS)
    fit = prepare_fit(normal_model(), data, epsilon=8.0, sampler="sketch", num_steps=300, insecure_seed=3)
    posterior = fit.run(progress=False)
    surprise = posterior.settings["stages"][0]["cut_surprise"]
    assert (surprise > 4) == heavy
    assert posterior.quality.verdict == "bad" or not heavy
