"""Table 1: MNIST with a Bayesian convolutional network, and what its run costs."""

import json
import math
from pathlib import Path

import pandas as pd

from dpmcmc.accounting import Adjacency, PoissonGaussian, epsilon
from experiments.dp_sgld_2019 import mnist_chain
from experiments.dp_sgld_2019.claims import noise_over_clip
from experiments.machinery.study import Cell, Configuration, Product, Rows, Study, Tables, Target

FULL = Path(__file__).parent / "results" / "mnist_full.json"
"""What mnist_chain.py wrote where it ran on all images: a machine with an accelerator does that."""

NAMES = {
    "published": "as published: half temperature",
    "corrected": "corrected",
    "plain": "SGLD without clip, not private",
}
PRINTED = {"published": ("99.21 %", "0.99"), "corrected": ("99.21 %", "0.99"), "plain": ("99.34 %", "")}


def cells(configuration: Configuration) -> list[Cell]:
    """Return one reduced chain a reading."""
    c = configuration["table_1"]
    return [{"reading": name, "seed": configuration["seed"]} | dict(c) for name in mnist_chain.READINGS]


def run(cell: Cell) -> Rows:
    """Run a reduced chain."""
    return mnist_chain.run(cell)


STUDY = Study("mnist", cells, run)


def cost(row: pd.Series, num_records: int, delta: float) -> float:
    """Return the epsilon that holds for a run, one record replaced."""
    if row["reading"] == "plain":
        return math.inf
    right = math.sqrt(2.0) if row["reading"] == "corrected" else 1.0
    noise = right * noise_over_clip(num_records, int(row["batch_size"]), row["step_size"], row["clip"])
    event = PoissonGaussian(row["batch_size"] / num_records, noise, Adjacency.REPLACE_ONE) * int(row["steps"])
    return float(epsilon(event, delta, "pld"))


def make(tables: Tables, configuration: Configuration) -> Product:
    """Set the row of MNIST: the whole run where there is one, and the reduced one."""
    delta = configuration["claims"]["mnist"]["delta"]
    parts = [tables["mnist"].assign(size=configuration["table_1"]["num_train"])]
    about = "not run yet on all images"
    if FULL.exists():
        kept = json.loads(FULL.read_text(encoding="utf-8"))
        parts.insert(0, pd.DataFrame(kept["rows"]).assign(size=60_000))
        about = f"all 60,000 images on one {kept['about']['device']}"
    table = pd.concat(parts, ignore_index=True)
    last = table.loc[table.groupby(["size", "reading"], sort=False)["epoch"].idxmax()]
    last = last.assign(epsilon_that_holds=[cost(row, int(row["size"]), delta) for _, row in last.iterrows()])
    lines = ["| images | sampler | printed | accuracy | of one draw | ECE | printed epsilon | epsilon that holds |"]
    lines.append("|---" * 8 + "|")
    for row in last.itertuples():
        accuracy, claimed = PRINTED[str(row.reading)]
        holds = "not private" if math.isinf(row.epsilon_that_holds) else f"{row.epsilon_that_holds:.3f}"
        lines.append(
            f"| {int(row.size):,} | {NAMES[str(row.reading)]} | {accuracy} | {row.accuracy:.2%} | "
            f"{row.draw_accuracy:.2%} | {row.ece:.3f} | {claimed} | {holds} |"
        )
    c = configuration["table_1"]
    caption = (
        "MNIST, two convolutions (16 channels each, 5 x 5, pooling) and a dense layer, 14,682 weights with the prior "
        f"N(0, 1), one chain, eta = {c['step_size']:g}, batches of {c['batch_size']} on average (Poisson), L = "
        f"{c['clip']:g}, delta = {delta:g}, one record replaced; {about}; reduced: {c['num_train']:,} images, "
        f"{c['epochs']} epochs, which shows that it runs and no more. Accuracy and ECE (15 bins): probabilities "
        "averaged "
        "over draws of the second half."
    )
    summary = (
        "SVHN: see the table of claims; its data is not part of this.\n\n"
        if FULL.exists()
        else "The row at full size "
        "is to come from mnist_chain.py. SVHN: see the table of claims; its data is not part of this.\n\n"
    )
    return Product(caption, summary + "\n".join(lines), None, last)


TABLE = Target("table-1", "Table 1, MNIST with a convolutional network", (STUDY,), make)
