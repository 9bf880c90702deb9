"""`price` and `sample`: a run in segments, all chains at once, charged before the first record is read."""

import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpmcmc import validation
from dpmcmc.accounting import Event, accountants
from dpmcmc.enclave import PrivateData
from dpmcmc.kernels import Kernel, Stage
from dpmcmc.model import Model
from dpmcmc.posterior import Posterior
from dpmcmc.run.interrupt import interruptible
from dpmcmc.run.plan import make_plan, parameters, prior_draws, settings
from dpmcmc.run.progress import watch
from dpmcmc.run.start import check_likelihood


def price(
    kernel: Kernel | Sequence[Stage],
    model: Model,
    data: PrivateData,
    *,
    num_steps: int | None = None,
    num_chains: int = 1,
    init: Any = None,
) -> Event:
    """Return the event that `sample` would charge for the same arguments. Reads no record and charges nothing.

    Args:
        kernel: a sampler, or a list of stages, as for `sample`.
        model: the model to sample from.
        data: the private records, of which only public facts are used.
        num_steps: steps per chain; left out with stages, which have their own.
        num_chains: the number of chains; each is charged.
        init: the starting points, as for `sample`; the price does not depend on them.
    """
    return make_plan(kernel, model, num_steps, num_chains, init, seed=0).price(data)  # only shapes matter to the price


def sample(
    kernel: Kernel | Sequence[Stage],
    model: Model,
    data: PrivateData,
    *,
    num_steps: int | None = None,
    num_chains: int = 1,
    init: Any = None,
    num_warmup: int | None = None,
    delta: float | None = None,
    segment_size: int | None = None,
    progress: bool = True,
    description: str | None = None,
    insecure_seed: int | None = None,
) -> Posterior:
    """Run a sampler on private records and return its draws from the posterior.

    The price of the whole run is reserved before it starts. Ctrl-C stops after the current segment: draws so far are
    kept, and the unused budget is refunded. A second Ctrl-C stops at once.

    Args:
        kernel: a sampler; or stages, a list of ``(kernel, num_steps)`` that run in sequence. A stage of the same
            sampler continues from the state; another sampler starts from the position. So a pilot is a stage.
        model: the model to sample from: public code.
        data: the private records, with their budget.
        num_steps: steps per chain; left out with stages, which have their own.
        num_chains: the number of chains; each is charged.
        init: the starting points: parameters as returned by `model.constrain`; a list with one start per chain; or
            None, for draws from the prior.
        num_warmup: the number of warm-up steps, which summaries leave out (default: half of them).
        delta: the delta of the certificate (default: that of the data's budget).
        segment_size: steps between two progress updates; it does not change the distribution of the draws.
        progress: whether to show a progress bar.
        description: a short public description of the run, for the ledger.
        insecure_seed: fixes all randomness, for tests; the result then carries no guarantee.
    """
    seed = secrets.randbits(63) if insecure_seed is None else insecure_seed
    plan = make_plan(kernel, model, num_steps, num_chains, init, validation.integer("insecure_seed", seed, at_least=0))
    num_warmup = check_warmup(num_warmup, plan.num_steps)
    size = segment_size and validation.integer("segment_size", segment_size, at_least=1)
    delta = delta_of(delta, data)
    check_likelihood(model, data, plan.layout, plan.starts)
    event = plan.price(data)
    name = description or plan.name
    with (
        interruptible() as is_interrupted,
        watch(name, plan.num_steps, price_in_words(event, delta), progress) as watcher,
        data.reserve(event, description=name, insecure_seed=insecure_seed) as paid,
    ):
        stats: dict[str, np.ndarray] = {}
        vectors, is_accepted = plan.run(paid, size, watcher, is_interrupted, stats)
        spent = paid.spent
    return Posterior(
        draws=parameters(model, plan.layout, vectors),
        is_accepted=is_accepted,
        num_warmup=min(num_warmup, vectors.shape[1] - 1),
        certificate=data.certificate(spent, delta, paid.paths),
        settings=settings(plan, data, paid.entry),
        prior=prior_draws(model),
        sample_stats=stats,
    )


def check_warmup(num_warmup: int | None, num_steps: int) -> int:
    """Return the number of warm-up steps: as stated, or half of all steps."""
    if num_warmup is None:
        return num_steps // 2
    if validation.integer("num_warmup", num_warmup, at_least=0) >= num_steps:
        validation.refuse("num_warmup", num_warmup, f"must be < {num_steps}, the number of steps")
    return num_warmup


def delta_of(delta: float | None, data: PrivateData) -> float:
    """Return the delta of a certificate: as stated, or that of the budget, or at most 0.1 / (number of records)."""
    if delta is not None:
        return validation.probability("delta", delta)
    return data.budget.delta if data.budget is not None else min(1e-6, 0.1 / data.facts.size)


def price_in_words(event: Event, delta: float) -> str:
    """Return the price of an event in words."""
    return f"epsilon {float(accountants.epsilon(event, delta)):.3g}"
