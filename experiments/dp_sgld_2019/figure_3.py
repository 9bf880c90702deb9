"""Figure 3: logistic regression on the Adult data, accuracy against epsilon."""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import dpmcmc as dp
from dpmcmc.accounting import Adjacency, PoissonGaussian, epsilon, noise_for
from dpmcmc.run.program import Advance, Begin, Layout
from experiments.dp_sgld_2019.adult import Adult, adult
from experiments.dp_sgld_2019.bounds import sum_of_steps, theorem_3
from experiments.machinery import pictures
from experiments.machinery.samplers import squared
from experiments.machinery.study import Cell, Configuration, Product, Rows, Study, Tables, Target

SAMPLERS = {
    "published": "as published: half temperature, its own count",
    "corrected": "corrected, one record replaced",
    "plain": "plain SGLD, not private",
}


CLAIMED = 0.08
"""From here on the paper has the accuracy of its baseline."""


def cells(configuration: Configuration) -> list[Cell]:
    """Return one cell a sampler and epsilon; all runs of a cell are advanced together."""
    c = dict(configuration["figure_3"])
    epsilons = c.pop("epsilons")
    points = [("plain", 0.0)] + [(name, each) for each in epsilons for name in ("corrected", "published")]
    return [{"sampler": name, "epsilon": each, "seed": configuration["seed"]} | c for name, each in points]


def run(cell: Cell) -> Rows:
    """Return the accuracy of each run, averaged over the second half of its draws."""
    data = adult()
    kernel, model, released = SETTINGS[cell["sampler"]](cell, data)
    cost = float(epsilon(released, cell["delta"], "pld")) if released is not None else math.inf
    starts = jnp.zeros((cell["runs"], data.dimension), jnp.float32)
    layout = Layout.of(starts[0])
    start, steps = jax.random.split(jax.random.key(cell["seed"]))
    execute = partial(data.vault().run, model=model)
    states = execute(Begin(kernel, layout), starts, jax.random.split(start, len(starts)), insecure_seed=1)
    advance = Advance(kernel, layout, cell["num_steps"])
    own = jax.random.split(steps, len(starts))
    _, (positions, _) = execute(advance, states, own, jnp.uint32(0), insecure_seed=2)
    draws = np.swapaxes(np.asarray(positions), 0, 1)[:, cell["num_steps"] // 2 :: cell["thin"]]
    fixed = {"step_size": kernel.settings["step_size"], "epsilon_that_holds": cost}
    return [{"run": index, "accuracy": data.accuracy(each)} | fixed for index, each in enumerate(draws)]


def _corrected(cell: Cell, data: Adult) -> Any:
    """Return SGLD whose privacy noise, which the budget fixes, is all of its noise unless steps would be too long."""
    rate, clip, steps = cell["rate"], cell["clip"], cell["num_steps"]
    noise = noise_for(
        lambda z: PoissonGaussian(rate, z, Adjacency.REPLACE_ONE) * steps, cell["epsilon"], cell["delta"], "pld"
    )
    step = min((2 * rate / (clip * noise)) ** 2, cell["longest_step"])
    kernel = dp.kernels.dp_sgld(dp.mechanisms.SubsampledGradientSum.poisson(clip, noise, rate), step_size=step)
    released = PoissonGaussian(rate, noise, Adjacency.REPLACE_ONE) * steps
    return kernel, data.model(cell["prior_variance"]), released


def _published(cell: Cell, data: Adult) -> Any:
    """Return the printed sampler, its sign set right, at the mean of the decreasing steps that its Theorem 3 allows."""
    setting = {"num_records": data.size, "num_steps": cell["num_steps"], "clip": cell["clip"], "delta": cell["delta"]}
    first = theorem_3(setting, cell["epsilon"])
    mean = first * sum_of_steps(cell["num_steps"]) / cell["num_steps"] / data.size
    step = min(mean, cell["longest_step"] / 2)  # its drift is twice as long
    gradient = dp.mechanisms.SubsampledGradientSum.for_sgld(2 * cell["clip"], cell["rate"], step)
    released = PoissonGaussian(cell["rate"], gradient.noise_over_clip, Adjacency.REPLACE_ONE) * cell["num_steps"]
    return dp.kernels.dp_sgld(gradient, step_size=step), squared(data.model(cell["prior_variance"])), released


def _plain(cell: Cell, data: Adult) -> Any:
    kernel = dp.kernels.dp_sgld(
        dp.mechanisms.ExactSubsampledGradientSum(dp.mechanisms.Poisson(cell["rate"])), step_size=cell["longest_step"]
    )
    return kernel, data.model(cell["prior_variance"]), None


SETTINGS = {"corrected": _corrected, "published": _published, "plain": _plain}
STUDY = Study("adult", cells, run)


def make(tables: Tables, configuration: Configuration) -> Product:
    """Draw Figure 3."""
    c, table = configuration["figure_3"], tables["adult"]
    figure, panels = pictures.grid(1, 1, width=9.0, height=6.0)
    ax = panels[0, 0]
    for index, name in enumerate(("published", "corrected")):
        groups = table[table["sampler"] == name].groupby("epsilon")["accuracy"]
        mean, spread = groups.mean(), groups.std()
        ax.errorbar(mean.index, mean, yerr=spread, capsize=3, label=SAMPLERS[name], **pictures.style(index))
    plain = table[table["sampler"] == "plain"]["accuracy"].mean()
    ax.axhline(plain, color="0.3", linestyle=":", linewidth=2, label=SAMPLERS["plain"])
    ax.axhline(c["majority"], color="0.6", linestyle="-", linewidth=1, label="always 'no'")
    ax.set_xscale("log")
    pictures.dress(ax, xlabel="epsilon (claimed, for the published count)", ylabel="test accuracy")
    pictures.legend_above(figure, ax, 2)
    groups = table[table["sampler"] != "plain"].groupby(["sampler", "epsilon"], sort=False)
    found = groups[["accuracy", "step_size", "epsilon_that_holds"]].mean().reset_index()
    corrected = found[found["sampler"] == "corrected"].sort_values("epsilon")
    published = found[found["sampler"] == "published"].sort_values("epsilon")
    near = corrected[corrected["accuracy"] >= plain - 0.01]["epsilon"].min()
    where = "at none of these epsilons" if math.isnan(near) else f"from epsilon {near:g} on"
    free = published[published["step_size"] < 0.499 * c["longest_step"]]  # where its theorem and nothing else limits it
    over = (free["epsilon_that_holds"] / free["epsilon"]).agg(["min", "max"])
    caption = (
        f"Accuracy on the 16,281 test rows of Adult, mean and standard deviation of {c['runs']} runs; logistic "
        f"regression with {c['coefficients']} coefficients, prior N(0, {c['prior_variance']:g}), 32,561 rows, delta = "
        f"{c['delta']:g}, q = "
        f"{c['rate']:g}, L = {c['clip']:g}, {c['num_steps']} steps from 0, second half averaged. Published: what its "
        "Theorem 3 allows at the claimed epsilon; what holds is in the table. delta is above 1/n, as in the paper."
    )
    lines = ["| sampler | epsilon | epsilon that holds | accuracy | step size |", "|---" * 5 + "|"]
    lines += [
        f"| {row.sampler} | {row.epsilon:g} | {row.epsilon_that_holds:.4f} | {row.accuracy:.4f} | {row.step_size:.3g} |"
        for row in found.itertuples()
    ]
    verdict = "Holds under another reading" if near <= CLAIMED else "Does not hold here"
    summary = (
        f"**{verdict}.** The paper's sampler is said to be as good as plain SGLD, {plain:.4f} here, from epsilon "
        f"{CLAIMED} on. The corrected one is within 0.01 of it {where}, one record replaced. What the "
        f"paper's count calls epsilon is {over['min']:.1f} to {over['max']:.1f} times as much where a record is "
        "replaced, which is its own definition, and its sampler has half the temperature.\n\n"
    )
    return Product(caption, summary + "\n".join(lines), figure, found)


FIGURE_3 = Target("figure-3", "Figure 3, accuracy on Adult against epsilon", (STUDY,), make)
