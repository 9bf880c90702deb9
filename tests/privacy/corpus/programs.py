"""Programs, models and tables of an attacker, each with what must happen: refused, with which error, or run at a price.

A program is refused before anything is charged. One that runs has its price, and what it returns is a function of that many
releases: on two tables that differ in one record, under the same noise, no release moves by more than its sensitivity.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dpmcmc import errors
from dpmcmc.accounting import AcceptBit, BarkerTest, FixedBatchGaussian, Gaussian, LogisticBit
from dpmcmc.enclave import (
    BarkerBit,
    CurvatureSum,
    ExactSum,
    GradientSum,
    LogRatio,
    MinibatchLogRatio,
    NoisyCount,
    PenaltyTest,
    SubsampledGradientSum,
    Sum,
)
from dpmcmc.enclave import BarkerTest as BarkerTestMechanism

ROWS = np.random.default_rng(11).normal(size=(50, 3)).astype(np.float32)
ONES = np.ones(3, np.float32)
SUM, GRADIENT = Sum(1.0, 5.0), GradientSum(1.0, 5.0)


class Normal:
    """An honest model."""

    temperature = 1.0

    def log_prior(self, theta):
        return -0.5 * jnp.sum(theta**2)

    def log_likelihood(self, theta, row):
        return -0.5 * jnp.sum((row - theta) ** 2)


@dataclass(frozen=True)
class Attack:
    """What somebody tries."""

    program: Any
    expected: Any
    """An error, or the event of the price without the samplers' distances."""
    model: Any = None
    arguments: tuple = (ONES,)
    match: str = ""
    moves: float | None = None
    """By how much one record may move what is returned, in clips; None if it returns no sum."""


def row(theta, record):
    return record


def scaled(theta, record):
    return theta * record


def total(oracle, theta, statistic=row, mechanism=SUM):
    return oracle.sum(mechanism, statistic, theta).value


def with_likelihood(function, **more):
    """A model whose likelihood is something else."""
    return type(
        "Attacker", (Normal,), {"log_likelihood": lambda self, theta, record: function(theta, record), **more}
    )()


def force(oracle, theta):
    return oracle.force(GRADIENT, theta).value


def in_statistic(function):
    """A program that asks for one sum of a function of the record."""
    return partial(total, statistic=lambda theta, record: function(theta, record))


def while_released(oracle, theta):
    return lax.while_loop(lambda at: jnp.sum(at) < 9, lambda at: at + total(oracle, at), theta)


def if_released(oracle, theta):
    return lax.cond(jnp.sum(theta) > 0, lambda at: total(oracle, at), lambda at: at, theta)


def switched(oracle, theta):
    return lax.switch(jnp.int32(theta[0]), [lambda at: total(oracle, at), lambda at: at], theta)


def remembered(oracle, theta):
    return jax.checkpoint(lambda at: total(oracle, at))(theta)


def differentiated(oracle, theta):
    return jax.grad(lambda at: jnp.sum(total(oracle, at)))(theta)


def forward(oracle, theta):
    return jax.jvp(lambda at: total(oracle, at), (theta,), (theta,))[1]


def printed(oracle, theta):
    jax.debug.print("{}", theta)
    return total(oracle, theta)


def called_back(oracle, theta):
    return jax.pure_callback(lambda at: at, jax.ShapeDtypeStruct(theta.shape, theta.dtype), total(oracle, theta))


def io_callback(oracle, theta):
    return jax.experimental.io_callback(lambda at: at, jax.ShapeDtypeStruct((3,), jnp.float32), theta)


def with_key(oracle, theta):
    return oracle.sum(SUM, lambda key, at, record: record, jax.random.key(0), theta).value


def keyed_mechanism(oracle, theta):
    return oracle.sum(jax.random.key(1), row, theta).value


def no_mechanism(oracle, theta):
    return oracle.sum("Sum", row, theta).value


def wrong_kind(oracle, theta):
    return oracle.sum(BarkerBit(0.1), row, theta).value


def decision_of_a_sum(oracle, theta):
    return oracle.accept(SUM, theta, theta + 1)


class OwnSum(Sum):
    """A class of one's own, with a proven name."""


def subclass(oracle, theta):
    return oracle.sum(OwnSum(1.0, 5.0), row, theta).value


def closes_over_the_table(oracle, theta):
    return total(oracle, theta) + jnp.asarray(ROWS).mean(axis=0)


def closes_over_a_copy(oracle, theta):
    return total(oracle, theta) + jnp.asarray(ROWS.copy()).mean(axis=0)


def copy_in_a_statistic(oracle, theta):
    return total(oracle, theta, lambda at, record: record + jnp.asarray(ROWS.copy())[:, 0].sum())


def closes_over_a_value(oracle, theta):
    seen = theta * 2
    return total(oracle, theta, lambda at, record: record * seen)


def leaks_a_tracer(oracle, theta):
    kept = []
    total(oracle, theta, lambda at, record: kept.append(record) or record)
    return kept[0]


def mean_from_outside(oracle, theta):
    return total(oracle, theta) + np.zeros(3, np.float32)  # three numbers that somebody brought along


def looped(oracle, theta, times=4):
    return lax.scan(lambda at, _: (at, total(oracle, at)), theta, None, length=times)[1]


def nested_loops(oracle, theta):
    return lax.scan(lambda at, _: (at, looped(oracle, at, 3)), theta, None, length=2)[1]


def chains(oracle, theta):
    return jax.vmap(lambda scale: total(oracle, theta * scale))(jnp.arange(5.0))


def chains_of_chains(oracle, theta):
    return jax.vmap(jax.vmap(lambda scale: total(oracle, theta * scale)))(jnp.ones((2, 3)))


def unused(oracle, theta):
    total(oracle, theta)
    return theta


def in_a_call(oracle, theta):
    return jax.jit(lambda at: total(oracle, at))(theta)


def adaptive(oracle, theta):
    first = total(oracle, theta)
    return total(oracle, first)


def custom_rule(oracle, theta):
    @jax.custom_jvp
    def asked(at):
        return total(oracle, at)

    asked.defjvp(lambda primals, tangents: (primals[0], tangents[0]))
    return asked(theta)


def huge_query(oracle, theta):
    return total(oracle, theta * 1e30, scaled)


def nan_query(oracle, theta):
    return total(oracle, theta * jnp.nan, scaled)


def another_vault(oracle, theta):
    from dpmcmc.enclave import PrivateData

    other = PrivateData.without_guarantee(ROWS)
    return other.run(lambda own, at: total(own, at), theta)


def accept(mechanism, oracle, theta):
    return oracle.accept(mechanism, theta, theta + 0.5)


def far_public(oracle, theta):
    return oracle.accept(PenaltyTest(1.0, 5.0), theta, theta + 0.5, jnp.inf)


def ratio(mechanism, oracle, theta):
    return oracle.log_posterior_ratio(mechanism, theta, theta + 1.0).value


def same_positions(oracle, theta):
    return oracle.log_posterior_ratio(LogRatio(1.0, 5.0), theta, theta).value


def curved(oracle, theta):
    return oracle.curvature(CurvatureSum(1.0, 5.0), theta, jnp.eye(3)).value


def batch(mechanism, oracle, theta):
    return oracle.force(mechanism, theta).value


def betainc(theta, record):
    return jax.scipy.special.betainc(2.0, 3.0, jnp.abs(record) / 10)


def sorted_rows(theta, record):
    return lax.sort_p.bind(record, dimension=0, is_stable=True, num_keys=1)[0]


def random_statistic(theta, record):
    return lax.rng_uniform(0.0, 1.0, (3,)) + record


def keyed_statistic(theta, record):
    return record + jax.random.normal(jax.random.key(0), (3,))


def hangs(theta, record):
    return lax.while_loop(lambda at: record[0] < at[0], lambda at: at + 1, theta)


def branch_on_record(theta, record):
    return lax.cond(record[0] > 0, lambda: record, lambda: -record)


def prints_a_record(theta, record):
    jax.debug.print("{}", record)
    return record


def calls_back_with_a_record(theta, record):
    return jax.pure_callback(lambda at: at, jax.ShapeDtypeStruct((3,), jnp.float32), record)


def all_axes(theta, record):
    return lax.psum(record, "records")


def eigen(theta, record):
    return jnp.linalg.eigh(jnp.outer(record, record))[0]


def integers(theta, record):
    return record.astype(jnp.int32)


def complex_numbers(theta, record):
    return record.astype(jnp.complex64)


def nothing(theta, record):
    return jnp.zeros(0)


def overflow(theta, record):
    return jnp.exp(record * 1e3)


def cancels(theta, record):
    return (theta * theta - record) * 1e30


def product_of_zero(theta, record):
    return record / 0.0


ONE, TWO = Gaussian(5.0), Gaussian(5.0) * 2
E = errors

ATTACKS = {
    # programs that release in ways that nobody can count
    "a release in a while loop": Attack(while_released, E.ReleaseRefused),
    "a release in a branch": Attack(if_released, E.ReleaseRefused),
    "a release in a switch": Attack(switched, E.ReleaseRefused),
    "a release under checkpoint": Attack(remembered, E.ReleaseRefused),
    "a release that is differentiated": Attack(differentiated, E.ReleaseRefused),
    "a release that is differentiated forwards": Attack(forward, E.ReleaseRefused),
    # programs that reach beyond themselves
    "a program that prints": Attack(printed, E.OperationRefused),
    "a program that calls back with a release": Attack(called_back, E.OperationRefused),
    "a program with an effect": Attack(io_callback, E.OperationRefused),
    "another vault inside a program": Attack(another_vault, E.DpmcmcError),
    # keys and mechanisms of one's own
    "a key as a query": Attack(with_key, E.NoiseKeyRefused),
    "a key as a mechanism": Attack(keyed_mechanism, E.NoiseKeyRefused),
    "a text as a mechanism": Attack(no_mechanism, E.ReleaseRefused),
    "a decision where a sum is asked": Attack(wrong_kind, E.ReleaseRefused),
    "a sum where a decision is asked": Attack(decision_of_a_sum, E.ReleaseRefused, Normal()),
    "a subclass of a mechanism": Attack(subclass, E.ReleaseRefused),
    "an exact sum on a budget": Attack(partial(total, mechanism=ExactSum()), E.BudgetExceeded),
    # copies of the table
    "the table closed over": Attack(closes_over_the_table, E.RecordsRefused),
    "a copy of the table closed over": Attack(closes_over_a_copy, E.RecordsRefused),
    "a copy of the table in a statistic": Attack(copy_in_a_statistic, E.RecordsRefused),
    "the table as an argument": Attack(total, E.RecordsRefused, arguments=(ROWS,)),
    "a value of the program in a statistic": Attack(closes_over_a_value, E.ReleaseRefused),
    "a record kept from a trace": Attack(leaks_a_tracer, Exception),
    # statistics that do what no record may be put through
    "betainc of records": Attack(in_statistic(betainc), E.OperationRefused),
    "stateful random numbers on records": Attack(in_statistic(random_statistic), E.OperationRefused),
    "random numbers beside records": Attack(in_statistic(keyed_statistic), E.OperationRefused),
    "a loop that ends by a record": Attack(in_statistic(hangs), E.OperationRefused),
    "a statistic that prints": Attack(in_statistic(prints_a_record), E.OperationRefused),
    "a statistic that calls back": Attack(in_statistic(calls_back_with_a_record), E.OperationRefused),
    "a sum over an axis of records": Attack(in_statistic(all_axes), Exception),
    "eigenvalues of records": Attack(in_statistic(eigen), E.OperationRefused),
    "a statistic of complex numbers": Attack(in_statistic(complex_numbers), E.DpmcmcError),
    # models
    "a likelihood that prints": Attack(
        force, E.OperationRefused, with_likelihood(lambda theta, x: jnp.sum(prints_a_record(theta, x) * theta))
    ),
    "a likelihood that calls back": Attack(
        force, Exception, with_likelihood(lambda theta, x: jnp.sum(calls_back_with_a_record(theta, x) * theta))
    ),
    "a likelihood of two numbers": Attack(
        force, E.InvalidArgument, with_likelihood(lambda theta, x: x[:2] * theta[:2])
    ),
    "a likelihood that is no function": Attack(
        force, E.InvalidArgument, type("Broken", (Normal,), {"log_likelihood": 3})()
    ),
    "a prior with the table in it": Attack(
        force,
        E.RecordsRefused,
        type(
            "Prior", (Normal,), {"log_prior": lambda self, theta: jnp.sum(theta * jnp.asarray(ROWS.copy()).mean(0))}
        )(),
    ),
    "a likelihood with the table in it": Attack(
        force, E.RecordsRefused, with_likelihood(lambda theta, x: jnp.sum(theta * x) + jnp.asarray(ROWS.copy()).sum())
    ),
    "a likelihood with a hanging loop": Attack(
        force, Exception, with_likelihood(lambda theta, x: jnp.sum(hangs(theta, x) * theta))
    ),
    "no model for a force": Attack(force, E.InvalidArgument),
    # batches under a relation in which they have no price
    "a batch larger than the table": Attack(
        partial(batch, SubsampledGradientSum.without_replacement(1.0, 5.0, 51)), E.InvalidArgument, Normal()
    ),
    "a Barker batch larger than the table": Attack(
        partial(accept, BarkerTestMechanism(51, 2.0, 1.0)), E.InvalidArgument, Normal()
    ),
    # what runs, at its price
    "a plain sum": Attack(total, ONE, moves=2),
    "numbers that came from outside, which nobody can tell": Attack(mean_from_outside, ONE, moves=2),
    "a loop of four": Attack(looped, ONE * 4, moves=2),
    "loops in loops": Attack(nested_loops, ONE * 6, moves=2),
    "five chains": Attack(chains, ONE * 5, moves=2),
    "chains of chains": Attack(chains_of_chains, ONE * 6, moves=2),
    "a release that nobody looks at": Attack(unused, ONE),
    "a release in a call": Attack(in_a_call, ONE, moves=2),
    "a question that follows a release": Attack(adaptive, TWO),
    "a release under a rule of one's own": Attack(custom_rule, ONE, moves=2),
    "a query that overflows": Attack(huge_query, ONE, moves=2),
    "a query that is no number": Attack(nan_query, ONE, moves=2),
    "a statistic that branches on a record": Attack(in_statistic(branch_on_record), ONE, moves=2),
    "a statistic that overflows": Attack(in_statistic(overflow), ONE, moves=2),
    "a statistic that cancels": Attack(in_statistic(cancels), ONE, moves=2),
    "a statistic that divides by zero": Attack(in_statistic(product_of_zero), ONE, moves=2),
    "a statistic of whole numbers": Attack(in_statistic(integers), ONE, moves=2),
    "a sort of one record": Attack(in_statistic(lambda theta, record: jnp.sort(record)), ONE, moves=2),
    "a count": Attack(partial(total, mechanism=NoisyCount(0.5, 5.0)), ONE, moves=1),
    "a gradient": Attack(force, ONE, Normal(), moves=2),
    "a gradient at a temperature of a million": Attack(
        force, ONE, with_likelihood(lambda theta, x: -0.5 * jnp.sum((x - theta) ** 2), temperature=1e6), moves=2
    ),
    "a Hessian": Attack(curved, ONE, Normal(), moves=2),
    "a ratio": Attack(partial(ratio, LogRatio(1.0, 5.0)), ONE, Normal(), moves=2 * 3**0.5),
    "a ratio of one position with itself": Attack(same_positions, ONE, Normal(), moves=1e-3),
    "a penalty test": Attack(partial(accept, PenaltyTest(1.0, 5.0)), AcceptBit(5.0), Normal()),
    "a penalty test with an infinite rest": Attack(far_public, AcceptBit(5.0), Normal()),
    "a Barker bit": Attack(partial(accept, BarkerBit(0.1)), LogisticBit(0.2), Normal()),
    "a Barker test": Attack(partial(accept, BarkerTestMechanism(10, 2.0, 1.0)), BarkerTest(10, 50, 2.0, 1.0), Normal()),
    "a fixed batch": Attack(
        partial(batch, SubsampledGradientSum.without_replacement(1.0, 5.0, 10)),
        FixedBatchGaussian(10, 50, 5.0),
        Normal(),
    ),
    "a ratio of a batch": Attack(
        partial(ratio, MinibatchLogRatio(10, 1.0, 5.0)), FixedBatchGaussian(10, 50, 5.0), Normal()
    ),
}

TABLES = {
    "all infinite": np.full((50, 3), np.inf, np.float32),
    "all NaN": np.full((50, 3), np.nan, np.float32),
    "huge": np.full((50, 3), 3e38, np.float32),
    "denormal": np.full((50, 3), 1e-42, np.float32),
    "of alternating sign": np.where(np.arange(150).reshape(50, 3) % 2, 1e30, -1e30).astype(np.float32),
    "of one value": np.ones((50, 3), np.float32),
    "of negative zeros": np.full((50, 3), -0.0, np.float32),
    "of whole numbers": np.arange(150).reshape(50, 3),
    "of flags": np.arange(150).reshape(50, 3) % 2 == 0,
    "of bytes": np.arange(150, dtype=np.uint8).reshape(50, 3),
    "of doubles that no float holds": np.full((50, 3), 1e300),
}
"""Tables that run at the same price, and show nothing beyond it."""
