"""The correction distribution V_cor of the subsampled Barker test: N(0, C) + V_cor is nearly standard logistic.

The Barker test accepts when the log acceptance ratio plus a standard logistic draw is positive. A ratio estimated from
a minibatch carries noise already. Topped up to N(0, C) and followed by V_cor, that noise does the work of the logistic
draw (Seita et al. 2017; Heikkilä et al. 2019 for differential privacy). Below, a(l) is the probability of accepting at
the log ratio l, F the distribution function of N(0, C) + V_cor and S(x) = 1/(1 + e^-x) that of the logistic
distribution; V_cor is symmetric, so that a(l) = P(l + N(0, C) + V_cor > 0) = F(l).

**No exact V_cor exists, for any C > 0.** The characteristic function of the logistic distribution is pi t / sinh(pi t).
An exact V_cor, independent of the normal part, would have e^{C t^2/2} pi t / sinh(pi t), which grows without bound,
while every characteristic function is at most 1 in modulus. It passes 1 at t = 11.03, 4.88, 2.83, 1.79, 1.12, 0.57 for
C = 0.5, 1, 1.5, 2, 2.5, 3: the smaller C, the later, and at C = 0.5 the price is below double precision.

**What can be minimised.** F is linear in the distribution of V_cor, so the best V_cor for a sup norm is a linear
program over the masses of atoms ±u_j, with rows P(±u_j + N(0, C) <= x) = (Φ((x - u_j)/√C) + Φ((x + u_j)/√C))/2:

* `balance`: max over |l| <= limit of |F(l) - S(l)| / (S(l)(1 - S(l))). A chain feels the defect of detailed balance
  |ln(a(l)/a(-l)) - l|, and as d ln(p/(1 - p)) = dp/(p(1 - p)) this is that defect to first order.
* `cdf`: max over all x of |F(x) - S(x)|. It buys a smaller Kolmogorov distance with poor tails: at C = 2 the
  defect on |l| <= 10 is 300 times that of `balance`.

The optimum has few atoms, and a discrete V_cor is as good as any: F is smooth. Where V_cor itself must have a density,
`Correction.spread_out` moves a part of the normal noise into it.

References:
    D. Seita, X. Pan, H. Chen, J. Canny: An efficient minibatch acceptance test for Metropolis-Hastings. UAI 2017.
    M. Heikkilä, J. Jälkö, O. Dikmen, A. Honkela: Differentially private Markov chain Monte Carlo. NeurIPS 2019.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog, minimize, nnls
from scipy.special import expit, log_ndtr, logsumexp, ndtr, softmax

from dpmcmc import validation

Array = NDArray[np.float64]

LOGISTIC_VARIANCE = math.pi**2 / 3
"""The variance of the standard logistic distribution, and with it a bound on C."""

_NEAREST = 5.0  # what is optimal on a shorter interval is useless beyond it
_FARTHEST = 36.0  # S(-36) = 2e-16: nothing farther out is seen in double precision
_EXACT_VARIANCE = 0.5  # at and below it the fit is limited by double precision, not by the impossibility
_LEAST_SQUARES_BELOW = 0.8  # optima under 1e-8 are too close to the tolerance of the linear program
_TOLERANCE = 1e-10  # of the linear program: the smallest that HiGHS takes
_DECAY = {"balance": 1.0, "cdf": 0.5}  # unknowns are masses times e^(decay u): all columns come out of one size


@dataclass(frozen=True)
class Correction:
    """A symmetric finite mixture V_cor for normal noise of the given variance C.

    Component j has the mean `atoms[j]`, the standard deviation `spreads[j]` (0: a point mass) and the probability
    `weights[j]`. The components stand in order and mirror each other: atoms[-1 - j] = -atoms[j], exactly, with the same
    weight and spread.
    """

    variance: float
    atoms: tuple[float, ...]
    weights: tuple[float, ...]
    spreads: tuple[float, ...]

    def __post_init__(self) -> None:
        validation.positive("variance", self.variance)
        atoms, weights, spreads = (np.asarray(part, np.float64) for part in (self.atoms, self.weights, self.spreads))
        if not 0 < atoms.size == weights.size == spreads.size:
            sizes = (atoms.size, weights.size, spreads.size)
            validation.refuse("sizes of atoms, weights and spreads", sizes, "must be equal and above 0")
        if not np.all(np.isfinite(atoms)) or np.any(np.diff(atoms) < 0) or np.any(atoms != -atoms[::-1]):
            validation.refuse("atoms", self.atoms, "must be finite, in order and mirror images about 0")
        if not np.all((weights > 0) & (weights == weights[::-1])) or abs(math.fsum(weights) - 1) > 1e-12:
            validation.refuse("weights", self.weights, "must be > 0, mirror images and sum to 1")
        if not np.all((spreads >= 0) & (spreads < math.inf) & (spreads == spreads[::-1])):
            validation.refuse("spreads", self.spreads, "must be >= 0, finite and mirror images")

    def cdf(self, x: ArrayLike) -> Array:
        """Return F(x) = P(N(0, C) + V_cor <= x), which is also the acceptance probability a(x)."""
        points = np.asarray(x, np.float64)
        lower = ndtr(self._standardised(-np.abs(points))) @ np.asarray(self.weights)
        return np.where(points > 0, 1 - lower, lower)

    @cached_property
    def sup_cdf_error(self) -> float:
        """The largest |F(x) - S(x)| over all x, found on a grid and refined at its peaks."""
        return _maximum(lambda x: np.abs(self.cdf(-x) - expit(-x)), 40.0)

    def detailed_balance_defect(self, limit: float) -> float:
        """Return the largest |ln(a(l)/a(-l)) - l| over |l| <= limit, found on a grid and refined at its peaks."""
        return _maximum(self._defect, validation.positive("limit", limit))

    def component(self, uniform: ArrayLike) -> NDArray[np.intp]:
        """Return the component that each uniform number in [0, 1] selects, by an inverse table that runs outwards.

        Component(1 - u) mirrors component(u) for every u but 1/2, wherever 1 - u is computed exactly.
        """
        numbers = np.asarray(uniform, np.float64)
        if not np.all((numbers >= 0) & (numbers <= 1)):
            validation.refuse("uniform", uniform, "must be between 0 and 1")
        middle = len(self.weights) // 2
        outward = np.asarray(self.weights[middle:])
        if len(self.weights) % 2:
            outward[0] /= 2
        rank = np.searchsorted(np.cumsum(outward), np.abs(numbers - 0.5))
        right = middle + np.minimum(rank, outward.size - 1)
        return np.where(numbers >= 0.5, right, len(self.weights) - 1 - right)

    def quantile(self, uniform: ArrayLike) -> Array:
        """Return the quantiles of a discrete V_cor: with uniform numbers on (0, 1), draws of V_cor."""
        if any(self.spreads):
            validation.refuse("spreads", max(self.spreads), "must be 0 for a quantile table; use draw")
        return np.asarray(self.atoms)[self.component(uniform)]

    def draw(self, uniform: ArrayLike, normal: ArrayLike) -> Array:
        """Return draws of V_cor from uniform numbers on (0, 1) and as many standard normal ones."""
        component = self.component(uniform)
        return np.asarray(self.atoms)[component] + np.asarray(self.spreads)[component] * np.asarray(normal, np.float64)

    def spread_out(self, variance: float) -> "Correction":
        """Return the correction for a smaller variance C' that leaves F as it is: V_cor + N(0, C - C')."""
        smaller = validation.positive("variance", variance)
        if smaller > self.variance:
            validation.refuse("variance", variance, f"must be <= {self.variance}")
        spreads = tuple(math.sqrt(spread**2 + self.variance - smaller) for spread in self.spreads)
        return Correction(smaller, self.atoms, self.weights, spreads)

    def _standardised(self, points: Array) -> Array:
        scales = np.sqrt(self.variance + np.square(self.spreads))
        return (points[..., None] - np.asarray(self.atoms)) / scales

    def _defect(self, log_ratio: Array) -> Array:
        lower: Array = logsumexp(log_ndtr(self._standardised(-log_ratio)), axis=-1, b=np.asarray(self.weights))
        return np.abs(np.log1p(-np.exp(lower)) - lower - log_ratio)


def linear_program(variance: float, *, criterion: str = "balance", limit: float = 16.0) -> Correction:
    """Return the best V_cor by a linear program. It is computed once for each set of arguments, in about a second.

    The program is solved on a grid, then four times more with the peaks of its error as further rows and the neighbours
    of its atoms as further columns: the `cdf` error is within 0.1 % of the smallest that any distribution can have
    where that is known, for C >= 1.5. Optima below 1e-8, those for C < 0.8, are too close to the tolerance of the
    solver. There non-negative least squares on the same rows, out to |x| = 36, takes its place: its sup norm is about
    1.5 times the optimum, down to 4e-14 (`balance`) and 6e-15 (`cdf`) at C = 0.5. A smaller C has no better fit in
    double precision and takes this one, spread out: V_cor is then a mixture of Gaussians.

    Args:
        variance: C, above 0 and below pi^2/3.
        criterion: `balance` or `cdf`, as the module says.
        limit: how far detailed balance is to hold, from 5, where 0.7 % are accepted, to 36; at 16 it is 1e-7. No V_cor
            is best for all limits: at C = 1 the defect on |l| <= 5 is 3.7e-7 if all beyond is given up, and 6.7e-7 if
            the limit is 16. `cdf` has no use for it.
    """
    known = validation.choice("criterion", criterion, _DECAY)
    reach = validation.positive("limit", limit)
    if not _NEAREST <= reach <= _FARTHEST:
        validation.refuse("limit", limit, f"must be between {_NEAREST} and {_FARTHEST}")
    return _linear_program(_variance(variance), known, reach)


def gaussian_mixture(variance: float, components: int = 100) -> Correction:
    """Return the fit of Heikkilä et al. (2019), appendix E: a mixture of Gaussians, least squares of the densities.

    For comparison. Pairs of components at ±m_k, with free weights, means and spreads, minimise the sum of squares of
    the difference of the densities on [-10, 10]; pairs that end with no weight are left out. Theirs was found by
    gradient descent on log densities, this one by L-BFGS on densities: at C = 2 its sup error is 7e-4, where the
    published mixture has 2.4e-3. Least squares do not see the tails: the defect on |l| <= 10 is 0.7.
    """
    count = validation.integer("components", components, at_least=2)
    if count % 2:
        validation.refuse("components", components, "must be even: components come in pairs")
    return _gaussian_mixture(_variance(variance), count // 2)


def ridge(variance: float) -> Correction:
    """Return the fit of Seita et al. (2017): ridge regression on a grid, negative weights clipped.

    For comparison. With M_ij = Φ((x_i - y_j)/√C), atoms y on [-20, 20] and points x on [-40, 40], the weights are
    (M'M + penalty)^-1 M'S(x). Their tables have a grid of 1/200 and a penalty of 10; the grid here is 10 times as
    coarse and the penalty 100 times smaller, the same problem in the limit of fine grids. The weights that are clipped
    add up to -0.0009 at C = 1 and to -0.2 at C = 2.
    """
    return _ridge(_variance(variance))


def _variance(value: object) -> float:
    variance = validation.positive("variance", value)
    if variance >= LOGISTIC_VARIANCE:
        validation.refuse("variance", value, "must be < pi^2/3, the variance of the logistic distribution")
    return variance


@lru_cache(maxsize=256)
def _linear_program(variance: float, criterion: str, limit: float) -> Correction:
    if variance < _EXACT_VARIANCE:
        return _linear_program(_EXACT_VARIANCE, criterion, limit).spread_out(variance)
    if variance < _LEAST_SQUARES_BELOW:
        return _mirrored(variance, *_least_squares(variance, criterion))
    return _mirrored(variance, *_exchange(variance, criterion, limit if criterion == "balance" else 24.0))


def _least_squares(variance: float, criterion: str) -> tuple[Array, Array]:
    atoms = np.linspace(0, _FARTHEST + 4, 300)
    rows, target, unit = _system(variance, criterion, _grid(_FARTHEST, 600), atoms)
    unknowns, _ = nnls(np.vstack([rows, 1e3 * unit]), np.append(target, 1e3), maxiter=20 * atoms.size)
    return atoms, unknowns * unit


def _exchange(variance: float, criterion: str, reach: float) -> tuple[Array, Array]:
    points, atoms, fine = _grid(reach, 200), np.linspace(0, reach + 4, 120), _grid(reach, 3000)
    step, best = atoms[1], None
    for _ in range(5):
        masses = _minimax(*_system(variance, criterion, points, atoms))
        if masses is None:
            break
        best = atoms, masses
        rows, target, unit = _system(variance, criterion, fine, atoms)
        points = np.union1d(points, fine[_peaks(np.abs(rows @ (masses / unit) - target))])
        step, support = step / 2, atoms[masses > 0]
        atoms = np.union1d(atoms, np.abs(np.concatenate([support - step, support + step])))
    return best or _least_squares(variance, criterion)


def _system(variance: float, criterion: str, points: Array, atoms: Array) -> tuple[Array, Array, Array]:
    """Return rows and target of the weighted equations F = S at points < 0, and the mass that an unknown stands for."""
    weight = expit(points) * expit(-points) if criterion == "balance" else np.ones_like(points)
    unit = np.exp(-_DECAY[criterion] * atoms)
    scale = math.sqrt(variance)
    kernel = (ndtr((points[:, None] - atoms) / scale) + ndtr((points[:, None] + atoms) / scale)) / 2
    return kernel * unit / weight[:, None], expit(points) / weight, unit


def _minimax(rows: Array, target: Array, unit: Array) -> Array | None:
    """Return the masses of sum 1 with the smallest maximum of |rows @ unknowns - target|; None if the solver fails."""
    error = np.ones((target.size, 1))
    solution = linprog(
        np.append(np.zeros(unit.size), 1.0),
        A_ub=np.vstack([np.hstack([rows, -error]), np.hstack([-rows, -error])]),
        b_ub=np.append(target, -target),
        A_eq=np.append(unit, 0.0)[None, :],
        b_eq=[1.0],
        method="highs-ds",
        options={"primal_feasibility_tolerance": _TOLERANCE, "dual_feasibility_tolerance": _TOLERANCE},
    )
    return None if solution.x is None else np.maximum(solution.x[:-1], 0) * unit


@lru_cache(maxsize=64)
def _gaussian_mixture(variance: float, pairs: int) -> Correction:
    x = np.linspace(0, 10, 151)
    narrowest = max(0.1 - variance, 0.0)  # a variance: no component may hide between two points of the grid
    target = expit(x) * expit(-x)
    means = 10 * (np.arange(pairs) + 0.5) / pairs
    start = np.concatenate([np.log(expit(means) * expit(-means)), means, np.full(pairs, -3.0)])

    def unpack(parameters: Array) -> tuple[Array, Array, Array]:
        logits, means, widths = np.split(parameters, 3)
        return softmax(logits), means, expit(widths)

    def loss(parameters: Array) -> tuple[float, Array]:
        weights, means, widths = unpack(parameters)
        total = variance + narrowest + 5 * widths
        below, above = x[:, None] - means, x[:, None] + means
        peak = 0.5 / np.sqrt(2 * math.pi * total)
        left, right = peak * np.exp(-(above**2) / (2 * total)), peak * np.exp(-(below**2) / (2 * total))
        density = left + right
        error = density @ weights - target
        slope = error @ density
        by_logit = weights * (slope - slope @ weights)
        by_mean = weights * (error @ (right * below - left * above)) / total
        by_total = weights * (error @ (right * below**2 + left * above**2) / total - slope) / (2 * total)
        gradient = np.concatenate([by_logit, by_mean, by_total * 5 * widths * (1 - widths)])
        return 5e5 * float(error @ error), 1e6 * gradient

    fit = minimize(
        loss,
        start,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 1000, "maxfun": 2000, "maxcor": 30, "ftol": 1e-15, "gtol": 1e-10},
    )
    weights, means, widths = unpack(fit.x)
    return _mirrored(variance, np.abs(means), weights, np.sqrt(narrowest + 5 * widths))


@lru_cache(maxsize=64)
def _ridge(variance: float) -> Correction:
    atoms, points = np.linspace(-20, 20, 801), np.linspace(-40, 40, 1601)
    rows = ndtr((points[:, None] - atoms) / math.sqrt(variance))
    weights = np.maximum(np.linalg.solve(rows.T @ rows + 0.1 * np.eye(atoms.size), rows.T @ expit(points)), 0)
    half = (weights + weights[::-1])[400:]
    half[0] /= 2
    return _mirrored(variance, atoms[400:], half)


def _mirrored(variance: float, atoms: Array, masses: Array, spreads: Array | None = None) -> Correction:
    """Return the mixture of ±atoms with these masses a pair; the innermost, if at 0, is its own mirror image."""
    kept = masses > 0
    order = np.argsort(atoms[kept], kind="stable")
    outward = atoms[kept][order]
    spread = (np.zeros_like(atoms) if spreads is None else spreads)[kept][order]
    weight = masses[kept][order] / masses[kept].sum() / 2
    single = int(outward[0] == 0)
    weight[:single] *= 2

    def both(half: Array, sign: float = 1.0) -> tuple[float, ...]:
        return tuple(np.concatenate([sign * half[single:][::-1], half]).tolist())

    return Correction(variance, both(outward, -1.0), both(weight), both(spread))


def _grid(reach: float, count: int) -> Array:
    return -np.linspace(0, reach, count + 1)[1:]


def _peaks(values: Array) -> NDArray[np.bool_]:
    padded = np.concatenate([[-math.inf], values, [-math.inf]])
    return (values >= padded[:-2]) & (values >= padded[2:])


def _maximum(function: Callable[[Array], Array], reach: float) -> float:
    """Return the maximum of a smooth function over [0, reach]."""
    grid = np.linspace(0, reach, 4001)
    values = function(grid)
    peaks = grid[_peaks(values) & (values > 0.9 * values.max())]
    around = peaks[:, None] + grid[1] * np.linspace(-1, 1, 41)
    return max(float(values.max()), float(function(np.clip(around, 0, reach)).max()))
