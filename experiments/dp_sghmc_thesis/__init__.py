"""The thesis "Differentially private stochastic gradient Hamiltonian Monte Carlo". See README.md."""

from pathlib import Path

from experiments.dp_sghmc_thesis import classification, costs, normal_mean, phase_space, posteriors, sweep
from experiments.machinery.study import Paper

PAPER = Paper(
    name="dp-sghmc",
    title="The thesis on DP-SGHMC",
    folder=Path(__file__).parent,
    targets=(
        phase_space.FIGURES,
        normal_mean.TABLE,
        classification.TABLE,
        posteriors.FIGURE_6_6,
        sweep.FIGURE,
        costs.TABLE,
        posteriors.FIGURE,
    ),
)
