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
        GradientSum,
        LogRatio,
        MinibatchLogRatio,
        NoisyCount,
        PenaltyTest,
        PrivateData,
        SubsampledGradientSum,
        Sum,
    )

__all__ = [
    "Adjacency",
    "BarkerBit",
    "BarkerTest",
    "Budget",
    "Certificate",
    "GradientSum",
    "Ledger",
    "LogRatio",
    "MinibatchLogRatio",
    "NoisyCount",
    "PenaltyTest",
    "PrivateData",
    "SubsampledGradientSum",
    "Sum",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'dpmcmc' has no attribute {name!r}; it has {', '.join(__all__)}")
    home = "accounting" if name in {"Adjacency", "Budget", "Certificate", "Ledger"} else "enclave"
    return getattr(import_module(f"dpmcmc.{home}"), name)


def __dir__() -> list[str]:
    return __all__
