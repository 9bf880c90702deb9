"""Räisä (2021), "Differentially private Markov chain Monte Carlo", master's thesis. See README.md."""

from pathlib import Path

from experiments.dp_mcmc_thesis_2021 import accountants, figures
from experiments.machinery.study import Paper

PAPER = Paper(
    name="dp-mcmc-thesis",
    title="Räisä 2021 (thesis)",
    folder=Path(__file__).parent,
    targets=tuple(sorted((*figures.TARGETS, accountants.TARGET), key=lambda target: target.name)),
)
