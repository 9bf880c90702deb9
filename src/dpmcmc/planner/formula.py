"""Is a table large enough for a formula? From the formula, its schema and a number of rows; no row is read."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from dpmcmc import validation
from dpmcmc.accounting import Adjacency, Budget
from dpmcmc.diagnostics.quality import FAIR_ERROR
from dpmcmc.errors import InvalidArgument
from dpmcmc.fitting.problem_size import ProblemSize
from dpmcmc.fitting.reading import Reading
from dpmcmc.fitting.strategies.centred_scores.questions import split_of_records
from dpmcmc.fitting.strategies.grouped_scores.budget import Split as OfGroups
from dpmcmc.fitting.strategies.grouped_scores.choice import has_many_groups
from dpmcmc.fitting.strategies.grouped_scores.grouped import Grouped
from dpmcmc.fitting.strategies.weighted_scores.one_pass import chosen, predicted_error
from dpmcmc.fitting.strategies.weighted_scores.questions import usual_split
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.model import FormulaModel, from_formula
from dpmcmc.run.program import Layout
from dpmcmc.schema import Schema

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
FINER, FARTHEST = 1.02, 1e12


class Expected(NamedTuple):
    """What a budget buys for a formula."""

    epsilon: float
    error: float
    """By how many of its own standard deviations the posterior is expected to be off."""
    records: int | None
    """With how many records that would be half of one, at which verdicts begin to be fair; None beyond 1e12."""

    @property
    def is_refused(self) -> bool:
        """Whether `fit` would refuse, and spend nothing."""
        return self.error > 1


def plan_formula(
    formula: str,
    schema: Any,
    *,
    num_records: int,
    delta: float,
    epsilons: Sequence[float] = EPSILONS,
    family: str | None = None,
    priors: Mapping[str, str] | None = None,
    adjacency: Adjacency | str = Adjacency.REPLACE_ONE,
    passes: int | None = None,
) -> list[Expected]:
    """Return how good `fit` expects its posterior to be at some epsilons.

    Args:
        formula: as for `fit`, with `family` and `priors`.
        schema: of the table: a `Schema`, what one is made of, or a TOML file.
        num_records: how many rows it has; persons, where the schema names them.
        delta: of the budgets.
        epsilons: of the budgets.
        family: left out where the response says it.
        priors: as for `fit`.
        adjacency: which tables are neighbours.
        passes: how often all rows may be read at most; as for `fit`.
    """
    schema = Schema.read(schema)
    model = from_formula(formula, schema, family=family, priors=priors)
    if model.integrated:
        raise InvalidArgument(
            f"formula={formula!r} cannot be planned beforehand: it has a column with missing='integrate'. "
            "`dpmcmc fit --dry-run` says what is expected of it, and charges nothing"
        )
    size = validation.integer("num_records", num_records, at_least=1)
    most = None if passes is None else validation.integer("passes", passes, at_least=1)
    has_many = not model.is_mixture and has_many_groups(model, size, schema, may_read_often=most is None)
    adjacency = Adjacency.parse("adjacency", adjacency)
    if has_many:
        Reading(most, 0).refuse_few()
    error = _error_of_many(model, size, adjacency) if has_many else _error(model, size, adjacency, most)

    def enough(budget: Budget) -> int | None:
        low, high = 1.0, 2.0
        while error(budget, high) > FAIR_ERROR:
            low, high = high, 2 * high
            if high > FARTHEST:
                return None
        while high > low * FINER:
            middle = (low * high) ** 0.5
            low, high = (middle, high) if error(budget, middle) > FAIR_ERROR else (low, middle)
        return round(high)

    budgets = [Budget(validation.positive("epsilon", epsilon), delta) for epsilon in epsilons]
    return [Expected(budget.epsilon, error(budget, size), enough(budget)) for budget in budgets]


def _error_of_many(model: FormulaModel, size: int, adjacency: Adjacency) -> Callable[[Budget, float], float]:
    """Return what is expected of a model with many groups."""
    grouped = Grouped.of(model)
    clips_moved = ProblemSize(size, grouped.num_common, adjacency).clips_moved

    def error(budget: Budget, records: float) -> float:
        return OfGroups.of(grouped, budget, round(records), clips_moved).errors()[0]

    return error


def _error(
    model: FormulaModel, size: int, adjacency: Adjacency, passes: int | None
) -> Callable[[Budget, float], float]:
    """Return what is expected of a model, by the budget and the number of records."""
    if model.is_mixture:  # effects of persons: these fits read all rows at every step
        dimension = Layout.of(model.position).dimension
        facts = ProblemSize(size, dimension, adjacency)
        return split_of_records(dimension, facts.clips_moved, is_of_persons=True).error
    regression = Regression.of(model)
    split = usual_split(regression, ProblemSize(size, regression.dimension, adjacency).clips_moved)

    def error(budget: Budget, records: float) -> float:
        own = chosen(split, budget, round(records), 0, passes=passes, is_in_memory=True)
        return predicted_error(own, budget, round(records))

    return error
