"""From a model and a budget to a private posterior, without tuning."""

import os
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from dpmcmc.enclave import PrivateData
from dpmcmc.fitting.earlier import check_earlier, with_earlier
from dpmcmc.fitting.numpy_errors import as_by_default
from dpmcmc.fitting.prepare import prepare_fit
from dpmcmc.fitting.resume import run_in_folder
from dpmcmc.model import Model
from dpmcmc.posterior import Posterior


@as_by_default()
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
    allow_low_accuracy: bool = False,
    purpose: str = "",
    contact: str = "",
    output: str | os.PathLike[str] | None = None,
    progress: bool = True,
    insecure_seed: int | None = None,
) -> Posterior:
    """Fit a model under (epsilon, delta) differential privacy and return draws from its posterior. No tuning is needed.

    A private pilot of a few Newton steps, charged to the same budget, locates the posterior. In the coordinates that
    it gives, the settings of every sampler depend only on the numbers of records, parameters and steps, and on the
    noise that the rest of the budget requires. If the log-likelihood depends on a few statistics of each record, no
    pilot is needed: noisy sums of the statistics are released, and drawing from the posterior is post-processing.

    Args:
        model: a formula such as ``"readmitted ~ age + smoker"``, a NumPyro model, or a `Model`.
        data: the private records. Bounds must be stated for all columns (leaves), since clips are derived from them.
        epsilon: epsilon of this run.
        delta: delta of this run (default: that of the data's budget).
        family: for formulas: one of `dpmcmc.model.FAMILIES`, or another name for it, such as ``"logistic"``; it may
            be left out if the response is a boolean, a category, or successes in trials.
        priors: for formulas, priors by parameter, as texts such as ``"normal(0, 1)"`` or as NumPyro distributions on
            the original scale. The defaults are weakly informative; the model's `describe()` lists them.
        prior: an earlier posterior of the same formula, from the records of *other* persons, which this run updates.
            The result is `Posterior.combine` of the two, with the prior counted once.
        sampler: ``"auto"`` (recommended), ``"sketch"``, or the name of a sampler (``dpmcmc plan samplers`` lists them).
        num_chains: the number of chains; each is charged.
        num_steps: steps per chain (default: depends on the sampler).
        init: where the pilot starts (default: the centre of the prior).
        passes: for formulas, the largest number of passes over all rows. With one or two, blocks of rows serve as the
            pilot. (Default: the number with the smallest expected error; `describe` shows it.)
        allow_low_accuracy: run even if the expected error is above one posterior standard deviation.
        purpose: the purpose of the result; published with the run, in its settings and its report.
        contact: a contact for readers of the report; published with the run.
        output: the run folder to write, which must be new. A run with a folder can be interrupted at any moment and
            continued with `resume`: Ctrl-C then raises `RunInterrupted`, and nothing is charged twice.
        progress: whether to show a progress bar.
        insecure_seed: fixes all randomness, for tests; the result then carries no guarantee.

    Raises:
        BudgetUnreachable: the expected error is above one posterior standard deviation; nothing was spent, and the
            message says what would help.
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
        allow_low_accuracy=allow_low_accuracy,
        purpose=purpose,
        contact=contact,
        progress=progress,
        insecure_seed=insecure_seed,
    )
    if prior is not None:
        check_earlier(prepared, prior, num_chains, output)
    if prepared.caution:
        warnings.warn(prepared.caution, stacklevel=3)
    if output is not None:
        return run_in_folder(prepared, output, progress=progress)
    posterior = prepared.run()
    return posterior if prior is None else with_earlier(posterior, prior)
