# ruff: noqa: ARG001, ARG002
"""Honest programs, and what they cost: counted by hand here, derived by the auditor there."""

import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy import TOYS, ToyGradient, ToyRatio, ToySum, run_chains

from dpmcmc.accounting.event import Composed, Gaussian
from dpmcmc.enclave.core.release import execute
from dpmcmc.enclave.data import PrivateData
from dpmcmc.enclave.oracle import Oracle

THETA = jnp.zeros(3)
SUM = ToySum()
ONE = Gaussian(SUM.noise_multiplier)


def statistic(theta, record):
    return record + 0 * theta


def ask(oracle, theta):
    return oracle.sum(SUM, statistic, theta).value


def loop(body, theta, length, **options):
    return jax.lax.scan(lambda carry, _: (body(carry), None), theta, None, length=length, **options)[0]


def nothing(oracle, theta):
    return jnp.sin(theta)


def once(oracle, theta):
    return ask(oracle, theta)


def twice(oracle, theta):
    return ask(oracle, ask(oracle, theta))


def unused(oracle, theta):
    ask(oracle, theta)
    return theta


def scan_of_seven(oracle, theta):
    return loop(partial(ask, oracle), theta, 7)


def empty_scan(oracle, theta):
    return loop(partial(ask, oracle), theta, 0)


def nested_scans(oracle, theta):
    return loop(lambda t: ask(oracle, loop(partial(ask, oracle), t, 5)), theta, 3)


def three_deep(oracle, theta):
    return loop(lambda t: loop(lambda u: loop(partial(ask, oracle), u, 2), t, 3), theta, 4)


def reversed_and_unrolled(oracle, theta):
    return loop(partial(ask, oracle), theta, 10, reverse=True, unroll=4)


def static_fori_loop(oracle, theta):
    return jax.lax.fori_loop(0, 9, lambda _, t: ask(oracle, t), theta)


def mapped(oracle, theta):
    return jax.lax.map(partial(ask, oracle), jnp.stack([theta] * 4))


def mapped_in_batches(oracle, theta):
    return jax.lax.map(partial(ask, oracle), jnp.stack([theta] * 5), batch_size=2)


def jitted(oracle, theta):
    once = jax.jit(partial(ask, oracle))
    return once(jax.jit(once)(theta))


def chains(oracle, theta):
    return jax.vmap(partial(ask, oracle))(jnp.stack([theta] * 6))


def chains_of_loops(oracle, theta):
    return jax.vmap(partial(scan_of_seven, oracle))(jnp.stack([theta] * 6))


def loops_of_chains(oracle, theta):
    return loop(jax.vmap(partial(ask, oracle)), jnp.stack([theta] * 6), 7)


def grid_of_chains(oracle, theta):
    return jax.vmap(jax.vmap(partial(ask, oracle), in_axes=1, out_axes=1))(jnp.zeros((2, 3, 4)))


def one_start_for_all_chains(oracle, theta):
    first = ask(oracle, theta)
    return jax.vmap(lambda t: ask(oracle, t + first))(jnp.stack([theta] * 6))


def custom_derivative(oracle, theta):
    @jax.custom_jvp
    def value(t):
        return ask(oracle, t)

    value.defjvp(lambda primals, tangents: (value(*primals), tangents[0]))
    return value(theta)


def custom_reverse_derivative(oracle, theta):
    @jax.custom_vjp
    def value(t):
        return ask(oracle, t)

    value.defvjp(lambda t: (value(t), None), lambda _, g: (g,))
    return jax.vmap(value)(jnp.stack([theta] * 3))


def derivative_by_a_custom_rule(oracle, theta):
    @jax.custom_jvp
    def value(t):
        return ask(oracle, t).sum()

    value.defjvp(lambda primals, tangents: (value(*primals), tangents[0].sum()))
    return jax.grad(value)(theta)


def stopped_gradient(oracle, theta):
    return jax.grad(lambda t: (t * ask(oracle, jax.lax.stop_gradient(t))).sum())(theta)


def control_flow_beside_releases(oracle, theta):
    value = ask(oracle, theta)
    value = jax.lax.while_loop(lambda v: jnp.sum(v) > 1.0, lambda v: v / 2, value)
    value = jax.lax.cond(value[0] > 0, jnp.sin, jnp.cos, value)
    return jax.grad(jax.checkpoint(lambda v: jnp.sum(jnp.tanh(v))))(value)


def adaptive_mask(oracle, theta):
    def step(carry, _):
        value, done = carry
        new = ask(oracle, value)
        return (jnp.where(done, value, new), done | (new[0] > 0)), None

    return jax.lax.scan(step, (theta, False), None, length=8)[0][0]


HONEST = [
    (nothing, 0),
    (once, 1),
    (twice, 2),
    (unused, 1),
    (scan_of_seven, 7),
    (empty_scan, 0),
    (nested_scans, 18),
    (three_deep, 24),
    (reversed_and_unrolled, 10),
    (static_fori_loop, 9),
    (mapped, 4),
    (mapped_in_batches, 5),
    (jitted, 2),
    (chains, 6),
    (chains_of_loops, 42),
    (loops_of_chains, 42),
    (grid_of_chains, 8),
    (one_start_for_all_chains, 7),
    (custom_derivative, 1),
    (custom_reverse_derivative, 3),
    (derivative_by_a_custom_rule, 1),
    (stopped_gradient, 1),
    (control_flow_beside_releases, 1),
    (adaptive_mask, 8),
]


@pytest.mark.parametrize(("program", "count"), HONEST)
def test_honest_programs_cost_what_they_release(data, book, program, count):
    assert data.price(program, THETA) == ONE * count
    assert book.reserved == []
    data.run(program, THETA)
    assert book.reserved == book.settled == [ONE * count]


@pytest.mark.parametrize(("program", "count"), [(program, count) for program, count in HONEST if count])
def test_releases_performed_are_releases_priced(table, program, count):
    """Perform every release in Python: as many as were priced, and each with a key of its own."""
    used = []

    def perform(equation, queries, keys):
        used.extend(np.asarray(jax.random.key_data(keys)))
        return [jnp.zeros((len(keys), 3))]

    oracle = Oracle(PrivateData.without_guarantee(table, extra_mechanisms=TOYS).facts, None)
    traced = jax.make_jaxpr(lambda t: program(oracle, t))(THETA)
    with jax.disable_jit():  # loops run in Python, so that each release calls `perform`
        execute(traced, [THETA], jax.random.key(0), perform)
    assert len(used) == count
    assert len(np.unique(used, axis=0)) == count


def test_the_result_is_the_one_that_jit_gives(table, model):
    """Execution changes no public operation: a program with its releases replaced by zeros gives the same draws."""

    def program(oracle, theta, key):
        def step(carry, key):
            force = oracle.force(ToyGradient(clip=1e-9, noise_multiplier=1e-9), carry).value
            return carry + 0.1 * force + jax.random.normal(key, carry.shape), force

        return jax.lax.scan(step, theta, jax.random.split(key, 20))

    class Public:
        def force(self, mechanism, position):
            return type("Answer", (), {"value": jax.grad(model.log_prior)(position)})

    key = jax.random.key(5)
    ours = PrivateData.without_guarantee(table, extra_mechanisms=TOYS).run(program, THETA, key, model=model)
    plain = jax.jit(partial(program, Public()))(THETA, key)
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(plain), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("num_steps", [1, 10, 1000])
@pytest.mark.parametrize("num_leapfrog", [1, 5, 25])
@pytest.mark.parametrize("num_chains", [1, 4])
def test_dp_hmc_costs_what_the_paper_says(data, model, num_steps, num_leapfrog, num_chains):
    tau_g, tau_l = 20.0, 7.0
    program = partial(
        run_chains,
        num_steps=num_steps,
        num_leapfrog=num_leapfrog,
        gradient=ToyGradient(noise_multiplier=tau_g),
        log_ratio=ToyRatio(noise_multiplier=tau_l),
    )
    event = data.price(program, jnp.zeros((num_chains, 3)), jax.random.key(0), model=model)
    k = num_steps * num_chains
    assert event == Composed({Gaussian(tau_l): k, Gaussian(tau_g): k * (num_leapfrog + 1)})
    assert event.gaussian_rho == pytest.approx(k / (2 * tau_l**2) + k * (num_leapfrog + 1) / (2 * tau_g**2), rel=1e-12)


def test_auditing_a_thousand_steps_costs_no_more_than_ten(data, model):
    """Less than a second on an idle machine; the limit leaves room for a busy one, the ratio does not."""

    def seconds(num_steps):
        options = {"num_steps": num_steps, "num_leapfrog": 10, "gradient": ToyGradient(), "log_ratio": ToyRatio()}
        start = time.process_time()
        data.price(partial(run_chains, **options), jnp.zeros((4, 3)), jax.random.key(0), model=model)
        return time.process_time() - start

    seconds(1)
    few, many = min(seconds(10) for _ in range(3)), min(seconds(1000) for _ in range(3))
    assert many < 3 * few
    assert many < 5.0


def test_a_program_is_traced_once(data, model):
    traced = []

    def program(oracle, theta):
        traced.append(theta)
        return ask(oracle, theta)

    for _ in range(3):
        data.run(program, THETA, model=model)
    data.price(program, THETA, model=model)
    assert len(traced) == 1
    data.run(program, jnp.zeros((2, 3)), model=model)
    assert len(traced) == 2


def test_charges_name_their_lines(data):
    audited = data.audit(nested_scans, THETA)
    assert [charge.count for charge in audited.charges] == [15, 3]
    assert all("test_audit_prices.py" in charge.line for charge in audited.charges)
