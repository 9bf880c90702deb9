"""An earlier posterior as the prior of a fit: checked before anything is spent, combined after it."""

import os
import warnings

from dpmcmc.errors import InvalidArgument
from dpmcmc.fitting.prepare import PreparedFit
from dpmcmc.model import FormulaModel
from dpmcmc.posterior import Posterior
from dpmcmc.posterior.combine import check_draws, check_guarantees, check_models


def check_earlier(
    prepared: PreparedFit, earlier: Posterior, num_chains: int, output: str | os.PathLike[str] | None
) -> None:
    """Refuse, before anything is charged, an earlier posterior that cannot be combined with the result of the fit."""
    if output is not None:
        raise InvalidArgument(
            "prior= and output= cannot be combined: a run folder is for one run; save what is returned"
        )
    if not isinstance(prepared.model, FormulaModel):
        raise InvalidArgument("prior= is for formulas; a model has its own prior")
    if prepared.model.temperature != 1:
        raise InvalidArgument("prior= is for posteriors; a tempered one weights its records differently")
    check_models(prepared.model, earlier.fitted.model)
    data = prepared.data
    check_guarantees(data.facts.adjacency, data.unit, earlier.certificate)
    size = len(prepared.model.parameter_names)
    check_draws(num_chains * prepared.num_steps, size)
    check_draws(earlier.fitted.num_draws, size)


def with_earlier(posterior: Posterior, earlier: Posterior) -> Posterior:
    """Combine the two posteriors. If that fails, return the new one, which was charged, with a warning."""
    try:
        return posterior.combine(earlier)
    except Exception as error:  # whatever it is: draws that were charged must not be lost
        said = f"the earlier posterior could not be combined with this one, which is returned alone: {error}"
        with warnings.catch_warnings():  # nothing raises after payment, even where warnings are errors
            warnings.simplefilter("always", RuntimeWarning)
            warnings.warn(said, RuntimeWarning, stacklevel=4)
        return posterior
