"""Draws accountants.png: steps that a budget pays for, under each accountant (Räisä 2021, Figure 6.2, and more)."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from dpmcmc.accounting import Adjacency, max_steps, samplers

DELTA = 1e-6
EPSILONS = np.geomspace(0.1, 15, 25)
ROOT_N = 1e5**0.5  # the papers' tau is in units of sqrt(n)

STYLES = {
    "tight": ("#0072B2", "-", "tight"),
    "exact": ("#009E73", "-", "exact Gaussian (ratio shown)"),
    "rdp": ("#E69F00", "--", "Renyi"),
    "zcdp": ("#56B4E9", ":", "zCDP"),
    "moments": ("#CC79A7", "-.", "moments accountant"),
    "barker_2019": ("#D55E00", "--", "as published (2019)"),
}

PANELS: list[tuple[str, samplers.Cost, list[str]]] = [
    ("DP-penalty\nnoise multiplier 31.6", samplers.dp_penalty(0.1 * ROOT_N, hidden=True), ["tight", "exact", "zcdp"]),
    (
        "DP-HMC\nnoise multipliers 31.6 and 174, 25 leapfrog steps",
        samplers.dp_hmc(0.1 * ROOT_N, 0.55 * ROOT_N, 25, reuse_gradients=True, hidden=True),
        ["tight", "exact", "zcdp"],
    ),
    (
        "Minibatch penalty\nbatch 1,000 of 100,000, noise multiplier 2",
        samplers.minibatch_penalty(2.0, 1000, 100_000),
        ["tight", "rdp", "moments"],
    ),
    (
        "DP-Barker, subsampled\nbatch 1,000 of 1,000,000",
        samplers.subsampled_barker(1000, 1_000_000),
        ["tight", "rdp", "barker_2019"],
    ),
    (
        "DP-Barker, full data\none record moves the log-odds by 0.02",
        samplers.dp_barker(0.02),
        ["tight", "zcdp", "barker_2019"],
    ),
    (
        "DP-SGLD, add or remove one\nPoisson rate 0.01, noise over clip 2",
        samplers.dp_sgld(0.01, 2.0, Adjacency.ADD_OR_REMOVE_ONE),
        ["tight", "rdp", "moments"],
    ),
]


def steps(cost: samplers.Cost, epsilon: float, accountant: str) -> float:
    """Return the steps allowed, or NaN for none, which a logarithmic axis leaves out."""
    return max_steps(cost.per_step, epsilon, DELTA, cost.once, accountant) or np.nan


def main() -> None:
    """Compute all panels and write the picture beside this file."""
    plt.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(2, 3, figsize=(13, 7.2), layout="constrained")
    for axis, (title, cost, accountants) in zip(axes.flat, PANELS, strict=True):
        for name in accountants:
            colour, line, label = STYLES[name]
            axis.plot(EPSILONS, [steps(cost, e, name) for e in EPSILONS], line, color=colour, label=label, linewidth=2)
        axis.set(title=title, xscale="log", yscale="log", xlabel="epsilon", ylabel="steps, all chains together")
        axis.set_xticks([0.1, 0.3, 1, 3, 10], ["0.1", "0.3", "1", "3", "10"])
        axis.grid(alpha=0.25)
        axis.legend(frameon=False)
    figure.suptitle(f"Steps that a budget pays for (delta = {DELTA:g}; replace-one unless stated)")
    target = Path(__file__).with_suffix(".png")
    figure.savefig(target, dpi=110)
    print(f"wrote {target.name}")


if __name__ == "__main__":
    main()
