"""A program is compiled once: how many XLA compiles in a fresh process, fit by fit, as JAX itself counts them."""

import json
import os
import subprocess
import sys

import pytest

MOST_OF_THE_FIRST = 6

SCRIPT = """
import json, sys
import jax.monitoring
import numpy as np
import pandas as pd
import dpmcmc as dp

count = [0]

def heard(event, duration, **_):
    count[0] += event.endswith("backend_compile_duration")

jax.monitoring.register_event_duration_secs_listener(heard)
rng = np.random.default_rng(0)

def load():
    x = rng.uniform(-1, 1, (1500, 2))
    mean = x @ [1.0, -0.5]
    table = {"a": x[:, 0], "b": 10 + 5 * x[:, 1], "y": rng.random(1500) < 1 / (1 + np.exp(-mean))}
    table |= {"z": rng.random(1500) < 0.5, "u": mean + 0.3 * rng.normal(size=1500), "v": mean}
    columns = {"a": dp.Column(kind="number", lower=-1, upper=1), "b": dp.Column(kind="number", lower=5, upper=15)}
    columns |= {name: dp.Column(kind="boolean") for name in "yz"}
    columns |= {"u": dp.Column(kind="number", lower=-4, upper=4), "v": dp.Column(kind="number", lower=-2, upper=3)}
    return dp.PrivateData.from_table(pd.DataFrame(table), schema=dp.Schema(columns), budget=dp.Budget(500.0, 1e-5))

data, other = load(), load()

def counted(model, data, epsilon, **options):
    before = count[0]
    dp.fit(model, data, epsilon=epsilon, delta=1e-6, progress=False, allow_low_accuracy=True, **options)
    return count[0] - before

def of_numpyro(a, y):
    import numpyro
    import numpyro.distributions as dist

    level, slope = (numpyro.sample(name, dist.Normal(0.0, 2.0)) for name in ("level", "slope"))
    with numpyro.plate("records", a.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=level + slope * a), obs=y)

def of_vector(a, u, v):
    import numpyro
    import numpyro.distributions as dist

    level = numpyro.sample("level", dist.Normal(0.0, 2.0).expand([2]).to_event(1))
    spread = numpyro.sample("spread", dist.HalfNormal(1.0))
    with numpyro.plate("records", a.shape[0]):
        numpyro.sample("u", dist.Normal(level[0] + level[1] * a, spread), obs=u)
        numpyro.sample("v", dist.Normal(level[0], 1.0), obs=v)

CASES = {
    "bernoulli": [
        ("first", "y ~ a + b", data, 8.0),
        ("again", "y ~ a + b", data, 8.0),
        ("epsilon", "y ~ a + b", data, 3.3),
        ("much less epsilon", "y ~ a + b", data, 0.4),
        ("formula", "z ~ b + a", data, 8.0),
        ("table", "y ~ a + b", other, 5.0),
    ],
    "gaussian": [
        ("first", "u ~ a + b", data, 8.0),
        ("epsilon", "u ~ a + b", data, 3.3),
        ("formula", "v ~ b + a", data, 8.0),
        ("table", "u ~ a + b", other, 5.0),
    ],
    "numpyro": [
        ("first", of_numpyro, data, 8.0),
        ("epsilon", of_numpyro, data, 5.0),
        ("table", of_numpyro, other, 8.0),
    ],
    "numpyro, a vector": [("first", of_vector, data, 8.0), ("epsilon", of_vector, data, 3.0)],
}
family = sys.argv[1]
options = {} if "numpyro" in family else {"family": family}
found = {name: counted(model, table, epsilon, **options) for name, model, table, epsilon in CASES[family]}
print(json.dumps(found))
"""


def compilations(family):
    """What a process of its own counts, without anything that was compiled before."""
    fresh = {name: value for name, value in os.environ.items() if "COMPILATION_CACHE" not in name}
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, family]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=fresh)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("family", ["bernoulli", "gaussian", "numpyro", "numpyro, a vector"])
def test_fits_of_one_shape_compile_once(family):
    found = compilations(family)
    assert 0 < found.pop("first") <= MOST_OF_THE_FIRST
    assert found == dict.fromkeys(found, 0)
