"""Sums and integrals over the distribution of a response: places and weights for NumPyro's distributions.

The error of a mean under the model must be below about 0.1 over the root of the number of records: otherwise its sum
is a noticeable bias. Finitely many responses are enumerated. Numbers are mapped to the real line, where each half-line
from a centre is summed over with the double exponential rule (Takahasi and Mori 1974), which is as exact as single
precision for distributions that are smooth on either side. Counts are added up one by one where there are few, and
beyond that integrated with Euler and Maclaurin's correction.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import logsumexp
from scipy import linalg

from dpmcmc.model.drawn import DrawnLaw
from dpmcmc.model.formula.integration import NearMixture

_TIMES = np.linspace(-2.8, 2.8, 57)
_DISTANCES = np.exp(np.pi / 2 * np.sinh(_TIMES))
_WIDTHS = (_TIMES[1] - _TIMES[0]) * np.pi / 2 * np.cosh(_TIMES) * _DISTANCES
HALF_LINE = np.concatenate([-_DISTANCES[::-1], _DISTANCES]), np.log(np.concatenate([_WIDTHS[::-1], _WIDTHS]))
"""Places on either side of zero, and the logarithms of their weights."""

COUNTED = 64
"""Counts up to this are added up one by one."""

_GAUSS = np.polynomial.legendre.leggauss(96)
_MIDDLE, _TAIL = np.polynomial.legendre.leggauss(64), np.polynomial.legendre.leggauss(20)


def _up_to(rule: tuple[Any, Any]) -> Any:
    """Return what weights at the nodes of a Gauss rule add up to at each node: integrals of the polynomial through."""
    legendre, nodes = np.polynomial.legendre, rule[0]
    orders = np.arange(len(nodes))
    integrals = legendre.legvander(nodes, len(nodes)) @ legendre.legint(np.eye(len(nodes)), lbnd=-1)
    return integrals @ ((orders + 0.5)[:, None] * legendre.legvander(nodes, len(nodes) - 1).T)


def _below() -> Any:
    """Return the same for a lower tail, which is followed downward, a middle and an upper tail."""
    tail, middle = _up_to(_TAIL), _up_to(_MIDDLE)
    found = linalg.block_diag(1 - tail, middle, tail)
    found[len(tail) :, : len(tail)] = 1.0
    found[-len(tail) :, len(tail) : -len(tail)] = 1.0
    return found


_BELOW = _below()
PANEL, TAIL = 3.0, 8.0
"""A mixture's middle reaches so many widths beyond its outermost components, and its tails e to so many more."""

FAR = 20.0
"""How many lengths of its tail a distribution of counts is followed beyond its mean."""


class Nodes(NamedTuple):
    """Nodes of a quadrature: responses with probabilities that add up to one."""

    values: jax.Array
    """(nodes, batch)."""
    weights: jax.Array
    below: jax.Array | None
    """The probability of a response that is not larger than the node's; nan where the rule does not tell, and None if
    it never does: numbers that are the same for all records would be computed while a program is compiled."""


class Line(NamedTuple):
    """A distribution on the real line, or mapped to it: its centre, its width on either side, and the inverse map.

    The inverse map returns values and its log-Jacobian.
    """

    centre: Any
    left: Any
    right: Any
    back: Callable[[Any], tuple[Any, Any]] = lambda places: (places, 0.0)


def _exp(places: Any) -> tuple[Any, Any]:
    return jnp.exp(places), places


def _expit(places: Any) -> tuple[Any, Any]:
    return jax.nn.sigmoid(places), jax.nn.log_sigmoid(places) + jax.nn.log_sigmoid(-places)


def _location(law: Any) -> Line:
    return Line(law.loc, law.scale, law.scale)


def _gamma(law: Any) -> Line:
    shape = jnp.asarray(law.concentration)
    core = 1 / jnp.sqrt(shape + 0.5)
    return Line(jnp.log(shape / law.rate), jnp.maximum(core, 1 / shape), core, _exp)


def _inverse_gamma(law: Any) -> Line:
    mirrored = _gamma(law)
    return Line(jnp.log(law.rate / law.concentration), mirrored.right, mirrored.left, _exp)


def _weibull(law: Any) -> Line:
    return Line(jnp.log(law.scale), 1.3 / law.concentration, 0.8 / law.concentration, _exp)


def _beta(law: Any) -> Line:
    up, down = jnp.asarray(law.concentration1), jnp.asarray(law.concentration0)
    core = 1 / jnp.sqrt(up * down / (up + down) + 0.5)
    return Line(jnp.log(up / down), jnp.maximum(core, 1 / up), jnp.maximum(core, 1 / down), _expit)


def _excess(law: Any, distance: Any) -> tuple[Any, Any]:
    """Return the typical distance of a truncated distribution from its end, and the spread of its logarithm.

    Args:
        law: the distribution before truncation.
        distance: from the end to its centre, negative if the centre is cut off.
    """
    beyond = jnp.where(distance > 0, distance + law.scale, law.scale**2 / (law.scale + jnp.maximum(-distance, 0.0)))
    return beyond, jnp.clip(law.scale / beyond, 0.0, 1.0)


def _left_truncated(law: Any) -> Line:
    beyond, width = _excess(law.base_dist, law.base_dist.loc - law.low)
    return Line(jnp.log(beyond), 1.3 * width, 0.8 * width, lambda places: (law.low + jnp.exp(places), places))


def _right_truncated(law: Any) -> Line:
    beyond, width = _excess(law.base_dist, law.high - law.base_dist.loc)
    return Line(-jnp.log(beyond), 0.8 * width, 1.3 * width, lambda places: (law.high - jnp.exp(-places), -places))


def _truncated(law: Any) -> Line:
    base, whole = law.base_dist, law.high - law.low
    above, below = _excess(base, base.loc - law.low)[0], _excess(base, law.high - base.loc)[0]
    share = jnp.clip(above / (above + below), 1e-6, 1 - 1e-6)
    width = jnp.clip(jnp.minimum(base.scale, whole) / (whole * share * (1 - share)), 0.0, 1.3)

    def back(places: Any) -> tuple[Any, Any]:
        inner, jacobian = _expit(places)
        return law.low + whole * inner, jacobian + jnp.log(whole)

    return Line(jnp.log(share) - jnp.log1p(-share), width, width, back)


TRUNCATED = (dist.LeftTruncatedDistribution, dist.RightTruncatedDistribution, dist.TwoSidedTruncatedDistribution)
_CUT_OFF = (dist.Normal, dist.Cauchy, dist.Laplace, dist.Logistic)
"""Distributions that may be truncated: their distribution functions are no loops."""

_LINES: Mapping[type, Callable[[Any], Line]] = {
    dist.Normal: _location,
    dist.StudentT: _location,
    dist.Cauchy: _location,
    dist.Laplace: _location,
    dist.Logistic: _location,
    dist.Gumbel: _location,
    dist.LogNormal: lambda law: Line(law.loc, law.scale, law.scale, _exp),
    dist.Gamma: _gamma,
    dist.Chi2: _gamma,
    dist.Exponential: lambda law: Line(-jnp.log(law.rate), 1.3, 0.8, _exp),
    dist.InverseGamma: _inverse_gamma,
    dist.Weibull: _weibull,
    dist.HalfNormal: lambda law: Line(jnp.log(law.scale), 1.0, 0.5, _exp),
    dist.HalfCauchy: lambda law: Line(jnp.log(law.scale), 1.0, 1.0, _exp),
    dist.Beta: _beta,
    dist.LeftTruncatedDistribution: _left_truncated,
    dist.RightTruncatedDistribution: _right_truncated,
    dist.TwoSidedTruncatedDistribution: _truncated,
}
"""How distributions of numbers are mapped to the real line; a new one is a line here."""

_FINITE = (
    dist.BernoulliLogits,
    dist.BernoulliProbs,
    dist.CategoricalLogits,
    dist.CategoricalProbs,
    dist.OrderedLogistic,
)

_COUNTS = (
    dist.Poisson,
    dist.GammaPoisson,
    dist.NegativeBinomial2,
    dist.NegativeBinomialLogits,
    dist.NegativeBinomialProbs,
    dist.BinomialLogits,
    dist.BinomialProbs,
    dist.GeometricLogits,
    dist.GeometricProbs,
    dist.ZeroInflatedPoisson,
)


def is_known(law: Any) -> bool:
    """Say whether there are quadrature nodes, or draws, for a distribution."""
    if isinstance(law, DrawnLaw):
        return True
    if isinstance(law, dist.MixtureSameFamily):
        return is_known(law.component_distribution) and not _is_finite(law.component_distribution)
    if isinstance(law, TRUNCATED):
        return type(law.base_dist) in _CUT_OFF
    return type(law) in _LINES or isinstance(law, _COUNTS) or _is_finite(law)


class Rule(NamedTuple):
    """Responses to sum over before their probabilities are known."""

    values: jax.Array
    """(nodes, batch)."""
    sizes: jax.Array
    """Logarithms of what the density at each is multiplied by."""
    below: Callable[[jax.Array], jax.Array]
    """Returns the probabilities below the values, given their weights."""

    def nodes(self, logs: jax.Array) -> Nodes:
        """Return the nodes, given the log-densities at the values."""
        weights = _normalised(logs + self.sizes)
        return Nodes(self.values, weights, self.below(weights))


def rule_of_mixture(law: NearMixture) -> Rule:
    """Return the rule of a mixture, whose parameters it follows without a derivative."""
    law = jax.tree.map(jax.lax.stop_gradient, law)
    component = law.component_distribution
    return _on_panels(law, _LINES[type(component)](component)) if type(component) in _LINES else _counts(law)


def nodes(law: Any) -> Nodes:
    """Return the nodes of a distribution, whose parameters they follow without a derivative."""
    law = jax.tree.map(jax.lax.stop_gradient, law)
    if isinstance(law, NearMixture):
        rule = rule_of_mixture(law)
        return rule.nodes(_log_prob(law, rule.values))
    if isinstance(law, dist.MixtureSameFamily):
        each = nodes(law.component_distribution)
        values, weights = (
            jnp.moveaxis(of_parts, -1, 0).reshape(-1, *law.batch_shape)
            for of_parts in (each.values, each.weights * jnp.asarray(law.mixing_distribution.probs))
        )
        return Nodes(values, weights, None)
    if _is_finite(law):
        values = law.enumerate_support(expand=False)
        values = jnp.broadcast_to(values, (values.shape[0], *law.batch_shape))
        weights = _normalised(law.log_prob(values))
        return Nodes(values, weights, jnp.cumsum(weights, axis=0))
    if type(law) in _LINES:
        return _on_line(law, _LINES[type(law)](law))
    rule = _counts(law)
    return rule.nodes(_log_prob(law, rule.values))


def _is_finite(law: Any) -> bool:
    return isinstance(law, _FINITE)


def _on_line(law: Any, line: Line) -> Nodes:
    axes = (-1, *(1 for _ in law.batch_shape))
    distances, widths = (jnp.asarray(each, jnp.float32).reshape(axes) for each in HALF_LINE)
    scale = jnp.where(distances < 0, line.left, line.right)
    values, jacobian = line.back(line.centre + scale * distances)
    weights = _normalised(_log_prob(law, values) + jacobian + widths + jnp.log(scale))
    # the integral up to a node of the trapezoidal rule, with Euler and Maclaurin's first correction
    next_ones, last_ones = (jnp.roll(weights, shift, axis=0) for shift in (-1, 1))
    below = jnp.cumsum(weights, axis=0) - weights / 2 - (next_ones - last_ones) / 24
    return Nodes(values, weights, below)


def _on_panels(law: Any, line: Line) -> Rule:
    """Return the values for a mixture by Gauss rules: one where its components are, one for the tail on either side."""
    left, right = (jnp.max(jnp.broadcast_to(width, (*law.batch_shape, law.mixture_size)), -1) for width in line[1:3])
    low, high = jnp.min(line.centre, -1) - PANEL * left, jnp.max(line.centre, -1) + PANEL * right
    axes = (-1, *(1 for _ in law.batch_shape))
    (middle, of_middle), (tail, of_tail) = (
        tuple(jnp.asarray(each, jnp.float32).reshape(axes) for each in rule) for rule in (_MIDDLE, _TAIL)
    )
    far = jnp.exp(TAIL * (tail + 1) / 2)
    sizes = [far * TAIL / 2 * of_tail * left, of_middle * (high - low) / 2, far * TAIL / 2 * of_tail * right]
    places = [low - left * (far - 1), low + (high - low) * (middle + 1) / 2, high + right * (far - 1)]
    values, jacobian = line.back(jnp.concatenate(places))
    below = partial(jnp.tensordot, jnp.asarray(_BELOW, jnp.float32), axes=1)
    return Rule(values, jacobian + jnp.log(jnp.concatenate(sizes)), below)


def _counts(law: Any) -> Rule:
    mean, variance = jnp.asarray(law.mean), jnp.asarray(law.variance)
    axes = (-1, *(1 for _ in law.batch_shape))
    tail = jnp.sqrt(variance) + variance / jnp.maximum(mean, 1e-6)
    start = jnp.maximum(COUNTED - 0.5, mean - FAR * jnp.sqrt(variance))
    end = jnp.maximum(mean + FAR * tail, start + 1.0)
    times, widths = (jnp.asarray(each, jnp.float32).reshape(axes) for each in _GAUSS)
    far = start * jnp.exp((times + 1) / 2 * jnp.log(end / start))
    steps = jnp.log(widths / 2 * far * jnp.log(end / start))
    # the sum from 64 on is the integral from 63.5 on and a 24th of the slope there, which is that from 63 to 64
    few = np.arange(COUNTED + 1.0)
    ones = np.where(few == COUNTED, 1 / 24, np.where(few == COUNTED - 1, 1 - 1 / 24, 1.0))
    shape = (COUNTED + 1, *law.batch_shape)
    values = jnp.concatenate([jnp.broadcast_to(few.reshape(axes), shape), far])
    sizes = jnp.concatenate([jnp.broadcast_to(jnp.log(ones).reshape(axes), shape), steps])
    is_counted = (np.arange(len(values)) < COUNTED - 1).reshape(axes)
    return Rule(values, sizes, lambda weights: jnp.where(is_counted, jnp.cumsum(weights, axis=0), jnp.nan))


def _log_prob(law: Any, values: Any) -> jax.Array:
    """Return log-densities, minus infinity off the support."""
    inside = law.support(values) if not law.support.is_discrete else _is_count(law, values)
    safe = jnp.where(inside, values, jnp.clip(jnp.round(jnp.asarray(law.mean)), 0.0)) if not _is_plain(law) else values
    logs = law.log_prob(safe)
    return jnp.where(inside & jnp.isfinite(logs), logs, -jnp.inf)


def _is_plain(law: Any) -> bool:
    return law.support is dist.constraints.real or isinstance(law, TRUNCATED)


def _is_count(law: Any, values: Any) -> jax.Array:
    """Say which counts can be, those between whole ones included."""
    most = getattr(law.support, "upper_bound", jnp.inf)
    return (values >= 0) & (values <= most)


def _normalised(logs: jax.Array) -> jax.Array:
    return jnp.exp(logs - logsumexp(logs, axis=0))
