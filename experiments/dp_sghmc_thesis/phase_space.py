"""Figures 6.1 to 6.5: what batches do to the phase space of a Gaussian mean (Betancourt 2015). No privacy in it."""

import numpy as np
import pandas as pd

from experiments.machinery import pictures
from experiments.machinery.study import Cell, Configuration, Product, Rows, Study, Tables, Target

VARIANCE, PRIOR_VARIANCE, TRUTH = 4.0, 1.0, 1.0


def records(cell: Cell) -> np.ndarray:
    """Return the data points, N(1, 2^2)."""
    rng = np.random.default_rng([cell["seed"], 0])
    return rng.normal(TRUTH, np.sqrt(VARIANCE), cell["num_records"])


def centre(mean: float, num_records: int) -> tuple[float, float]:
    """Return where the potential of a batch with that mean has its minimum, and its curvature."""
    weight = num_records / VARIANCE
    return weight * mean / (weight + 1 / PRIOR_VARIANCE), weight + 1 / PRIOR_VARIANCE


def flow(points: np.ndarray, cell: Cell) -> np.ndarray:
    """Return the phase-space points (q, p) of leapfrog steps through the potentials of batches.

    A trajectory stays with one batch; otherwise each step takes the next batch, and the points after every round
    through the data are kept. Friction takes a share of the momentum at each step.
    """
    batches = points.reshape(-1, cell["batch_size"]).mean(axis=1)
    target, curvature = centre(points.mean(), len(points))
    position, momentum, step = target, cell["momentum"], cell["step_size"]
    one = cell["one_batch"]
    found = []
    for index in range(cell["num_steps"] if one else cell["num_steps"] * len(batches)):
        batch = 0 if one else index % len(batches)
        middle, _ = centre(batches[batch], len(points))
        momentum -= 0.5 * step * curvature * (position - middle)
        position += step * momentum
        momentum -= 0.5 * step * curvature * (position - middle)
        momentum -= cell["friction"] * momentum
        if one or batch == len(batches) - 1:
            found.append((position, momentum))
    return np.array(found)


def cells(configuration: Configuration) -> list[Cell]:
    """Return one cell a panel."""
    c = configuration["phase_space"]
    fixed = {"seed": configuration["seed"], "num_records": c["num_records"], "num_steps": c["num_steps"]}
    fixed |= {"momentum": c["momentum"]}
    panels = [("6.1", size, c["step_size"], 0.0, True) for size in c["batch_sizes"]]
    panels += [("6.2", c["batch_sizes"][0], c["long_step"], 0.0, True)]
    for figure, step, friction in (
        ("6.3", c["step_size"], 0.0),
        ("6.4", c["short_step"], 0.0),
        ("6.5", c["step_size"], c["friction"]),
    ):
        panels += [(figure, size, step, friction, False) for size in c["batch_sizes"]]
    names = ("figure", "batch_size", "step_size", "friction", "one_batch")
    return [dict(zip(names, panel, strict=True)) | fixed for panel in panels]


def run(cell: Cell) -> Rows:
    """Return the points of a panel, and the mean energy along it over that of the exact flow."""
    points = records(cell)
    found = flow(points, cell)
    target, curvature = centre(points.mean(), len(points))
    energy = 0.5 * found[:, 1] ** 2 + 0.5 * curvature * (found[:, 0] - target) ** 2
    start = 0.5 * cell["momentum"] ** 2
    shown = found[:: max(1, len(found) // 500)].round(5).tolist()
    return [
        {
            "energy": float(np.mean(energy) / start),
            "last_energy": float(energy[-1] / start),
            "radius": cell["momentum"] / float(np.sqrt(curvature)),
            "middle": target,
            "points": shown,
        }
    ]


PANELS = Study("phase_space", cells, run)


def make(tables: Tables, configuration: Configuration) -> Product:
    """Draw all five figures."""
    table, c = tables["phase_space"], configuration["phase_space"]
    columns = len(c["batch_sizes"]) + 1
    figure, panels = pictures.grid(4, columns, width=3.9, height=3.5)
    angle = np.linspace(0, 2 * np.pi, 200)
    rows = {"6.1": 0, "6.2": 0, "6.3": 1, "6.4": 2, "6.5": 3}
    for name, group in table.groupby("figure"):
        for index, row in enumerate(group.itertuples()):
            ax = panels[rows[str(name)], columns - 1 if name == "6.2" else index]
            points = np.array(row.points)
            ax.plot(points[:, 0], points[:, 1], ".", markersize=3, color=pictures.COLOURS[0], rasterized=True)
            ax.plot(
                row.middle + row.radius * np.cos(angle),
                c["momentum"] * np.sin(angle),
                color=pictures.COLOURS[4],
                lw=2.5,
            )
            pictures.dress(ax, title=f"{name}: B = {row.batch_size}, eta = {row.step_size:g}")
    for row in (1, 2, 3):
        panels[row, columns - 1].set_axis_off()
    caption = (
        f"Phase space (q across, p up) of the mean of {c['num_records']} points N(1, 4): one trajectory of "
        f"{c['num_steps']} leapfrog steps through the potential of one batch (6.1, 6.2); {c['num_steps']} rounds "
        "through "
        f"all batches (6.3, 6.4); the same with friction {c['friction']:g} a step (6.5). The ring is the exact flow."
    )
    found = table.drop(columns=["points", "seed", "num_records", "num_steps", "momentum", "one_batch"])
    lines = ["| figure | B | eta | friction | mean energy over the exact one |", "|---" * 5 + "|"]
    lines += [
        f"| {row.figure} | {row.batch_size} | {row.step_size:g} | {row.friction:g} | {row.energy:.2f} |"
        for row in found.itertuples()
    ]
    summary = (
        "**Holds.** One small batch has another phase space, more data mends it, shorter steps mend the flow through "
        "all batches, and friction takes energy out whether there was too much of it or not.\n\n"
    )
    return Product(caption, summary + "\n".join(lines), figure, pd.DataFrame(found))


FIGURES = Target("figures-6-1-to-6-5", "Figures 6.1 to 6.5, phase space under batches", (PANELS,), make)
