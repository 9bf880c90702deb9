"""What a run leaves behind, and what can be computed from it."""

from dpmcmc.posterior.posterior import Posterior
from dpmcmc.posterior.prior_predictive import PriorPredictive, prior_predictive

__all__ = ["Posterior", "PriorPredictive", "prior_predictive"]
