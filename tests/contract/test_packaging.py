"""What is published: one version everywhere, the same requirements for conda, and a wheel that works by itself."""

import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import dpmcmc as dp

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
STATED = runpy.run_path(str(ROOT / "version.py"))["STATED"]
CONDA_NAMES = {"matplotlib": "matplotlib-base"}


def test_the_version_is_the_same_everywhere():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    recipe = (ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8")
    assert re.search(r"^version: (.*)$", citation, re.MULTILINE)[1] == STATED
    assert re.search(r'^  version: "(.*)"$', recipe, re.MULTILINE)[1] == STATED
    assert re.search(r"^title: \S", citation, re.MULTILINE)
    checklist = (ROOT / "docs" / "releasing.md").read_text(encoding="utf-8")
    assert f'git tag -s v{STATED} -m "{STATED}"' in checklist
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## (\d\S*)", changes, re.MULTILINE)[1] == STATED, "the uppermost section"


def test_the_library_and_what_it_writes_have_the_version_of_the_installed_package():
    installed = version("dpmcmc")
    assert dp.__version__ == installed
    assert dp.Certificate.__dataclass_fields__["library_version"].default == installed


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        (None, STATED),
        ("v7.1.0", "7.1.0"),
        ("v7.1.0rc1", "7.1.0rc1"),
        ("v7", STATED),
        ("vote", STATED),
        ("7.1.0", STATED),
    ],
)
def test_a_clone_at_a_tag_has_the_version_of_the_tag(tmp_path, tag, expected):
    """Read by `git`, in a clone whose only file is the one that reads it."""
    clone = tmp_path / "clone"
    _repository(clone, tag)
    assert _version_in(clone) == expected
    (clone / "version.py").write_text((clone / "version.py").read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert _version_in(clone) == STATED, "changed since the tag"


def test_a_folder_without_git_has_the_stated_version(tmp_path, monkeypatch):
    """Also where a repository around it has a tag, or where the machine has no git."""
    _repository(tmp_path / "around", "v7.1.0")
    inside = tmp_path / "around" / "unpacked"
    inside.mkdir()
    shutil.copy(ROOT / "version.py", inside)
    assert _version_in(inside) == STATED
    assert _version_in(tmp_path / "around") == "7.1.0"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert _version_in(tmp_path / "around") == STATED


def _repository(folder, tag):
    folder.mkdir()
    shutil.copy(ROOT / "version.py", folder)
    somebody = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org", "-c", "commit.gpgsign=false"]
    commands = [["init", "--quiet"], ["add", "."], [*somebody, "commit", "--quiet", "--message=all"]]
    for command in commands + ([["tag", tag]] if tag else []):
        subprocess.run(["git", *command], check=True, cwd=folder)


def _version_in(folder):
    return runpy.run_path(str(folder / "version.py"))["__version__"]


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
    assert subprocess.run([programs / "dpmcmc", "--version"], **asked).stdout == f"dpmcmc {wheel.name.split('-')[1]}\n"
    demo = [programs / "dpmcmc", "demo", "--output", "demo"]
    done = subprocess.run(demo, **asked)
    assert re.search("Quality: (good|fair).", done.stdout)
    assert "<svg" in (tmp_path / "demo" / "report.html").read_text(encoding="utf-8")
