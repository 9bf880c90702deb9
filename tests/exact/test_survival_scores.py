"""Scores of censored times have mean zero whatever censors them, and are the likelihood's where nothing is cut.

Means are integrals over the time of the event, with the censoring held at one time after the other: what is zero for
each of them is zero for every law of the censoring. The densities are SciPy's.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import dpmcmc as dp
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.seen_counts import of_times, shares_of
from dpmcmc.model.bounded_scores.pieces import Pieces
from dpmcmc.model.bounded_scores.survival import FROM_START
from dpmcmc.model.formula.families import SURVIVAL
from dpmcmc.model.formula.families.censored_lognormal import LogNormal
from dpmcmc.model.formula.families.censored_weibull import Exponential, Weibull
from dpmcmc.model.formula.families.piecewise_exponential import piecewise_exponential

LAST = np.log(10.0)
CUTS, HAZARDS = (1.0, 3.0), np.array([0.3, 0.5, 0.2])


class PiecewiseLaw:
    """Constant hazards between the cuts, in a few lines of their own."""

    def logsf(self, t):
        edges = np.array([0.0, *CUTS, np.inf])
        return -sum(h * np.clip(t - a, 0, b - a) for h, a, b in zip(HAZARDS, edges, edges[1:], strict=False))

    def logpdf(self, t):
        return np.log(HAZARDS[np.searchsorted(CUTS, t)]) + self.logsf(t)


# the family, its scores, predictor, shapes as a sampler moves them, the other parameters, and the law of the time
CASES = {
    "weibull": (
        SURVIVAL["weibull"],
        Weibull,
        1.5,
        [np.log(1.4)],
        {"shape": 1.4},
        stats.weibull_min(1.4, scale=np.exp(1.5)),
    ),
    "rare weibull": (
        SURVIVAL["weibull"],
        Weibull,
        5.0,
        [np.log(1.2)],
        {"shape": 1.2},
        stats.weibull_min(1.2, scale=np.exp(5.0)),
    ),
    "exponential": (SURVIVAL["exponential"], Exponential, 1.5, [], {}, stats.expon(scale=np.exp(1.5))),
    "lognormal": (
        SURVIVAL["lognormal"],
        LogNormal,
        1.2,
        [np.log(0.8)],
        {"sigma": 0.8},
        stats.lognorm(0.8, scale=np.exp(1.2)),
    ),
    "pieces": (
        piecewise_exponential(CUTS),
        lambda last, has_entry: Pieces(CUTS, last, has_entry),
        np.log(HAZARDS[0]),
        list(np.log(HAZARDS[1:] / HAZARDS[0])),
        {"hazard_ratio[1+]": HAZARDS[1] / HAZARDS[0], "hazard_ratio[3+]": HAZARDS[2] / HAZARDS[0]},
        PiecewiseLaw(),
    ),
}
CENSORED = (0.3, 2.0, 7.0, 10.0)
ENTRIES = (None, 0.8)


def response(times, events, entry):
    start = FROM_START if entry is None else np.log(entry)
    return np.stack([np.log(times), np.broadcast_to(events, times.shape), np.full(times.shape, start)], axis=-1)


def integral(law, end, entry, statistic):
    """The mean of a statistic of the response of a record under observation from `entry` to `end`."""
    begin = 1e-7 if entry is None else entry
    logs = np.linspace(np.log(begin), np.log(end), 100_001)
    times = np.exp((logs[1:] + logs[:-1]) / 2)
    before = 0.0 if entry is None else law.logsf(entry)
    weights = np.exp(law.logpdf(times) - before) * times * (logs[1] - logs[0])
    left = np.exp(law.logsf(np.array([end])) - before)
    events, censored = statistic(response(times, 1.0, entry)), statistic(response(np.array([end]), 0.0, entry))
    return np.tensordot(weights, events, 1) + np.tensordot(left, censored, 1)


@pytest.mark.parametrize("case", CASES)
def test_the_log_density_is_scipys(case) -> None:
    family, _, eta, _, others, law = CASES[case]
    times = np.array([0.2, 0.9, 2.5, 6.0])
    density = jax.vmap(lambda y: family.log_density(jnp.float32(eta), y, jnp.float32(1), others))
    found = density(jnp.asarray(response(times, 1.0, None), jnp.float32))
    np.testing.assert_allclose(found, law.logpdf(times) + np.log(times), atol=2e-4)
    found = density(jnp.asarray(response(times, 0.0, 0.1), jnp.float32))
    np.testing.assert_allclose(found, law.logsf(times) - law.logsf(0.1), atol=2e-4)
    late = density(jnp.asarray(response(times, 1.0, 7.0), jnp.float32))  # came under observation after its time
    np.testing.assert_array_equal(late, np.zeros(4))
    survival = family.survival(jnp.float32(eta), jnp.log(times), others)
    np.testing.assert_allclose(survival, np.exp(law.logsf(times)), atol=1e-4)


@pytest.mark.parametrize("case", CASES)
def test_the_score_is_the_likelihoods_where_nothing_is_cut(case) -> None:
    family, scores, eta, shapes, others, _ = CASES[case]
    own, names = scores(LAST, True), list(others)

    def log_density(vector, y):
        moved = {name: jnp.exp(vector[1 + place]) for place, name in enumerate(names)}
        return family.log_density(vector[0], y, jnp.float32(1), moved)

    y = np.concatenate([response(np.array([0.9, 2.5, 6.0]), event, 0.5) for event in (0.0, 1.0)])
    vector = jnp.asarray([eta, *shapes], jnp.float32)
    exact = jax.vmap(jax.grad(log_density), in_axes=(None, 0))(vector, jnp.asarray(y, jnp.float32))
    found = own.integrals(np, eta, np.array(shapes), y, own.table(np.array(shapes), 20.0)).score
    np.testing.assert_allclose(found, exact, atol=2e-3)


@pytest.mark.parametrize("bound", [1.0, 2.0, 8.0])
@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("case", CASES)
def test_the_mean_is_zero_whatever_censors(case, entry, bound) -> None:
    _, scores, eta, shapes, _, law = CASES[case]
    own, shapes = scores(LAST, entry is not None), np.array(shapes)
    table, uncut = own.table(shapes, bound), own.table(shapes, 20.0)

    def integrals(y):
        return own.integrals(np, eta, shapes, y, table)

    for end in CENSORED:
        if entry is not None and end <= entry:
            continue
        mean = integral(law, end, entry, lambda y: integrals(y).score)
        variance = integral(law, end, entry, lambda y: integrals(y).score[:, :, None] * integrals(y).score[:, None])
        of_law = integral(
            law,
            end,
            entry,
            lambda y: integrals(y).score[:, :, None] * own.integrals(np, eta, shapes, y, uncut).score[:, None],
        )
        slope, expected = (
            integral(law, end, entry, lambda y, name=name: getattr(integrals(y), name))
            for name in ("slope", "variance")
        )
        sds = np.sqrt(np.maximum(np.diag(variance), 1e-12))
        assert np.all(np.abs(mean) < 1e-4 * sds + 1e-6), (end, mean / sds)
        np.testing.assert_allclose(expected, variance, atol=2e-3 * max(np.diag(variance).max(), 1e-6))
        np.testing.assert_allclose(slope, (of_law + of_law.T) / 2, atol=1e-2 * max(np.diag(of_law).max(), 1e-6))


@pytest.mark.parametrize("case", ["weibull", "exponential", "lognormal"])
def test_the_mean_of_a_score_that_is_clipped_is_not(case) -> None:
    """The control: clipped at two standard deviations, and centred by what the mean is without censoring."""
    _, scores, eta, shapes, _, law = CASES[case]
    own, shapes = scores(LAST, False), np.array(shapes)
    table = own.table(shapes, 20.0)

    def clipped(y):
        return np.clip(own.integrals(np, eta, shapes, y, table).score[:, 0], -0.7, 0.7)

    without = integral(law, 10.0, None, clipped)
    assert abs(integral(law, 2.0, None, clipped) - without) > 0.02


@pytest.mark.parametrize("entry", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_bounds_hold_and_single_precision_is_enough(case, entry) -> None:
    _, scores, eta, shapes, _, _ = CASES[case]
    own, rng = scores(LAST, entry), np.random.default_rng(0)
    times = np.exp(rng.uniform(-6, LAST, 4000))
    entries = np.where(rng.random(4000) < 0.5, FROM_START, np.log(times) - rng.exponential(1.0, 4000))
    y = np.stack([np.log(times), rng.integers(0, 2, 4000), entries if entry else np.full(4000, FROM_START)], axis=1)
    root = rng.normal(size=(own.size, own.size))
    gram = root @ root.T
    for bound in (1.0, 2.8, 11.0):
        table = jnp.asarray(own.table(np.array(shapes), bound), jnp.float32)
        place = jnp.asarray([eta], jnp.float32), jnp.asarray(shapes, jnp.float32)

        def one(row, place=place, table=table):
            found = own.at(*place, row, jnp.float32(1), table)
            return found.score, found.slope, found.longest(jnp.asarray(gram)), found.steepest(jnp.asarray(gram))

        score, slope, longest, steepest = jax.jit(jax.vmap(one))(jnp.asarray(y, jnp.float32))
        exact = own.integrals(np, eta, np.array(shapes), y, own.table(np.array(shapes), bound)).score
        assert np.quantile(np.abs(score - exact), 0.99) < 2e-3  # those at an edge may be on its other side
        lengths = np.sqrt(np.einsum("na,ab,nb->n", np.asarray(score, float), gram, np.asarray(score, float)))
        assert np.ptp(longest) < 1e-4 * longest[0]  # what a weight looks at does not depend on the response
        assert np.ptp(steepest) < 1e-4 * steepest[0]
        assert lengths.max() <= 1.001 * longest[0]
        assert lengths.max() > 0.3 * longest[0] or bound > 2.8
        assert np.einsum("nab,ab->n", slope, gram).max() <= 1.001 * steepest[0] + 1e-6


@pytest.mark.parametrize("case", ["weibull", "exponential", "lognormal", "pieces"])
def test_a_fit_starts_near_the_truth(case) -> None:
    from dpmcmc.model.bounded_scores.spread import Spread

    _, scores, eta, shapes, _, law = CASES[case]
    own = scores(LAST, False)
    edges = np.linspace(np.log(1e-4), LAST, 33)
    middles = (edges[1:] + edges[:-1]) / 2
    inside = np.exp(law.logsf(np.exp(edges[:-1]))) - np.exp(law.logsf(np.exp(edges[1:])))
    censored = np.append(np.zeros(31), 1 - inside.sum())
    width = LAST - np.log(1e-4)
    spread = Spread(np.append(middles, middles + width), np.append(inside, censored))
    constant, found = own.start(spread, 1e-5)
    np.testing.assert_allclose(constant, [eta], atol=0.4)
    np.testing.assert_allclose(found, shapes, atol=0.4)


# the distance of the location from the last time, in scales, as the predictor

SCALED = ("weibull", "rare weibull", "lognormal")


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("case", SCALED)
def test_scaled_scores_are_the_same_in_other_coordinates(case, entry):
    _, scores, predictor, shapes, _, _ = CASES[case]
    plain = scores(LAST, entry is not None)
    scaled = plain.scaled()
    rate = np.exp(plain.sign * shapes[0])
    both = np.array([rate * (predictor - LAST), shapes[0]])
    turn = np.array([[1 / rate, -plain.sign * both[0] / rate], [0.0, 1.0]])  # of location and shape, by these two
    gram = np.array([[2.0, 0.3], [0.3, 1.0]])
    for time, event in ((0.9, 1.0), (4.0, 1.0), (4.0, 0.0), (9.5, 0.0)):
        row = jnp.asarray(response(np.array(time), event, entry), jnp.float32)
        table = jnp.asarray(plain.table(np.array(shapes), 1.5), jnp.float32)
        one = plain.at(jnp.array([predictor]), jnp.array(shapes), row, None, table)
        other = scaled.at(jnp.array(both[:1]), jnp.array(both[1:]), row, None, table)
        np.testing.assert_allclose(other.score, turn.T @ np.asarray(one.score), rtol=2e-3, atol=2e-4)
        np.testing.assert_allclose(other.slope, turn.T @ np.asarray(one.slope) @ turn, rtol=5e-3, atol=5e-4)
        assert float(other.longest(gram)) == pytest.approx(float(one.longest(turn @ gram @ turn.T)), rel=1e-3)
        assert not np.allclose(other.score, one.score, rtol=2e-3, atol=2e-4)  # the control


@pytest.mark.parametrize("family", ["weibull", "lognormal"])
def test_the_prior_of_scaled_coefficients_is_that_of_the_formula(family):
    columns = {"t": dp.Column(kind="number", lower=0, upper=10), "x": dp.Column(kind="number", lower=-1, upper=1)}
    schema = dp.Schema({**columns, "seen": dp.Column(kind="boolean")})
    model = dp.from_formula("Surv(t, seen) ~ x", schema, family=family)
    scaled, plain = Regression.of(model), Regression.of(model, may_scale=False)
    vectors = np.random.default_rng(1).normal(size=(20, 3)) * [2.0, 0.5, 0.4]
    logs = vectors[:, -1] * (1 if family == "lognormal" else -1)  # of the scale, in which two coefficients are
    expected = plain.log_prior(scaled.coefficients(vectors)) + 2 * logs
    np.testing.assert_allclose(scaled.log_prior(vectors), expected, rtol=1e-9, atol=1e-9)
    gradient, bend = scaled.prior_at(vectors[0])
    for way in np.eye(3):
        ends = scaled.log_prior(vectors[0] + 1e-3 * np.array([way, -way]))
        assert gradient @ way == pytest.approx((ends[0] - ends[1]) / 2e-3, abs=1e-3)
        middle = scaled.log_prior(vectors[:1])[0]
        assert way @ bend @ way == pytest.approx(-(ends.sum() - 2 * middle) / 1e-6, rel=0.02, abs=0.02)


def test_events_are_counted_together_where_each_bin_is_within_its_noise():
    rng, half, sd = np.random.default_rng(3), 32, 10.0
    middles = np.linspace(-9, 2.3, half)
    events = 200 * np.exp(middles) / np.exp(middles).sum()
    counts = np.concatenate([events, np.full(half, 600.0)]) + sd * rng.standard_normal(2 * half)
    found = of_times(np.tile(middles, 2), counts, np.zeros(2), sd)
    assert found.shares.sum() == pytest.approx(1.0)
    assert found.shares[:half].sum() == pytest.approx(200 / 19_400, abs=4 * found.noise)
    assert found.shares[:half] @ middles / found.shares[:half].sum() > 0.0  # late, as they are
    assert shares_of(counts, sd)[:half].sum() < 0.75 * 200 / 19_400  # the control: bins by themselves


@pytest.mark.parametrize(("kind", "shortest"), [("integer", 0.5), ("number", 60e-5)])
def test_a_time_of_zero_is_half_a_unit_where_times_are_whole_numbers(kind, shortest) -> None:
    schema = dp.Schema({"t": dp.Column(kind=kind, lower=0, upper=60), "e": dp.Column(kind="boolean")})
    response = dp.from_formula("Surv(t, e) ~ 1", schema, family="weibull").coordinates.response
    logs = [float(response.read({"t": np.float32(time), "e": np.float32(1)})[0]) for time in (0, 1, 7)]
    np.testing.assert_allclose(np.exp(logs), [shortest, 1, 7], rtol=1e-5)
    at_bound = np.isclose(response.read_bounds[0], logs[0])
    assert bool(at_bound) == (kind == "number")  # a whole number of zero is no time at a bound
