"""Mechanisms: the noisy releases that a sampler can use, each with its privacy cost, and two subsampling schemes.

A sampler takes mechanisms as arguments, ``dp.kernels.dp_penalty(dp.mechanisms.PenaltyTest(clip, noise_multiplier),
...)``. Mechanisms whose names start with `Exact` add no noise and are for public data only: a run that uses one has no
privacy guarantee.
"""

from dpmcmc.enclave import (
    BarkerBit,
    BarkerTest,
    BlockSum,
    Counts,
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
    SpacedSum,
    SphericalLaplaceSum,
    SubsampledGradientSum,
    Sum,
    WithoutReplacement,
)

__all__ = [
    "BarkerBit",
    "BarkerTest",
    "BlockSum",
    "Counts",
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
    "SpacedSum",
    "SphericalLaplaceSum",
    "SubsampledGradientSum",
    "Sum",
    "WithoutReplacement",
]
