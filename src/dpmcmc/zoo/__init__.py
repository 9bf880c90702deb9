"""The literature's models with simulated records, reference posteriors and the papers' parameters, joined by name.

Records of the zoo are simulated, hence public: everything here may look at them. `docs/zoo.md` has the tour.
"""

from dpmcmc.zoo.banana import banana
from dpmcmc.zoo.catalogue import PROBLEMS, Entry, problem
from dpmcmc.zoo.circle import circle
from dpmcmc.zoo.gaussian import gaussian, random_covariance
from dpmcmc.zoo.linear import linear_regression
from dpmcmc.zoo.logistic import logistic_regression
from dpmcmc.zoo.mixture import mixture
from dpmcmc.zoo.neural_network import neural_network, predict
from dpmcmc.zoo.poisson import poisson_regression
from dpmcmc.zoo.problem import Problem
from dpmcmc.zoo.reference import Checks, NotConverged, nuts_reference
from dpmcmc.zoo.softmax import softmax_regression

__all__ = [
    "PROBLEMS",
    "Checks",
    "Entry",
    "NotConverged",
    "Problem",
    "banana",
    "circle",
    "gaussian",
    "linear_regression",
    "logistic_regression",
    "mixture",
    "neural_network",
    "nuts_reference",
    "poisson_regression",
    "predict",
    "problem",
    "random_covariance",
    "softmax_regression",
]
