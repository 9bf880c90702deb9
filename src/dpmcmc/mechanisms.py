"""Mechanisms: what the enclave can release, each priced by what it releases, and the two kinds of secret batches.

A sampler takes mechanisms as arguments, ``dp.kernels.dp_penalty(dp.mechanisms.PenaltyTest(clip, noise_multiplier),
...)``. Those whose names start with `Exact` add no noise and are for public data only: a run with one of them has no
guarantee.
"""

from dpmcmc.enclave import (
    BarkerBit,
    BarkerTest,
    BlockSum,
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
    RemainderTest,
    SphericalLaplaceSum,
    SubsampledGradientSum,
    Sum,
    WithoutReplacement,
)

__all__ = [
    "BarkerBit",
    "BarkerTest",
    "BlockSum",
    "CurvatureSum",
    "ExactBarkerBit",
    "ExactGradientSum",
    "ExactLogRatio",
    "ExactSubsampledGradientSum",
    "ExactSum",
    "GradientSum",
    "LogRatio",
    "MinibatchLogRatio",
    "NoisyCount",
    "PenaltyTest",
    "Poisson",
    "RemainderTest",
    "SphericalLaplaceSum",
    "SubsampledGradientSum",
    "Sum",
    "WithoutReplacement",
]
