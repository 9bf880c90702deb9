"""What is published: one version everywhere, the same requirements for conda, and a wheel that works by itself."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CONDA_NAMES = {"matplotlib": "matplotlib-base"}


def test_the_version_is_the_same_everywhere():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    recipe = (ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8")
    assert re.search(r"^version: (.*)$", citation, re.MULTILINE)[1] == PROJECT["version"]
    assert re.search(r'^  version: "(.*)"$', recipe, re.MULTILINE)[1] == PROJECT["version"]
    assert re.search(r"^title: \S", citation, re.MULTILINE)
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## (\d\S*)", changes, re.MULTILINE)[1] == PROJECT["version"], "the uppermost section"


def test_the_conda_recipe_requires_what_the_package_requires():
    recipe = (ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8")
    run = recipe.split("  run:\n")[1].split("\n\n")[0]
    stated = {line.strip("- ") for line in run.splitlines()} - {"python >=${{ python_min }}"}
    expected = set()
    for requirement in PROJECT["dependencies"]:
        name, bounds = re.match(r"([a-z0-9-]+)(.*)", requirement).groups()
        expected.add(f"{CONDA_NAMES.get(name, name)} {bounds}")
    assert stated == expected
    assert f'python_min: "{PROJECT["requires-python"].removeprefix(">=")}"' in recipe


def test_workflows_test_every_python_that_the_package_names():
    named = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if "Python :: 3." in line]
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    assert len(named) == 3
    assert workflow.count(f"python: {str(named).replace(chr(39), chr(34))}") == 2


@pytest.mark.slow
def test_a_wheel_in_a_clean_environment_runs_the_demo(tmp_path):
    """Built as a release is, installed with nothing of the clone in reach, and run from another folder."""
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    build = [sys.executable, "-m", "build", "--outdir", str(tmp_path / "dist"), str(ROOT)]
    subprocess.run(build, check=True, cwd=tmp_path, env=outside)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    assert list((tmp_path / "dist").glob("*.tar.gz"))
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "clean")], check=True, env=outside)
    programs = tmp_path / "clean" / "bin"
    subprocess.run([programs / "python", "-m", "pip", "install", "--quiet", wheel], check=True, env=outside)
    where = "import dpmcmc, sys; print(dpmcmc.__file__)"
    asked = {"check": True, "capture_output": True, "text": True, "cwd": tmp_path, "env": outside}
    assert subprocess.run([programs / "python", "-c", where], **asked).stdout.startswith(str(tmp_path / "clean"))
    assert subprocess.run([programs / "dpmcmc", "--version"], **asked).stdout == f"dpmcmc {PROJECT['version']}\n"
    demo = [programs / "dpmcmc", "demo", "--output", "demo"]
    done = subprocess.run(demo, **asked)
    assert re.search("Quality: (good|fair).", done.stdout)
    assert "<svg" in (tmp_path / "demo" / "report.html").read_text(encoding="utf-8")
