"""dpmcmc: Bayesian posterior sampling under differential privacy.

The top level has the names that most users need. The others are in four namespaces: `dpmcmc.mechanisms` (noisy
releases), `dpmcmc.kernels` (samplers), `dpmcmc.model` (models and their parts) and `dpmcmc.accounting` (events,
accountants, planning). Names are imported when they are first used, so that accounting alone never loads JAX.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from dpmcmc.collector import not_collecting

if TYPE_CHECKING:
    from dpmcmc import accounting, kernels, mechanisms, model
    from dpmcmc.accounting import Adjacency, Budget, Certificate, Ledger
    from dpmcmc.catalogue import citation
    from dpmcmc.enclave import PrivateData
    from dpmcmc.estimators import PrivateBayesClassifier, PrivateBayesRegressor
    from dpmcmc.fitting import fit, prepare_fit, resume, select
    from dpmcmc.model import Model, from_formula, from_numpyro
    from dpmcmc.posterior import Posterior, prior_predictive
    from dpmcmc.run import price, sample
    from dpmcmc.schema import Column, Schema
    from dpmcmc.schema_audit import audit_schema

_HOMES = {
    "accounting": ("Adjacency", "Budget", "Certificate", "Ledger"),
    "catalogue": ("citation",),
    "enclave": ("PrivateData",),
    "estimators": ("PrivateBayesClassifier", "PrivateBayesRegressor"),
    "fitting": ("fit", "prepare_fit", "resume", "select"),
    "model": ("Model", "from_formula", "from_numpyro"),
    "posterior": ("Posterior", "prior_predictive"),
    "run": ("price", "sample"),
    "schema": ("Column", "Schema"),
    "schema_audit": ("audit_schema",),
}
"""Where each name comes from."""

_MOVED = {
    "kernels": (
        "Stage dp_barker dp_hmc dp_langevin dp_penalty dp_sghmc dp_sgld dp_sgnht gradient_ascent guided_walk "
        "polynomial_steps surrogate_hmc"
    ),
    "mechanisms": (
        "BarkerBit BarkerTest CurvatureSum ExactBarkerBit ExactGradientSum ExactLogRatio ExactSubsampledGradientSum "
        "ExactSum GradientSum LogRatio MinibatchLogRatio NoisyCount PenaltyTest Poisson RemainderTest "
        "SphericalLaplaceSum SubsampledGradientSum Sum WithoutReplacement"
    ),
    "model": "FormulaModel normal_terms per_person remainder taylor_terms",
    "posterior": "PriorPredictive",
}
"""Names that were here in version 0.2, by where they are now."""

NAMESPACES = ("accounting", "kernels", "mechanisms", "model")
"""Modules that are public names themselves."""

__all__ = [
    "Adjacency",
    "Budget",
    "Certificate",
    "Column",
    "Ledger",
    "Model",
    "Posterior",
    "PrivateBayesClassifier",
    "PrivateBayesRegressor",
    "PrivateData",
    "Schema",
    "accounting",
    "audit_schema",
    "citation",
    "fit",
    "from_formula",
    "from_numpyro",
    "kernels",
    "mechanisms",
    "model",
    "prepare_fit",
    "price",
    "prior_predictive",
    "resume",
    "sample",
    "select",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return version("dpmcmc")
    if name in NAMESPACES:
        return import_module(f"dpmcmc.{name}")
    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is not None:
        with not_collecting():
            return getattr(import_module(f"dpmcmc.{home}"), name)
    moved = next((home for home, names in _MOVED.items() if name in names.split()), None)
    found = f"it has {', '.join(__all__)}" if moved is None else f"it is dpmcmc.{moved}.{name}"
    raise AttributeError(f"module 'dpmcmc' has no attribute {name!r}; {found}")


def __dir__() -> list[str]:
    return __all__
