"""dpmcmc: Bayesian posterior sampling under differential privacy.

Names are imported when they are first used, so that accounting alone never loads JAX.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpmcmc.accounting import Adjacency, Budget, Certificate, Ledger
    from dpmcmc.enclave import (
        BarkerBit,
        BarkerTest,
        CurvatureSum,
        ExactBarkerBit,
        ExactGradientSum,
        ExactLogRatio,
        ExactSubsampledGradientSum,
        ExactSum,
        GradientSum,
        LogRatio,
        MinibatchLogRatio,
        NoisyCount,
        PenaltyTest,
        Poisson,
        PrivateData,
        RemainderTest,
        SphericalLaplaceSum,
        SubsampledGradientSum,
        Sum,
        WithoutReplacement,
    )
    from dpmcmc.estimators import PrivateBayesClassifier, PrivateBayesRegressor
    from dpmcmc.fitting import fit, resume, select
    from dpmcmc.kernels import (
        Stage,
        citation,
        dp_barker,
        dp_hmc,
        dp_langevin,
        dp_penalty,
        dp_sghmc,
        dp_sgld,
        dp_sgnht,
        gradient_ascent,
        guided_walk,
        polynomial_steps,
        surrogate_hmc,
    )
    from dpmcmc.model import (
        FormulaModel,
        Model,
        from_formula,
        from_numpyro,
        normal_terms,
        per_person,
        remainder,
        taylor_terms,
    )
    from dpmcmc.posterior import Posterior, PriorPredictive, prior_predictive
    from dpmcmc.run import price, sample
    from dpmcmc.schema import Column, Schema
    from dpmcmc.schema_audit import audit_schema

_HOMES = {
    "accounting": ("Adjacency", "Budget", "Certificate", "Ledger"),
    "kernels": (
        "Stage",
        "citation",
        "dp_barker",
        "dp_hmc",
        "dp_langevin",
        "dp_penalty",
        "dp_sghmc",
        "dp_sgld",
        "dp_sgnht",
        "gradient_ascent",
        "guided_walk",
        "polynomial_steps",
        "surrogate_hmc",
    ),
    "estimators": ("PrivateBayesClassifier", "PrivateBayesRegressor"),
    "fitting": ("fit", "resume", "select"),
    "model": (
        "FormulaModel",
        "Model",
        "from_formula",
        "from_numpyro",
        "normal_terms",
        "per_person",
        "remainder",
        "taylor_terms",
    ),
    "posterior": ("Posterior", "PriorPredictive", "prior_predictive"),
    "run": ("price", "sample"),
    "schema": ("Column", "Schema"),
    "schema_audit": ("audit_schema",),
}
"""Where a name comes from, if it is not the enclave."""

__all__ = [
    "Adjacency",
    "BarkerBit",
    "BarkerTest",
    "Budget",
    "Certificate",
    "Column",
    "CurvatureSum",
    "ExactBarkerBit",
    "ExactGradientSum",
    "ExactLogRatio",
    "ExactSubsampledGradientSum",
    "ExactSum",
    "FormulaModel",
    "GradientSum",
    "Ledger",
    "LogRatio",
    "MinibatchLogRatio",
    "Model",
    "NoisyCount",
    "PenaltyTest",
    "Poisson",
    "Posterior",
    "PriorPredictive",
    "PrivateBayesClassifier",
    "PrivateBayesRegressor",
    "PrivateData",
    "RemainderTest",
    "Schema",
    "SphericalLaplaceSum",
    "Stage",
    "SubsampledGradientSum",
    "Sum",
    "WithoutReplacement",
    "audit_schema",
    "citation",
    "dp_barker",
    "dp_hmc",
    "dp_langevin",
    "dp_penalty",
    "dp_sghmc",
    "dp_sgld",
    "dp_sgnht",
    "fit",
    "from_formula",
    "from_numpyro",
    "gradient_ascent",
    "guided_walk",
    "normal_terms",
    "per_person",
    "polynomial_steps",
    "price",
    "prior_predictive",
    "remainder",
    "resume",
    "sample",
    "select",
    "surrogate_hmc",
    "taylor_terms",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'dpmcmc' has no attribute {name!r}; it has {', '.join(__all__)}")
    home = next((home for home, names in _HOMES.items() if name in names), "enclave")
    return getattr(import_module(f"dpmcmc.{home}"), name)


def __dir__() -> list[str]:
    return __all__
