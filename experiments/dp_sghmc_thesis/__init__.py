"""The thesis "Differentially private stochastic gradient Hamiltonian Monte Carlo". See README.md."""

from pathlib import Path

from experiments.dp_sghmc_thesis import costs
from experiments.machinery.study import Paper

PAPER = Paper(
    name="dp-sghmc",
    title="The thesis on DP-SGHMC",
    folder=Path(__file__).parent,
    targets=(costs.TABLE,),
)
