"""What the package promises by name: the public names, the tree of errors, and that accounting needs no JAX."""

import importlib
import inspect
import re
import subprocess
import sys
from typing import Any

import pytest

import dpmcmc
import dpmcmc.accounting
import dpmcmc.posterior
from dpmcmc import errors

PROMISED = {
    "AcceptBit",
    "Adjacency",
    "BarkerTest",
    "Budget",
    "Certificate",
    "Composed",
    "FixedBatchGaussian",
    "Gaussian",
    "Ledger",
    "LogisticBit",
    "NonPrivate",
    "Parallel",
    "Partition",
    "PoissonGaussian",
    "delta",
    "epsilon",
    "log_delta",
    "max_steps",
    "noise_for",
    "split",
}
"""The names that other code calls; they stay."""


def test_public_names_are_sorted_and_exist() -> None:
    names = dpmcmc.accounting.__all__
    assert names == sorted(names)
    assert len(set(names)) == len(names)
    assert all(hasattr(dpmcmc.accounting, name) for name in names)


def test_public_names_are_complete() -> None:
    assert set(dpmcmc.accounting.__all__) >= PROMISED
    assert set(dir(dpmcmc.accounting)) == set(dpmcmc.accounting.__all__)
    at_home = [name for names in dpmcmc.accounting._HOMES.values() for name in names.split()]
    assert sorted(at_home) == sorted(dpmcmc.accounting.__all__), "what is imported when it is used, and nothing else"


def test_every_event_is_public() -> None:
    assert set(dpmcmc.accounting.Event.kinds) <= set(dpmcmc.accounting.__all__)


@pytest.mark.parametrize("name", dpmcmc.accounting.__all__)
def test_public_names_are_documented(name: str) -> None:
    value = getattr(dpmcmc.accounting, name)
    if inspect.isclass(value) or inspect.isfunction(value):
        assert (value.__doc__ or "").strip()


def _callables() -> dict[str, Any]:
    """Functions that people call, classes that they make, and the public methods of these."""
    top = {name: getattr(dpmcmc, name) for name in dpmcmc.__all__ if name not in dpmcmc.NAMESPACES}
    top |= {"PriorPredictive": dpmcmc.posterior.PriorPredictive, "FormulaModel": dpmcmc.model.FormulaModel}
    modules = {home: getattr(dpmcmc, home) for home in dpmcmc.NAMESPACES}
    spaces = {f"{home}.{name}": getattr(of, name) for home, of in modules.items() for name in of.__all__}
    functions = {name: each for name, each in spaces.items() if inspect.isfunction(each)}
    methods = {
        f"{name}.{each}": getattr(value, each)
        for name, value in top.items()
        if inspect.isclass(value)
        for each in dir(value)
        if not each.startswith("_")
    }
    own = {name: each for name, each in methods.items() if str(getattr(each, "__module__", "")).startswith("dpmcmc.")}
    found = {**top, **functions, **{name: each for name, each in own.items() if inspect.isroutine(each)}}
    nobody_calls = {"Adjacency", "FormulaModel"} | {
        f"{of}.{name}" for of in ("Model", "FormulaModel") for name in ("constrain", "unconstrain")
    }
    return {name: each for name, each in found.items() if name not in nobody_calls}


def test_help_shows_every_argument() -> None:
    found = _callables()
    assert len(found) > 100
    silent: list[str] = []
    for name, value in found.items():
        shown = inspect.getdoc(value) or ""
        assert shown.strip(), name
        arguments = [each for each in inspect.signature(value).parameters if each not in {"self", "cls"}]
        silent += [f"{name}: {each}" for each in arguments if not re.search(rf"\b{each}\b", shown)]
    assert not silent


def drawn_tree(drawing: str) -> dict[str, str]:
    """Return child to parent, read from a tree drawn with box characters, four columns a level."""
    parents: dict[str, str] = {}
    path: list[str] = []
    for line in drawing.splitlines():
        found = re.match(r"^    (?P<branch>[│├└─ ]*)(?P<name>[A-Z]\w+)", line)
        if not found:
            continue
        level = len(found["branch"]) // 4
        path[level:] = [found["name"]]
        if level:
            parents[found["name"]] = path[level - 1]
        else:
            parents[found["name"]] = "Exception"
    return parents


def test_the_tree_of_errors_is_as_drawn() -> None:
    assert errors.__doc__
    drawn = drawn_tree(errors.__doc__)
    defined = {
        name: value.__bases__[0].__name__
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, Exception)
    }
    assert drawn == defined
    assert len(drawn) >= 10


def test_errors_that_are_also_value_errors_say_so() -> None:
    assert errors.__doc__
    for name, value in vars(errors).items():
        if inspect.isclass(value) and issubclass(value, ValueError):
            line = next(line for line in errors.__doc__.splitlines() if re.search(rf"\b{name}\b", line))
            assert "also a ValueError" in line


def test_accounting_does_not_import_jax() -> None:
    program = (
        "import sys, dpmcmc.accounting as a\n"
        "a.epsilon(a.Gaussian(2.0) + a.PoissonGaussian(0.1, 2.0, 'replace_one'), 1e-6)\n"
        "print(sorted(name for name in ('jax', 'jaxlib', 'numpyro') if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_names_of_the_package_are_sorted_and_exist() -> None:
    assert dpmcmc.__all__ == sorted(dpmcmc.__all__)
    assert len(dpmcmc.__all__) <= 26
    values = {name: getattr(dpmcmc, name) for name in dpmcmc.__all__}
    assert all(value.__doc__ for value in values.values())
    assert {name for name, value in values.items() if not callable(value)} == set(dpmcmc.NAMESPACES)
    assert {name for names in dpmcmc._HOMES.values() for name in names} | set(dpmcmc.NAMESPACES) == set(dpmcmc.__all__)
    assert dir(dpmcmc) == dpmcmc.__all__
    with pytest.raises(AttributeError, match="has no attribute 'Prior'; it has Adjacency, Budget"):
        dpmcmc.Prior  # noqa: B018


MOVED = [(home, name) for home, names in dpmcmc._MOVED.items() for name in names.split() if name != "Sum"]


@pytest.mark.parametrize(("home", "name"), MOVED, ids=lambda one: one)
def test_a_name_that_has_moved_is_found_by_its_refusal(home: str, name: str) -> None:
    with pytest.raises(AttributeError, match=rf"has no attribute '{name}'; it is dpmcmc\.{home}\.{name}$"):
        getattr(dpmcmc, name)
    assert name in importlib.import_module(f"dpmcmc.{home}").__all__


@pytest.mark.parametrize("home", dpmcmc.NAMESPACES)
def test_names_of_a_namespace_are_sorted_and_exist(home: str) -> None:
    namespace = getattr(dpmcmc, home)
    assert namespace.__all__ == sorted(namespace.__all__)
    assert all(hasattr(namespace, name) for name in namespace.__all__)


def test_names_of_the_enclave_are_sorted_and_exist() -> None:
    from dpmcmc import enclave

    assert enclave.__all__ == sorted(enclave.__all__)
    assert all(inspect.isclass(getattr(enclave, name)) for name in enclave.__all__)


def test_mechanisms_of_the_enclave_have_a_namespace() -> None:
    from dpmcmc import enclave, mechanisms

    found = {name for name in enclave.__all__ if "plan" in vars(getattr(enclave, name))}
    assert len(found) >= 16
    assert set(mechanisms.__all__) == found | {"Poisson", "WithoutReplacement"}
    assert all(getattr(mechanisms, name) is getattr(enclave, name) for name in found)
