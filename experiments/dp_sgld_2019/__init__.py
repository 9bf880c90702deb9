"""Li, Chen, Liu and Carin (2019), "On connecting stochastic gradient MCMC and differential privacy". See README.md."""

from pathlib import Path

from experiments.dp_sgld_2019 import bounds, claims, figure_3, table_1
from experiments.machinery.study import Paper

PAPER = Paper(
    name="dp-sgld",
    title="Li, Chen, Liu and Carin 2019",
    folder=Path(__file__).parent,
    targets=(bounds.FIGURE_1, bounds.FIGURE_2, figure_3.FIGURE_3, table_1.TABLE, claims.CLAIMS),
)
