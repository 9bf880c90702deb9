"""The trusted core: records that can only leave through a charged release.

Privacy rests on `core`, `arithmetic`, `noise`, `batches` and the mechanisms in use; on `accelerate` unless it is
switched off; on `tables` and `resume` where a run uses them. Nothing rests on `oracle`, on `arithmetic.quantise`, or on
`mechanisms.exact`. `docs/enclave.md` explains the design; the proofs stand beside the code.
"""

from dpmcmc.enclave.batches.sampling import Poisson, WithoutReplacement
from dpmcmc.enclave.core.audit import Audit, Charge
from dpmcmc.enclave.core.session import Session
from dpmcmc.enclave.data import PrivateData
from dpmcmc.enclave.mechanisms.barker_bit import BarkerBit
from dpmcmc.enclave.mechanisms.barker_test import BarkerTest
from dpmcmc.enclave.mechanisms.block_sum import BlockSum
from dpmcmc.enclave.mechanisms.counts import Counts
from dpmcmc.enclave.mechanisms.curvature import CurvatureSum
from dpmcmc.enclave.mechanisms.exact import (
    ExactBarkerBit,
    ExactGradientSum,
    ExactLogRatio,
    ExactSubsampledGradientSum,
    ExactSum,
)
from dpmcmc.enclave.mechanisms.gradient import GradientSum
from dpmcmc.enclave.mechanisms.log_ratio import LogRatio, PenaltyTest
from dpmcmc.enclave.mechanisms.minibatch_log_ratio import MinibatchLogRatio
from dpmcmc.enclave.mechanisms.noisy_count import NoisyCount
from dpmcmc.enclave.mechanisms.remainder_test import RemainderTest
from dpmcmc.enclave.mechanisms.spaced_sum import SpacedSum
from dpmcmc.enclave.mechanisms.spherical_laplace_sum import SphericalLaplaceSum
from dpmcmc.enclave.mechanisms.subsampled_gradient import SubsampledGradientSum
from dpmcmc.enclave.mechanisms.sum import Sum
from dpmcmc.enclave.oracle import Noisy, Oracle
from dpmcmc.enclave.resume.journal import Journal
from dpmcmc.enclave.select import Attempt, Best

__all__ = [
    "Attempt",
    "Audit",
    "BarkerBit",
    "BarkerTest",
    "Best",
    "BlockSum",
    "Charge",
    "Counts",
    "CurvatureSum",
    "ExactBarkerBit",
    "ExactGradientSum",
    "ExactLogRatio",
    "ExactSubsampledGradientSum",
    "ExactSum",
    "GradientSum",
    "Journal",
    "LogRatio",
    "MinibatchLogRatio",
    "Noisy",
    "NoisyCount",
    "Oracle",
    "PenaltyTest",
    "Poisson",
    "PrivateData",
    "RemainderTest",
    "Session",
    "SpacedSum",
    "SphericalLaplaceSum",
    "SubsampledGradientSum",
    "Sum",
    "WithoutReplacement",
]
