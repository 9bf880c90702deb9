"""The exact posterior of a table, and how near one release could come to it.

One for each table, shared by all budgets: NUTS where records times parameters are at most `NUTS_UP_TO`, and nothing of
a record is integrated over; else, and from the third table of a problem on, Newton's mode and a normal or t around it,
corrected by importance sampling with a Pareto k below `KHAT`; NUTS again where that fails. Random intercepts are
taken with their standard deviation on a grid, the rest normal given it, and importance sampling makes that right. With
survey weights it is the law of the weighted estimate: normal, with the variance of the sandwich. What has no valid
reference says so: a Pareto k or an R-hat that is too large.

Kept are means and standard deviations of what is compared: the parameters as people read them, or functions of them.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS

from dpmcmc.diagnostics.summary import coordinates
from dpmcmc.model import Model
from dpmcmc.run.plan import parameters
from dpmcmc.run.program import Layout
from experiments.stress.emulated import Emulated, in_chunks
from experiments.stress.models import ModelProblem
from experiments.stress.over_groups import OverGroups
from experiments.stress.pareto import smoothed

KHAT, NUTS_UP_TO, MET = 0.5, 400_000, 1.05
PAIRS, BATCH, CHUNK = 500, 50, 4096
WARMUP, DRAWS, CHAINS = 300, 300, 4
NODES = 400
"""Standard deviations of random intercepts on the grid."""

RADII = 1.4 ** np.arange(-10.0, 14.0)
"""Clips that an oracle may choose from, in roots of (parameters / records)."""

KINKED = ("laplace",)
"""Families whose log-density bends nowhere but at kinks: squares of scores, which are as large in the mean, stand for
its second derivative. These lead to the mode and make coordinates; what is kept is weighed or drawn by the density."""

FLATTEST = 0.02
"""The least slope that an oracle believes, in units of that without a clip."""


@dataclass
class Reference:
    """Means and standard deviations of an exact posterior."""

    method: str
    is_valid: bool
    check: float
    """Pareto's k, or the largest R-hat."""
    means: dict[str, float]
    sds: dict[str, float]
    floors: dict[str, float] = field(default_factory=dict[str, float])
    """The oracle's error by epsilon."""

    def to_plain(self) -> dict[str, Any]:
        """Return it in plain values, to five digits of a standard deviation."""
        plain = asdict(self)
        for name in plain["means"]:
            digits = int(np.ceil(4 - np.log10(max(self.sds[name], 1e-12))))
            plain["means"][name] = round(self.means[name], digits)
            plain["sds"][name] = float(f"{self.sds[name]:.5g}")
        return plain

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "Reference":
        """Read it back."""
        return cls(**{name: plain[name] for name in cls.__dataclass_fields__})


class Table(NamedTuple):
    """Records in chunks, which of the rows are there, and what each adds to the log-likelihood at some place.

    Differences from that place are summed: they are small, and single precision is enough for a million of them.
    """

    rows: Any
    counts: jax.Array
    base: jax.Array


class Sampled(NamedTuple):
    """Vectors with weights, how they were made, and whether they are to be relied on."""

    vectors: np.ndarray
    weights: np.ndarray
    gradients: np.ndarray | None
    method: str
    is_valid: bool
    check: float


def exact(
    emulated: Emulated, records: Any, noises: Mapping[str, float] | None = None, *, nuts: bool = True
) -> Reference:
    """Return the exact posterior of records, and the oracle's error for noises of one release, by name.

    Without ``nuts`` importance sampling is tried first wherever nothing else is needed.
    """
    density, found = _found(emulated, records, nuts=nuts)
    means, sds = _moments(compared(emulated.problem, density.named(found.vectors)), found)
    rows, counts = in_chunks(records, CHUNK)
    has_floor = getattr(emulated.problem, "uneven", None) is None  # no single clip is best for many groups
    floors = floor_errors(density, Table(rows, counts, counts), found, noises or {}) if has_floor else {}
    return Reference(found.method, found.is_valid, round(float(found.check), 4), means, sds, floors)


def _found(emulated: Emulated, records: Any, *, nuts: bool = True) -> "tuple[Density, Sampled]":
    model, layout, problem = emulated.model, emulated.layout, emulated.problem
    spreads = getattr(problem, "spreads", {}) or _spreads(layout)
    if getattr(problem, "uneven", None) is not None:
        density = _density(model, layout, tuple(sorted(spreads.items())))
        laws = OverGroups(density, density.table(records), density.start(problem), _mode)
        vectors, weights, k = laws.sampled()
        return density, Sampled(vectors, weights, None, "importance over groups", k < KHAT, k)
    spreads = spreads if len(spreads) == 1 else {}  # several are NUTS's
    density = _density(model, layout, tuple(sorted(spreads.items())))
    table, start = density.table(records), density.start(problem)
    if isinstance(problem, ModelProblem) and problem.compared is not None:
        return density, _several_modes(density, table, start, problem)
    if spreads:
        return density, _over_spreads(density, table, start)
    if getattr(problem, "is_weighted", False):
        return density, _sandwich(density, table, start)
    if _size(records) * layout.dimension > NUTS_UP_TO or getattr(problem, "persons", None):
        return density, _importance(density, table, start)
    weighed = None if nuts else _importance(density, table, start)
    return density, weighed if weighed and weighed.is_valid else _nuts(density, table, start)


def by_importance(emulated: Emulated, records: Any) -> Reference:
    """Return the exact posterior by importance sampling, whatever the size."""
    density = _density(emulated.model, emulated.layout, ())
    found = _importance(density, density.table(records), density.start(emulated.problem))
    means, sds = _moments(compared(emulated.problem, density.named(found.vectors)), found)
    return Reference(found.method, found.is_valid, float(found.check), means, sds)


class Check(NamedTuple):
    """A reference beside NUTS on the same table."""

    r_hat: float
    """Of NUTS."""
    far: float
    """The largest distance of the means, in standard deviations."""
    wide: float
    """The ratio of standard deviations that is furthest from one."""


def checked(emulated: Emulated, records: Any) -> Check:
    """Return how far a reference is from NUTS; random intercepts are tried as they are, and in units of their sd."""
    density, found = _found(emulated, records)
    means, sds = _moments(compared(emulated.problem, density.named(found.vectors)), found)
    checks: list[Check] = []
    for spreads in {density.spreads, ()}:
        other = _density(emulated.model, emulated.layout, spreads)
        vectors = found.vectors if spreads == density.spreads else density.positions(found.vectors)
        mean, root = _mean_and_root(vectors, found.weights)
        table = other.around(other.table(records), mean)
        places = np.random.default_rng(1).standard_normal((CHAINS, len(mean)))
        drawn = _chains(other, table, jnp.float32(mean), jnp.float32(root), places)
        flat = mean + drawn.reshape(-1, len(mean)) @ root.T
        values = compared(emulated.problem, other.named(flat))
        r_hat = max(_r_hat(each.reshape(CHAINS, -1)) for each in values.values())
        far = max(abs(means[name] - each.mean()) / each.std() for name, each in values.items())
        wide = max((sds[name] / each.std() for name, each in values.items()), key=lambda ratio: abs(np.log(ratio)))
        checks.append(Check(r_hat, float(far), float(wide)))
    return min(checks)


def _mean_and_root(vectors: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean = weights @ vectors
    centred = vectors - mean
    covariance = (centred * weights[:, None]).T @ centred
    return mean, np.linalg.cholesky(covariance + 1e-9 * np.diag(np.diag(covariance)))


def compared(problem: Any, named: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return what is compared, by name: numbers, each (draws,)."""
    if isinstance(problem, ModelProblem) and problem.compared is not None:
        return problem.compared(named)
    return {name: values[0] for name, values in coordinates({key: one[None] for key, one in named.items()}).items()}


def _moments(values: Mapping[str, np.ndarray], found: Sampled) -> tuple[dict[str, float], dict[str, float]]:
    """Return means and standard deviations; with gradients as control variates, whose means are zero."""
    means, sds = {}, {}
    for name, each in values.items():
        mean = float(found.weights @ each)
        sds[name] = float(np.sqrt(found.weights @ (each - mean) ** 2))
        if found.gradients is not None:
            columns = found.gradients - found.gradients.mean(axis=0)
            slopes = np.linalg.lstsq(columns, each - mean, rcond=None)[0]
            mean -= float(found.gradients.mean(axis=0) @ slopes)
        means[name] = mean
    return means, sds


def _size(records: Any) -> int:
    return len(jax.tree.leaves(records)[0])


def _spreads(layout: Layout) -> dict[str, str]:
    """Return the random intercepts of a formula, with the names of their standard deviations."""
    position = layout.unravel(jnp.zeros(layout.dimension))
    names = position if isinstance(position, dict) else {}
    return {name: f"{name}_sigma" for name in names if f"{name}_sigma" in names}


@dataclass(frozen=True, eq=False)
class Density:
    """The log-posterior in vectors in which random intercepts are themselves, not in units of their spread."""

    model: Model
    layout: Layout
    spreads: tuple[tuple[str, str], ...]
    log_prior: Callable[..., Any]
    value: Callable[..., Any]
    gradient: Callable[..., Any]
    hessian: Callable[..., Any]
    values: Callable[..., Any]
    each: Callable[..., Any]
    clipped_scores: Callable[..., Any]

    @property
    def dimension(self) -> int:
        """How many parameters there are."""
        return self.layout.dimension

    def table(self, records: Any) -> Table:
        """Return records as they are read here."""
        size = _size(records)
        rows, counts = in_chunks(records, size if size * self.dimension <= NUTS_UP_TO else CHUNK)
        return Table(rows, counts, jnp.zeros_like(counts))

    def around(self, table: Table, vector: Any) -> Table:
        """Return a table with the log-likelihoods at another place."""
        return table._replace(base=self.each(jnp.float32(vector), table))

    def start(self, problem: Any) -> np.ndarray:
        """Return where to start from: the parameters that made the rows, where they are stated, or zero."""
        stated = getattr(problem, "start", None)
        if not stated:
            return np.zeros(self.dimension)
        position = self.model.unconstrain({name: jnp.asarray(value, jnp.float32) for name, value in stated.items()})
        for name, spread in self.spreads:
            position = {**position, name: position[name] * jnp.exp(position[spread])}
        return np.asarray(self.layout.ravel(position), float)

    def named(self, vectors: np.ndarray) -> dict[str, np.ndarray]:
        """Return vectors as people read them."""
        turned = np.asarray(self.positions(vectors), np.float32)
        return {name: each[0] for name, each in parameters(self.model, self.layout, turned[None]).items()}

    def positions(self, vectors: np.ndarray) -> np.ndarray:
        """Return vectors as positions of the model, laid out flat."""
        turned = jax.vmap(lambda vector: self.layout.ravel(self.position(vector)[0]))(jnp.float32(vectors))
        return np.asarray(turned, float)

    def position(self, vector: Any) -> tuple[Any, Any]:
        """Return a position, and the log-Jacobian of random intercepts."""
        return _position(self.layout, self.spreads, vector)

    def places(self, name: str) -> np.ndarray:
        """Return the places of a parameter in a vector."""
        indices = self.layout.unravel(jnp.arange(self.dimension))
        return np.asarray(indices[name]).ravel()


def _position(layout: Layout, spreads: tuple[tuple[str, str], ...], vector: Any) -> tuple[Any, Any]:
    position, jacobian = layout.unravel(vector), jnp.zeros(())
    for name, spread in spreads:
        log_sd = position[spread]
        jacobian = jacobian - jnp.sum(jnp.broadcast_to(log_sd, position[name].shape))
        position = {**position, name: position[name] / jnp.exp(log_sd)}
    return position, jacobian


@lru_cache(maxsize=8)
def _density(model: Model, layout: Layout, spreads: tuple[tuple[str, str], ...]) -> Density:
    def log_prior(vector: jax.Array) -> jax.Array:
        position, jacobian = _position(layout, spreads, vector)
        return model.log_prior(position) + jacobian

    def likelihood(vector: jax.Array, record: Any) -> jax.Array:
        return model.log_likelihood(_position(layout, spreads, vector)[0], record)

    def of_chunk(vector: jax.Array, chunk: Table) -> jax.Array:
        own = jax.vmap(likelihood, in_axes=(None, 0))(vector, chunk.rows)
        return jnp.sum(jnp.where(chunk.counts > 0, own - chunk.base, 0.0))

    def bend(vector: jax.Array, chunk: Table) -> jax.Array:
        if getattr(model, "family", None) not in KINKED:
            return jax.hessian(of_chunk)(vector, chunk)
        scores = jax.vmap(jax.grad(likelihood), in_axes=(None, 0))(vector, chunk.rows) * chunk.counts[:, None]
        return -scores.T @ scores

    def total(prior: Callable[..., Any], chunkwise: Callable[..., Any]) -> Callable[..., Any]:
        def summed(vector: jax.Array, table: Table) -> Any:
            def more(so_far: Any, chunk: Table) -> tuple[Any, None]:
                return so_far + chunkwise(vector, chunk), None

            begin = prior(vector)
            if table.counts.shape[0] == 1:
                return more(begin, jax.tree.map(lambda leaf: leaf[0], table))[0]
            return jax.lax.scan(more, begin, table)[0]

        return summed

    def each(vector: jax.Array, table: Table) -> jax.Array:
        return jax.lax.map(lambda rows: jax.vmap(likelihood, in_axes=(None, 0))(vector, rows), table.rows)

    def clipped_scores(vector: jax.Array, root: jax.Array, radii: jax.Array, table: Table) -> tuple[Any, Any]:
        """Return what clips at radii take off the sum of scores, in coordinates with a root, and off their square."""

        def more(so_far: tuple[Any, Any], chunk: Table) -> tuple[Any, None]:
            scores = jax.vmap(jax.grad(likelihood), in_axes=(None, 0))(vector, chunk.rows) @ root
            lengths = jnp.maximum(jnp.linalg.norm(scores, axis=1), 1e-30)
            cut = (1.0 - jnp.minimum(1.0, radii[:, None] / lengths)) * chunk.counts
            squares = jax.lax.map(lambda one: (scores * one[:, None]).T @ scores, cut)
            return (so_far[0] + cut @ scores, so_far[1] + squares), None

        size = len(vector)
        begin = (jnp.zeros((len(radii), size)), jnp.zeros((len(radii), size, size)))
        return jax.lax.scan(more, begin, table)[0]

    value = total(log_prior, of_chunk)
    many = total(jax.vmap(log_prior), lambda vectors, chunk: jax.vmap(of_chunk, in_axes=(0, None))(vectors, chunk))
    return Density(
        model,
        layout,
        spreads,
        jax.jit(log_prior),
        jax.jit(value),
        jax.jit(total(jax.grad(log_prior), jax.grad(of_chunk))),
        jax.jit(total(jax.hessian(log_prior), bend)),
        jax.jit(many),
        jax.jit(each),
        jax.jit(clipped_scores),
    )


def _mode(
    density: Density, table: Table, vector: np.ndarray, fixed: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, Table]:
    """Return the mode, minus the Hessian there, and the table around it; some places may be fixed."""
    free = np.setdiff1d(np.arange(len(vector)), np.zeros(0, int) if fixed is None else fixed)
    matrix = np.eye(len(vector))
    for _ in range(200):
        table = density.around(table, vector)
        here = float(density.value(jnp.float32(vector), table))
        gradient = np.asarray(density.gradient(jnp.float32(vector), table), float)
        matrix = -np.asarray(density.hessian(jnp.float32(vector), table), float)
        if not (np.isfinite(matrix).all() and np.isfinite(gradient).all() and np.isfinite(here)):
            vector = vector / 2
            continue
        sizes, vectors = np.linalg.eigh(matrix[np.ix_(free, free)])
        sizes = np.maximum(np.abs(sizes), 1e-7 * np.abs(sizes).max())
        step, length = np.zeros_like(vector), 1.0
        step[free] = vectors @ ((vectors.T @ gradient[free]) / sizes)
        longest = np.abs(step).max()
        step = step * min(1.0, 3.0 / max(longest, 1e-12))
        while length > 1e-4:
            reached = float(density.value(jnp.float32(vector + length * step), table))
            if np.isfinite(reached) and reached >= here - 1e-3:
                break
            length /= 2
        vector = vector + length * step
        if np.linalg.norm(np.sqrt(sizes) * (vectors.T @ step[free])) < 0.02:
            break
    table = density.around(table, vector)
    return vector, -np.asarray(density.hessian(jnp.float32(vector), table), float), table


def _root(matrix: np.ndarray) -> np.ndarray:
    """Return a root of the inverse."""
    sizes, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return vectors / np.sqrt(np.maximum(np.abs(sizes), 1e-7 * np.abs(sizes).max()))


def _importance(density: Density, table: Table, start: np.ndarray) -> Sampled:
    """Draw from a t around the mode, in pairs that mirror each other, and weigh."""
    mode, matrix, table = _mode(density, table, start)
    root, size, rng = _root(matrix), len(mode), np.random.default_rng(0)
    freedom = max(7.0, 10.0 * size if size > 10 else 7.0)
    half = rng.standard_normal((PAIRS, size)) / np.sqrt(rng.chisquare(freedom, (PAIRS, 1)) / freedom)
    wide = np.concatenate([half, -half])
    logs = _log_densities(density, table, mode + wide @ root.T)
    logs = logs + 0.5 * (freedom + size) * np.log1p(np.sum(wide**2, axis=1) / freedom)
    weights, k = smoothed(logs)
    return Sampled(mode + wide @ root.T, weights, None, "importance", k < KHAT, k)


def _sandwich(density: Density, table: Table, start: np.ndarray) -> Sampled:
    """Draw from the normal law of a weighted estimate: its mode, and the sandwich of Hessian and squared scores."""
    mode, matrix, table = _mode(density, table, start)
    size = len(mode)
    asked = (jnp.float32(each) for each in (mode, np.eye(size), [0.0]))  # a clip of nothing takes all off
    _, (squares,) = (np.asarray(each, float) for each in density.clipped_scores(*asked, table))
    bread = np.linalg.inv(matrix)
    half = np.random.default_rng(0).standard_normal((PAIRS, size)) @ np.linalg.cholesky(bread @ squares @ bread).T
    weights = np.full(2 * PAIRS, 1 / (2 * PAIRS))
    return Sampled(mode + np.concatenate([half, -half]), weights, None, "sandwich", is_valid=True, check=0.0)


def _log_densities(density: Density, table: Table, vectors: np.ndarray) -> np.ndarray:
    parts = np.split(vectors, range(BATCH, len(vectors), BATCH))
    return np.concatenate([np.asarray(density.values(jnp.float32(part), table), float) for part in parts])


def _over_spreads(density: Density, table: Table, start: np.ndarray) -> Sampled:
    """Draw the spread from a grid, and the rest from a normal given it; weigh by the exact density.

    Given the spread, random intercepts and all else are nearly normal, since the likelihood does not read it.
    """
    ((name, spread_name),) = density.spreads
    (spread,), members = density.places(spread_name), density.places(name)
    rest = np.setdiff1d(np.arange(density.dimension), [spread])
    inner = np.searchsorted(rest, members)
    centre = start.copy()
    centre[spread] = np.log(0.5) if not start.any() else start[spread]
    for _ in range(2):  # the second time where the posterior is
        centre, matrix, table = _mode(density, table, centre, fixed=np.array([spread]))
        gradient = np.asarray(density.gradient(jnp.float32(centre), table), float)[rest]
        precision = matrix[np.ix_(rest, rest)]
        precision[inner, inner] -= np.exp(-2 * centre[spread])
        gradient[inner] += centre[members] * np.exp(-2 * centre[spread])
        laws = _SpreadLaws(density, centre, spread, inner, rest, precision, gradient)
        if np.abs(laws.middle - centre[spread]) < 0.3:
            break
        centre[spread] = laws.middle
    return laws.sampled(table)


class _SpreadLaws:
    """The law of the logarithm of a spread on a grid, and the normal laws of the rest given it."""

    def __init__(
        self,
        density: Density,
        centre: np.ndarray,
        spread: int,
        inner: np.ndarray,
        rest: np.ndarray,
        precision: np.ndarray,
        gradient: np.ndarray,
    ) -> None:
        self.density, self.centre, self.spread, self.inner, self.rest = density, centre, spread, inner, rest
        self.precision, self.gradient = precision, gradient
        wide = np.linspace(np.log(1e-4), np.log(20.0), NODES)
        shares = self._shares(wide)
        seen = wide[shares > 1e-9 * shares.max()]
        self.grid = np.linspace(seen[0], seen[-1], NODES)
        self.shares = self._shares(self.grid)

    @property
    def middle(self) -> float:
        """The mean of the logarithm of the spread."""
        return float(self.shares @ self.grid)

    def _normal(self, log_spread: float) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and precision of the rest, as moves from the centre."""
        precision = self.precision.copy()
        precision[self.inner, self.inner] += np.exp(-2 * log_spread)
        tilt = self.gradient.copy()
        tilt[self.inner] -= self.centre[self.rest][self.inner] * np.exp(-2 * log_spread)
        return np.linalg.solve(precision, tilt), precision

    def _shares(self, grid: np.ndarray) -> np.ndarray:
        vectors = np.repeat(self.centre[None], len(grid), axis=0)
        vectors[:, self.spread] = grid
        priors = np.asarray(jax.vmap(self.density.log_prior)(jnp.float32(vectors)), float)
        logs = np.zeros(len(grid))
        for place, log_spread in enumerate(grid):
            mean, precision = self._normal(log_spread)
            tilt = precision @ mean
            logs[place] = priors[place] + 0.5 * tilt @ mean - 0.5 * np.linalg.slogdet(precision)[1]
        shares = np.exp(logs - logs.max())
        return shares / shares.sum()

    def sampled(self, table: Table) -> Sampled:
        """Return draws with their weights."""
        rng, size, step = np.random.default_rng(0), len(self.rest), self.grid[1] - self.grid[0]
        mixed = 0.9 * self.shares + 0.1 / len(self.grid)
        places = np.sort(rng.choice(len(self.grid), PAIRS, p=mixed))
        vectors, logs = np.zeros((2 * PAIRS, len(self.centre))), np.zeros(2 * PAIRS)
        freedom = 10.0 * size
        for number, place in enumerate(places):
            log_spread = self.grid[place] + step * (rng.random() - 0.5)
            mean, precision = self._normal(log_spread)
            root = np.linalg.cholesky(precision)
            z = rng.standard_normal(size) / np.sqrt(rng.chisquare(freedom) / freedom)
            move = np.linalg.solve(root.T, z)
            log_normal = np.sum(np.log(np.diag(root))) - 0.5 * (freedom + size) * np.log1p(z @ z / freedom)
            for one, sign in ((number, 1.0), (number + PAIRS, -1.0)):
                vectors[one, self.rest] = self.centre[self.rest] + mean + sign * move
                vectors[one, self.spread] = log_spread
                logs[one] = -np.log(mixed[place]) - log_normal
        logs += _log_densities(self.density, table, vectors)
        weights, k = smoothed(logs)
        return Sampled(vectors, weights, None, "importance over spreads", k < KHAT, k)


def _nuts(density: Density, table: Table, start: np.ndarray) -> Sampled:
    """Draw with NUTS in coordinates in which the posterior is about round, from places all over it."""
    mode, matrix, table = _mode(density, table, start)
    root = _root(matrix)
    places = np.random.default_rng(0).standard_normal((CHAINS, len(mode)))
    drawn = _chains(density, table, jnp.float32(mode), jnp.float32(root), places)
    flat = drawn.reshape(-1, len(mode))
    vectors = mode + flat @ root.T
    gradients = _gradients(density)(jnp.float32(vectors), table) @ root
    largest = max(_r_hat(drawn[:, :, place]) for place in range(len(mode)))
    weights = np.full(len(flat), 1 / len(flat))
    return Sampled(vectors, weights, np.asarray(gradients, float), "nuts", largest < MET, largest)


def _several_modes(density: Density, table: Table, start: np.ndarray, problem: ModelProblem) -> Sampled:
    """Draw with NUTS around a mode with symmetries: what is compared must be the same in all chains."""
    mode, matrix, table = _mode(density, table, start)
    root = _root(matrix)
    places = 0.5 * np.random.default_rng(0).standard_normal((CHAINS, len(mode)))
    drawn = _chains(density, table, jnp.float32(mode), jnp.float32(root), places)
    vectors = mode + drawn.reshape(-1, len(mode)) @ root.T
    values = compared(problem, density.named(vectors))
    largest = max(_r_hat(each.reshape(CHAINS, -1)) for each in values.values())
    weights = np.full(len(vectors), 1 / len(vectors))
    return Sampled(vectors, weights, None, "nuts, functions", largest < MET, largest)


@lru_cache(maxsize=8)
def _gradients(density: Density) -> Callable[..., Any]:
    return jax.jit(lambda vectors, table: jax.lax.map(lambda one: density.gradient(one, table), vectors, batch_size=20))


@lru_cache(maxsize=8)
def _sampler(density: Density) -> Any:
    def posterior(table: Table, mode: Any, root: Any) -> None:
        place = numpyro.sample("place", dist.ImproperUniform(dist.constraints.real_vector, (), (density.dimension,)))
        numpyro.factor("density", density.value(mode + root @ place, table))

    kernel = NUTS(posterior, target_accept_prob=0.85, max_tree_depth=8)
    return MCMC(
        kernel,
        num_warmup=WARMUP,
        num_samples=DRAWS,
        num_chains=CHAINS,
        chain_method="vectorized",
        progress_bar=False,
        jit_model_args=True,
    )


def _chains(density: Density, table: Table, mode: Any, root: Any, places: np.ndarray) -> np.ndarray:
    sampler = _sampler(density)
    sampler.run(jax.random.key(0), table, mode, root, init_params={"place": jnp.float32(places)})
    return np.asarray(sampler.get_samples(group_by_chain=True)["place"], float)


def _r_hat(chains: np.ndarray) -> float:
    """Return split R-hat of (chain, draw)."""
    halves = np.concatenate(np.split(chains[:, : chains.shape[1] // 2 * 2], 2, axis=1))
    within = halves.var(axis=1, ddof=1).mean()
    between = halves.mean(axis=1).var(ddof=1)
    length = halves.shape[1]
    return float(np.sqrt((length - 1) / length + between / within)) if within > 0 else float("inf")


def floor_errors(density: Density, table: Table, found: Sampled, noises: Mapping[str, float]) -> dict[str, float]:
    """Return the error of an oracle by name of the budget: one clipped sum of scores, with the noise of a clip of one.

    The oracle asks at the posterior's mean, in coordinates in which the posterior is round, knows the slope of clipped
    scores there, and takes the best clip. What is left is the bias of clipping and the noise: a root mean square over
    the parameters, in standard deviations of the posterior. The slope is that of the model: by Bartlett's identity a
    clip takes off it what it takes off the squares of the scores.
    """
    mean, root = _mean_and_root(found.vectors, found.weights)
    sds, size = np.linalg.norm(root, axis=1), len(mean)
    radii = np.append(RADII * np.sqrt(size / float(table.counts.sum())), 0.0)
    asked = (jnp.float32(each) for each in (mean, root, radii))
    taken, squares = (np.asarray(each, float) for each in density.clipped_scores(*asked, table))
    # without a clip the slope is one; where the model does not hold, the squares can be larger than it
    squares = squares * min(1.0, size / np.trace(squares[-1]))
    errors: list[tuple[float, float]] = []
    for radius, off, square in zip(radii[:-1], taken, squares, strict=False):
        values, vectors = np.linalg.eigh(np.eye(size) - square)
        back = root @ (vectors / np.maximum(values, FLATTEST)) @ vectors.T / sds[:, None]
        errors.append((float(np.mean((back @ off) ** 2)), radius**2 * float(np.mean(np.sum(back**2, axis=1)))))
    return {
        name: round(float(np.sqrt(min(bias + noise**2 * unit for bias, unit in errors))), 5)
        for name, noise in noises.items()
    }
