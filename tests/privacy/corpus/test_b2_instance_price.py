# ruff: noqa: ARG005
"""B2: an instance of a certified mechanism states its own price.

The attack: frozen dataclasses may have a `__dict__`, and `object.__setattr__` writes into it: an instance attribute
`event` hides the method of the class, `compute` hides what is released, and a field can be changed, or replaced with a
number that lies, after the constructor has looked at it.

What must happen: writing is refused (AttributeError), or the program is (an error of dpmcmc before a record is read),
or price and release are those of the class. A field that was changed counts as what it is now, for price and noise
alike.

False alarms: releases are compared bit for bit with those of an honest twin under one seed, or their noise by its
standard deviation over 200 coordinates, for which a factor of 1.5 is more than nine standard errors: below 1e-15.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from vaults import free_vault

from dpmcmc.accounting.event import Gaussian, compose, counts
from dpmcmc.enclave import CurvatureSum, GradientSum, LogRatio, NoisyCount, SubsampledGradientSum, Sum
from dpmcmc.errors import DpmcmcError

D = 200
ROWS = np.zeros((50, D), np.float32)


def ask(oracle, mechanism):
    return oracle.sum(mechanism, lambda x: x).value


class Model:
    temperature = 1.0

    def log_prior(self, t):
        return -0.5 * jnp.sum(t**2)

    def log_likelihood(self, t, x):
        return -0.5 * jnp.sum((x[: t.shape[0]] - t) ** 2)


def question(mechanism):
    """A program that asks the mechanism, and its arguments."""
    t, eye = np.zeros(3, np.float32), np.eye(3, dtype=np.float32)
    if isinstance(mechanism, Sum | NoisyCount):
        return lambda oracle: oracle.sum(mechanism, lambda x: x).value, ()
    if isinstance(mechanism, CurvatureSum):
        return lambda oracle, t: oracle.curvature(mechanism, t, eye).value, (t,)
    if isinstance(mechanism, LogRatio):
        return lambda oracle, t: oracle.log_posterior_ratio(mechanism, t, t + 1).value, (t,)
    return lambda oracle, t: oracle.force(mechanism, t).value, (t,)


MAKERS = {
    "Sum": lambda: Sum(1.0, 0.5),
    "GradientSum": lambda: GradientSum(1.0, 0.5),
    "CurvatureSum": lambda: CurvatureSum(1.0, 0.5),
    "NoisyCount": lambda: NoisyCount(1.0, 0.5),
    "LogRatio": lambda: LogRatio(1.0, 0.5),
    "SubsampledGradientSum": lambda: SubsampledGradientSum.without_replacement(1.0, 0.5, 20),
}
LIES = {
    "event": lambda *_, **__: compose([]),
    "compute": lambda facts, contribution, records, queries, keys: [jnp.zeros((len(keys), D), jnp.float32)],
    "contribution": lambda term: lambda queries, record: jnp.ravel(record).astype(jnp.float32) * 0 + 1,
    "plan": lambda *_, **__: compose([]),
    "output": lambda facts, term, queries: (),
    "variance": lambda facts, queries: jnp.zeros(()),
    "prepare": lambda facts, contribution, records, queries: records,
    "lattice": lambda *_, **__: None,
    "sampling": None,
}
"""What an instance may be made to say, by the name of the attribute."""


def write(mechanism, name, value):
    """Write an attribute as an attacker would; say whether it worked."""
    try:
        object.__setattr__(mechanism, name, value)
    except AttributeError:
        return False
    return True


def outcome(mechanism):
    """The price and the release of a mechanism, or None if dpmcmc refuses it."""
    program, arguments = question(mechanism)
    vault = free_vault(ROWS)
    try:
        price = vault.price(program, *arguments, model=Model())
        return price, np.asarray(vault.run(program, *arguments, model=Model(), insecure_seed=4))
    except DpmcmcError:
        return None


@pytest.mark.parametrize("name", LIES)
@pytest.mark.parametrize("kind", MAKERS)
def test_an_attribute_of_the_instance_changes_nothing(kind, name):
    honest, sly = MAKERS[kind](), MAKERS[kind]()
    if name == "sampling" and kind != "SubsampledGradientSum":
        assert not hasattr(honest, name)
        return
    written = write(sly, name, LIES[name])
    found = outcome(sly)
    if found is None:
        assert written, "an honest mechanism is refused"
        return
    price, release = outcome(honest)
    assert found[0] == price
    np.testing.assert_array_equal(found[1], release)


def priced_and_drawn(mechanism, before_run=lambda: None):
    """The noise multiplier that a price states, and the one that is seen in a release."""
    vault = free_vault(ROWS)
    price = vault.price(lambda oracle: ask(oracle, mechanism))
    (stated,) = (part.noise_multiplier for part in counts(price) if isinstance(part, Gaussian))
    before_run()
    release = vault.run(lambda oracle: ask(oracle, mechanism))
    return stated, float(np.std(release)) / 2


def test_a_field_that_was_changed_counts_as_what_it_is():
    mechanism = Sum(1.0, 5.0)
    if not write(mechanism, "noise_multiplier", 0.05):
        with pytest.raises(AttributeError):
            object.__setattr__(mechanism, "noise_multiplier", 0.05)
        return
    stated, drawn = priced_and_drawn(mechanism)
    assert stated / 1.5 < drawn < 1.5 * stated


@pytest.mark.parametrize(("name", "value"), [("noise_multiplier", -1.0), ("noise_multiplier", "5"), ("clip", np.inf)])
def test_a_field_that_the_constructor_refuses_is_refused_later_too(name, value):
    mechanism = Sum(1.0, 5.0)
    if not write(mechanism, name, value):
        with pytest.raises(AttributeError):
            object.__setattr__(mechanism, name, value)
        return
    with pytest.raises(DpmcmcError):
        free_vault(ROWS).price(lambda oracle: ask(oracle, mechanism))


class Sly(float):
    """A number that equals 5, and multiplies like 0.05 once it is told to."""

    lies = False

    __hash__ = float.__hash__

    def __eq__(self, other):
        return float(self) == other

    def __mul__(self, other):
        return (0.05 if Sly.lies else 5.0) * other

    __rmul__ = __mul__


def test_a_number_that_lies_later(monkeypatch):
    """What is priced is what is drawn, also if a number that the constructor was given lies in between."""
    mechanism = Sum(1.0, Sly(5.0))
    stated, drawn = priced_and_drawn(mechanism, lambda: monkeypatch.setattr(Sly, "lies", True))
    assert stated / 1.5 < drawn < 1.5 * stated


def test_a_number_of_ones_own_that_is_written_is_refused():
    mechanism = Sum(1.0, 5.0)
    write(mechanism, "noise_multiplier", Sly(5.0))
    with pytest.raises(DpmcmcError, match="noise_multiplier of a Sum is a Sly"):
        free_vault(ROWS).price(lambda oracle: ask(oracle, mechanism))
