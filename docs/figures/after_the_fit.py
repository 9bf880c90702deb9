"""Draws after_the_fit.png: the odds ratios of a private posterior, and what it predicts over three predictors.

The rows are simulated; the noise of privacy is real, so that each picture differs a little from the last.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import dpmcmc as dp

NUM_ROWS = 20_000
SCHEMA = dp.Schema(
    {
        "age": dp.Column(kind="number", lower=18, upper=90, unit="years"),
        "smoker": dp.Column(kind="boolean"),
        "ward": dp.Column(kind="category", categories=("surgery", "medicine", "other")),
        "readmitted": dp.Column(kind="boolean"),
    }
)


def table() -> pd.DataFrame:
    """Return simulated admissions."""
    rng = np.random.default_rng(1)
    rows = pd.DataFrame(
        {
            "age": rng.uniform(18, 90, NUM_ROWS).round(1),
            "smoker": rng.random(NUM_ROWS) < 0.3,
            "ward": rng.choice(["surgery", "medicine", "other"], NUM_ROWS, p=[0.5, 0.3, 0.2]),
        }
    )
    log_odds = -1 + 0.03 * (rows.age - 54) + 0.7 * rows.smoker + 0.5 * (rows.ward == "medicine")
    return rows.assign(readmitted=rng.random(NUM_ROWS) < 1 / (1 + np.exp(-log_odds)))


def pixels(figure: Figure) -> np.ndarray:
    """Return a figure as an image."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure.set_dpi(110)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3]


def main() -> None:
    """Fit, draw both pictures, and set one above the other."""
    from matplotlib.image import imsave

    data = dp.PrivateData.from_table(table(), schema=SCHEMA, budget=dp.Budget(4.0, 1e-6))
    posterior = dp.fit("readmitted ~ age + smoker + ward", data, family="bernoulli", epsilon=2.0, progress=False)
    parts = [pixels(posterior.plot_forest(exponentiate=True, per={"age": 10})), pixels(posterior.plot_effects())]
    width = max(part.shape[1] for part in parts)
    padded = [np.pad(part, ((0, 0), (0, width - part.shape[1]), (0, 0)), constant_values=255) for part in parts]
    imsave(Path(__file__).with_suffix(".png"), np.concatenate(padded))


if __name__ == "__main__":
    main()
