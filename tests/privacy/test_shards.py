"""Records on several devices: the same bits as on one, for every mechanism, and no device holds the table."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpmcmc.enclave import (
    BarkerBit,
    BarkerTest,
    CurvatureSum,
    ExactBarkerBit,
    ExactGradientSum,
    ExactLogRatio,
    ExactSubsampledGradientSum,
    ExactSum,
    GradientSum,
    LogRatio,
    MinibatchLogRatio,
    NoisyCount,
    PenaltyTest,
    Poisson,
    PrivateData,
    SubsampledGradientSum,
    Sum,
    WithoutReplacement,
)
from dpmcmc.errors import InvalidArgument

D, CLIP = 5, 0.7
POSITIONS = jnp.asarray(np.random.default_rng(1).normal(size=(3, D)).astype(np.float32))


class Logistic:
    """A linear predictor: the gradient takes the path of its own."""

    temperature = 1.0

    def log_prior(self, theta):
        return -0.5 * jnp.sum(theta**2)

    def log_likelihood(self, theta, record):
        return jax.nn.log_sigmoid((2.0 * record["y"] - 1.0) * (record["x"] @ theta))


class Mixture(Logistic):
    """No linear predictor: the gradient takes the general path."""

    def log_likelihood(self, theta, record):
        return jnp.logaddexp(-0.5 * jnp.sum((record["x"] - theta) ** 2), -0.5 * jnp.sum((record["x"] + theta) ** 2))


def table(size):
    draws = np.random.default_rng(size)
    x = (draws.normal(size=(size, D)) * draws.choice([0.01, 1.0, 30.0], (size, 1))).astype(np.float32)
    x[::97, 0] = np.nan
    return {"x": x, "y": draws.integers(0, 2, size)}


def full_data(oracle, theta):
    """Ask for everything that reads all records, in a loop of two steps."""

    def step(theta, _):
        force = oracle.force(GradientSum(CLIP, 2.0), theta)
        moved = theta + 0.01 * force.value
        ratio = oracle.log_posterior_ratio(LogRatio(CLIP, 2.0), theta, moved)
        penalty = oracle.accept(PenaltyTest(CLIP, 2.0), theta, moved)
        barker = oracle.accept(BarkerBit(0.01), theta, moved)
        curvature = oracle.curvature(CurvatureSum(CLIP, 2.0), theta, jnp.eye(D))
        total = oracle.sum(Sum(CLIP, 2.0), lambda t, record: jnp.tanh(record["x"] * t), theta)
        count = oracle.sum(NoisyCount(CLIP, 0.5), lambda record: record["x"])
        return jnp.where(penalty, moved, theta), (force, ratio, penalty, barker, curvature, total, count)

    return jax.lax.scan(step, theta, None, length=2)


def subsampled(oracle, theta):
    """Ask for everything that reads a batch."""
    other = theta + 0.1
    return (
        oracle.force(SubsampledGradientSum.poisson(CLIP, 2.0, 0.1), theta),
        oracle.force(SubsampledGradientSum.poisson(CLIP, 2.0, 0.9), theta),  # coins for all records
        oracle.force(SubsampledGradientSum.without_replacement(CLIP, 2.0, 50), theta),
        oracle.log_posterior_ratio(MinibatchLogRatio(50, CLIP, 2.0), theta, other),
        oracle.accept(BarkerTest(50, 1.0, 0.5), theta, other),
    )


def exact(oracle, theta):
    """Ask for what has no noise, in floating point, and so depends on the order of the records."""
    other = theta + 0.1
    return (
        oracle.sum(ExactSum(), lambda record: jnp.tanh(record["x"])),
        oracle.force(ExactGradientSum(), theta),
        oracle.log_posterior_ratio(ExactLogRatio(), theta, other),
        oracle.accept(ExactBarkerBit(), theta, other),
        oracle.force(ExactSubsampledGradientSum(Poisson(0.1)), theta),
        oracle.force(ExactSubsampledGradientSum(WithoutReplacement(50)), theta),
    )


def run(program, model, size, devices, **facts):
    data = PrivateData.without_guarantee(table(size), devices=devices, **facts)
    chains = lambda oracle, thetas: jax.vmap(lambda theta: program(oracle, theta))(thetas)  # noqa: E731
    return data.run(chains, POSITIONS, model=model, insecure_seed=5)


def check_same_bits(program, model, size, *counts, tolerance=0.0, **facts):
    """Compare runs on the first so many devices with the one on no stated device."""
    expected = run(program, model, size, None, **facts)
    for count in counts:
        found = run(program, model, size, jax.devices()[:count], **facts)
        for one, other in zip(jax.tree.leaves(expected), jax.tree.leaves(found), strict=True):
            if tolerance:
                np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)
            else:
                np.testing.assert_array_equal(one, other)


def no_device_holds_the_table():
    data = PrivateData.without_guarantee(table(803), devices=jax.devices())
    assert "devices=8" in repr(data)
    for leaf in jax.tree.leaves((data._slots.rows, data._slots.occupied)):
        assert len(leaf.sharding.device_set) == 8
        assert {shard.data.shape[0] for shard in leaf.addressable_shards} == {512}
    theta = jnp.zeros(D)
    data.run(lambda o, t: o.force(GradientSum(CLIP, 2.0), t).value, theta, model=Logistic())
    (prepared,) = data._programs.kept.values()
    analysis = prepared.compile().memory_analysis()  # of one device
    assert analysis.argument_size_in_bytes < 600 * (4 * (D + 1) + 1)


def fewer_records_than_devices():
    check_same_bits(full_data, Logistic(), 3, 8)
    private = {"adjacency": "add_or_remove_one", "capacity": 5}
    assert "devices=8" in repr(PrivateData.without_guarantee(table(3), devices=jax.devices(), **private))


def a_result_can_be_an_argument():
    """Results and arguments may lie on any device, and stay usable with others."""
    data = PrivateData.without_guarantee(table(40), devices=jax.devices()[2:5])
    ask = lambda oracle, theta, key: (oracle.force(GradientSum(CLIP, 2.0), theta).value, key)  # noqa: E731
    first, key = data.run(ask, jnp.zeros(D), jax.random.key(0), model=Logistic(), insecure_seed=1)
    again, _ = data.run(ask, first, key, model=Logistic(), insecure_seed=1)
    assert np.all(np.isfinite(again + jnp.ones(D)))
    assert jax.random.normal(key).shape == ()


def the_trap():
    """By default shard_map adds gradients up before they are clipped. The enclave's sums must not."""
    from jax.sharding import Mesh, PartitionSpec

    rows = jnp.asarray(np.random.default_rng(0).normal(size=(8, 2)).astype(np.float32)) * 5
    mesh, spec = Mesh(np.array(jax.devices()), ("d",)), PartitionSpec("d")

    def norms(theta, rows):
        gradients = jax.vmap(jax.grad(lambda t, row: jnp.sum(t * row)), in_axes=(None, 0))(theta, rows)
        return jnp.linalg.norm(gradients, axis=1)

    def with_check(check):
        mapped = jax.shard_map(norms, mesh=mesh, in_specs=(PartitionSpec(), spec), out_specs=spec, check_vma=check)
        return mapped(jnp.zeros(2), rows)

    true = np.linalg.norm(rows, axis=1)
    np.testing.assert_allclose(with_check(False), true, rtol=1e-5)
    assert not np.allclose(with_check(True), true, rtol=0.1), "the trap is gone: this JAX could do without check_vma"

    class Linear(Logistic):
        def log_likelihood(self, theta, record):
            return jnp.sum(theta * record)

    data = PrivateData.without_guarantee(np.asarray(rows), devices=jax.devices())
    quiet = GradientSum(1.0, 0.003)
    total = data.run(lambda oracle, theta: oracle.force(quiet, theta).value, jnp.zeros(2), model=Linear())
    np.testing.assert_allclose(total, np.sum(rows / np.maximum(true, 1)[:, None], axis=0), atol=0.05)


CASES = {
    "linear predictor": lambda: check_same_bits(full_data, Logistic(), 803, 8),
    "linear predictor, shared evenly, other chunks": lambda: check_same_bits(
        full_data, Logistic(), 4800, 8, chunk_size=7
    ),
    "general": lambda: check_same_bits(full_data, Mixture(), 803, 8),
    "general, on three": lambda: check_same_bits(full_data, Mixture(), 803, 3),
    "general, one chunk on a device and several on one": lambda: check_same_bits(
        full_data, Mixture(), 4800, 8, chunk_size=1024
    ),
    "private number of records": lambda: check_same_bits(
        full_data, Mixture(), 803, 8, adjacency="add_or_remove_one", capacity=1000
    ),
    "batches": lambda: check_same_bits(subsampled, Mixture(), 803, 8),
    "exact": lambda: check_same_bits(exact, Mixture(), 803, 8, tolerance=1e-4),
    "fewer records than devices": fewer_records_than_devices,
    "memory": no_device_holds_the_table,
    "results": a_result_can_be_an_argument,
    "trap": the_trap,
}


LONG = (
    "linear predictor, shared evenly, other chunks",
    "general, on three",
    "general, one chunk on a device and several on one",
    "fewer records than devices",
    "private number of records",
)


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.slow) if case in LONG else case for case in CASES]
)
def test_eight_devices(case):
    path = [str(Path(__file__).parent), *[entry for entry in sys.path if entry]]
    script = f"import sys; sys.path[:0] = {path!r}; import test_shards; test_shards.CASES[{case!r}](); print('equal')"
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False, timeout=600
    )
    assert done.stdout.strip().endswith("equal"), done.stderr


def test_one_stated_device_is_like_none():
    check_same_bits(lambda oracle, theta: oracle.force(GradientSum(CLIP, 2.0), theta), Mixture(), 100, 1)


@pytest.mark.parametrize("devices", [[], [None], "cpu", 8, ["cpu:0"], [jax.devices()[0]] * 2, jax.devices()[0]])
def test_bad_devices(devices):
    with pytest.raises(InvalidArgument, match="devices must be a sequence of distinct devices"):
        PrivateData.without_guarantee(np.zeros((5, 2)), devices=devices)


def test_devices_of_another_backend_are_refused_with_what_to_do(monkeypatch):
    data = PrivateData.without_guarantee(np.zeros((5, 2)), devices=jax.devices())
    assert data.facts.size == 5
    platform = jax.devices()[0].platform
    monkeypatch.setattr(jax, "default_backend", lambda: "other")
    message = (
        f"devices has some of the platform {platform}; expected devices of JAX's default backend, other, on which the "
        rf"self-test ran. Name some of jax.devices\(\), or make the other the default .* JAX_PLATFORMS={platform}$"
    )
    with pytest.raises(InvalidArgument, match=message):
        PrivateData.without_guarantee(np.zeros((5, 2)), devices=jax.devices())
