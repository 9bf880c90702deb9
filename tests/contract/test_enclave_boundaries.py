"""What the enclave may import and what may import the enclave: read from the source, not from a running program."""

import ast
import inspect
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import dpmcmc
import dpmcmc.enclave
from dpmcmc.enclave.core.mechanism import CERTIFIED

SOURCE = Path(dpmcmc.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
ENCLAVE = SOURCE / "enclave"
INTERNALS_OF_JAX = {"core/allowed.py", "core/audit.py", "core/release.py", "accelerate/jaxpr.py", "noise/chacha20.py"}
INTERNALS_OF_JAX |= {"copies.py", "lines.py", "refusals.py"}
"""The list of operations, the auditor, the primitive, what reads equations, the generator
(`jax.extend.random.define_prng_impl`), and what serves messages alone."""


def imports(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_internals_of_jax_stay_in_eight_files(file):
    internal = {name for name in imports(file) if name.startswith(("jax.extend", "jax.interpreters", "jax._src"))}
    assert not internal or within(file) in INTERNALS_OF_JAX
    assert not any(name.startswith("jax._src") for name in internal)


def within(file):
    """The path of a file in the enclave, or nothing."""
    return file.relative_to(ENCLAVE).as_posix() if file.is_relative_to(ENCLAVE) else None


def test_the_files_that_are_named_here_exist():
    for name in INTERNALS_OF_JAX | REACH_THE_PRIMITIVE:
        assert (ENCLAVE / name).is_file()


REACH_THE_PRIMITIVE = {"core/audit.py", "core/programs.py", "core/sealed.py", "oracle.py", "accelerate/sharing.py"}
REACH_THE_PRIMITIVE |= {"engines/passes.py", "engines/steps.py"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_only_the_oracle_and_the_vault_reach_the_primitive(file):
    reached = any(name.startswith("dpmcmc.enclave.core.release") for name in imports(file))
    assert not reached or within(file) in REACH_THE_PRIMITIVE


@pytest.mark.parametrize("name", sorted(CERTIFIED))
def test_a_proof_stands_beside_each_mechanism(name):
    module, kind = name.split(".")
    proof = ENCLAVE / "mechanisms" / f"{module}.md"
    assert proof.exists(), f"{name} claims privacy without a proof"
    assert len(proof.read_text()) > 300
    assert inspect.isclass(getattr(import_module(f"dpmcmc.enclave.mechanisms.{module}"), kind))


def test_every_mechanism_that_is_offered_is_certified():
    offered = {
        f"{kind.__module__.rpartition('.')[2]}.{kind.__qualname__}"
        for kind in vars(dpmcmc.enclave).values()
        if inspect.isclass(kind) and "plan" in vars(kind)
    }
    assert offered == set(CERTIFIED)


# --- the core, and what only makes it faster ------------------------------------------------------------------------


def at_module_level(file):
    """The modules that importing a file imports, as far as they are written out; blocks for type checkers are not."""
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("file", sorted((ENCLAVE / "core").glob("*.py")), ids=lambda file: file.name)
def test_the_core_does_not_import_what_only_makes_it_faster_or_reads_tables(file):
    for folder in ("accelerate", "engines", "sources", "tables"):
        assert not any(name.startswith(f"dpmcmc.enclave.{folder}") for name in at_module_level(file))


def test_the_vault_loads_the_faster_paths_by_name():
    text = (ENCLAVE / "core" / "vault.py").read_text()
    assert '"dpmcmc.enclave.accelerate"' in text
    assert "import_module" in text
    from dpmcmc.enclave.accelerate import PATHS

    data = dpmcmc.PrivateData.without_guarantee(np.zeros((3, 2)))
    plain = dpmcmc.PrivateData.without_guarantee(np.zeros((3, 2)), accelerate=False)
    assert data.facts.paths == PATHS
    assert plain.facts.paths == ()


def test_arithmetic_and_noise_stand_below_the_core():
    """What turns floats into integers and what draws noise knows of no mechanism, no vault and no faster path."""
    for folder in ("arithmetic", "noise"):
        for file in sorted((ENCLAVE / folder).glob("*.py")):
            above = ("mechanisms", "accelerate", "tables", "resume", "core.vault", "core.sums", "oracle", "batches")
            assert not any(
                name.startswith(f"dpmcmc.enclave.{one}") for name in at_module_level(file) for one in above
            ), file.name


# --- what a reviewer must read --------------------------------------------------------------------------------------

MOST_LINES = 3_299
BESIDE = {"resume", "select", "tables", "oracle", "data"}
"""What runs that resume, selections, tables and questions add: nothing of it is in the way of a release."""


def closure(*modules):
    """All modules of the enclave that these import, at the top or inside."""
    seen, left = set(), list(modules)
    while left:
        module = left.pop()
        file = SOURCE.parent / f"{module.replace('.', '/')}.py"
        if module in seen or not file.exists() or module.split(".")[2] in BESIDE:
            continue
        seen.add(module)
        names = (name for name in imports(file) if name.startswith("dpmcmc.enclave"))
        left += [part for name in names for part in (name, name.rpartition(".")[0])]
    return {module: SOURCE.parent / f"{module.replace('.', '/')}.py" for module in seen}


def test_a_gaussian_release_takes_at_most_so_many_lines_to_believe():
    """The accountant is counted apart; files that say that privacy does not rest on them are not counted."""
    files = closure("dpmcmc.enclave.core.vault", "dpmcmc.enclave.mechanisms.sum")
    trusted = {name: file for name, file in files.items() if not is_beside(file)}
    assert {"gate", "places", "allowed", "self_test", "compiled"} <= {name.rpartition(".")[2] for name in trusted}
    assert not [name for name in trusted if ".accelerate" in name]
    lines = {name: len(file.read_text().splitlines()) for name, file in trusted.items()}
    assert sum(lines.values()) <= MOST_LINES, sorted(lines.items())
    hundreds = f"about {-(-sum(lines.values()) // 100) * 100:,} lines"
    for page in ("README.md", "CONTRIBUTING.md", "docs/features.md", "docs/privacy.md"):
        assert hundreds in (SOURCE.parents[1] / page).read_text(encoding="utf-8"), (page, hundreds)


def is_beside(file):
    """Whether a file says of itself that nothing rests on it: what it makes is checked elsewhere, or is a message."""
    words = ast.get_docstring(ast.parse(file.read_text())) or ""
    return "Privacy does not rest on this file" in " ".join(words.split()) or "Nothing here is trusted" in words


def test_no_file_is_longer_than_one_reads_at_once():
    lines = {str(file.relative_to(SOURCE)): len(file.read_text().splitlines()) for file in FILES}
    assert not {name: length for name, length in lines.items() if length > 350}
