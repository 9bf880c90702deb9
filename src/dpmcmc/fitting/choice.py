"""The choice of a sampler and its expected error: from public facts, by simulation on synthetic posteriors."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dpmcmc.accounting import Budget, Event
from dpmcmc.fitting.budget_split import Noise, least_error, noise_after, usual
from dpmcmc.fitting.problem_size import ProblemSize
from dpmcmc.fitting.recipes import RECIPES, Recipe
from dpmcmc.fitting.simulation import CANDIDATES, SIMULABLE, SimulatedError, simulate_sampler


@dataclass(frozen=True)
class Choice:
    """The chosen sampler with its settings, and the candidates that were simulated."""

    name: str
    recipe: Recipe
    noise: Noise
    tried: Mapping[str, SimulatedError]
    expected_error: float
    """Expected error in posterior standard deviations; a lower bound for samplers that cannot be simulated."""

    @property
    def words(self) -> str:
        """A description of the choice."""
        if len(self.tried) > 1:
            off = ", ".join(f"{name} {practice.error:.2g}" for name, practice in self.tried.items())
            return f"{self.name} was chosen by simulation; simulated errors in posterior standard deviations: {off}."
        found = self.tried.get(self.name)
        if found is None:
            return f"{self.name} was requested."
        return (
            f"{self.name} was requested; its simulated error is {found.error:.2g} posterior standard deviations, of "
            "mean and width together."
        )


def choose(
    sampler: str, facts: ProblemSize, num_steps: int | None, num_chains: int, budget: Budget, pilot: Event
) -> Choice:
    """Return the requested sampler, or for ``auto`` the one with the smallest simulated error."""

    def recipe(name: str) -> Recipe:
        return RECIPES[name] if num_steps is None else replace(RECIPES[name], num_steps=num_steps)

    names = CANDIDATES if sampler == "auto" else (sampler,)
    noises = {name: noise_after(recipe(name), facts, num_chains, budget, pilot) for name in names}
    tried = {
        name: simulate_sampler(name, usual(facts), noises[name], recipe(name).num_steps, num_chains)
        for name in names
        if name in SIMULABLE
    }
    best = min(tried, key=lambda name: tried[name].error) if sampler == "auto" else sampler
    error = least_error(facts, budget)
    if best in tried and not RECIPES[best].is_iid:  # whose draws are around the best there is
        error = max(error, tried[best].location)
    return Choice(best, recipe(best), noises[best], tried, error)
