"""The number of passes over all rows: at most the stated one, or the best one."""

from typing import NamedTuple

from dpmcmc.accounting import Budget
from dpmcmc.enclave import PrivateData
from dpmcmc.errors import InvalidArgument
from dpmcmc.fitting.strategies.weighted_scores.budget import Split
from dpmcmc.fitting.strategies.weighted_scores.one_pass import chosen
from dpmcmc.fitting.strategies.weighted_scores.questions import usual_split
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression


class Reading(NamedTuple):
    """The stated limit on passes, and the seed of blocks."""

    passes: int | None
    """Largest number of passes over all rows; None if not stated."""
    block_seed: int
    """Seed of the public positions of the pilot's blocks of rows."""

    def split(self, regression: Regression, data: PrivateData, budget: Budget) -> Split:
        """Return how a regression divides its budget, and which rows each release reads."""
        facts = data.facts
        split = usual_split(regression, facts.clips_moved)
        if facts.places is None:  # rows are not in memory and may move: blocks of them cannot be queried
            if self.passes is not None and self.passes < split.schedule.reads:
                raise InvalidArgument(
                    f"passes={self.passes} needs blocks of rows as a pilot. Rows are read chunk by chunk here, and "
                    "it is not stated that rows keep their place. If their order does not depend on values, open the "
                    f"table with rows_keep_place=True; else state passes={split.schedule.reads:.0f} or more, or none"
                )
            return split.with_short_pilot(budget, facts.size)
        is_in_memory = data.is_in_memory
        return chosen(split, budget, facts.size, self.block_seed, passes=self.passes, is_in_memory=is_in_memory)

    def refuse_few(self) -> None:
        """Refuse `passes` for a strategy that fixes its number of passes."""
        if self.passes is not None:
            raise InvalidArgument(
                f"passes={self.passes} must be left out for this model and sampler, which fix the number themselves: "
                "it is for formulas with sampler 'auto' or 'private_laplace'; a sketch reads all rows once anyway"
            )
