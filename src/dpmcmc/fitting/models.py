"""Whatever a user calls a model, as a `Model`."""

from collections.abc import Callable, Mapping
from typing import Any

from dpmcmc.enclave import PrivateData
from dpmcmc.errors import InvalidArgument
from dpmcmc.model import Model, from_formula, from_numpyro, per_person


def as_model(
    model: Model | str | Callable[..., Any],
    data: PrivateData,
    family: str | None = None,
    priors: Mapping[str, str] | None = None,
) -> Model:
    """Return a formula, a NumPyro model or a `Model` as one over the records of `data`, of which it reads no value.

    Where a record is a person with several rows, the model of a row becomes that of a person.
    """
    schema = data.schema
    if not isinstance(model, str) and (family is not None or priors is not None):
        raise InvalidArgument("family= and priors= are for formulas; a model has its own")
    if isinstance(model, str):
        if schema is None:
            raise InvalidArgument("a formula needs the columns of a table; make the data with PrivateData.from_table")
        if family is None:
            raise InvalidArgument("family=None must be stated with a formula, for example family='bernoulli'")
        made: Model = from_formula(model, schema, family=family, priors=priors)
    elif isinstance(model, Model):
        made = model
    elif schema is not None and schema.person is not None:
        raise InvalidArgument(
            "a NumPyro model of a table in which a person has several rows cannot be taken apart by itself; make it "
            "with from_numpyro and the record of one row, and pass that"
        )
    else:
        made = from_numpyro(model, data)
    return made if schema is None or schema.person is None else per_person(made)
