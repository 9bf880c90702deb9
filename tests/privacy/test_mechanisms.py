"""The sums that leave the enclave: their values, noise, events, and what one record can do to them."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from toy import GaussianModel, compute, run_chains, slots_of

from dpmcmc.accounting.accountants import without_approximations
from dpmcmc.accounting.adjacency import Adjacency
from dpmcmc.accounting.event import AcceptBit, Approximation, Gaussian, NonPrivate, counts
from dpmcmc.enclave.core import sums
from dpmcmc.enclave.core.gate import gated_sum
from dpmcmc.enclave.core.mechanism import Term
from dpmcmc.enclave.core.metadata import admit
from dpmcmc.enclave.data import PrivateData
from dpmcmc.enclave.mechanisms import remainder_test
from dpmcmc.enclave.mechanisms.barker_bit import BarkerBit
from dpmcmc.enclave.mechanisms.curvature import CurvatureSum
from dpmcmc.enclave.mechanisms.exact import ExactGradientSum, ExactLogRatio, ExactSum
from dpmcmc.enclave.mechanisms.gradient import GradientSum
from dpmcmc.enclave.mechanisms.log_ratio import LogRatio, PenaltyTest
from dpmcmc.enclave.mechanisms.noisy_count import NoisyCount
from dpmcmc.enclave.mechanisms.remainder_test import RemainderTest
from dpmcmc.enclave.mechanisms.subsampled_gradient import SubsampledGradientSum
from dpmcmc.enclave.mechanisms.sum import Sum
from dpmcmc.enclave.noise.chacha20 import insecure_key
from dpmcmc.errors import BudgetExceeded, InvalidArgument

MODEL = GaussianModel()
THETA, OTHER = jnp.array([0.1, -0.2, 0.3]), jnp.array([0.2, -0.1, 0.1])
QUIET = 0.002  # about the least noise that a lattice holds: a standard deviation of 0.006 at a clip of 1.5
ADJACENCIES = [{"adjacency": "replace_one"}, {"adjacency": "add_or_remove_one", "capacity": 60}]


def vault(records, **facts):
    return PrivateData.without_guarantee(records, **facts)


def total(oracle, mechanism=None):
    return oracle.sum(mechanism or Sum(clip=1.0, noise_multiplier=1.0), lambda record: record)


def force(oracle, theta, mechanism=None):
    return oracle.force(mechanism or GradientSum(clip=2.0, noise_multiplier=3.0), theta)


def ratio(oracle, first, second, mechanism=None):
    return oracle.log_posterior_ratio(mechanism or LogRatio(clip=2.0, noise_multiplier=3.0), first, second)


def clipped(vectors, clip):
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors * np.minimum(1, clip / norms)).sum(0)


# Values, with next to no noise.


def test_sum_is_the_clipped_sum(table):
    quiet = Sum(clip=1.5, noise_multiplier=QUIET)
    noisy = vault(table).run(lambda oracle: total(oracle, quiet))
    np.testing.assert_allclose(noisy.value, clipped(table, 1.5), atol=0.05)
    np.testing.assert_allclose(noisy.variance, (2 * 1.5 * QUIET) ** 2, rtol=1e-5)


def test_force_is_the_clipped_gradient_plus_that_of_the_prior(table):
    quiet = GradientSum(clip=1.5, noise_multiplier=QUIET)
    noisy = vault(table).run(lambda oracle, t: force(oracle, t, quiet), THETA, model=MODEL)
    np.testing.assert_allclose(noisy.value, clipped(table - np.asarray(THETA), 1.5) - THETA, atol=0.05)


def test_log_ratio_is_the_clipped_ratio_plus_that_of_the_prior(table):
    quiet = LogRatio(clip=1.5, noise_multiplier=QUIET)
    noisy = vault(table).run(lambda oracle, a, b: ratio(oracle, a, b, quiet), THETA, OTHER, model=MODEL)
    first, second = np.asarray(THETA, float), np.asarray(OTHER, float)
    each = -0.5 * ((table - second) ** 2).sum(1) + 0.5 * ((table - first) ** 2).sum(1)
    bound = 1.5 * np.linalg.norm(second - first)
    expected = np.clip(each, -bound, bound).sum() - 0.5 * (second @ second - first @ first)
    np.testing.assert_allclose(noisy.value, expected, atol=0.05)
    np.testing.assert_allclose(noisy.variance, (2 * bound * QUIET) ** 2, rtol=0.02)


def test_temperature_scales_a_term_before_it_is_clipped(table):
    quiet = GradientSum(clip=1.5, noise_multiplier=QUIET)
    warm = GaussianModel(temperature=0.25)
    noisy = vault(table).run(lambda oracle, t: force(oracle, t, quiet), THETA, model=warm)
    np.testing.assert_allclose(noisy.value, clipped(0.25 * (table - np.asarray(THETA)), 1.5) - THETA, atol=0.05)


def test_positions_may_be_trees(table):
    class Tree:
        temperature = 1.0

        def log_prior(self, position):
            return MODEL.log_prior(position["a"]) + MODEL.log_prior(position["b"][0])

        def log_likelihood(self, position, record):
            return MODEL.log_likelihood(jnp.append(position["a"], position["b"][0]), record)

    quiet, quiet_ratio = GradientSum(clip=1.5, noise_multiplier=QUIET), LogRatio(clip=1.5, noise_multiplier=QUIET)
    data = vault(table)
    tree, other = {"a": THETA[:2], "b": [THETA[2]]}, {"a": OTHER[:2], "b": [OTHER[2]]}
    nested = data.run(lambda oracle, t: force(oracle, t, quiet).value, tree, model=Tree())
    flat = data.run(lambda oracle, t: force(oracle, t, quiet).value, THETA, model=MODEL)
    np.testing.assert_allclose(jnp.append(nested["a"], nested["b"][0]), flat, atol=0.05)
    nested = data.run(lambda oracle, a, b: ratio(oracle, a, b, quiet_ratio).value, tree, other, model=Tree())
    flat = data.run(lambda oracle, a, b: ratio(oracle, a, b, quiet_ratio).value, THETA, OTHER, model=MODEL)
    np.testing.assert_allclose(nested, flat, atol=0.05)


def test_exact_twins(table):
    data = vault(table, chunk_size=7)
    np.testing.assert_allclose(data.run(lambda o: total(o, ExactSum()).value), table.sum(0), rtol=1e-4, atol=1e-4)
    gradient = data.run(lambda o, t: force(o, t, ExactGradientSum()), THETA, model=MODEL)
    np.testing.assert_allclose(gradient.value, (table - np.asarray(THETA)).sum(0) - THETA, rtol=1e-4, atol=1e-4)
    assert gradient.variance == 0
    several = data.run(
        lambda o, t: jax.vmap(lambda u: force(o, u, ExactGradientSum()).value)(t),
        jnp.stack([THETA, OTHER]),
        model=MODEL,
    )
    np.testing.assert_allclose(several[0], gradient.value, rtol=1e-4, atol=1e-4)
    exact = data.run(lambda o, a, b: ratio(o, a, b, ExactLogRatio()).value, THETA, OTHER, model=MODEL)
    posterior = lambda t: -0.5 * ((table - np.asarray(t)) ** 2).sum() - 0.5 * (np.asarray(t) ** 2).sum()  # noqa: E731
    np.testing.assert_allclose(exact, posterior(OTHER) - posterior(THETA), rtol=1e-3, atol=1e-3)


# The same bits, whatever the chunks and the order.


@pytest.mark.parametrize(
    ("chunk_size", "order"), [(1, "shuffled"), (7, "as it is"), (7, "reversed"), (50, "shuffled"), (1000, "reversed")]
)
def test_results_depend_on_neither_chunks_nor_order(table, chunk_size, order):
    rows = {"as it is": table, "reversed": table[::-1], "shuffled": np.random.default_rng(3).permutation(table)}[order]

    def program(oracle, first, second):
        return total(oracle), force(oracle, first), ratio(oracle, first, second)

    run = lambda data: data.run(program, THETA, OTHER, model=MODEL, insecure_seed=11)  # noqa: E731
    whole, in_chunks = run(vault(table)), run(vault(rows, chunk_size=chunk_size))
    for one, other in zip(jax.tree.leaves(whole), jax.tree.leaves(in_chunks), strict=True):
        np.testing.assert_array_equal(one, other)


def test_chains_share_a_pass_and_nothing_else(table):
    """The sums of chains equal those of single runs; their noises are all different."""
    quiet = GradientSum(clip=1.5, noise_multiplier=QUIET)
    positions = jnp.stack([THETA, OTHER, THETA])
    data = vault(table)
    together = data.run(lambda o, t: jax.vmap(lambda u: force(o, u, quiet).value)(t), positions, model=MODEL)
    for position, value in zip(positions, together, strict=True):
        alone = data.run(lambda o, t: force(o, t, quiet).value, position, model=MODEL)
        np.testing.assert_allclose(value, alone, atol=0.05)
    assert np.all(together[0] != together[2])


def test_memory_is_flat_in_the_number_of_records():
    def temporary(rows):
        data = vault(np.zeros((rows, 10), np.float32))
        program = lambda o, t: jax.vmap(lambda u: force(o, u).value)(t)  # noqa: E731
        data.run(program, jnp.zeros((4, 10)), model=MODEL)
        (prepared,) = data._programs.kept.values()
        return prepared.compile().memory_analysis().temp_size_in_bytes

    whole = 26_112  # of so many rows, 51 * 512, four chains of ten coordinates are at most 2^20 entries
    assert temporary(40 * whole) <= temporary(4 * whole) + 4096
    assert temporary(80_000) <= temporary(4 * whole) + 4096, "chunks are of nearly equal length, and none is longer"


@pytest.mark.parametrize("mechanism", [BarkerBit(0.1), PenaltyTest(2.0, 3.0)], ids=lambda one: type(one).__name__)
def test_the_shape_of_chunks_is_public(mechanism, monkeypatch):
    """XLA may round what a record adds by the shape of its chunk: one record more or less must not change that."""
    sizes = []

    def watched(gate, computes, counts, length, chunk, *arguments, **options):
        sizes.append((length, chunk))
        return gated_sum(gate, computes, counts, length, chunk, *arguments, **options)

    monkeypatch.setattr(sums, "gated_sum", watched)
    for rows in (0, 1, 30, 31, 64, 600):
        data = vault(np.zeros((rows, 3), np.float32), adjacency="add_or_remove_one", capacity=600, chunk_size=32)
        data.run(lambda o, a, b: o.accept(mechanism, a, b), THETA, OTHER, model=MODEL)
    assert len(sizes) >= 6
    assert set(sizes) == {(1024, 32)}, "all slots, in chunks of the stated size"


# Events.


@pytest.mark.parametrize("facts", ADJACENCIES)
def test_events(table, facts):
    data = vault(table, **facts)
    test = PenaltyTest(clip=2.0, noise_multiplier=3.0)
    prices = [
        (data.price(total), Gaussian(1.0), 3),
        (data.price(force, THETA, model=MODEL), Gaussian(3.0), 3),
        (data.price(ratio, THETA, OTHER, model=MODEL), Gaussian(3.0), 1),
        (data.price(lambda o, a, b: o.accept(test, a, b), THETA, OTHER, model=MODEL), AcceptBit(3.0), 1),
    ]
    for price, expected, num_coordinates in prices:
        released, slack = without_approximations(price)
        assert released == expected
        assert slack.total_variation < num_coordinates * 1e-18
        assert slack.log_ratio < num_coordinates * 1e-9
    for mechanism, ask in ((ExactSum(), total), (ExactGradientSum(), force), (ExactLogRatio(), ratio)):
        positions = {total: (), force: (THETA,), ratio: (THETA, OTHER)}[ask]
        assert data.price(partial(ask, mechanism=mechanism), *positions, model=MODEL) == NonPrivate()


@pytest.mark.parametrize("num_steps", [1, 100])
@pytest.mark.parametrize("num_leapfrog", [1, 10])
@pytest.mark.parametrize("num_chains", [1, 4])
def test_dp_hmc_costs_what_the_paper_says(table, num_steps, num_leapfrog, num_chains):
    tau_g, tau_l = 20.0, 7.0
    mechanisms = {"gradient": GradientSum(6.0, tau_g), "log_ratio": LogRatio(6.0, tau_l)}
    program = partial(run_chains, num_steps=num_steps, num_leapfrog=num_leapfrog, **mechanisms)
    event = vault(table).price(program, jnp.zeros((num_chains, 3)), jax.random.key(0), model=MODEL)
    k = num_steps * num_chains
    paper = k / (2 * tau_l**2) + k * (num_leapfrog + 1) / (2 * tau_g**2)
    assert event.gaussian_rho == pytest.approx(paper, rel=1e-12)
    assert sum(n for part, n in counts(event).items() if isinstance(part, Approximation)) == k * (num_leapfrog + 2)


def test_dp_hmc_runs(table):
    mechanisms = {"gradient": GradientSum(6.0, 1.0), "log_ratio": LogRatio(6.0, 1.0)}
    program = partial(run_chains, num_steps=20, num_leapfrog=3, **mechanisms)
    positions, accepted = vault(table).run(program, jnp.zeros((2, 3)), jax.random.key(0), model=MODEL)
    assert np.all(np.isfinite(positions))
    assert accepted.shape == (2, 20)


# Noise: the declared scale, under either adjacency; 2/3 and 3/2 of it would fail by far.


@pytest.mark.parametrize("facts", ADJACENCIES)
def test_noise_has_the_declared_scale(facts):
    data = vault(np.zeros((40, 3), np.float32), **facts)
    positions = jnp.broadcast_to(THETA, (4000, 3))
    moved = positions + jnp.array([0.3, 0.0, 0.4])
    z, clip, clips = 3.0, 2.0, {Adjacency.REPLACE_ONE: 2, Adjacency.ADD_OR_REMOVE_ONE: 1}[data.facts.adjacency]

    def program(oracle, first, second):
        gradients = jax.vmap(lambda t: force(oracle, t))(first)
        return gradients, jax.vmap(partial(ratio, oracle))(first, second)

    gradients, ratios = data.run(program, positions, moved, model=MODEL, insecure_seed=1)
    for values, sigma in ((gradients, clips * z * clip), (ratios, clips * z * clip * 0.5)):
        np.testing.assert_allclose(values.variance, sigma**2, rtol=1e-3)
        error = 4 * np.sqrt(2 / values.value.size)  # four standard errors of a variance: one false alarm in 16,000
        assert np.mean(np.var(values.value, axis=0)) / sigma**2 == pytest.approx(1, abs=error)


DISTANCE, RADIUS = float(jnp.linalg.norm(OTHER - THETA)), float(max(jnp.linalg.norm(THETA), jnp.linalg.norm(OTHER)))


@pytest.mark.parametrize(
    "test", [PenaltyTest(6.0, 0.3), RemainderTest(12.0 / RADIUS**2, 0.3)], ids=lambda test: type(test).__name__
)
def test_the_penalty_test_accepts_as_often_as_it_should(test, table):
    """E min(1, exp(l + N(0, sigma^2) - sigma^2 / 2)) = Phi(l / sigma - sigma / 2) + e^l Phi(-l / sigma - sigma / 2)."""
    count, correction = 20_000, -3.0

    def program(oracle, first, second):
        decide = lambda a, b: oracle.accept(test, a, b, correction)  # noqa: E731
        return jax.vmap(decide)(jnp.broadcast_to(first, (count, 3)), jnp.broadcast_to(second, (count, 3)))

    accepted = vault(table).run(program, THETA, OTHER, model=MODEL, insecure_seed=2)
    exact = vault(table).run(lambda o, a, b: ratio(o, a, b, ExactLogRatio()).value, THETA, OTHER, model=MODEL)
    sigma, log_ratio = 2 * 0.3 * 6.0 * DISTANCE, float(exact) + correction
    expected = norm.cdf(log_ratio / sigma - sigma / 2)
    expected += np.exp(log_ratio) * norm.cdf(-log_ratio / sigma - sigma / 2)
    assert 0.1 < expected < 0.9
    assert np.mean(accepted) == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / count))


# What one record can do.

VALUES = st.sampled_from(
    [0.0, -0.0, 1.0, -1.0, 1e-40, 5e-324, 1e20, -1e20, 1e38, 1e308, -1e308, np.inf, -np.inf, np.nan]
)


FACTS = vault(np.zeros((5, 3), np.float32)).facts
STRUCTURE = jax.tree.structure((0,))
PROBES = [  # the mechanism, its queries for two chains, and how far a neighbour may move each chain
    (Sum(1.0, 1.0), Term(lambda record: record, jax.tree.structure(())), [], 2.0),
    (GradientSum(2.0, 3.0), Term(MODEL.log_likelihood, STRUCTURE), [THETA], 4.0),
    (LogRatio(2.0, 3.0), Term(MODEL.log_likelihood, STRUCTURE), [THETA, OTHER], 4.0 * np.linalg.norm(OTHER - THETA)),
]


@jax.jit
def probe(slots):
    """The releases of all mechanisms on given records, with the same noise every time, two chains each."""
    keys = jax.random.split(insecure_key(5), 2)
    return [
        compute(mechanism, FACTS, mechanism.contribution(term), slots, [jnp.stack([q, q]) for q in queries], keys)[0]
        for mechanism, term, queries, _ in PROBES
    ]


@settings(deadline=None, max_examples=200)
@given(st.lists(VALUES, min_size=3, max_size=3), st.lists(VALUES, min_size=3, max_size=3))
def test_one_record_moves_a_release_by_no_more_than_its_sensitivity(mine, yours):
    def released(row):
        return probe(slots_of(admit("records", np.concatenate([np.ones((4, 3)), [row]]), {})))

    nobody = probe(slots_of(np.ones((5, 3), np.float32), occupied=np.arange(5) < 4))
    for one, other, less, (_, _, _, bound) in zip(released(mine), released(yours), nobody, PROBES, strict=True):
        assert np.all(np.isfinite(one))
        assert np.all(np.linalg.norm(one - other, axis=1) <= bound * (1 + 1e-4) + 1e-4)
        assert np.all(np.linalg.norm(one - less, axis=1) <= bound / 2 * (1 + 1e-4) + 1e-4)


# Bad input.


def test_the_clip_of_a_remainder_follows_public_positions_and_its_price_does_not(table, monkeypatch):
    """At the clip M / 2 max(r, r')^2 |u' - u| a ratio is held, whichever of the positions is the current one."""
    data, test, used = vault(table), RemainderTest(0.5, 4.0), []
    decision = remainder_test.penalty_decision
    monkeypatch.setattr(remainder_test, "penalty_decision", lambda *given: used.append(given[-1]) or decision(*given))
    test.plan(data.facts, test.contribution(Term(MODEL.log_likelihood, STRUCTURE)), [])
    near, far = jnp.array([0.1, 0.0, 0.0]), jnp.array([3.0, 4.0, 0.0])
    for first, second, clip in (
        (near, far, 0.25 * 25 * 4.9406),
        (far, near, 0.25 * 25 * 4.9406),
        (near, -near, 0.0005),
    ):
        lattice = used[-1]([first, second])
        assert float(lattice.granularity) * lattice.bound == pytest.approx(clip, rel=1e-3)
        assert lattice.scale / lattice.bound >= 2 * 4.0
        price = data.price(lambda o, a, b: o.accept(test, a, b), first, second, model=MODEL)
        assert AcceptBit(4.0) in counts(price)
    for field in ("third_derivative", "noise_multiplier"):
        with pytest.raises(InvalidArgument, match=f"{field}=0.0 must be > 0"):
            RemainderTest(**{"third_derivative": 1.0, "noise_multiplier": 1.0, field: 0.0})


@pytest.mark.parametrize("kind", [Sum, GradientSum, CurvatureSum, LogRatio, PenaltyTest])
@pytest.mark.parametrize("field", ["clip", "noise_multiplier"])
@pytest.mark.parametrize("value", [0, 0.0, -1.0, np.inf, np.nan, None, "1", True])
def test_clips_and_multipliers_are_positive_numbers(kind, field, value):
    with pytest.raises(InvalidArgument, match=f"{field}="):
        kind(**{"clip": 1.0, "noise_multiplier": 1.0, field: value})


ASK = {
    Sum: lambda mechanism: lambda oracle, _: total(oracle, mechanism),
    NoisyCount: lambda mechanism: lambda oracle, _: total(oracle, mechanism),
    GradientSum: lambda mechanism: lambda oracle, theta: force(oracle, theta, mechanism),
    CurvatureSum: lambda mechanism: lambda oracle, theta: oracle.curvature(mechanism, theta, jnp.eye(3)),
    LogRatio: lambda mechanism: lambda oracle, theta: ratio(oracle, theta, OTHER, mechanism),
    PenaltyTest: lambda mechanism: lambda oracle, theta: oracle.accept(mechanism, theta, OTHER),
    RemainderTest: lambda mechanism: lambda oracle, theta: oracle.accept(mechanism, theta, OTHER),
}


@pytest.mark.parametrize("facts", ADJACENCIES)
@pytest.mark.parametrize("kind", ASK)
@pytest.mark.parametrize("value", [1e-4, 1e10])
def test_noise_that_no_lattice_holds_is_refused_by_the_name_the_caller_gave_it(table, facts, kind, value):
    clips = 2 if kind is not NoisyCount and facts["adjacency"] == "replace_one" else 1
    limits = f"must be between {2**-8 / clips:g} and {2**30 / clips:g} for a lattice"
    with pytest.raises(InvalidArgument, match=re.escape(f"noise_multiplier={value!r} {limits}")):
        vault(table, **facts).price(ASK[kind](kind(1.0, value)), THETA, model=MODEL)


def test_a_fixed_batch_names_the_multiplier_too():
    with pytest.raises(InvalidArgument, match=r"noise_multiplier=0\.0001 must be between"):
        SubsampledGradientSum.without_replacement(1.0, 1e-4, 10)
    with pytest.raises(InvalidArgument, match=r"noise_over_clip=0\.0001 must be between"):
        SubsampledGradientSum.poisson(1.0, 1e-4, 0.1)


def test_positions_that_do_not_match(table):
    with pytest.raises(InvalidArgument, match="the structure and the shapes of current"):
        vault(table).price(ratio, THETA, jnp.zeros(2), model=MODEL)


def test_a_budget_does_not_pay_for_exact_mechanisms(table):
    from dpmcmc.accounting.budget import Budget

    data = PrivateData(table, budget=Budget(1.0, 1e-6))
    with pytest.raises(BudgetExceeded, match="NonPrivate"):
        data.run(lambda oracle: total(oracle, ExactSum()).value)
