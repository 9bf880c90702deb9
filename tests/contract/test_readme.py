"""The README: short, and its table of table sizes is what the planner says."""

import math
from pathlib import Path

from dpmcmc.planner import plan_fit

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_it_is_short():
    assert len(README.split()) < 900


def percent(share: float) -> str:
    return f"{100 * share:.0f}%" if share >= 0.01 else "<1%"


def test_how_much_wider_intervals_become_is_what_the_planner_says():
    section = README.split("## Is my table large enough?")[1].split("\n## ")[0]
    header, _, *rows = [line.strip("| ").split("|") for line in section.splitlines() if line.startswith("|")]
    epsilons = [float(cell.split()[-1]) for cell in header[1:]]
    assert len(rows) * len(epsilons) == 20
    for row in rows:
        records = int(row[0].split()[0].replace(",", ""))
        for epsilon, cell in zip(epsilons, row[1:], strict=True):
            answer = plan_fit("private_laplace", epsilon=epsilon, delta=1e-6, num_records=records, num_parameters=10)
            assert cell.strip() == ("refused" if answer.is_refused else percent(math.hypot(1, answer.error) - 1))
