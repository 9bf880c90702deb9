"""The papers' parameter sets in one convention.

`ratio_noise` and `gradient_noise` are noise multipliers, noise over sensitivity: the papers' tau is tau * sqrt(n), and
the minibatch penalty's tau, which multiplies a variance, is sqrt(tau). Clips bound the *tempered* contribution of a
record, temperature times the papers' clip. The other numbers are as published, tuned for the published n.
"""

from math import sqrt
from typing import Any

DP_HMC_2021 = "Räisä, Koskela and Honkela 2021"
THESIS_2021 = "Räisä 2021 (MSc thesis)"
BARKER_2019 = "Heikkilä et al. 2019"
SGHMC_THESIS = "thesis on DP-SGHMC, after Betancourt 2015"

BARKER_VARIANCE = 2.0
BARKER_CLIP_FRACTION = 0.99**2


def dp_hmc(
    num_records: int,
    *,
    ratio_tau: float,
    gradient_tau: float,
    step_size: float,
    num_leapfrog: int,
    ratio_clip: float,
    gradient_clip: float,
    temperature: float = 1.0,
) -> dict[str, Any]:
    """Return a parameter set of DP-HMC; the mass is one."""
    return {
        "step_size": step_size,
        "num_leapfrog": num_leapfrog,
        "ratio_clip": temperature * ratio_clip,
        "gradient_clip": temperature * gradient_clip,
        "ratio_noise": ratio_tau * sqrt(num_records),
        "gradient_noise": gradient_tau * sqrt(num_records),
    }


def dp_penalty(
    num_records: int, *, tau: float, proposal_scale: float, ratio_clip: float, temperature: float = 1.0
) -> dict[str, Any]:
    """Return a parameter set of DP-penalty, with or without the guided walk."""
    return {
        "proposal_scale": proposal_scale,
        "ratio_clip": temperature * ratio_clip,
        "ratio_noise": tau * sqrt(num_records),
    }


def minibatch_penalty(
    *, tau: float, proposal_scale: float, ratio_clip: float, batch_size: int, temperature: float = 1.0
) -> dict[str, Any]:
    """Return a parameter set of the minibatch DP-penalty; its tau is a multiplier of the variance."""
    return {
        "proposal_scale": proposal_scale,
        "ratio_clip": temperature * ratio_clip,
        "ratio_noise": sqrt(tau),
        "batch_size": batch_size,
    }


def dp_barker(*, proposal_scale: float, batch_size: int) -> dict[str, Any]:
    """Return a parameter set of DP-Barker: C = 2, and a clip of 0.99 sqrt(b) / (T n), a clip fraction of 0.99^2."""
    return {
        "proposal_scale": proposal_scale,
        "batch_size": batch_size,
        "variance": BARKER_VARIANCE,
        "clip_fraction": BARKER_CLIP_FRACTION,
    }


def dp_sgld(num_records: int, *, eta: float, gradient_clip: float, batch_size: int, **more: float) -> dict[str, Any]:
    """Return a parameter set of DP-SGLD: the noise has the variance step_size = eta / n.

    The published drift is step_size times the gradient, which samples at half the temperature; half of that is right.
    """
    return {"step_size": eta / num_records, "gradient_clip": gradient_clip, "batch_size": batch_size, **more}


def dp_sgnht(num_records: int, *, eta: float, friction: float, gradient_clip: float, batch_size: int) -> dict[str, Any]:
    """Return a parameter set of DP-SGNHT: the published step is eta / n, the friction starts at A."""
    return {**dp_sgld(num_records, eta=eta, gradient_clip=gradient_clip, batch_size=batch_size), "friction": friction}


def dp_sghmc(
    num_records: int,
    *,
    friction: float,
    clip: float,
    rate: float,
    multiplier: float,
    num_leapfrog: int,
    num_steps: int,
) -> dict[str, Any]:
    """Return a parameter set of DP-SGHMC: step sizes multiplier * t^(-1/3), batches of rate * n.

    The published clip bounds the gradient of a whole batch; only a clip of each record's gradient is private as stated.
    """
    return {
        "step_size": multiplier,
        "step_size_power": 1 / 3,
        "num_leapfrog": num_leapfrog,
        "num_steps": num_steps,
        "friction": friction,
        "gradient_clip": clip,
        "batch_size": max(1, round(rate * num_records)),
    }
