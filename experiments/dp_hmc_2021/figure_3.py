"""Figure 3: what clipping the log-likelihood ratios does, without noise."""

from experiments.machinery.clip_figure import clip_product
from experiments.machinery.clipping import clipping_cells, run_clipping_cell
from experiments.machinery.study import Cell, Configuration, Product, Study, Tables, Target

CLAIM = 0.2
"""The paper's guideline: below this share of clipped ratios there is very little effect."""


def cells(configuration: Configuration) -> list[Cell]:
    """Return the cells of both models and both samplers."""
    return clipping_cells(configuration, configuration["problems"], pooled=True)


CLIPPING = Study("clipping", cells, run_clipping_cell)


def make(tables: Tables, configuration: Configuration) -> Product:
    """Draw the figure."""
    c, table = configuration["clipping"], tables["clipping"]
    steps = {model: f"{of['hmc']:,} and {of['random_walk']:,}" for model, of in c["steps"].items()}
    caption = (
        "Metropolis samplers without noise whose tests clip each record's log-likelihood ratio; dashed: the paper's "
        f"guideline of {CLAIM:.0%}. {table.repeat.nunique()} repeats of {c['num_chains']} chains, n = "
        f"{configuration['num_records']:,}; steps of HMC and of the random walk: banana {steps['banana']}, Gaussian "
        f"{steps['gaussian']}; points are repeats, lines their medians with quartiles."
    )
    return clip_product(table, caption, CLAIM)


TARGET = Target("figure-3", "what clipping does without noise", (CLIPPING,), make)
