"""Beyond the literature: what `fit` reaches where a budget pays for everything. See README.md."""

from pathlib import Path

from experiments.beyond import pages, real_data
from experiments.machinery.study import Paper

PAPER = Paper(
    name="beyond",
    title="this library",
    folder=Path(__file__).parent,
    targets=(pages.SUMMARY, pages.COVERAGE, real_data.TARGET),
)
