"""The catalogue: what is known of a sampler stands in one record; a kernel and a record make a new one."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from dpmcmc import kernels, planner
from dpmcmc.catalogue import SAMPLERS, citation
from dpmcmc.fitting import RECIPES
from dpmcmc.kernels.base import KERNELS

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "src" / "dpmcmc" / "kernels"
WITHOUT_RECORD = {"gradient_ascent"}
"""A pilot, which has no posterior to draw from."""


def names_of_kernels() -> set[str]:
    ours = {name.rpartition(".")[2] for name in KERNELS if name.startswith("dpmcmc.kernels.")}
    return {name for name in ours if (FOLDER / f"{name}.py").is_file()}


def test_every_kernel_has_a_record() -> None:
    assert {sampler.kernel.__name__ for sampler in SAMPLERS.values()} | WITHOUT_RECORD == names_of_kernels()


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_record_is_complete(name: str) -> None:
    sampler = SAMPLERS[name]
    page = (ROOT / "docs" / "algorithms" / f"{sampler.page}.md").read_text(encoding="utf-8")
    assert f"{sampler.kernel.__name__}.py" in page or f"{name}" in page
    assert all(paper.startswith("@") and "title" in paper for paper in sampler.papers)
    assert getattr(kernels, sampler.kernel.__name__) is sampler.kernel
    if sampler.kernel.__name__ == name and sampler.papers:
        assert citation(sampler.kernel) == "\n\n".join(sampler.papers)


def test_who_reads_it() -> None:
    offered = {name for name, sampler in SAMPLERS.items() if sampler.recipe}
    assert set(RECIPES) == offered
    assert set(planner.GRID.sampler) == offered - {"minibatch_barker"}


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.py")), ids=lambda file: file.stem)
def test_no_file_of_the_kernels_imports_a_sampler(file: Path) -> None:
    if file.stem == "__init__":
        return
    nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    imported = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    modules = {node.module for node in imported}
    modules |= {f"{node.module}.{name.name}" for node in imported for name in node.names}
    assert not modules & {f"dpmcmc.kernels.{name}" for name in names_of_kernels()}
    assert "dpmcmc.kernels" not in modules


KERNEL = '''
"""Draws that stay where they are."""
import jax
from typing import Any, NamedTuple
from dpmcmc.kernels.base import Info, kernel

class State(NamedTuple):
    position: jax.Array

@kernel
def lazy(gradient: Any) -> Any:
    def step(key, state, oracle):
        oracle.force(gradient, state.position)
        return state, Info(True, False)
    return (lambda key, position, oracle: State(position)), step
'''

RECORD = """
from dpmcmc.accounting import Gaussian, compose
from dpmcmc.accounting.samplers import Cost
from dpmcmc.catalogue.sampler import Recipe, Sampler
from dpmcmc.kernels.lazy import lazy
from dpmcmc.mechanisms import GradientSum

SAMPLER = Sampler(
    "Lazy", lazy, releases="a gradient", target="none", papers=("@misc{lazy, title = {Lazy}}",), page="lazy",
    recipe=Recipe(
        lambda _, noise: Cost(Gaussian(noise), compose([])),
        lambda facts, noise: lazy(GradientSum(facts.gradient_clip, noise)),
        num_steps=50,
    ),
)
"""

PROGRAM = """
import sys
from importlib import util

import pandas as pd
import dpmcmc as dp

for package in ("kernels", "catalogue"):  # as if the two files stood in the library's own folders
    spec = util.find_spec(f"dpmcmc.{package}")
    spec.submodule_search_locations.append(f"{sys.argv[1]}/{package}")
    sys.modules[spec.name] = module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    setattr(dp, package, module)

from dpmcmc.fitting import RECIPES
from dpmcmc.planner import GRID, plan_fit

assert callable(dp.kernels.lazy)
assert "lazy" in RECIPES and "lazy" in GRID.sampler
assert plan_fit("lazy", epsilon=2.0, delta=1e-6, num_records=10_000, num_parameters=3).num_steps == 50
assert dp.citation(dp.kernels.lazy) == "@misc{lazy, title = {Lazy}}"
schema = {"columns": {"y": {"kind": "number", "lower": -1, "upper": 1}}}
data = dp.PrivateData.from_table(pd.DataFrame({"y": [0.0] * 1000}), schema=schema, budget=dp.Budget(4.0, 1e-6))
prepared = dp.prepare_fit("y ~ 1", data, family="gaussian", epsilon=4.0, sampler="lazy", allow_low_accuracy=True)
assert prepared.sampler == "lazy" and prepared.num_steps == 50
"""


def test_a_kernel_and_a_record_make_a_sampler_that_fit_and_planner_offer(tmp_path: Path) -> None:
    for package, text in (("kernels", KERNEL), ("catalogue", RECORD)):
        (tmp_path / package).mkdir()
        (tmp_path / package / "lazy.py").write_text(text, encoding="utf-8")
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
