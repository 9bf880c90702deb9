"""The walk of a row: imports point down, and a default fit runs through no more files than it did."""

import pytest

from tests import walk

MOST_FILES, MOST_WAYS_BACK = 155, 460
"""What a default fit takes now, and a little room; the aim is 60 files. It may fall."""


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
