"""Beyond the literature: what `fit` reaches where a budget pays for everything. See README.md."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from experiments.machinery.study import Paper

    PAPER: Paper


def __getattr__(name: str) -> Any:
    """Return the paper when it is asked for: its runs need nothing that draws pictures."""
    if name != "PAPER":
        raise AttributeError(name)
    from experiments.beyond import ablation_page, pages, real_pages
    from experiments.machinery.study import Paper

    return Paper(
        name="beyond",
        title="this library",
        folder=Path(__file__).parent,
        targets=(pages.SUMMARY, pages.COVERAGE, real_pages.TARGET, ablation_page.TARGET),
    )
