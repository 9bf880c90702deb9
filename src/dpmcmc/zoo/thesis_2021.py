"""The eight problems of Räisä (2021), Chapter 6.

One row a problem: the model as in Table 6.1, and the parameters of each sampler, tuned at epsilon 4 and kept for all.
Start points lie around the truth with the standard deviation that Table 6.1 prints.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmcmc import validation
from dpmcmc.zoo import settings
from dpmcmc.zoo.banana import banana
from dpmcmc.zoo.circle import circle
from dpmcmc.zoo.gaussian import gaussian
from dpmcmc.zoo.problem import Problem, Settings

PRIOR_VARIANCE = 1000.0


@dataclass(frozen=True)
class Row:
    """One problem of the thesis; each tuple holds the parameters in the order in which they are printed."""

    num_records: int
    hmc: tuple[float, float, int, float, float, float]
    """tau of the ratio, tau of the gradient, leapfrog steps, step size, clip of the ratio, clip of the gradient."""
    penalty: tuple[float, float, float]
    """tau, standard deviation of the proposal, clip; the same order in the next ones."""
    guided: tuple[float, float, float]
    minibatch: tuple[float, float, float, int] | None = None
    minibatch_guided: tuple[float, float, float, int] | None = None
    barker: tuple[float, int] | None = None
    start_scale: float = 0.02
    dimension: int = 2
    a: float = 20.0
    tempered_size: int | None = None
    """The n0 of the temperature n0 / n; None for the temperature one."""
    epsilons: tuple[float, ...] = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)

    def temperature(self, num_records: int) -> float:
        """Return n0 / n, at most one."""
        return 1.0 if self.tempered_size is None else min(1.0, self.tempered_size / num_records)


ROWS = {
    "flat_banana_2d": Row(
        100_000,
        (0.1, 0.4, 10, 0.0005, 2.0, 1.0),
        (0.1, 0.008, 2.0),
        (0.1, 0.008, 1.8),
        (0.7, 0.001, 1.0, 1000),
        (0.7, 0.001, 1.0, 1000),
        (0.0008, 1300),
    ),
    "flat_banana_10d": Row(
        200_000,
        (0.05, 0.2, 10, 0.00015, 2.5, 3.0),
        (0.1, 0.0015, 2.0),
        (0.1, 0.0015, 3.0),
        (0.6, 0.0001, 3.0, 1000),
        (0.5, 0.00032, 2.0, 1000),
        (0.0008, 2600),
        dimension=10,
    ),
    "tempered_banana_2d": Row(
        100_000,
        (0.2, 0.6, 10, 0.01, 2.5, 2.0),
        (0.2, 0.035, 5.0),
        (0.2, 0.04, 3.5),
        (1.5, 0.025, 4.0, 1000),
        (2.0, 0.04, 4.0, 1000),
        (0.12, 1300),
        tempered_size=1000,
    ),
    "tempered_banana_10d": Row(
        200_000,
        (0.08, 0.2, 10, 0.015, 2.5, 3.5),
        (0.18, 0.02, 3.0),
        (0.1, 0.04, 3.0),
        (0.7, 0.02, 2.0, 1200),
        (0.8, 0.028, 2.0, 1200),
        (0.04, 2600),
        dimension=10,
        tempered_size=1000,
    ),
    "gaussian_30d": Row(
        200_000,
        (0.05, 0.1, 5, 0.00025, 2.5, 6.0),
        (0.06, 0.00084, 3.0),
        (0.2, 0.00084, 3.0),
        dimension=30,
        a=0.0,
    ),
    "narrow_banana": Row(150_000, (0.15, 0.25, 5, 0.00045, 5.0, 2.8), (0.2, 0.0015, 5.5), (0.1, 0.0015, 8.5), a=350.0),
    "correlated_gaussian": Row(
        200_000, (0.05, 0.2, 8, 0.00007, 30.0, 29.0), (0.07, 0.00015, 50.0), (0.1, 0.0002, 45.0), start_scale=0.005
    ),
    "circle": Row(
        100_000,
        (0.6, 1.9, 40, 0.07, 0.001, 0.0015),
        (4.0, 0.2, 0.002),
        (4.0, 0.3, 0.002),
        start_scale=0.1,
        a=1e-5,
        epsilons=(0.5, 0.75, 1.0),
    ),
}


def thesis_problem(name: str, rng: np.random.Generator, *, num_records: int | None = None) -> Problem:
    """Return one of the eight problems, by its name in `ROWS`."""
    row = ROWS[validation.choice("name", name, ROWS)]
    size = validation.integer("num_records", row.num_records if num_records is None else num_records, at_least=1)
    truth, variances = likelihood(row.dimension)
    common: dict[str, Any] = {
        "num_records": size,
        "name": f"thesis_2021_{name}",
        "paper": settings.THESIS_2021,
        "start_scale": row.start_scale,
        "settings": row_settings(name, row, size),
    }
    if name == "circle":
        return circle(rng, a=row.a, **common)
    if name == "correlated_gaussian":
        correlated = np.array([[1.0, 0.999], [0.999, 1.0]])
        return gaussian(rng, covariance=correlated, truth=truth, prior_variance=100.0, **common)
    if row.a == 0:
        return gaussian(rng, covariance=np.diag(variances), truth=truth, prior_variance=PRIOR_VARIANCE, **common)
    common["temperature"] = row.temperature(size)
    return banana(rng, truth=truth, variances=variances, a=row.a, prior_variance=PRIOR_VARIANCE, **common)


def likelihood(dimension: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the truth (0, 3, 0, ...) and the variances (20, 2.5, 1, ...) of the bananas and of the 30-d Gaussian."""
    return (0.0, 3.0, *[0.0] * (dimension - 2)), (20.0, 2.5, *[1.0] * (dimension - 2))


def row_settings(name: str, row: Row, num_records: int) -> Settings:
    """Return the parameter sets of one problem by algorithm; `guided` is one component at a time, guided."""
    temperature = row.temperature(num_records)
    ratio_tau, gradient_tau, num_leapfrog, step_size, ratio_clip, gradient_clip = row.hmc
    found: dict[str, dict[str, Any]] = {
        "protocol": {
            "epsilons": row.epsilons,
            "delta": 0.1 / num_records,
            "num_chains": 1,
            "num_repeats": 20,
            "num_reference_draws": 1000,
        },
        "dp_hmc": settings.dp_hmc(
            num_records,
            ratio_tau=ratio_tau,
            gradient_tau=gradient_tau,
            step_size=step_size,
            num_leapfrog=num_leapfrog,
            ratio_clip=ratio_clip,
            gradient_clip=gradient_clip,
            temperature=temperature,
        ),
    }
    for algorithm, values in (("dp_penalty", row.penalty), ("guided_walk", row.guided)):
        tau, scale, clip = values
        found[algorithm] = settings.dp_penalty(
            num_records, tau=tau, proposal_scale=scale, ratio_clip=clip, temperature=temperature
        )
    for algorithm, batched in (
        ("minibatch_penalty", row.minibatch),
        ("minibatch_guided_walk", row.minibatch_guided),
    ):
        if batched:
            tau, scale, clip, size = batched
            found[algorithm] = settings.minibatch_penalty(
                tau=tau, proposal_scale=scale, ratio_clip=clip, batch_size=size, temperature=temperature
            )
    if row.barker:
        found["dp_barker"] = settings.dp_barker(proposal_scale=row.barker[0], batch_size=row.barker[1])
    if name.startswith("flat"):
        found.update(_clipping(row.dimension))
    return found


def _clipping(dimension: int) -> dict[str, dict[str, Any]]:
    """Return the study of clipping without noise (Section 6.3)."""
    plane = dimension == 2
    return {
        "clipping": {"ratio_clips": (0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 1000.0), "num_reference_draws": 2000},
        "clipping_hmc": {
            "step_size": 0.001,
            "num_leapfrog": 15,
            "mass": (1.0, 0.5, *[0.4] * (dimension - 2)),
            "num_steps": 500,
        },
        "clipping_random_walk": {
            "proposal_scale": (0.01, 0.01) if plane else (0.015, 0.015, *[0.002] * (dimension - 2)),
            "num_steps": 3000,
        },
    }
