"""From a model and a budget to a private posterior, without tuning."""

import os
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from dpmcmc.enclave import PrivateData
from dpmcmc.fitting.earlier import check_earlier, with_earlier
from dpmcmc.fitting.prepare import prepare_fit
from dpmcmc.fitting.resume import run_in_folder
from dpmcmc.model import Model
from dpmcmc.posterior import Posterior


def fit(
    model: Model | str | Callable[..., Any],
    data: PrivateData,
    *,
    epsilon: float,
    delta: float | None = None,
    family: str | None = None,
    priors: Mapping[str, Any] | None = None,
    prior: Posterior | None = None,
    sampler: str = "auto",
    num_chains: int = 2,
    num_steps: int | None = None,
    init: Any = None,
    passes: int | None = None,
    even_if_useless: bool = False,
    purpose: str = "",
    contact: str = "",
    output: str | os.PathLike[str] | None = None,
    progress: bool = True,
    insecure_seed: int | None = None,
) -> Posterior:
    """Spend (epsilon, delta) on a posterior: a private pilot, then a sampler whose settings follow from public facts.

    The pilot, a few Newton steps, finds where the posterior is and how wide; it is paid for. In the coordinates that it
    gives, every sampler of the literature has settings that depend on nothing but the number of records, of parameters
    and of steps, and on the noise that the rest of the budget buys. A model whose log-likelihood follows from a few
    numbers of each record needs no pilot: their sums are released, and the posterior is drawn free of charge.

    Args:
        model: a formula such as ``"readmitted ~ age + smoker"``, a NumPyro model, or a `Model`.
        data: the records; bounds must be stated for all their leaves, since clips are set from them.
        epsilon: the budget of this run.
        delta: that of the data's budget unless stated.
        family: of a formula: one of `dpmcmc.model.FAMILIES`, or what else it is called, such as ``"logistic"``; it may
            be left out where the response is a yes or no, a category, or successes in trials.
        priors: of a formula, by parameter: texts, or NumPyro's distributions, meant on the original scale. The
            defaults are weakly informative, and in the model's `describe()`.
        prior: an earlier posterior of the same formula, from the records of *other* persons: this run goes on from it.
            The result is `Posterior.combine` of the two, and the priors count once.
        sampler: ``"auto"``, ``"sketch"``, or one of `RECIPES`.
        num_chains: chains, all of which are paid for.
        num_steps: steps of each chain; a number that suits the sampler unless stated.
        init: where the pilot starts; the centre of the prior unless stated.
        passes: of a formula: how many times all rows may be read at most. One or two: blocks of rows lead the way.
            Unless stated, what is expected to be the most accurate. `describe` says how often rows are read.
        even_if_useless: run even if the result is expected to be off by more than a posterior standard deviation.
        purpose: what the result is for; it is published with the run, in its settings and on its report.
        contact: whom readers of the report may ask; published like it.
        output: the run folder to write, which must be new. A run that is written can be stopped at any moment, and
            `resume` goes on with it: Ctrl-C then raises `RunInterrupted`, and what was paid for stays paid.
        progress: whether to show how it gets on.
        insecure_seed: fixes all randomness, for tests; the result then carries no guarantee.

    Raises:
        BudgetUnreachable: the result would be useless, before anything is spent; the message says what would work.
    """
    prepared = prepare_fit(
        model,
        data,
        epsilon=epsilon,
        delta=delta,
        family=family,
        priors=priors,
        sampler=sampler,
        num_chains=num_chains,
        num_steps=num_steps,
        init=init,
        passes=passes,
        even_if_useless=even_if_useless,
        purpose=purpose,
        contact=contact,
        insecure_seed=insecure_seed,
    )
    if prior is not None:
        check_earlier(prepared, prior, num_chains, output)
    if prepared.caution:
        warnings.warn(prepared.caution, stacklevel=2)
    if output is not None:
        return run_in_folder(prepared, output, progress=progress)
    posterior = prepared.run(progress=progress)
    return posterior if prior is None else with_earlier(posterior, prior)
