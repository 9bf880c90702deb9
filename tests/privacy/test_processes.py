"""One program on the devices of several processes, which `jax.distributed` joins: the bits of one process, one charge.

Nothing here is drawn at random that could fail: noise is that of stated seeds, and compared with itself.
"""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import json, sys
import jax
number, count, port, folder, case = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5]
jax.config.update("jax_num_cpu_devices", 1)
if count > 1:
    jax.distributed.initialize(f"127.0.0.1:{port}", count, number)
import jax.numpy as jnp
import numpy as np
import dpmcmc as dp
from dpmcmc.enclave import CurvatureSum, GradientSum, Sum
from dpmcmc.errors import DpmcmcError

draws = np.random.default_rng(3)
rows = {"x": draws.normal(size=(1_500, 3)).astype(np.float32), "y": draws.integers(0, 2, 1_500).astype(np.float32)}
if case == "another table" and number == 1:
    rows["x"][7] += 1

class Logistic:
    temperature = 1.0
    def log_prior(self, theta):
        return 0 * jnp.sum(theta)
    def log_likelihood(self, theta, record):
        return jax.nn.log_sigmoid((2 * record["y"] - 1) * (record["x"] @ theta))

def program(oracle, theta):
    force = oracle.force(GradientSum(1.0, 3.0), theta).value
    curvature = oracle.curvature(CurvatureSum(1.0, 3.0), theta, jnp.eye(3)).value
    walk = jax.lax.scan(lambda at, _: (at, oracle.force(GradientSum(1.0, 9.0), at).value), theta, None, length=3)[1]
    return force, curvature, walk, oracle.sum(Sum(1.0, 3.0), lambda record: record["x"]).value

def told():
    theta = jnp.array([0.1, -0.2, 0.3]) * (1 if case != "another question" or number != 1 else 2)
    words = ""
    if case in ("charge", "refused"):
        book = f"sqlite:///{folder}/book-{number}.db"
        ledger = dp.Ledger.create(book)
        ledger.register("all", dp.Budget(4.0 if case == "charge" else 1e-3, 1e-6), dp.accounting.Adjacency.REPLACE_ONE)
        ledger.register("rows", part_of="all")
        data = dp.PrivateData(rows, ledger=ledger, dataset="rows", devices=jax.devices())
        found = data.run(program, theta, model=Logistic())
        try:
            data.partition((10,))
            pytest.fail("cells were cut")
        except DpmcmcError:
            pass
        spent = ledger.account("rows").epsilon_spent
        words = str(data.certificate(data.price(program, theta, model=Logistic()), 1e-6))
        assert data.account.part_of == "all"
    else:
        data = dp.PrivateData.without_guarantee(rows, devices=jax.devices())
        found, spent = data.run(program, theta, model=Logistic(), insecure_seed=4), 0.0
    words = words or repr(data)[:90]
    return {"found": [np.asarray(one).tobytes().hex() for one in found], "spent": spent, "words": words}

try:
    answer = told()
except DpmcmcError as error:
    answer = {"error": f"{type(error).__name__}: {error}"}
print("ANSWER" + json.dumps(answer), flush=True)
"""


def together(count: int, folder: Path, case: str = "bits") -> list[dict]:
    """Have so many processes run the script; return what each found."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    kept = {name: value for name, value in os.environ.items() if "CACHE" not in name and name != "XLA_FLAGS"}
    environment = {**kept, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", SCRIPT]
    processes = [
        subprocess.Popen(
            [*command, str(number), str(count), str(port), str(folder), case],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(count)
    ]
    answers = []
    for process in processes:
        try:
            output, errors = process.communicate(timeout=400)
        finally:
            process.kill()
        lines = [line for line in output.splitlines() if line.startswith("ANSWER")]
        assert lines, errors[-2_000:]
        answers.append(json.loads(lines[0].removeprefix("ANSWER")))
    return answers


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_several_processes_give_the_bits_of_one(count, tmp_path) -> None:
    (alone,) = together(1, tmp_path)
    answers = together(count, tmp_path)
    assert len(alone["found"]) == 4
    assert f"devices={count}" in answers[0]["words"]
    assert [answer["found"] for answer in answers] == [alone["found"]] * count


def test_the_first_process_pays_once_and_all_have_its_noise(tmp_path) -> None:
    first, second = together(2, tmp_path, "charge")
    assert first["found"] == second["found"]
    assert first["spent"] > 0
    assert second["spent"] == 0
    assert "nobody is in two of its parts" in first["words"]
    assert first["words"] == second["words"]


def test_what_the_first_cannot_pay_for_nobody_executes(tmp_path) -> None:
    first, second = together(2, tmp_path, "refused")
    assert first["error"].startswith("BudgetExceeded")
    assert "the first process, which charges for all, was refused" in second["error"]


@pytest.mark.slow
def test_other_tables_are_refused_and_questions_are_those_of_the_first(tmp_path) -> None:
    for answer in together(2, tmp_path, "another table"):
        assert "the table is not the same in all processes" in answer["error"]
    plain, asked = together(2, tmp_path), together(2, tmp_path, "another question")
    assert [answer["found"] for answer in asked] == [answer["found"] for answer in plain]
