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

    The pilot, a few Newton steps charged to the same budget, locates the posterior. In the coordinates that it
    gives, the settings of every sampler of the literature depend only on the numbers of records, parameters
    and steps, and on the noise that the rest of the budget requires. A model whose log-likelihood follows from a few
    numbers of each record needs no pilot: their sums are released, and drawing from the posterior is post-processing.

    Args:
        model: a formula such as ``"readmitted ~ age + smoker"``, a NumPyro model, or a `Model`.
        data: the records; bounds must be stated for all their leaves, since clips are derived from them.
        epsilon: the budget of this run.
        delta: delta of this run (default: that of the data's budget).
        family: for formulas: one of `dpmcmc.model.FAMILIES`, or another name for it, such as ``"logistic"``; it may
            be left out if the response is a boolean, a category, or successes in trials.
        priors: for formulas, by parameter: texts, or NumPyro distributions on the original scale. The
            defaults are weakly informative; the model's `describe()` lists them.
        prior: an earlier posterior of the same formula, from the records of *other* persons: this run updates it.
            The result is `Posterior.combine` of the two, with the priors counted once.
        sampler: ``"auto"``, ``"sketch"``, or one of `RECIPES`.
        num_chains: the number of chains; each is charged.
        num_steps: steps per chain (default: depends on the sampler).
        init: where the pilot starts (default: the centre of the prior).
        passes: for formulas: the most passes over all rows. With one or two, blocks of rows serve as the pilot.
            By default, what is expected to be most accurate. `describe` says how often rows are read.
        even_if_useless: run even if the expected error is above one posterior standard deviation.
        purpose: what the result is for; published with the run, in its settings and its report.
        contact: whom readers of the report may ask; published too.
        output: the run folder to write, which must be new. A run with a folder can be interrupted at any moment and
            continued with `resume`: Ctrl-C then raises `RunInterrupted`, and nothing is charged twice.
        progress: whether to show a progress bar.
        insecure_seed: fixes all randomness, for tests; the result then carries no guarantee.

    Raises:
        BudgetUnreachable: the result would be useless; nothing was spent, and the message says what would work.
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
        progress=progress,
        insecure_seed=insecure_seed,
    )
    if prior is not None:
        check_earlier(prepared, prior, num_chains, output)
    if prepared.caution:
        warnings.warn(prepared.caution, stacklevel=2)
    if output is not None:
        return run_in_folder(prepared, output, progress=progress)
    posterior = prepared.run()
    return posterior if prior is None else with_earlier(posterior, prior)
