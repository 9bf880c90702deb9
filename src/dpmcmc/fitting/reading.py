"""How often a fit reads all rows: as often as stated at most, or as is best."""

from typing import NamedTuple

from dpmcmc.accounting import Budget
from dpmcmc.enclave import PrivateData
from dpmcmc.errors import InvalidArgument
from dpmcmc.fitting.strategies.weighted_scores.budget import Split
from dpmcmc.fitting.strategies.weighted_scores.one_pass import chosen
from dpmcmc.fitting.strategies.weighted_scores.questions import usual_split
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression


class Reading(NamedTuple):
    """What was stated of it."""

    passes: int | None
    """How often all rows may be read."""
    block_seed: int
    """Of the public positions of the blocks that lead the way then."""

    def split(self, regression: Regression, data: PrivateData, budget: Budget) -> Split:
        """Return how a regression divides its budget, and which rows it asks when."""
        facts = data.facts
        split = usual_split(regression, facts.clips_moved)
        if facts.places is None:  # rows are not in memory, and may move: blocks of them cannot be asked
            if self.passes is not None and self.passes < split.schedule.reads:
                raise InvalidArgument(
                    f"passes={self.passes} needs blocks of rows as a pilot. Rows are read chunk by chunk here, and "
                    "nobody has stated that rows keep their place. If no value decides where rows stand, open the "
                    f"table with rows_keep_place=True; else state passes={split.schedule.reads:.0f} or more, or none"
                )
            return split.with_short_pilot(budget, facts.size)
        is_in_memory = data.is_in_memory
        return chosen(split, budget, facts.size, self.block_seed, passes=self.passes, is_in_memory=is_in_memory)

    def refuse_few(self) -> None:
        """Refuse a model whose strategy has a number of passes of its own."""
        if self.passes is not None:
            raise InvalidArgument(
                f"passes={self.passes} must be left out for this model and sampler, which have a number of their own: "
                "it is for formulas with sampler 'auto' or 'private_laplace'; a sketch reads all rows once by itself"
            )
