"""What `fit` gives on the same problems: no start near the truth, no setting that was tuned, everything paid for."""

import warnings

import jax.numpy as jnp
import numpy as np

import dpmcmc as dp
from dpmcmc import zoo
from dpmcmc.diagnostics import mmd
from experiments.machinery.chains import shifted
from experiments.machinery.study import Cell, Configuration, Rows


def fit_cells(configuration: Configuration, problems: dict[str, str]) -> list[Cell]:
    """Return one cell a repeat, problem, sampler and epsilon."""
    c = configuration
    return [
        {
            "model": model,
            "problem": problem,
            "sampler": sampler,
            "epsilon": epsilon,
            "repeat": repeat,
            "num_records": c["num_records"],
            "num_reference": c["num_reference"],
            "num_chains": c["num_chains"],
            "delta": c["delta_over_records"] / c["num_records"],
            "most_draws": c["most_draws"],
            "data_seed": c["seed"],
            "mean": c.get("means", {}).get(model),
        }
        for repeat in range(c["fit"]["num_repeats"])
        for model, problem in problems.items()
        for sampler in c["fit"]["samplers"][model]
        for epsilon in c["fit"]["epsilons"]
    ]


def run_fit_cell(cell: Cell) -> Rows:
    """Fit once, from the centre of the prior, and judge the second half of the draws."""
    seed = cell["data_seed"]
    problem = zoo.problem(cell["problem"], np.random.default_rng([seed, 0]), num_records=cell["num_records"])
    problem = shifted(problem, cell["mean"]) if cell["mean"] else problem
    reference = problem.sample_posterior(np.random.default_rng([seed, 2]), cell["num_reference"])
    vault = dp.PrivateData.without_guarantee(problem.records, bounds=problem.bounds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where it expects to be far off it says so, and is measured all the same
        post = dp.fit(
            problem.model,
            vault,
            epsilon=cell["epsilon"],
            delta=cell["delta"],
            sampler=cell["sampler"],
            num_chains=cell["num_chains"],
            init=jnp.zeros(problem.dimension),  # the mean of the prior
            allow_low_accuracy=True,
            progress=False,
            insecure_seed=int(np.random.SeedSequence([seed, cell["repeat"], 7]).generate_state(1)[0]),
        )
    draws = np.asarray(post.draws["position"], np.float64)
    kept = draws[:, draws.shape[1] // 2 :]
    kept = kept[:, :: max(1, -(-kept.shape[1] // cell["most_draws"]))]
    gap = kept.reshape(-1, kept.shape[-1]).mean(axis=0) - reference.mean(axis=0)
    return [
        {
            "reading": "fit",
            "steps": draws.shape[1],
            "steps_allowed": draws.shape[1],
            "epsilon_that_holds": cell["epsilon"],
            "mmd": mmd(kept, reference, np.random.default_rng([seed, cell["repeat"], 8])),
            "mean_error": float(np.linalg.norm(gap)),
        }
    ]
