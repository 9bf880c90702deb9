"""What the enclave may import and what may import the enclave: read from the source, not from a running program."""

import ast
from pathlib import Path

import pytest

import dpmcmc

SOURCE = Path(dpmcmc.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
INTERNALS_OF_JAX = {"allowed.py", "audit.py", "equations.py", "release.py", "rng.py", "written_out.py"}
"""The list of operations, the primitive, the auditor, the generator (`jax.extend.random.define_prng_impl`), and what
reads equations."""


def imports(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_internals_of_jax_stay_in_six_files(file):
    internal = {name for name in imports(file) if name.startswith(("jax.extend", "jax.interpreters", "jax._src"))}
    assert not internal or (file.parent.name == "enclave" and file.name in INTERNALS_OF_JAX)
    assert not any(name.startswith("jax._src") for name in internal)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_only_the_oracle_and_the_vault_reach_the_primitive(file):
    reached = any(name.startswith("dpmcmc.enclave.core.release") for name in imports(file))
    assert not reached or file.name in {"audit.py", "oracle.py", "programs.py", "sealed.py"}


@pytest.mark.parametrize("file", sorted((SOURCE / "enclave" / "mechanisms").glob("*.py")), ids=lambda file: file.name)
def test_a_proof_stands_beside_each_mechanism(file):
    if "@certified" in file.read_text().replace('"@certified', ""):
        assert file.with_suffix(".md").exists(), f"{file.name} claims privacy without a proof"
