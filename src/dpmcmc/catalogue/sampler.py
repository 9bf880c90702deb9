"""What the library knows of a sampler beside its kernel, for `fit`, planner, shell, citations and documentation."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from dpmcmc.accounting.samplers import Cost
from dpmcmc.catalogue.problem_size import ProblemSize
from dpmcmc.kernels.base import Kernel

ErrorFormula = Callable[[ProblemSize, float, float], float]
"""``error(facts, floor, inverse_mu)``: by how many standard deviations the posterior mean would be off.

The floor is the error of one release of all scores; mu the signal-to-noise ratio that is left after the pilot.
"""


@dataclass(frozen=True)
class Recipe:
    """How `fit` sets a sampler: what a step costs at a noise multiplier, and the kernel for it.

    Attributes:
        cost: what each step and each chain releases.
        make: the kernel with all its settings, in whitened coordinates.
        num_steps: steps of each chain, unless stated.
        least_noise: less noise than this is of no use, even if the budget would pay for it.
        is_iid: whether the steps release nothing, so that all that is left of the budget goes into the gradients before
            them.
        is_candidate: whether ``auto`` tries it.
        is_simulable: whether its releases can be simulated: gradients of all records, and penalty tests.
        is_quickly_priced: whether a planner's page may price it hundreds of times.
        error: the planner's error, if it is known; `error_is` says whether it is the error or a bound from below.
    """

    cost: Callable[[ProblemSize, float], Cost]
    make: Callable[[ProblemSize, float], Kernel]
    num_steps: int
    least_noise: float | None = None
    is_iid: bool = False
    is_candidate: bool = False
    is_simulable: bool = False
    is_quickly_priced: bool = True
    error: ErrorFormula | None = None
    error_is: Literal["the error", "a bound"] = "the error"


@dataclass(frozen=True)
class Sampler:
    """The record of a sampler.

    Attributes:
        title: its name in text.
        kernel: the function that makes it.
        releases: what it releases per step.
        target: how near its draws come to the posterior.
        papers: BibTeX of where it comes from.
        page: the file under ``docs/algorithms``, without its ending.
        recipe: how `fit` sets it; None if `fit` does not offer it.
    """

    title: str
    kernel: Callable[..., Kernel]
    releases: str
    target: str
    papers: tuple[str, ...]
    page: str
    recipe: Recipe | None = None
