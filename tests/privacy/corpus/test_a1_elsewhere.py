"""A1 in other surroundings: with 64-bit numbers, on several devices, for several chains, in a loop.

The attack: q * q - x as in `test_a1_no_clip.py`, where JAX is set up in another way, which changes what the compiler
makes of it. It was seen to break its bound in all of them: 1,400 to 1,900 times in float64, 1,300 to 1,600 times on
two devices.

What must happen: the sum of one finite record is no longer than one clip, for every chain and every turn.

False alarms: 1.3e-14 a check.
"""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys
import jax, jax.numpy as jnp, numpy as np
from dpmcmc.enclave import Sum
from exact_sums import QUIET, least_norm
from vaults import free_vault

wide, devices = sys.argv[1] == "wide", int(sys.argv[2])
assert jax.config.jax_enable_x64 == wide and len(jax.devices()) == devices
options = {"devices": jax.devices()} if devices > 1 else {}
dtype, clip = np.float64 if wide else np.float32, 1e-3
for n, d, chains in ((1001, 3, 1), (1001, 6, 3), (17, 5, 3)):
    query = ((1e9 if wide else 1e6) * np.random.default_rng(d).uniform(1, 2, d)).astype(dtype)
    rows = np.full((n, d), np.nan, dtype)
    rows[n // 3] = query * query
    queries = np.stack([query * dtype(0.5**chain) for chain in range(chains)])
    ask = lambda oracle, q: oracle.sum(Sum(clip, QUIET), lambda q, x: q * q - x, q)
    vault = free_vault(rows, **options)
    for where, program in {
        "vmap": lambda oracle, queries: jax.vmap(lambda q: ask(oracle, q))(queries),
        "scan": lambda oracle, queries: jax.lax.scan(lambda _, q: (None, ask(oracle, q)), None, queries)[1],
    }.items():
        noisy = vault.run(program, jnp.asarray(queries))
        for chain in range(chains):
            one = jax.tree.map(lambda leaf: np.asarray(leaf)[chain], noisy)
            ratio = least_norm(one) / clip
            if not ratio <= 1:
                print(f"{ratio:.4g} times the bound: n={n}, d={d}, {where}, chain {chain} of {chains}")
print("done")
"""


@pytest.mark.parametrize(("numbers", "devices"), [("wide", 1), ("single", 2)])
def test_sum(numbers, devices):
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    environment = os.environ | {
        "JAX_ENABLE_X64": str(int(numbers == "wide")),
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": flags.strip(),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-c", PROGRAM, numbers, str(devices)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split("\n") == ["done", ""], done.stdout
