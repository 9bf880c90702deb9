"""Heikkilä, Jälkö, Dikmen and Honkela (2019), "Differentially private Markov chain Monte Carlo". See README.md."""

from pathlib import Path

from experiments.dp_barker_2019 import correction, costs, mixture
from experiments.machinery.study import Paper

PAPER = Paper(
    name="dp-barker",
    title="Heikkilä, Jälkö, Dikmen and Honkela 2019",
    folder=Path(__file__).parent,
    targets=(costs.TABLE, costs.FIGURE, mixture.SAMPLES, mixture.ERRORS, correction.ERRORS, correction.SHAPES),
)
