"""Privacy accounting: the cost of releases, planning within a budget, and the ledger.

Runs on the host only: nothing here imports JAX. Events describe what was released; accountants turn them into
(epsilon, delta); plans invert the accountants; the ledger keeps budgets; the certificate says what a result may claim.
Names are imported when they are first used: a command that prints its help loads neither SciPy nor SQLAlchemy.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpmcmc.accounting.accountants import ACCOUNTANTS, Bound, delta, epsilon, log_delta
    from dpmcmc.accounting.adjacency import Adjacency
    from dpmcmc.accounting.budget import Budget
    from dpmcmc.accounting.calibrate import max_steps, noise_for, split
    from dpmcmc.accounting.certificate import Certificate
    from dpmcmc.accounting.event import (
        AcceptBit,
        Approximation,
        BarkerTest,
        Composed,
        Event,
        FixedBatchGaussian,
        Gaussian,
        LogisticBit,
        NonPrivate,
        PoissonGaussian,
        RatioApproximation,
        compose,
    )
    from dpmcmc.accounting.ledger import Ledger
    from dpmcmc.accounting.parallel import Parallel
    from dpmcmc.accounting.partition import Partition
    from dpmcmc.accounting.selection import Selected, repeat_and_select
    from dpmcmc.accounting.spherical_laplace import SphericalLaplace

__all__ = [
    "ACCOUNTANTS",
    "AcceptBit",
    "Adjacency",
    "Approximation",
    "BarkerTest",
    "Bound",
    "Budget",
    "Certificate",
    "Composed",
    "Event",
    "FixedBatchGaussian",
    "Gaussian",
    "Ledger",
    "LogisticBit",
    "NonPrivate",
    "Parallel",
    "Partition",
    "PoissonGaussian",
    "RatioApproximation",
    "Selected",
    "SphericalLaplace",
    "compose",
    "delta",
    "epsilon",
    "log_delta",
    "max_steps",
    "noise_for",
    "repeat_and_select",
    "split",
]


_HOMES: Mapping[str, str] = {
    "accountants": "ACCOUNTANTS Bound delta epsilon log_delta",
    "adjacency": "Adjacency",
    "budget": "Budget",
    "calibrate": "max_steps noise_for split",
    "certificate": "Certificate",
    "event": (
        "AcceptBit Approximation BarkerTest Composed Event FixedBatchGaussian "
        "Gaussian LogisticBit NonPrivate PoissonGaussian RatioApproximation compose"
    ),
    "ledger": "Ledger",
    "parallel": "Parallel",
    "partition": "Partition",
    "selection": "Selected repeat_and_select",
    "spherical_laplace": "SphericalLaplace",
}
"""The modules of names."""


def __getattr__(name: str) -> Any:
    home = next((home for home, names in _HOMES.items() if name in names.split()), None)
    if home is None:
        raise AttributeError(f"module 'dpmcmc.accounting' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"dpmcmc.accounting.{home}"), name)


def __dir__() -> list[str]:
    return __all__
