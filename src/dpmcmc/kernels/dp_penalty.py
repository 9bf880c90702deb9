"""DP-penalty (Yıldırım and Ermiş 2019; Räisä 2021, Section 3.1): a random walk with a penalty test."""

from typing import Any

from dpmcmc.kernels.base import kernel
from dpmcmc.kernels.propose import check_scale, one_component_walk, random_walk
from dpmcmc.kernels.walk import walk


@kernel
def dp_penalty(log_ratio: Any, *, proposal_scale: Any, one_component: bool = False) -> Any:
    """Random-walk Metropolis with a noisy log-likelihood ratio. With an exact mechanism it is random-walk Metropolis.

    Args:
        log_ratio: releases the log-likelihood ratio, `LogRatio`; of a batch, `MinibatchLogRatio`, which has its own
            penalty in it; or only the decision, `PenaltyTest`.
        proposal_scale: standard deviation of the proposal, one number or one a coordinate.
        one_component: move one component at a time, picked at random.
    """
    scale = check_scale(proposal_scale)
    propose = one_component_walk if one_component else random_walk
    return walk(log_ratio, lambda key, position: propose(key, position, scale))
