"""Typical norms of one record's gradient and Hessian, from synthetic records within the stated bounds: public."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.enclave import PrivateData
from dpmcmc.enclave.bounds import leaf_names
from dpmcmc.errors import InvalidArgument
from dpmcmc.model import Model
from dpmcmc.model.synthetic import uniform_records
from dpmcmc.run.program import Layout, log_likelihood

NUM_RECORDS = 512
SHARE = 0.9
"""Share of the synthetic records that the clips do not change."""


class Scales(NamedTuple):
    """Norms that most synthetic records do not exceed: of the gradient, and of the Hessian (Frobenius)."""

    gradient: float
    curvature: float


def synthetic_records(data: PrivateData, key: jax.Array, num_records: int = NUM_RECORDS, *, whole: bool = False) -> Any:
    """Return records drawn uniformly from the stated bounds: whole numbers where the schema says so, or everywhere."""
    names = leaf_names(data.facts.record)
    unbounded = [name for name in names if name not in data.facts.bounds]
    if unbounded:
        raise InvalidArgument(
            f"bounds of {', '.join(unbounded)} are not stated, and fit sets its clips from them; "
            "state bounds= for every leaf of the records"
        )
    columns = {} if data.schema is None else data.schema.columns
    numbers = {name for name in names if name not in columns or columns[name].kind == "number"}
    is_whole = [whole or name not in numbers for name in names]
    return uniform_records(key, data.facts.record, [data.facts.bounds[name] for name in names], is_whole, num_records)


def typical_scales(model: Model, data: PrivateData, layout: Layout, start: jax.Array, key: jax.Array) -> Scales:
    """Return the typical norms at a start point."""
    added = log_likelihood(model, layout)

    def norms(record: Any) -> tuple[jax.Array, jax.Array]:
        gradient, hessian = jax.grad(added)(start, record), jax.hessian(added)(start, record)
        return jnp.linalg.norm(gradient), jnp.sqrt(jnp.sum(hessian**2))

    for whole in (False, True):  # a number may be a count or a boolean, for which fractions are impossible
        found = [np.asarray(norm) for norm in jax.jit(jax.vmap(norms))(synthetic_records(data, key, whole=whole))]
        usable = [norm[np.isfinite(norm) & (norm > 0)] for norm in found]
        if all(len(norm) for norm in usable):
            return Scales(*(float(np.quantile(norm, SHARE)) for norm in usable))
    raise InvalidArgument(
        "the log-likelihood has no finite, non-zero gradient and Hessian at the start, for records anywhere in the "
        "stated bounds: check the model, the bounds and init=; nothing was charged"
    )
