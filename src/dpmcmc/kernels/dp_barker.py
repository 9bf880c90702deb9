"""DP-Barker (Heikkilä, Jälkö, Dikmen and Honkela 2019): a random walk with Barker's test, which has its own noise."""

from typing import Any

from dpmcmc.errors import InvalidArgument
from dpmcmc.kernels.base import DecisionMechanism, kernel
from dpmcmc.kernels.propose import check_scale, random_walk
from dpmcmc.kernels.walk import walk


@kernel
def dp_barker(test: Any, *, proposal_scale: Any) -> Any:
    """Random walk that accepts with probability S(lambda) = 1 / (1 + exp(-lambda)), lambda the log-posterior ratio.

    Args:
        test: releases the decision: `BarkerBit` for all records, exactly; `BarkerTest` for a batch of them, with the
            correction distribution of the paper (a batch as large as the data is the paper's full-data test).
        proposal_scale: standard deviation of the proposal, one number or one a coordinate.
    """
    if not isinstance(test, DecisionMechanism) or test.acceptance != "barker":
        raise InvalidArgument(f"test is a {type(test).__name__}; expected a mechanism that releases a Barker decision")
    scale = check_scale(proposal_scale)
    return walk(test, lambda key, position: random_walk(key, position, scale))
