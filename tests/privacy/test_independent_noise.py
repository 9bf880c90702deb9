"""The noise against independent implementations: `cryptography`'s ChaCha20, RFC 8439's vectors, OpenDP's sampler.

And its laws in ball arithmetic: intervals that are proved to hold the distances of tables and sampler.
"""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from flint import arb, ctx
from scipy import stats

from dpmcmc.enclave.noise import chacha20 as rng
from dpmcmc.enclave.noise import discrete_gaussian as noise
from dpmcmc.enclave.noise.chacha20_gpu import chacha20_kernel

FALSE_ALARM = 1e-5
"""Rate of each comparison of samples here; OpenDP's sampler has no seed, so they may fail at this rate."""


def keystream(key, counter, nonce, num_bytes):
    """What `cryptography` makes: its nonce of 16 bytes is the counter and RFC 8439's nonce."""
    cipher = Cipher(algorithms.ChaCha20(key, counter.to_bytes(4, "little") + nonce), mode=None)
    return cipher.encryptor().update(bytes(num_bytes))


def blocks(function, key, counters, nonce):
    words = function(
        jnp.asarray(np.frombuffer(key, "<u4")),
        jnp.asarray(counters, jnp.uint32),
        [int(word) for word in np.frombuffer(nonce, "<u4")],
    )
    return np.asarray(words).astype("<u4").tobytes()


@pytest.mark.parametrize("function", [rng.chacha20_loop, chacha20_kernel], ids=["loop", "kernel"])
def test_blocks_are_those_of_cryptography(function):
    draws = np.random.default_rng(8)
    for first in (0, 1, 7, 2**32 - 6):
        key, nonce = draws.bytes(32), draws.bytes(12)
        ours = blocks(function, key, [first + step for step in range(5)], nonce)
        assert ours == b"".join(keystream(key, first + step, nonce, 64) for step in range(5))


VECTORS = {
    "2.3.2": (
        bytes(range(32)),
        1,
        "000000090000004a00000000",
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e",
    ),
    "A.1 #1": (bytes(32), 0, "00" * 12, "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"),
    "A.1 #2": (bytes(32), 1, "00" * 12, "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"),
    "A.1 #3": (bytes(31) + b"\x01", 1, "00" * 12, "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"),
    "A.1 #4": (
        b"\x00\xff" + bytes(30),
        2,
        "00" * 12,
        "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca",
    ),
    "A.1 #5": (bytes(32), 0, "00" * 11 + "02", "c2c64d378cd536374ae204b9ef933fcd1a8b2288b3dfa49672ab765b54ee27c7"),
}
"""Of RFC 8439: key, counter, nonce, and the first half of the block."""


@pytest.mark.parametrize("name", VECTORS)
def test_vectors_of_rfc_8439(name):
    key, counter, nonce, expected = VECTORS[name]
    assert blocks(rng.chacha20_blocks, key, [counter], bytes.fromhex(nonce))[:32].hex() == expected


def test_random_bits_are_a_keystream():
    """What draws noise reads: the stream of a key in its domain, with `cryptography` on the other side."""
    key = rng.insecure_key(21)
    secret = np.asarray(jax.random.key_data(key)).astype("<u4").tobytes()
    bits = np.asarray(jax.random.bits(key, (1000,), jnp.uint32)).astype("<u4").tobytes()
    assert bits == keystream(secret, 0, (1).to_bytes(4, "little") + bytes(8), 4000)
    child = np.asarray(jax.random.key_data(jax.random.fold_in(key, 77))).astype("<u4").tobytes()
    assert child == keystream(secret, 77, (3).to_bytes(4, "little") + bytes(8), 32)


def opendp_draws(scale, count):
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i32")), dp.l2_distance(T="i32")
    return np.array(dp.m.make_gaussian(*space, scale=scale)([0] * count))


def our_draws(scale, count, seed):
    draws = noise.discrete_gaussian(rng.insecure_key(seed), scale, (count,))
    return (np.asarray(draws.high).astype(np.int64) << 32) + np.asarray(draws.low).astype(np.int64)


def p_value(first, second, scale):
    """Two samples in cells of about equal chance."""
    edges = np.unique(np.rint(scale * stats.norm.ppf(np.linspace(0, 1, 25)[1:-1]))) + 0.5
    table = [np.histogram(draws, np.concatenate([[-np.inf], edges, [np.inf]]))[0] for draws in (first, second)]
    return stats.chi2_contingency(table).pvalue


@pytest.mark.parametrize("scale", [1.5, 20.0, 3000.0])
def test_the_discrete_gaussian_is_that_of_opendp(scale):
    """One table, its upper half, and a sum of two draws; a scale that is off by a twentieth is told apart."""
    theirs = opendp_draws(scale, 20_000)
    assert p_value(our_draws(scale, 200_000, seed=4), theirs, scale) > FALSE_ALARM
    assert p_value(our_draws(1.1 * scale, 200_000, seed=4), theirs, scale) < FALSE_ALARM


# --- ball arithmetic ------------------------------------------------------------------------------------------------


@pytest.fixture
def precise():
    before, ctx.prec = ctx.prec, 256
    yield
    ctx.prec = before


def ideal(variance, size):
    """P(|X| = i), i < size, of N_Z(0, variance) in balls, and a ball of what lies beyond."""
    rate = arb(variance.denominator) / (2 * arb(variance.numerator))
    masses = [(-rate * i * i).exp() for i in range(size)]
    farther = sum(((-rate * i * i).exp() for i in range(size, 3 * size)), arb(0))
    rest = farther + (-rate * 9 * size * size).exp() / (1 - (-6 * rate * size).exp()) * arb(0.5, 0.5)
    total = masses[0] + 2 * (sum(masses[1:], arb(0)) + rest)
    return [masses[0] / total] + [2 * mass / total for mass in masses[1:]], 2 * rest / total


def drawn(table):
    """2^95 P(|X| = i), exactly as the sampler draws it; zero has one sign, and half a weight in the table."""
    weights = list(table.thresholds)
    for alias, threshold in zip(table.aliases, table.thresholds, strict=True):
        weights[alias] += 2**noise.THRESHOLD_BITS - threshold
    return weights


@pytest.mark.parametrize("variance", [Fraction(1), Fraction(9), Fraction(256**2), Fraction(400**2)], ids=str)
@pytest.mark.usefixtures("precise")
def test_tables_are_within_their_stated_distance(variance):
    """The distance of a table from its ideal law lies in an interval that is proved, below what is charged for it."""
    chances, beyond = ideal(variance, 2**noise.TABLE_BITS)
    weights = drawn(noise.table(variance))
    unit = arb(2) ** (noise.TABLE_BITS + noise.THRESHOLD_BITS)
    # |X| = 0 has half of a weight twice: of index 0 both signs give zero
    gaps = [arb(weight) / unit - chance for weight, chance in zip(weights, chances, strict=True)]
    distance = (sum((abs(gap) for gap in gaps), arb(0)) + beyond) / 2
    charged = noise.total_variation_bound(1, float(variance) ** 0.5)
    assert distance <= arb(charged)
    assert float(distance.rad()) < 1e-6 * max(float(distance.mid()), 1e-40)
    if variance <= 256**2:  # whose tails weigh less than a unit
        assert all(-1 <= gap * unit <= 1 for gap in gaps[1:])


@pytest.mark.parametrize("scale", [401.0, 2.0**16, 2.0**23, 2.0**40, 2.0**44])
@pytest.mark.usefixtures("precise")
def test_the_sampler_is_within_its_stated_distance(scale):
    """noise.md, 3, in balls: tails, roundings and overlaps of all summands, against the float that is charged."""

    def of_table(variance):
        size = 2**noise.TABLE_BITS
        tail = (-arb(size * size) / (2 * variance)).exp() / (1 - (-arb(size) / variance).exp())
        return 2 * tail / arb(1).max((2 * arb.pi() * variance).sqrt()) + arb(size) / arb(2) ** 95

    how = noise.plan(scale)
    upper = arb(how.top_variance.numerator) / how.top_variance.denominator
    distance = of_table(upper)
    for _ in range(how.num_base):
        overlap = 1 / (1 / upper + arb(4**noise.STEP_BITS) / noise.BASE_SCALE**2)
        theta = sum((2 * (-2 * arb.pi() ** 2 * m * m * overlap).exp() for m in range(1, 9)), arb(0))
        distance += of_table(arb(noise.BASE_SCALE**2)) + theta / (1 - theta)
        upper = noise.BASE_SCALE**2 + 4**noise.STEP_BITS * upper
    assert distance <= arb(noise.total_variation_bound(1, scale))
    assert arb(noise.total_variation_bound(1, scale)) <= distance * arb("1.02")
    assert upper.overlaps(arb(scale) ** 2)
    assert float(distance.rad()) < 1e-6 * float(distance.mid())


@pytest.mark.parametrize("scale", [2.0**16, 2.0**23])
@pytest.mark.usefixtures("precise")
def test_the_ratio_to_a_rounded_gaussian_is_within_what_is_charged(scale):
    """Probabilities of the discrete Gaussian over those of a rounded one, at points out to sixteen deviations."""
    from dpmcmc.accounting.accountants import without_approximations

    charged = without_approximations(noise.approximation(1, scale))[1].log_ratio
    square, root = arb(scale) ** 2, arb(scale) * arb(2).sqrt()
    normaliser = arb(scale) * (2 * arb.pi()).sqrt()  # and a theta function below 2^-1000
    for point in np.linspace(0, 16 * scale, 60).astype(int).tolist():
        discrete = (-(arb(point) ** 2) / (2 * square)).exp() / normaliser
        rounded = ((arb(point) - arb(0.5)) / root).erfc() / 2 - ((arb(point) + arb(0.5)) / root).erfc() / 2
        assert abs((discrete / rounded).log()) <= arb(charged)
