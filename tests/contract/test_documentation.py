"""Every Python and shell block in the README and the documentation runs, and prints what the page says it prints."""

import os
import re
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

import dpmcmc

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
MECHANISMS = sorted((ROOT / "src" / "dpmcmc" / "enclave" / "mechanisms").glob("*.md"))
ALGORITHMS = [page for page in sorted((ROOT / "docs" / "algorithms").glob("*.md")) if page.name != "index.md"]


def blocks(page: Path) -> list[tuple[str, str, str | None]]:
    """Return the blocks that run, each with its language and, where the page shows one, its output."""
    text = page.read_text(encoding="utf-8")
    found = re.findall(r"```(python|sh)\n(.*?)```(?:\n+```output\n(.*?)```)?", text, re.DOTALL)
    return [(language, code, printed or None) for language, code, printed in found]


def run_shell(code: str) -> str:
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(
        ["bash", "-euc", code], capture_output=True, text=True, check=False, env={**os.environ, "PATH": path}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_are_blocks_to_run():
    assert sum(len(blocks(page)) for page in PAGES) >= 60


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name)
def test_the_blocks_of_a_page_run_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for number, (language, code, expected) in enumerate(blocks(page)):
        printed = StringIO()
        if language == "sh":
            printed.write(run_shell(code))
        else:
            with redirect_stdout(printed):
                exec(compile(code, f"{page.name}, block {number}", "exec"), names)  # noqa: S102
        if expected is not None:
            assert printed.getvalue() == expected
    assert names, "the blocks defined nothing"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_within_the_repository_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", ALGORITHMS, ids=lambda page: page.stem)
def test_the_lines_of_an_algorithm_are_marked_in_its_code(page):
    text = page.read_text(encoding="utf-8")
    (pseudocode,) = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    printed = [int(number) for number in re.findall(r"^ *(\d+) ", pseudocode, re.MULTILINE)]
    (code,) = re.findall(r"^Code: (.*)$", text, re.MULTILINE)
    files = [page.parent / target for target in re.findall(r"\]\(([^)]+)\)", code)]
    marked = [int(number) for file in files for number in re.findall(r"# line (\d+)$", file.read_text(), re.MULTILINE)]
    assert printed == list(range(1, len(printed) + 1))
    assert sorted(marked) == printed


@pytest.mark.parametrize("page", [*ALGORITHMS, *MECHANISMS], ids=lambda page: page.stem)
def test_a_page_of_an_algorithm_or_mechanism_names_its_tests(page):
    (line,) = re.findall(r"^Tests: (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    named = re.findall(r"tests/(\w+/test_\w+\.py)", line)
    assert named
    assert [file for file in named if not (ROOT / "tests" / file).is_file()] == []


def test_the_table_of_tests_names_every_package_and_file_and_none_that_is_gone():
    text = (ROOT / "tests" / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:\w+/)?\w+\.py)`", text))
    assert [file for file in sorted(named) if not (ROOT / "tests" / file).is_file()] == []
    files = {f"{path.parent.name}/{path.name}" for path in (ROOT / "tests").glob("*/test_*.py")}
    assert sorted(files - set(named)) == [], "the table lacks them"
    things = "\n".join(line.split("|")[1] for line in text.splitlines() if line.startswith("| `"))
    library = (ROOT / "src" / "dpmcmc").iterdir()
    names = {path.stem for path in library if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert [name for name in sorted(names - {"__init__", "__main__"}) if not re.search(rf"`{name}[`/]", things)] == []


def test_the_reference_has_every_public_name():
    text = (ROOT / "docs" / "reference" / "dpmcmc.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^::: dpmcmc\.(?:\w+\.)*(\w+)$", text, re.MULTILINE)) == sorted(
        set(dpmcmc.__all__) - set(dpmcmc.NAMESPACES)
    )
