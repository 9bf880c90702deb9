"""Which papers there are, and how the command line names what they hold."""

from collections.abc import Sequence
from importlib import import_module

from dpmcmc.errors import InvalidArgument
from experiments.machinery.study import Paper, Target

MODULES = {
    "dp-hmc": "experiments.dp_hmc_2021",
    "dp-mcmc-thesis": "experiments.dp_mcmc_thesis_2021",
    "beyond": "experiments.beyond",
    "dp-barker": "experiments.dp_barker_2019",
    "dp-sghmc": "experiments.dp_sghmc_thesis",
    "dp-sgld": "experiments.dp_sgld_2019",
}
"""The folders by the name of the paper; each has a `PAPER`."""


def papers() -> dict[str, Paper]:
    """Return all papers by name."""
    return {name: import_module(module).PAPER for name, module in MODULES.items()}


def choose(names: Sequence[str]) -> list[tuple[Paper, list[Target]]]:
    """Return what names such as ``dp-hmc`` and ``dp-hmc/figure-1`` mean, paper by paper."""
    known = papers()
    chosen: dict[str, list[Target]] = {}
    for name in names:
        paper, _, wanted = name.partition("/")
        targets = [one for one in known[paper].targets if wanted in ("", one.name)] if paper in known else []
        if not targets:
            every = [f"{each.name}/{target.name}" for each in known.values() for target in each.targets]
            raise InvalidArgument(f"target={name!r} must be a paper or one of {', '.join(every)}")
        chosen.setdefault(paper, [])
        chosen[paper] += [target for target in targets if target not in chosen[paper]]
    return [(known[name], targets) for name, targets in chosen.items()]
