# ruff: noqa: ARG001, ARG002, ARG005
"""Every program that must not run, each refused before anything is charged, by the operation and the line."""

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback
from toy import TOYS, ToyGradient, ToyRatio, ToySum

from dpmcmc.enclave.core.mechanism import Term
from dpmcmc.enclave.core.release import release
from dpmcmc.enclave.data import PrivateData
from dpmcmc.errors import (
    BudgetExceeded,
    InvalidArgument,
    NoiseKeyRefused,
    OperationRefused,
    RecordsRefused,
    ReleaseRefused,
    RunRefused,
)

THETA = jnp.zeros(3)
HERE = Path(__file__).name
SUM = ToySum()


def identity(record):
    return record


def line_with(marker):
    """The number of the line of this file that holds the marker."""
    needle = f"# {marker}"
    (number,) = (i for i, line in enumerate(Path(__file__).read_text().splitlines(), 1) if line.endswith(needle))
    return number


@pytest.fixture
def check_refused(data, book, model):
    """Run a program that must be refused: the message names the operation and the marked line; nothing is charged."""

    def check(program, *arguments, error, operation, marker=None):
        for attempt in (data.price, data.run):
            with pytest.raises(error, match=operation) as caught:
                attempt(program, *arguments, model=model)
            if marker:
                assert f"{HERE}:{line_with(marker)}" in str(caught.value)
        assert book.reserved == []

    return check


# Records outside a release. A program is handed no record, so it can only try the vault itself or a copy of the table.


def test_exact_log_likelihood_returned(check_refused, table, model):
    def program(oracle, theta):
        oracle.sum(SUM, identity)
        return jax.vmap(model.log_likelihood, in_axes=(None, 0))(theta, table).sum()  # exact likelihood

    check_refused(program, THETA, error=RecordsRefused, operation="shape .50, 3. is closed over|table itself")


def test_exact_likelihood_on_a_copy_names_the_line(check_refused, table):
    copy = jnp.array(table) * 2

    def program(oracle, theta):
        return jnp.sum(theta - copy)  # copy of the table

    check_refused(program, THETA, error=RecordsRefused, operation="closed over", marker="copy of the table")


def test_the_table_itself_names_the_line(check_refused, table):
    def program(oracle, theta):
        return jnp.add(theta, table[:2])  # view of the table

    check_refused(program, THETA, error=RecordsRefused, operation="table itself", marker="view of the table")


def test_clip_counter(check_refused, data):
    def program(oracle, theta):
        return jnp.sum(jnp.abs(data) > 1.0)  # clip counter

    check_refused(program, THETA, error=RecordsRefused, operation="a JAX operation", marker="clip counter")


def test_clip_counter_beside_the_release(check_refused, table):
    norms = jnp.linalg.norm(jnp.asarray(table), axis=1)

    def program(oracle, theta):
        return oracle.sum(SUM, identity).value, (norms > 1.0).sum()  # clip counter of a copy

    check_refused(program, THETA, error=RecordsRefused, operation="closed over", marker="clip counter of a copy")


def test_custom_reduction_over_records(check_refused, data):
    def program(oracle, theta):
        return jax.lax.reduce(data, 0.0, jax.lax.add, (0,))  # custom reduction

    check_refused(
        program, THETA, error=RecordsRefused, operation="a JAX operation|reduce_sum", marker="custom reduction"
    )


def test_records_in_the_carry(check_refused, data):
    def program(oracle, theta):
        return jax.lax.scan(lambda c, _: (c, None), data, None, length=3)  # records in the carry

    check_refused(program, THETA, error=RecordsRefused, operation="a JAX operation", marker="records in the carry")


def test_records_in_the_carry_of_a_copy(check_refused, table):
    copy = jnp.array(table) + 1

    def program(oracle, theta):
        return jax.lax.scan(lambda c, _: (c * 2, None), copy, None, length=3)[0].sum()  # copy in the carry

    check_refused(program, THETA, error=RecordsRefused, operation="closed over", marker="copy in the carry")


def test_branch_on_data(check_refused, data):
    def program(oracle, theta):
        return theta if data > 0 else -theta  # branch on data

    check_refused(program, THETA, error=RecordsRefused, operation="__gt__", marker="branch on data")


def test_traced_branch_on_data(check_refused, data):
    def program(oracle, theta):
        return jax.lax.cond(data, jnp.sin, jnp.cos, theta)  # traced branch on data

    check_refused(
        program, THETA, error=RecordsRefused, operation="__array__|a JAX operation", marker="traced branch on data"
    )


@pytest.mark.parametrize("part", ["log_prior", "log_likelihood"])
def test_a_model_that_closes_over_the_table(data, book, table, model, part):
    copy = jnp.array(table)

    class Closing:
        temperature = 1.0

        def log_prior(self, theta):
            return -jnp.sum((theta - copy) ** 2) if part == "log_prior" else model.log_prior(theta)  # log_prior

        def log_likelihood(self, theta, record):
            extra = (copy * theta).sum() if part == "log_likelihood" else 0.0  # log_likelihood
            return model.log_likelihood(theta, record) + extra

    def program(oracle, theta):
        return oracle.force(ToyGradient(), theta).value

    with pytest.raises(RecordsRefused, match="closed over") as caught:
        data.run(program, THETA, model=Closing())
    assert f"{HERE}:{line_with(part)}" in str(caught.value)
    assert book.reserved == []


def test_the_table_as_an_argument(data, book, table, model):
    for argument in (table, table[3:], data):
        with pytest.raises(RecordsRefused, match="table itself"):
            data.run(lambda oracle, x: x.sum(), argument, model=model)
    assert book.reserved == []


def test_a_closed_over_array_larger_than_any_constant(check_refused):
    big = jnp.zeros(100_001)

    def program(oracle, theta):
        return big.sum() + theta  # big constant

    check_refused(program, THETA, error=RecordsRefused, operation="closed over", marker="big constant")


# Side effects.


def print_it(x):
    jax.debug.print("value {}", x)  # print
    return x


def call_io(x):
    return io_callback(lambda y: y, jax.ShapeDtypeStruct(x.shape, x.dtype), x)  # io


def call_pure(x):
    return jax.pure_callback(lambda y: y, jax.ShapeDtypeStruct(x.shape, x.dtype), x)  # pure


def call_debug(x):
    jax.debug.callback(lambda y: None, x)  # debug
    return x


CALLBACKS = [
    (print_it, "debug_print", "print"),
    (call_io, "io_callback", "io"),
    (call_pure, "pure_callback", "pure"),
    (call_debug, "debug_callback", "debug"),
]


@pytest.mark.parametrize(("call", "name", "marker"), CALLBACKS)
@pytest.mark.parametrize("loop", [False, True])
def test_callbacks_in_the_program(check_refused, call, name, marker, loop):
    def program(oracle, theta):
        value = call(oracle.sum(SUM, identity).value)
        if loop:
            value = jax.lax.scan(lambda c, _: (jax.jit(call)(c), None), value, None, length=2)[0]
        return value

    check_refused(program, THETA, error=OperationRefused, operation=name, marker=marker)


@pytest.mark.parametrize(("call", "name", "marker"), CALLBACKS)
def test_callbacks_on_records(check_refused, call, name, marker):
    def program(oracle, theta):
        return oracle.sum(SUM, lambda record: call(record)).value

    check_refused(
        program, THETA, error=OperationRefused, operation=f"{name} at .* is applied to records", marker=marker
    )


def test_a_callback_hidden_in_a_derivative_rule(data, book):
    @jax.custom_jvp
    def honest(x):
        return x.sum()

    @honest.defjvp
    def rule(primals, tangents):
        jax.debug.print("{}", primals[0])  # hidden in the rule
        return primals[0].sum(), tangents[0].sum()

    class Hiding:
        temperature = 1.0

        def log_prior(self, theta):
            return -theta.sum()

        def log_likelihood(self, theta, record):
            return honest(theta * record)

    with pytest.raises(OperationRefused, match="debug_print") as caught:
        data.run(lambda oracle, theta: oracle.force(ToyGradient(), theta).value, THETA, model=Hiding())
    assert f"{HERE}:{line_with('hidden in the rule')}" in str(caught.value)
    assert book.reserved == []


def test_a_mutable_reference(check_refused):
    box = jax.new_ref(jnp.zeros(3))

    def program(oracle, theta):
        box[...] = oracle.sum(SUM, identity).value  # mutable reference
        return theta

    check_refused(program, THETA, error=OperationRefused, operation="swap|addupdate", marker="mutable reference")


def test_python_sees_no_record_even_without_jit(data):
    seen = []

    def statistic(record):
        seen.append(record)
        return record

    with jax.disable_jit(), jax.debug_nans(True):
        data.run(lambda oracle: oracle.sum(SUM, statistic).value)
    assert seen
    assert all(isinstance(record, jax.core.Tracer) for record in seen)


def test_python_sees_no_record_when_the_result_is_not_a_number(data):
    seen = []

    def statistic(record):
        seen.append(record)
        return record

    with jax.debug_nans(True), jax.debug_infs(True):
        result = data.run(lambda oracle: jnp.log(-jnp.abs(oracle.sum(SUM, statistic).value)))
    assert np.all(np.isnan(result))
    assert all(isinstance(record, jax.core.Tracer) for record in seen)


def test_a_statistic_that_changes_its_mind(data, book):
    calls = []

    def statistic(record):
        calls.append(0)
        return record if len(calls) < 2 else jnp.tile(record, 5)

    with pytest.raises(ReleaseRefused, match="other shapes"):
        data.run(lambda oracle: oracle.sum(SUM, statistic).value)
    assert book.reserved == []


# Releases that cannot be counted.


def in_while(oracle, theta):
    return jax.lax.while_loop(  # while
        lambda s: s[0].sum() < 1.0,
        lambda s: (oracle.sum(SUM, identity).value,),
        (theta,),
    )


def in_dynamic_fori(oracle, theta):
    steps = theta[0].astype(int)
    return jax.lax.fori_loop(0, steps, lambda i, c: oracle.sum(SUM, identity).value, theta)  # fori


def in_cond(oracle, theta):
    return jax.lax.cond(theta[0] > 0, lambda t: oracle.sum(SUM, identity).value, lambda t: t, theta)  # cond


def in_switch(oracle, theta):
    branches = [lambda t: t, lambda t: oracle.sum(SUM, identity).value]
    return jax.lax.switch(theta[0].astype(int), branches, theta)  # switch


def in_checkpoint(oracle, theta):
    return jax.checkpoint(lambda t: t + oracle.sum(SUM, identity).value)(theta)  # checkpoint


def in_map_of_cond(oracle, theta):
    def one(t):
        return jax.jit(partial(in_cond, oracle))(t)

    return jax.lax.map(one, jnp.stack([theta, theta]))


def in_custom_vmap(oracle, theta):
    @jax.custom_batching.custom_vmap
    def ask(t):
        return t + oracle.sum(SUM, identity).value

    ask.def_vmap(lambda size, batched, t: (ask(t[0]), False))
    return ask(theta)  # custom_vmap


def in_shard_map(oracle, theta):
    mesh = jax.make_mesh((1,), ("d",))
    spec = jax.sharding.PartitionSpec()
    ask = jax.shard_map(
        lambda t: t + oracle.sum(SUM, identity).value, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False
    )
    return ask(theta)  # shard_map


UNCOUNTED = [
    (in_while, "inside while", "while"),
    (in_dynamic_fori, "inside while", "fori"),
    (in_cond, "inside cond", "cond"),
    (in_switch, "inside cond", "switch"),
    (in_checkpoint, "inside (checkpoint|remat)", "checkpoint"),
    (in_map_of_cond, "inside cond", "cond"),
    (in_custom_vmap, "inside custom_vmap", "custom_vmap"),
    (in_shard_map, "inside shard_map", "shard_map"),
]


@pytest.mark.parametrize(("program", "operation", "marker"), UNCOUNTED)
def test_releases_that_cannot_be_counted(check_refused, program, operation, marker):
    check_refused(program, THETA, error=ReleaseRefused, operation=operation, marker=marker)


def test_differentiated_release(check_refused):
    def program(oracle, theta):
        def energy(t):
            return oracle.force(ToyGradient(), t).value.sum()  # differentiated

        return jax.grad(energy)(theta)

    check_refused(
        program, THETA, error=ReleaseRefused, operation="dp_release is differentiated", marker="differentiated"
    )


def test_a_release_outside_a_run(data, model):
    stolen = []
    data.price(lambda oracle: stolen.append(oracle), model=model)
    (oracle,) = stolen
    with pytest.raises(ReleaseRefused, match="outside an audited run"):
        oracle.sum(SUM, identity)
    with pytest.raises(ReleaseRefused, match="outside an audited run"):
        jax.jit(lambda t: oracle.force(ToyGradient(), t).value)(THETA)


def test_a_release_of_another_data_set(data, book, table, model):
    other = PrivateData.without_guarantee(table.copy(), extra_mechanisms=TOYS)
    stolen = []
    other.price(lambda oracle: stolen.append(oracle), model=model)

    def program(oracle):
        return stolen[0].sum(SUM, identity).value  # another data set

    with pytest.raises(ReleaseRefused, match="another data set") as caught:
        data.run(program)
    assert f"{HERE}:{line_with('another data set')}" in str(caught.value)
    assert book.reserved == []


def test_mechanisms_that_nobody_proved(check_refused):
    @dataclass(frozen=True)
    class Cheap(ToySum):
        def plan(self, facts, contribution, queries):
            raise AssertionError("an uncertified mechanism was believed")

    def program(oracle, theta):
        return oracle.sum(Cheap(), identity).value  # uncertified

    check_refused(program, THETA, error=ReleaseRefused, operation="Cheap", marker="uncertified")

    def around_the_oracle(oracle, theta):
        return release(oracle.facts, Cheap(), Term(identity, jax.tree.structure(())), [])  # around the oracle

    check_refused(around_the_oracle, THETA, error=ReleaseRefused, operation="not a cert", marker="around the oracle")


def test_the_wrong_kind_of_mechanism(check_refused):
    def program(oracle, theta):
        return oracle.accept(SUM, theta, theta)  # wrong kind

    check_refused(program, THETA, error=ReleaseRefused, operation="of the kind Decision", marker="wrong kind")


@pytest.mark.parametrize("loop", [False, True])
def test_a_statistic_that_closes_over_a_traced_value(check_refused, loop):
    def program(oracle, theta):
        def step(carry, _):
            shifted = carry + 1
            return oracle.sum(SUM, lambda record: record * jnp.sin(shifted)).value, None  # traced closure

        return jax.lax.scan(step, theta, None, length=2)[0] if loop else step(theta, None)[0]

    check_refused(program, THETA, error=ReleaseRefused, operation="is closed over", marker="traced closure")


def test_a_release_inside_the_likelihood(data, book, model):
    def program(oracle, theta):
        return oracle.sum(SUM, lambda record: oracle.sum(SUM, identity).value).value  # nested release

    with pytest.raises(OperationRefused, match=r"dp_release at .* is applied to records") as caught:
        data.run(program, THETA, model=model)
    assert f"{HERE}:{line_with('nested release')}" in str(caught.value)
    assert book.reserved == []


# Noise that is shared. A release takes no key, so the programs of this list cannot even be written; and whatever can
# be written gets noise of its own. `noises` runs a program whose releases all ask the same thing: they must all differ.


@pytest.mark.parametrize(
    "ask",
    [
        lambda oracle, key, theta: oracle.force(key, theta),  # a key in place of the mechanism
        lambda oracle, key, theta: oracle.force(ToyGradient(), key),  # a key as a position
        lambda oracle, key, theta: oracle.sum(SUM, lambda k, r: r, key),  # a key as an argument
        lambda oracle, key, theta: oracle.log_posterior_ratio(ToyRatio(), theta, {"k": key}),
    ],
)
def test_a_release_takes_no_key(check_refused, ask):
    def program(oracle, key, theta):
        return ask(oracle, key, theta)

    check_refused(
        program, jax.random.key(0), THETA, error=NoiseKeyRefused, operation="is a random key at .*" + re.escape(HERE)
    )


def ask(oracle):
    return oracle.sum(SUM, identity).value


def twice(oracle):
    return [ask(oracle), ask(oracle)]


def twice_through_one_jit(oracle):
    once = jax.jit(partial(ask, oracle))
    return [once(), once()]


def in_a_loop(oracle):
    return jax.lax.scan(lambda c, _: (c, ask(oracle)), 0, None, length=6)[1]


def in_nested_loops(oracle):
    def outer(c, _):
        return c, (jax.lax.scan(lambda d, _: (d, ask(oracle)), 0, None, length=3)[1], ask(oracle))

    inner, own = jax.lax.scan(outer, 0, None, length=4)[1]
    return inner.reshape(-1, 3), own


def in_a_reversed_unrolled_loop(oracle):
    return jax.lax.scan(lambda c, _: (c, ask(oracle)), 0, None, length=7, reverse=True, unroll=3)[1]


def two_loops(oracle):
    return in_a_loop(oracle), in_a_loop(oracle)


def chains(oracle):
    theta = jnp.zeros((5, 3))
    return jax.vmap(lambda t: oracle.sum(SUM, lambda t, record: record + 0 * t, t).value)(theta)


def chains_of_chains_in_a_loop(oracle):
    theta = jnp.zeros((2, 3, 3))

    def one(t):
        return jax.lax.scan(
            lambda c, _: (c, oracle.sum(SUM, lambda t, record: record + 0 * t, c).value), t, None, length=4
        )[1]

    return jax.vmap(jax.vmap(one))(theta)


@pytest.mark.parametrize(
    "program",
    [
        twice,
        twice_through_one_jit,
        in_a_loop,
        in_nested_loops,
        in_a_reversed_unrolled_loop,
        two_loops,
        chains,
        chains_of_chains_in_a_loop,
    ],
)
def test_no_two_releases_share_noise(table, program):
    data = PrivateData.without_guarantee(table, extra_mechanisms=TOYS)
    values = np.concatenate([np.reshape(leaf, (-1, 3)) for leaf in jax.tree.leaves(data.run(program))])
    assert len(values) == sum(charge.count for charge in data.audit(program).charges)
    noise = values - np.clip(table, -1, 1).sum(0)
    assert len(np.unique(np.round(noise.ravel(), 4))) > 0.9 * noise.size
    assert len(np.unique(values[:, 0])) == len(values)


def test_two_runs_share_no_noise(data):
    first, second = data.run(ask), data.run(ask)
    assert not np.any(first == second)


def test_the_key_of_the_proposal_has_no_part_in_the_noise(data):
    def program(oracle, key):
        return ask(oracle) + 0 * jax.random.normal(key, (3,))

    key = jax.random.key(0)
    assert not np.any(data.run(program, key) == data.run(program, key))


def test_a_fixed_seed_is_no_private_run(table):
    data = PrivateData.without_guarantee(table, extra_mechanisms=TOYS)
    np.testing.assert_array_equal(data.run(ask, insecure_seed=3), data.run(ask, insecure_seed=3))


def test_a_fixed_seed_is_charged_as_non_private(data, book):
    data.run(ask, insecure_seed=3)
    assert "NonPrivate" in repr(book.spent)


# Runs.


def test_over_budget(table, book):
    book.limit = 1
    data = PrivateData(table, ledger=book, dataset="people", extra_mechanisms=TOYS)
    data.run(ask)
    with pytest.raises(BudgetExceeded):
        data.run(ask)
    assert len(book.reserved) == len(book.settled) == 1


@pytest.mark.parametrize("transform", [jax.jit, jax.vmap, jax.grad, jax.make_jaxpr])
def test_transformations_of_a_run(data, book, transform):
    def run(theta):
        return data.run(lambda oracle, t: t.sum() + ask(oracle).sum(), theta)  # transformed run

    with pytest.raises(RunRefused, match="inside jit, vmap or grad") as caught:
        transform(run)(jnp.zeros(3))
    assert f"{HERE}:{line_with('transformed run')}" in str(caught.value)
    assert book.reserved == []


def test_a_program_without_a_model(data):
    with pytest.raises(InvalidArgument, match="model="):
        data.price(lambda oracle, theta: oracle.force(ToyGradient(), theta).value, THETA)


def test_the_records_are_no_constants_of_the_compiled_program():
    data = PrivateData.without_guarantee(np.full((50, 3), 0.123456789, np.float32), extra_mechanisms=TOYS)
    data.run(ask)
    (prepared,) = data._programs.kept.values()
    assert "0.12345" not in prepared.compile().as_text()
