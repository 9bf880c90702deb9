"""Räisä, Koskela and Honkela (2021), "Differentially private Hamiltonian Monte Carlo". See README.md."""

from pathlib import Path

from experiments.dp_hmc_2021 import figure_1, figure_2, figure_3, steps
from experiments.machinery.study import Paper

PAPER = Paper(
    name="dp-hmc",
    title="Räisä, Koskela and Honkela 2021",
    folder=Path(__file__).parent,
    targets=(figure_1.TARGET, figure_2.TARGET, figure_3.TARGET, figure_1.PAID_TARGET, steps.TARGET),
)
