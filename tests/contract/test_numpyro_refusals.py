"""A NumPyro model that cannot be sampled privately is refused, with the site and the reason."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.contrib.control_flow import scan

from dpmcmc.enclave import GradientSum, PrivateData
from dpmcmc.errors import InvalidArgument, ModelRefused, OperationRefused, RecordsRefused
from dpmcmc.model import from_numpyro

FLOAT, INTEGER = jnp.float32, jnp.int32
RECORD = {"x": jax.ShapeDtypeStruct((2,), FLOAT), "y": jax.ShapeDtypeStruct((), FLOAT)}
ROWS = 50


def slope():
    return numpyro.sample("beta", dist.Normal(0, 1).expand([2]).to_event(1))


def normal(mean, y, size):
    with numpyro.plate("data", size):
        numpyro.sample("y", dist.Normal(mean, 1), obs=y)


def latent_inside(x, y):
    beta = slope()
    with numpyro.plate("data", x.shape[0]):
        effect = numpyro.sample("effect", dist.Normal(0, 1).expand([3]).to_event(1))
        numpyro.sample("y", dist.Normal(x @ beta + effect.sum(-1), 1), obs=y)


def latent_of_each_record(x, y):
    effect = numpyro.sample("effect", dist.Normal(0, 1).expand([x.shape[0]]))
    normal(x @ slope() + effect, y, x.shape[0])


def observation_forgotten(x, y):
    normal(x @ slope() + 0 * y, None, x.shape[0])


def observed_outside(x, y):
    beta = slope()
    numpyro.sample("first", dist.Normal(x[0] @ beta, 1), obs=y[0])
    normal(x @ beta, y, x.shape[0])


def constant_observed_outside(x, y):
    beta = slope()
    numpyro.sample("pilot", dist.Normal(beta, 1).to_event(1), obs=jnp.ones(2))
    normal(x @ beta, y, x.shape[0])


def factor_outside(x, y):
    beta = slope()
    numpyro.factor("rest", jnp.sum(y * (x @ beta)))
    normal(x @ beta, y, x.shape[0])


def discrete_latent(x, y):
    side = numpyro.sample("side", dist.Bernoulli(0.5))
    normal(x @ slope() + side, y, x.shape[0])


def autoregressive(x, y):
    before = jnp.concatenate([jnp.zeros(1), y[:-1]])
    normal(x @ slope() + before, y, x.shape[0])


def standardised(x, y):
    normal((x - x.mean(0)) @ slope(), y, x.shape[0])


def total_in_each(x, y):
    beta = slope()
    with numpyro.plate("data", x.shape[0]):
        numpyro.factor("total", jnp.sum(dist.Normal(x @ beta, 1).log_prob(y)))


def event_over_records(x, y):
    beta = slope()
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Normal(x @ beta, 1).to_event(1), obs=y)


def threshold_of_a_sum(x, y):
    """No value that is likely to be tried shows this one; the jaxpr does."""
    normal(x @ slope() + jnp.where(jnp.sum(y) > 1e5, 1.0, 0.0), y, x.shape[0])


def sorted_rows(x, y):
    normal(jnp.sort(x, axis=0) @ slope(), y, x.shape[0])


def neighbour_by_index(x, y):
    """Indices are not followed by rules; values show it."""
    normal(x[(jnp.arange(x.shape[0]) + 1) % x.shape[0]] @ slope(), y, x.shape[0])


def mixed_in_a_loop(x, y):
    total = jax.lax.fori_loop(0, 3, lambda _, total: total + jnp.sum(y), 0.0)
    normal(x @ slope() + total, y, x.shape[0])


def weight_by_number(x, y):
    beta = slope()
    with numpyro.plate("data", x.shape[0]), numpyro.handlers.scale(scale=1 / x.shape[0]):
        numpyro.sample("y", dist.Normal(x @ beta, 1), obs=y)


def empirical_prior(x, y):
    beta = numpyro.sample("beta", dist.Normal(x.mean(0), 1).to_event(1))
    normal(x @ beta, y, x.shape[0])


def empirical_support(x, y):
    beta = slope()
    scale = numpyro.sample("scale", dist.ImproperUniform(dist.constraints.greater_than(jnp.max(y)), (), ()))
    normal(x @ beta * scale, y, x.shape[0])


def prior_through_a_deterministic(x, y):
    spread = numpyro.deterministic("spread", jnp.std(y))
    beta = numpyro.sample("beta", dist.Normal(0, spread).expand([2]))
    normal(x @ beta, y, x.shape[0])


def prior_by_number(x, y):
    beta = numpyro.sample("beta", dist.Normal(0, 10 / x.shape[0]).expand([2]))
    normal(x @ beta, y, x.shape[0])


def param_site(x, y):
    scale = numpyro.param("scale", 1.0, constraint=dist.constraints.positive)
    normal(x @ slope() * scale, y, x.shape[0])


def subsampled(x, y):
    beta = slope()
    with numpyro.plate("data", x.shape[0], subsample_size=2) as batch:
        numpyro.sample("y", dist.Normal(x[batch] @ beta, 1), obs=y[batch])


def fixed_plate(x, y):
    normal(x @ slope(), y, ROWS)


def two_data_plates(x, y):
    beta = slope()
    normal(x @ beta, y, x.shape[0])
    with numpyro.plate("again", x.shape[0]):
        numpyro.sample("z", dist.Normal(y, 1), obs=x[:, 0])


def shorter_plate(x, y):
    normal(x[1:] @ slope(), y[1:], x.shape[0] - 1)


def no_plate(x, y):
    numpyro.sample("y", dist.Normal(x @ slope(), 1), obs=y)


def only_public_plates(x, y):
    with numpyro.plate("coordinates", 2):
        beta = numpyro.sample("beta", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(x @ beta, 1), obs=y)


def nothing_observed(x, y):  # noqa: ARG001
    beta = slope()
    with numpyro.plate("data", x.shape[0]):
        numpyro.deterministic("mean", x @ beta)


def nothing_latent(x, y):
    normal(x[:, 0], y, x.shape[0])


def reads_values(x, y):
    num_classes = int(y.max()) + 1
    normal(x @ slope() + num_classes, y, x.shape[0])


def prints(x, y):
    jax.debug.print("{}", y)
    normal(x @ slope(), y, x.shape[0])


def numpyro_scan(x, y):
    beta = slope()
    scan(lambda carry, row: (carry, numpyro.sample("y", dist.Normal(row[0] @ beta, 1), obs=row[1])), 0.0, (x, y))


def sites_by_number(x, y):
    beta = slope()
    for number in range(x.shape[0]):
        numpyro.sample(f"extra {number}", dist.Normal(0, 1))
    normal(x @ beta, y, x.shape[0])


def truncated_student(x, y):
    beta = slope()
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.TruncatedDistribution(dist.StudentT(4.0, x @ beta, 1.0), low=0.0), obs=y)


def censored_gamma(x, y):
    beta = slope()
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.RightCensoredDistribution(dist.Gamma(2.0, jnp.exp(x @ beta)), 0.0 * y), obs=y)


REFUSED = {
    truncated_student: r"'y' is a StudentT that is truncated or censored.*Normal, Laplace",
    censored_gamma: r"'y' is a Gamma that is truncated or censored",
    latent_inside: r"'effect' is a latent variable inside the data plate 'data', of 3 numbers",
    latent_of_each_record: r"'effect' is a latent variable whose shape follows",
    observation_forgotten: r"'y' is a latent variable inside .* data argument is missing",
    observed_outside: r"'first' is observed outside the data plate",
    constant_observed_outside: r"'pilot' is observed outside the data plate",
    factor_outside: r"'rest' is observed outside the data plate",
    discrete_latent: r"'side' is a discrete latent variable",
    autoregressive: r"'y' mixes records",
    standardised: r"'y' mixes records",
    total_in_each: r"'total' mixes records",
    event_over_records: r"'y' mixes records",
    threshold_of_a_sum: r"'y' mixes records",
    sorted_rows: r"'y' mixes records",
    neighbour_by_index: r"'y' mixes records",
    mixed_in_a_loop: r"'y' mixes records",
    weight_by_number: r"'y' mixes records.* how many there are",
    empirical_prior: r"'beta' has a prior that depends on the records",
    empirical_support: r"'scale' has a prior that depends on the records",
    prior_through_a_deterministic: r"'beta' has a prior that depends on the records",
    prior_by_number: r"'beta' has a prior that depends on .* how many there are",
    param_site: r"'scale' is a numpyro.param",
    subsampled: r"'data' has subsample_size=2",
    fixed_plate: r"'data' of size 50 does not follow the data.*y\.shape\[0\]",
    two_data_plates: r"several data plates, 'again', 'data'",
    shorter_plate: r"'data' has the size 2 on 3 records",
    no_plate: r"no data plate.*none at all",
    only_public_plates: r"no data plate.*'coordinates' of fixed size 2",
    nothing_observed: r"nothing is observed inside the data plate 'data'",
    nothing_latent: r"no latent variable",
    reads_values: r"reads the values of records in Python",
    prints: r"side effects",
    numpyro_scan: r"control_flow",
    sites_by_number: r"'extra 3', 'extra 4' are there for some numbers of records",
}


@pytest.mark.parametrize("model", REFUSED, ids=lambda model: model.__name__)
def test_a_model_is_refused_with_its_site_and_the_reason(model):
    with pytest.raises(ModelRefused, match=REFUSED[model]):
        from_numpyro(model, RECORD)


def plain(x, y):
    normal(x @ slope(), y, x.shape[0])


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"data": {}}, "holds no array"),
        ({"data": "table.csv"}, "data is a str"),
        ({"data_arguments": ()}, "at least one"),
        ({"data_arguments": ("x", "z")}, "must be keys of the record.* x, y"),
        ({"data_arguments": ("x",)}, "missing a required argument: 'y'"),
        ({"public_arguments": {"y": 1}}, "public_arguments has y, which are data"),
        ({"public_arguments": {"num_groups": 1}}, "num_groups"),
        ({"data": RECORD["x"]}, "one name"),
        ({"temperature": 0.0}, "temperature=0.0 must be > 0"),
        ({"model": 3}, "model is a int"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_bad_arguments_are_named(arguments, reason):
    with pytest.raises(InvalidArgument, match=reason):
        from_numpyro(**{"model": plain, "data": RECORD, **arguments})


def test_positions_and_records_of_other_shapes_are_refused():
    model = from_numpyro(plain, RECORD)
    record = {"x": jnp.zeros(2), "y": jnp.zeros(())}
    with pytest.raises(InvalidArgument, match=r"position has leaves of the shapes \[\(3,\)\]; expected \[\(2,\)\]"):
        model.log_likelihood({"beta": jnp.zeros(3)}, record)
    with pytest.raises(InvalidArgument, match=r"record has the structure"):
        model.log_likelihood({"beta": jnp.zeros(2)}, {"x": jnp.zeros(2)})
    with pytest.raises(InvalidArgument, match=r"parameters has no beta"):
        model.unconstrain({"gamma": jnp.zeros(2)})


def price(model, records):
    data = PrivateData.without_guarantee(records)
    gradient = GradientSum(clip=1.0, noise_multiplier=10.0)
    position = {"beta": jnp.zeros(2)}
    return data.price(lambda oracle, at: oracle.force(gradient, at).value, position, model=from_numpyro(model, data))


def table():
    random = np.random.default_rng(0)
    return {
        "x": random.normal(size=(ROWS, 2)).astype(np.float32),
        "y": random.normal(size=ROWS).astype(np.float32),
    }


def test_a_table_in_a_closure_is_refused_by_the_auditor():
    records = table()
    copy = jnp.asarray(records["y"])

    def model(x, y):
        normal(x @ slope() + jnp.mean(copy), y, x.shape[0])

    with pytest.raises(RecordsRefused, match=r"an array of shape \(50,\) is closed over"):
        price(model, records)


def test_a_callback_in_a_likelihood_is_refused_by_the_auditor():
    def model(x, y):
        shift = jax.pure_callback(
            lambda value: value, jax.ShapeDtypeStruct(y.shape, y.dtype), y, vmap_method="expand_dims"
        )
        normal(x @ slope() + shift, y, x.shape[0])

    with pytest.raises((OperationRefused, ModelRefused)):
        price(model, table())
