"""Programs of one form share an executable, and each has the noise, the gate and the constants of its own price."""

from dataclasses import dataclass, replace
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from dpmcmc.enclave import GradientSum, PrivateData, Sum
from dpmcmc.enclave.core import programs
from dpmcmc.enclave.noise import discrete_gaussian as noise
from dpmcmc.errors import RunRefused

FALSE_ALARM = 1e-4
"""Of each statistical test here; seeds are fixed."""

CHAINS = 3000
TABLE = {"x": np.linspace(-2, 2, 700, dtype=np.float32), "y": np.linspace(0, 5, 700, dtype=np.float32)}
BOUNDS = {"x": (-2, 2), "y": (0, 5)}


def vault(**options):
    return PrivateData.without_guarantee(TABLE, bounds=BOUNDS, **options)


def nothing(mechanism):
    """A program that releases the noise alone, many times."""
    return lambda oracle, each: jax.vmap(lambda one: oracle.sum(mechanism, lambda q, r: q * r["x"], one).value)(each)


def total(mechanism, statistic):
    return lambda oracle: oracle.sum(mechanism, statistic).value


def noise_of(data, mechanism):
    return np.ravel(data.run(nothing(mechanism), jnp.zeros(CHAINS), insecure_seed=1))


# --- each its own numbers -------------------------------------------------------------------------------------------

SCALES = [(1.0, 1.0), (1.0, 1.1), (1.0, 40.0), (7.0, 1.0), (0.01, 3000.0)]
"""Clip and noise multiplier."""


def test_programs_that_share_an_executable_have_each_its_own_noise():
    data = vault()
    for clip, multiplier in SCALES:
        standard = noise_of(data, Sum(clip, multiplier)) / (2 * clip * multiplier)  # replace-one moves two clips
        assert stats.kstest(standard, "norm").pvalue > FALSE_ALARM
    assert len(programs.SHARED) == 1


@pytest.mark.parametrize("ratio", [Fraction(2, 3), Fraction(10, 11), Fraction(11, 10), Fraction(3, 2)])
def test_numbers_of_another_program_would_be_seen(ratio, monkeypatch):
    """The negative control: a program that is handed the noise of another one."""
    data = vault()
    other = data._programs.prepare(nothing(Sum(1.0, float(ratio))), (np.zeros(CHAINS, np.float32),), None)
    honest = programs.Programs.prepare
    monkeypatch.setattr(
        programs.Programs, "prepare", lambda *arguments: replace(honest(*arguments), select=other.select)
    )
    found = noise_of(data, Sum(1.0, 1.0)) / 2
    assert stats.kstest(found, "norm").pvalue < FALSE_ALARM or abs(np.std(found) - 1) > 5 / np.sqrt(2 * CHAINS)


@pytest.mark.parametrize("adjacency", ["replace_one", "add_or_remove_one"])
def test_what_is_executed_is_what_was_priced(adjacency):
    """Scale and bound as they are handed over, against the multiplier that was paid for, in exact arithmetic."""
    options = {} if adjacency == "replace_one" else {"adjacency": adjacency, "capacity": 1000}
    data, rng = vault(**options), np.random.default_rng(0)
    for _ in range(40):
        clip, multiplier = (float(number) for number in np.exp(rng.uniform(-2, 6, 2)))
        prepared = data._programs.prepare(total(Sum(clip, multiplier), lambda record: record["x"]), (), None)
        (numbers,) = (slots.numbers for slots in prepared.select((data._slots,)))
        bound, scale = int(numbers.gate.beyond) - 1, Fraction(float(numbers.law.scale))
        moved = 2 if adjacency == "replace_one" else 1
        assert scale / (moved * bound) >= Fraction(multiplier)
        assert float(numbers.granularity) * bound == pytest.approx(clip, rel=1e-5)
        assert f"Gaussian(noise_multiplier={multiplier!r})" in repr(prepared.audit.event)
        variance = noise.plan(float(scale)).top_variance
        np.testing.assert_array_equal(numbers.law.words, noise.table(variance).words())
        assert int(numbers.law.num_base) == noise.plan(float(scale)).num_base
    assert len(programs.SHARED) == 1


def test_each_program_has_its_own_gate():
    """Every record adds at most the clip of the program that runs."""
    data, quiet = vault(), 0.002
    for clip in (0.1, 1.0, 3.0):
        found = float(data.run(total(Sum(clip, quiet), lambda r: r["y"]), insecure_seed=1)[0])
        assert found == pytest.approx(np.sum(np.minimum(TABLE["y"], clip)), rel=1e-3)
    assert len(programs.SHARED) == 1


def test_names_and_constants_are_arguments():
    """Another column, other floating-point constants and another mask are the same program."""
    data, quiet = vault(), Sum(50.0, 0.002)

    def scaled(name, centre, half):
        return lambda r: (r[name] - centre) / half

    for name, centre, half in (("x", 0.0, 1.0), ("y", 2.5, 3.0), ("x", 1.0, 0.5)):
        found = float(data.run(total(quiet, scaled(name, centre, half)), insecure_seed=1)[0])
        assert found == pytest.approx(np.sum((TABLE[name] - centre) / half), abs=0.5)
    assert len(programs.SHARED) == 1


def test_constants_of_another_program_would_be_seen():
    data, quiet = vault(), Sum(50.0, 0.002)
    one, other = (
        data._programs.prepare(total(quiet, lambda r, c=centre: r["y"] - c), (), None) for centre in (1.0, 2.0)
    )
    assert one.compile() is other.compile()
    mixed = replace(one, select=other.select)
    key = jax.random.key(0, impl=_chacha())
    found = [float(each.compile()(each.select((data._slots,)), key, *each.constants)[0][0]) for each in (one, mixed)]
    assert found[0] == pytest.approx(np.sum(TABLE["y"] - 1), abs=0.5)
    assert abs(found[0] - found[1]) > 500


def _chacha():
    from dpmcmc.enclave.noise.chacha20 import CHACHA20

    return CHACHA20


# --- the same bits --------------------------------------------------------------------------------------------------


def both(oracle, at):
    first = oracle.sum(Sum(2.0, 1.0), lambda q, r: jnp.stack([r["x"] * q, jnp.logaddexp(r["y"], 0.3)]), at)
    second = oracle.sum(Sum(1.0, 3.0), lambda r: jnp.tanh(r["y"] - 1.5))
    return first.value, second.value + jnp.sqrt(second.variance), first.variance


def chained(oracle, at):
    return jax.vmap(lambda one: both(oracle, one))(jnp.stack([at, at + 1]))


def looped(oracle, at):
    return jax.lax.scan(lambda carry, _: (carry + both(oracle, carry)[0][0], carry), at, length=3)[1]


@pytest.mark.parametrize("noise", ["exact", "float"])
@pytest.mark.parametrize("program", [both, chained, looped])
def test_sharing_changes_no_bit(program, noise):
    at = np.float32(0.7)
    shared, alone = (vault(noise=noise, accelerate=on).run(program, at, insecure_seed=5) for on in (True, False))
    assert len(programs.SHARED) == (program is not looped), "releases in a loop are compiled on their own"
    for one, other in zip(jax.tree.leaves(shared), jax.tree.leaves(alone), strict=True):
        np.testing.assert_array_equal(one, other)


# --- what is another program ----------------------------------------------------------------------------------------


ONE = Sum(1.0, 1.0)


def asked(statistic=lambda r: r["x"], mechanism=ONE):
    return lambda oracle: oracle.sum(mechanism, statistic).value


def twice(oracle):
    return asked()(oracle) + asked()(oracle)


def first_of_two(oracle):
    return oracle.sum(Sum(1.0, 1.0), lambda r: r["x"]).value, oracle.sum(Sum(1.0, 2.0), lambda r: r["x"]).value


def with_chains(number):
    return lambda oracle: jax.vmap(lambda q: oracle.sum(Sum(1.0, 1.0), lambda q, r: q * r["x"], q).value)(
        jnp.ones(number)
    )


OTHERS = {
    "an operation": (asked(), asked(lambda r: -r["x"])),
    "an integer": (asked(lambda r: r["x"] ** 2), asked(lambda r: r["x"] ** 3)),
    "a place": (asked(lambda r: jnp.stack([r["x"], r["y"]])[0]), asked(lambda r: jnp.stack([r["x"], r["y"]])[1])),
    "the order": (asked(lambda r: r["x"] - r["y"] * r["y"]), asked(lambda r: r["x"] * r["x"] - r["y"])),
    "how many releases": (asked(), twice),
    "which releases": (twice, first_of_two),
    "chains": (with_chains(2), with_chains(3)),
    "coordinates": (asked(), asked(lambda r: jnp.stack([r["x"], r["x"]]))),
}


@pytest.mark.parametrize("name", OTHERS)
def test_programs_that_differ_in_more_than_numbers_share_nothing(name):
    data = vault()
    for program in OTHERS[name]:
        data._programs.prepare(program, (), None)
    assert len(programs.SHARED) == 2


def test_data_that_differ_in_more_than_values_share_nothing():
    for options in (
        {},
        {"noise": "float"},
        {"chunk_size": 512},
        {"adjacency": "add_or_remove_one", "capacity": 5000},
    ):
        vault(**options)._programs.prepare(asked(), (), None)
    assert len(programs.SHARED) == 4


def test_another_table_of_the_size_shares():
    """And the sums are those of the table that was asked."""
    other = {name: values[::-1] / 2 for name, values in TABLE.items()}
    for table in (TABLE, other):
        data = PrivateData.without_guarantee(table, bounds=BOUNDS)
        found = float(data.run(asked(lambda r: r["y"], Sum(9.0, 0.002)), insecure_seed=1)[0])
        assert found == pytest.approx(np.sum(table["y"]), abs=0.5)
    assert len(programs.SHARED) == 1


def test_nothing_is_shared_where_the_owner_wants_the_reference_alone_or_a_mechanism_does_not_say():
    vault(accelerate=False)._programs.prepare(asked(), (), None)

    class Model:
        temperature = 1.0

        def log_prior(self, position):
            return -0.5 * position**2

        def log_likelihood(self, position, record):
            return -0.5 * (record["x"] - position) ** 2

    ask = lambda oracle, at: oracle.force(GradientSum(1.0, 1.0), at).value  # noqa: E731
    vault()._programs.prepare(ask, (np.float32(0),), Model())
    assert not programs.SHARED


# --- those who write programs ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Liar:
    """A statistic that says it is equal to all others."""

    factor: float

    def __eq__(self, other):
        return isinstance(other, Liar)

    def __hash__(self):
        return 0

    def __call__(self, q, record):
        return q * self.factor * record["x"]


def test_a_statistic_that_lies_about_itself_gets_the_noise_that_it_paid_for():
    """Whatever function is executed then, it was audited, and the noise is that of the price."""
    data = vault()
    for multiplier in (1.0, 5.0):

        def ask(oracle, each, multiplier=multiplier):
            return jax.vmap(lambda one: oracle.sum(Sum(1.0, multiplier), Liar(multiplier), one).value)(each)

        found = np.ravel(data.run(ask, jnp.zeros(CHAINS), insecure_seed=2)) / (2 * multiplier)
        assert stats.kstest(found, "norm").pvalue > FALSE_ALARM


def test_every_executable_is_looked_at_before_it_runs(monkeypatch):
    looked, numbers = [], []

    def check(text):
        looked.append(text)
        raise RunRefused("the gate is not as it was meant")

    monkeypatch.setattr(programs, "check_compiled", check)
    data = vault()
    for multiplier in (1.0, 2.0):
        with pytest.raises(RunRefused, match="not as it was meant"):
            data.run(asked(mechanism=Sum(1.0, multiplier)))
        numbers.append(len(looked))
    assert numbers[0] in (1, 2), "each way to compile it is looked at"
    assert numbers[1] == 2 * numbers[0], "an executable that was refused is not kept"


def test_a_program_cannot_hand_numbers_over():
    """What is in front of its arguments is the vault's own; the executable refuses other shapes and structures."""
    data = vault()
    prepared = data._programs.prepare(asked(), (), None)
    slots, key = prepared.select((data._slots,)), jax.random.key(0, impl=_chacha())
    numbers = slots[0].numbers
    assert prepared.compile()(slots, key, *prepared.constants)
    larger = numbers._replace(gate=replace(numbers.gate, largest=2 * numbers.gate.largest))
    fewer = (replace(slots[0], numbers=larger),)
    with pytest.raises(TypeError):
        prepared.compile()(fewer, key, *prepared.constants)
    with pytest.raises(ValueError, match="read-only"):
        numbers.law.words[0, 0] = 0
