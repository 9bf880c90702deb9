"""The trusted core: records that can only leave through a charged release.

Every line here is a privacy claim. `docs/enclave.md` explains the design; the proofs stand beside the mechanisms.
"""

from dpmcmc.enclave.audit import Audit, Charge
from dpmcmc.enclave.data import PrivateData
from dpmcmc.enclave.journal import Journal
from dpmcmc.enclave.mechanisms.barker_bit import BarkerBit, ExactBarkerBit
from dpmcmc.enclave.mechanisms.barker_test import BarkerTest
from dpmcmc.enclave.mechanisms.curvature import CurvatureSum
from dpmcmc.enclave.mechanisms.exact import ExactGradientSum, ExactLogRatio, ExactSum
from dpmcmc.enclave.mechanisms.gradient import GradientSum
from dpmcmc.enclave.mechanisms.log_ratio import LogRatio, PenaltyTest
from dpmcmc.enclave.mechanisms.minibatch_log_ratio import MinibatchLogRatio
from dpmcmc.enclave.mechanisms.noisy_count import NoisyCount
from dpmcmc.enclave.mechanisms.remainder_test import RemainderTest
from dpmcmc.enclave.mechanisms.subsampled_gradient import ExactSubsampledGradientSum, SubsampledGradientSum
from dpmcmc.enclave.mechanisms.sum import Sum
from dpmcmc.enclave.oracle import Noisy, Oracle
from dpmcmc.enclave.paid import PaidRun
from dpmcmc.enclave.sampling import Poisson, WithoutReplacement
from dpmcmc.enclave.selection import Attempt, Best

__all__ = [
    "Attempt",
    "Audit",
    "BarkerBit",
    "BarkerTest",
    "Best",
    "Charge",
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
    "PaidRun",
    "PenaltyTest",
    "Poisson",
    "PrivateData",
    "RemainderTest",
    "SubsampledGradientSum",
    "Sum",
    "WithoutReplacement",
]
