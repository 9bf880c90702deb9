"""Holds the planner's laws against simulation: how far off the mean is, in standard deviations of the posterior.

The simulation is that of `fit`: the sampler on a standard normal, with the noise that the budget forces and the clips
that most tables take. It knows no data either, so what both leave out (the pilot's error, clipping, heavy tails,
posteriors that are not normal) is not judged here.

    python benchmarks/planner.py            # writes benchmarks/results/planner.csv; two minutes
"""

from pathlib import Path

import pandas as pd

from dpmcmc.accounting import Adjacency, Budget
from dpmcmc.fitting.budget_split import REFINEMENT_SHARE, Noise, noise_of_share, usual
from dpmcmc.fitting.problem_size import ProblemSize
from dpmcmc.fitting.recipes import RECIPES
from dpmcmc.fitting.simulation import SIMULABLE, simulate_sampler
from dpmcmc.planner import plan_fit

DELTA = 1e-6
NUM_CHAINS = 2
SETTINGS = [(10_000, 3, 2.0), (10_000, 30, 8.0), (100_000, 10, 1.0), (100_000, 10, 4.0), (1_000_000, 10, 0.5)]
"""Records, parameters, epsilon."""


def compare(sampler: str, records: int, parameters: int, epsilon: float) -> dict[str, object]:
    """Return the predicted error and the simulation's."""
    answer = plan_fit(sampler, epsilon=epsilon, delta=DELTA, num_records=records, num_parameters=parameters)
    assert answer is not None
    recipe = RECIPES[sampler]
    refinement = noise_of_share(REFINEMENT_SHARE, 1, Budget(epsilon, DELTA))
    noise = Noise(answer.noise if recipe.is_iid else refinement, answer.noise)
    facts = usual(ProblemSize(records, parameters, Adjacency.REPLACE_ONE))
    found = simulate_sampler(sampler, facts, noise, recipe.num_steps, NUM_CHAINS)
    return {
        "sampler": sampler,
        "records": records,
        "parameters": parameters,
        "epsilon": epsilon,
        "predicted": round(answer.error, 4),
        "is_known": answer.is_known,
        "simulated": round(found.location, 4),
        "simulated_over_predicted": round(found.location / answer.error, 3),
        "width_off": round(found.width, 4),
    }


def main() -> None:
    """Compare all, write the table, and show the worst of each sampler."""
    table = pd.DataFrame([compare(sampler, *setting) for sampler in SIMULABLE for setting in SETTINGS])
    place = Path(__file__).parent / "results" / "planner.csv"
    table.to_csv(place, index=False)
    print(table.groupby("sampler")["simulated_over_predicted"].agg(["min", "max"]))
    print(f"wrote {place.name}")


if __name__ == "__main__":
    main()
