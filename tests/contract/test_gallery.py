"""The gallery: its notebooks are its pages, which `test_documentation` runs, and nothing else."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

from tests.contract.test_documentation import blocks

GALLERY = Path(__file__).parents[2] / "docs" / "gallery"
SPEC = importlib.util.spec_from_file_location("notebooks", GALLERY / "notebooks.py")
assert SPEC is not None
assert SPEC.loader is not None
notebooks = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(notebooks)
PAGES = notebooks.pages()


def cells(text: str, kind: str) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == kind]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_notebook_is_its_page(page: Path) -> None:
    text = page.with_suffix(".ipynb").read_text(encoding="utf-8")
    assert text == notebooks.notebook(page), "run `python docs/gallery/notebooks.py`"
    assert cells(text, "code") == [code.strip("\n") for language, code, _ in blocks(page) if language == "python"]
    assert cells(text, "markdown")[0].startswith("# ")
    assert "```" not in text, "a block that is neither Python nor its output"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_notebook_has_the_form_that_is_stated(page: Path) -> None:
    made = json.loads(notebooks.notebook(page))
    assert (made["nbformat"], made["nbformat_minor"]) == (4, 5)
    names = [cell["id"] for cell in made["cells"]]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names)
    assert all(cell["outputs"] == [] for cell in made["cells"] if cell["cell_type"] == "code"), "noise is no output"


def test_a_page_that_was_changed_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A\n\n```python\nx = 1\n```\n\n```output\n1\n```\n\nB\n")
    first = notebooks.notebook(page)
    assert (cells(first, "markdown"), cells(first, "code")) == (["# A", "B"], ["x = 1"])
    page.write_text(page.read_text().replace("x = 1", "x = 2"))
    assert notebooks.notebook(page) != first


def test_the_index_names_all_of_them() -> None:
    index = (GALLERY / "index.md").read_text(encoding="utf-8")
    assert {f"{page.stem}.{ending}" for page in PAGES for ending in ("md", "ipynb")} == set(
        re.findall(r"\]\(([\w.]+)\)", index)
    )
