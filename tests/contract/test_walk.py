"""The house, counted: imports point down, a fit takes no more files than it did, few files know a thing by name."""

import re

import pytest

import dpmcmc as dp
from tests import counts, walk

PAGE = (walk.ROOT / "tests" / "README.md").read_text(encoding="utf-8")
MOST_FILES, MOST_WAYS_BACK = map(
    int, re.search(r"at most (\d+) of\s+the library's files, with at most (\d+) ways back", PAGE).groups()
)
"""As the page says. They may fall."""

MOST_THAT_NAME = {"a sampler": 3, "a mechanism": 5, "a family": 2, "a strategy": 2}


def test_the_drawing_has_all_packages_and_arrows_that_point_down() -> None:
    depth = {name: i for i, layer in enumerate(walk.LAYERS) for name in layer}
    folders = {path.parent.name for path in walk.LIBRARY.glob("*/__init__.py")}
    assert folders <= set(depth)
    edges = walk.imports()
    assert len(edges) > 80
    assert [edge for edge in edges if depth[edge[0]] >= depth[edge[1]]] == []


@pytest.mark.parametrize(
    ("met", "changes", "ways_back"), [("aabc", 2, 0), ("abab", 3, 2), ("abcba", 4, 2), ("a", 0, 0)]
)
def test_ways_back(met: str, changes: int, ways_back: int) -> None:
    found = walk.Walk(list(met))
    assert (found.changes, found.ways_back) == (changes, ways_back)


@pytest.mark.slow
def test_a_default_fit_runs_through_no_more_files_than_it_did() -> None:
    found = walk.walk_of_a_default_fit()
    assert 60 < len(found.files) <= MOST_FILES
    assert found.ways_back <= MOST_WAYS_BACK
    assert {"cli", "zoo", "planner"}.isdisjoint(found.by_package)


@pytest.mark.parametrize("kind", counts.EXAMPLES)
def test_a_new_thing_touches_few_files(kind: str) -> None:
    named = counts.files_that_name(counts.EXAMPLES[kind], counts.sources())
    assert 1 < len(named) <= MOST_THAT_NAME[kind], named


def test_files_that_name_a_thing_are_found() -> None:
    files = {
        "own.py": "def walk(): ...",
        "list.py": "from own import walk",
        "registry.py": "NAMES = {'own.walk'}",
        "use.py": "print(own.walk)",
        "words.py": '"""On walk.\n\nwalk"""  # walk',
        "zoo/paper.py": "walk()",
    }
    assert counts.files_that_name("walk", files) == ["own.py", "list.py", "registry.py", "use.py"]


def test_the_page_has_the_counts() -> None:
    """Those that do not move with every change, and the others to a tenth."""
    files = counts.sources()
    row = re.search(r"\| files of the library; .*\| ([\d,]+); (\d+), (\d+) \|\n", PAGE).groups()
    assert int(row[0].replace(",", "")) == pytest.approx(len(files), rel=0.1)
    assert f"| {len(dp.__all__)} |" in PAGE
    words = re.search(r"\| words of README.md \| 1,707 \| (\d+) \|", PAGE)
    assert int(words[1]) == pytest.approx(counts.words_of_the_readme(), rel=0.1)
