"""An audit of somebody's own model, on synthetic rows: which two rows are farthest apart, and what of them can be seen.

No private row is needed or read. Rows are drawn within the stated bounds, and at their corners. The model's gradient
is computed of all of them in the clear, at positions from its prior, and the two rows whose clipped gradients, or
log-likelihood ratios, are farthest apart are the canaries: two tables that differ in nothing else are audited as any
mechanism is.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc import validation
from dpmcmc.accounting import Gaussian, noise_for
from dpmcmc.audits.audit import CONFIDENCE_ERROR, Finding, collect, judge
from dpmcmc.audits.closures import Closure, closed_over
from dpmcmc.audits.pairs import REPLACE, Law, Pair, standardised
from dpmcmc.enclave.mechanisms.gradient import GradientSum
from dpmcmc.enclave.mechanisms.log_ratio import LogRatio
from dpmcmc.errors import DpmcmcError, InvalidArgument
from dpmcmc.missing_cells import is_hidden
from dpmcmc.model import synthetic

CANDIDATES, POSITIONS, OTHERS = 200, 4, 30
"""Rows of each kind that canaries are chosen from, positions that are tried, and rows beside the canary."""


_SAME = 1e-6
"""What is nearer than so many clips is the same, but for how it was rounded."""


@dataclass(frozen=True)
class Tried:
    """One release of the model that was audited."""

    finding: Finding
    canaries: tuple[dict[str, Any], dict[str, Any]]
    """The two synthetic rows, by the names of their columns."""
    sensitivity: float
    """How far the exact sums of the two tables are apart, in what one record may move them by."""
    paths: tuple[str, ...]

    @property
    def is_broken(self) -> bool:
        """Whether more was seen than is claimed, or a sum moved by more than it may."""
        return self.finding.is_broken or not self.sensitivity <= 1 + 1e-5


@dataclass(frozen=True)
class ModelAudit:
    """What an audit of a model came to."""

    name: str
    epsilon: float
    delta: float
    error: float
    """The chance that any of the lower bounds is too high."""
    tried: tuple[Tried, ...]
    closures: tuple[Closure, ...] = ()
    """Arrays that the model closes over: they were the same in all runs, whatever they come from."""

    @property
    def is_broken(self) -> bool:
        """Whether anything does not hold."""
        return any(one.is_broken for one in self.tried)


def audit_model(
    name: str,
    model: Any,
    record: Any,
    bounds: Any,
    *,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    runs: int = 100_000,
    is_formula: bool = False,
    tell: Callable[[str, float], None] = lambda _, __: None,
) -> ModelAudit:
    """Audit the releases that samplers ask of a model: its gradient, by every way there is, and its log-ratio.

    Args:
        name: what to call the model.
        model: the model.
        record: shapes and types of one record.
        bounds: the stated bounds of its leaves, by their names.
        epsilon: what one release claims.
        delta: at which delta.
        runs: how often each table is run.
        is_formula: whether the model comes from a formula: what it closes over follows from the schema, and is not
            listed.
        tell: called with what is done and the share that is.
    """
    runs = validation.integer("runs", runs, at_least=100)
    rows, positions = _examined(model, record, bounds)
    row = jax.tree.map(lambda leaf: leaf[0], rows)
    closures = () if is_formula else closed_over(model, positions[0], row)
    pairs = list(_pairs(model, rows, positions, validation.positive("epsilon", epsilon), delta))
    tried = list[Tried]()
    error = CONFIDENCE_ERROR / (2 * len(pairs))
    for number, (pair, canaries) in enumerate(pairs):
        tell(f"{pair.mechanism}, {pair.path}", number / len(pairs))
        moved = _moved(pair)
        finding = judge(pair, collect(pair, runs, 20_000), delta, error)
        tried.append(Tried(finding, canaries, moved, pair.paths()))
    tell("done", 1.0)
    return ModelAudit(name, epsilon, delta, CONFIDENCE_ERROR, tuple(tried), closures)


def _moved(pair: Pair) -> float:
    """Return how far the exact sums of a pair are apart, in sensitivities: two runs with one noise."""
    sides = [
        np.asarray(vault.run(pair.many, pair.queries_of(1), model=pair.model, insecure_seed=1), np.float64)
        for vault in (pair.vault(0), pair.vault(1))
    ]
    if not np.isfinite(sides).all():
        problem = f"what {pair.mechanism} releases of the model is too large, or too small, for single precision"
        raise InvalidArgument(f"{problem}, so there is nothing to audit; state the model in other units")
    return float(abs(sides[0] - sides[1])[0]) * pair.law.scale


def _examined(model: Any, record: Any, bounds: Any) -> tuple[Any, list[Any]]:
    """Return rows and positions at which the model can be computed, with its gradient; or say why it cannot."""
    try:
        rows, positions = _candidates(record, bounds), _positions(model)
        _compute(model, rows, positions)
    except DpmcmcError:
        raise
    except Exception as error:  # it is the user's own code, which may raise anything
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        raise InvalidArgument(f"the model and its gradient cannot be computed on a synthetic row: {said}") from error
    return rows, positions


def _compute(model: Any, rows: Any, positions: list[Any]) -> None:
    """Compute a model and its gradient at shapes, as samplers do: whatever its code raises is raised here."""
    each = jax.eval_shape(jax.vmap(model.log_likelihood, (None, 0)), positions[0], rows)
    shapes = [jnp.shape(jax.eval_shape(model.log_prior, positions[0])), jnp.shape(each)[1:]]
    if not jax.tree.leaves(positions[0]) or shapes != [(), ()]:
        raise InvalidArgument(
            "a model has a position of at least one number, and its log_prior and log_likelihood return one number "
            f"each; here they return arrays of the shapes {shapes[0]} and {shapes[1]}"
        )
    jax.eval_shape(jax.vmap(jax.grad(model.log_likelihood), (None, 0)), positions[0], rows)
    jax.eval_shape(jax.vmap(jax.grad(model.log_prior)), jax.tree.map(lambda *leaves: jnp.stack(leaves), *positions))


def _pairs(
    model: Any, rows: Any, position: list[Any], epsilon: float, delta: float
) -> Iterator[tuple[Pair, tuple[dict[str, Any], dict[str, Any]]]]:
    noise = noise_for(Gaussian, epsilon, delta)
    for make in (_gradient_pair, _ratio_pair):
        found = make(model, rows, position, noise)
        named = _named(rows, found.first), _named(rows, found.second)
        tables = tuple(_table(rows, chosen) for chosen in (found.first, found.second))
        law = Law(Gaussian, scale=noise)
        pair = Pair(found.words, REPLACE, (tables[0], tables[1]), found.program, found.queries, law, model=model)
        pair.price()  # refuses what the auditor refuses of the whole model, its prior too
        pair = replace(pair, model=_Likelihood(model.log_likelihood, model.temperature))
        yield replace(pair, accelerate=False), named
        if make is _gradient_pair:
            accelerated = pair.paths()
            if accelerated != ("reference",):
                yield replace(pair, path=", ".join(accelerated)), named


@dataclass(frozen=True)
class _Likelihood:
    """A model without its prior. That is public: it moves the sums of both tables alike, and would only round them."""

    log_likelihood: Callable[[Any, Any], jax.Array]
    temperature: float

    def log_prior(self, position: Any) -> jax.Array:
        """Add nothing."""
        return 0.0 * sum((jnp.sum(leaf) for leaf in jax.tree.leaves(position)), start=jnp.float32(0))


@dataclass(frozen=True)
class _Farthest:
    """Two rows that are farthest apart in what is released, and a program that looks along that direction."""

    words: str
    first: int
    second: int
    program: Callable[[Any, Any], jax.Array]
    queries: Any


def _gradient_pair(model: Any, rows: Any, positions: list[Any], noise: float) -> _Farthest:
    """Return the rows whose clipped gradients are farthest apart, at the position at which they are."""

    def gradients(position: Any) -> np.ndarray:
        def flat(row: Any) -> jax.Array:
            parts = jax.grad(lambda at: model.temperature * model.log_likelihood(at, row))(position)
            return jnp.concatenate([jnp.ravel(part) for part in jax.tree.leaves(parts)])

        return np.asarray(jax.vmap(flat)(rows), np.float64)

    position, vectors = max(
        ((position, gradients(position)) for position in positions), key=lambda found: _spread(found[1])
    )
    clip = _typical(np.linalg.norm(vectors, axis=1), "gradient")
    clipped = _clipped(vectors, clip)
    first, second = _farthest(clipped, clip, "gradient")
    direction = (clipped[first] - clipped[second]) / np.linalg.norm(clipped[first] - clipped[second])
    rest = clipped[_others(len(clipped))].sum(axis=0)
    middle = float((rest + (clipped[first] + clipped[second]) / 2) @ direction)
    mechanism = GradientSum(clip, noise)

    def program(oracle: Any, at: Any) -> jax.Array:
        noisy = oracle.force(mechanism, at)
        flat = jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(noisy.value)])
        return standardised(noisy._replace(value=flat), direction.astype(np.float32), middle)

    return _Farthest("GradientSum", first, second, program, position)


def _ratio_pair(model: Any, rows: Any, positions: list[Any], noise: float) -> _Farthest:
    """Return the rows whose clipped log-likelihood ratios between two positions are farthest apart."""
    pairs = [(one, other) for number, one in enumerate(positions) for other in positions[number + 1 :]]

    def ratios(pair: tuple[Any, Any]) -> np.ndarray:
        values = [jax.vmap(model.log_likelihood, in_axes=(None, 0))(at, rows) for at in pair]
        return model.temperature * np.asarray(values[1] - values[0], np.float64)[:, None]

    pair, values = max(((pair, ratios(pair)) for pair in pairs), key=lambda found: _spread(found[1]))
    leaves = [jax.tree.leaves(at) for at in pair]
    squares = [jnp.sum((a - b) ** 2) for a, b in zip(leaves[0], leaves[1], strict=True)]
    distance = float(jnp.sqrt(sum(squares, start=jnp.float32(0))))
    size = _typical(np.abs(values[:, 0]), "log-likelihood ratio")
    clipped = _clipped(values, size)
    first, second = sorted(_farthest(clipped, size, "log-likelihood ratio"), key=lambda row: -clipped[row, 0])
    clipped = clipped[:, 0]
    middle = float(clipped[_others(len(clipped))].sum() + (clipped[first] + clipped[second]) / 2)
    mechanism = LogRatio(size / distance, noise)

    def program(oracle: Any, at: Any) -> jax.Array:
        return standardised(oracle.log_posterior_ratio(mechanism, *at), 1.0, middle)

    return _Farthest("LogRatio", first, second, program, pair)


def _candidates(record: Any, bounds: Any) -> Any:
    """Return rows to choose from: of every kind that models are tried on, and at the corners of the bounds."""
    kinds = list(synthetic.tables(record, bounds, CANDIDATES))
    random = np.random.default_rng(1)

    def cornered(leaf: jax.Array) -> jax.Array:
        flat = np.asarray(leaf).reshape(len(leaf), -1)
        sides = np.stack([flat.min(axis=0), flat.max(axis=0)])
        picked = np.take_along_axis(sides, random.integers(0, 2, flat.shape), axis=0)
        return jnp.asarray(picked.reshape(leaf.shape), leaf.dtype)

    corners = jax.tree.map(cornered, kinds[0])
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *kinds[:2], corners)


def _positions(model: Any) -> list[Any]:
    """Return positions to look at: the origin, and draws from the prior, drawn near where there are none."""
    key = jax.random.key(0)
    if model.position is None and model.sample_prior is None:
        raise InvalidArgument("the model says neither what its position is nor how to draw one; state position= in it")
    shapes = jax.eval_shape(model.sample_prior, key) if model.position is None else model.position
    origin = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, jnp.float32), shapes)

    def near(key: jax.Array) -> Any:
        leaves, structure = jax.tree.flatten(origin)
        keys = jax.random.split(key, len(leaves))
        return jax.tree.unflatten(
            structure, [0.5 * jax.random.normal(one, leaf.shape) for one, leaf in zip(keys, leaves, strict=True)]
        )

    draw = near if model.sample_prior is None else model.sample_prior
    drawn = [jax.tree.map(lambda leaf: leaf.astype(jnp.float32), draw(one)) for one in jax.random.split(key, POSITIONS)]
    return [origin, *drawn]


def _typical(norms: np.ndarray, what: str) -> float:
    """Return the median of those that are finite and not zero, as a clip."""
    usable = norms[np.isfinite(norms) & (norms > 0)]
    if not len(usable):
        raise InvalidArgument(f"no synthetic row has a {what} that is finite and not zero; look at bounds and model")
    return float(np.median(usable))


def _clipped(vectors: np.ndarray, clip: float) -> np.ndarray:
    finite = np.where(np.isfinite(vectors).all(axis=1, keepdims=True), vectors, 0.0)
    norms = np.linalg.norm(finite, axis=1, keepdims=True)
    with np.errstate(over="ignore"):
        return finite * np.minimum(1.0, clip / np.maximum(norms, 1e-300))


def _spread(vectors: np.ndarray) -> float:
    """Return how far rows are apart at most, where the median of their norms is one."""
    norms = np.linalg.norm(vectors, axis=1)
    usable = norms[np.isfinite(norms) & (norms > 0)]
    if not len(usable):
        return 0.0
    clipped = _clipped(vectors, float(np.median(usable)))
    first, second = _apart(clipped)
    return float(np.linalg.norm(clipped[first] - clipped[second]) / np.median(usable))


def _apart(vectors: np.ndarray) -> tuple[int, int]:
    squares = (vectors**2).sum(axis=1)
    distances = squares[:, None] + squares[None, :] - 2 * vectors @ vectors.T
    first, second = np.unravel_index(int(np.argmax(distances)), distances.shape)
    return int(first), int(second)


def _farthest(clipped: np.ndarray, clip: float, what: str) -> tuple[int, int]:
    """Return the two rows that are farthest apart; refuse rows that are all the same, but for rounding."""
    first, second = _apart(clipped)
    if not np.linalg.norm(clipped[first] - clipped[second]) > _SAME * clip:
        raise InvalidArgument(
            f"no synthetic row can be told from another: the clipped {what} of the model is the same for all of them, "
            "so there is nothing to audit; look at what of a row the model reads, and at the bounds"
        )
    return first, second


def _others(count: int) -> np.ndarray:
    """Return which rows stand beside the canary."""
    return np.arange(min(OTHERS, count))


def _table(rows: Any, chosen: int) -> Any:
    places = np.concatenate([[chosen], _others(len(jax.tree.leaves(rows)[0]))])
    return jax.tree.map(lambda leaf: np.asarray(leaf)[places], rows)


def _named(rows: Any, chosen: int) -> dict[str, Any]:
    paths, _ = jax.tree_util.tree_flatten_with_path(rows)
    named = {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in paths}
    return {name: np.asarray(leaf)[chosen].tolist() for name, leaf in named.items() if not is_hidden(name)}
