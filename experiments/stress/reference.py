"""The exact posterior of a table: NUTS, or a normal approximation corrected by importance sampling.

One for each table, kept in `results/cells/references` and shared by all budgets. Importance weights are believed with a
Pareto k below `KHAT`; else, where records times parameters are at most `NUTS_UP_TO`, NUTS starts from the mode.
"""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from arviz import psislw
from numpyro.infer import MCMC, NUTS

from dpmcmc.model import Model
from dpmcmc.run.plan import parameters
from dpmcmc.run.program import Layout

FOLDER = Path(__file__).parent / "results" / "cells" / "references"
KHAT, NUTS_UP_TO = 0.5, 400_000
DRAWS = 1000
CHUNK = 25


class Reference(NamedTuple):
    """Draws of the exact posterior by parameter, and how they were made."""

    draws: Mapping[str, np.ndarray]
    method: str


def reference(name: str, seed: int, model: Model, records: Any, near: Mapping[str, np.ndarray]) -> Reference:
    """Return the reference of a problem's table, from the folder if it is there."""
    place = FOLDER / f"{name}_{seed}.npz".replace(" ", "_")
    if place.exists():
        with np.load(place) as kept:
            return Reference({key: kept[key] for key in kept.files if key != "method"}, str(kept["method"]))
    found = exact(model, records, near)
    place.parent.mkdir(parents=True, exist_ok=True)
    np.savez(place, method=found.method, **found.draws)
    return found


def exact(model: Model, records: Any, near: Mapping[str, np.ndarray]) -> Reference:
    """Return draws of the exact posterior of records, given parameters that are near it."""
    layout = Layout.of(model.position)
    found = [_drawn(model, layout, records, near, centred) for centred in (True, False)[: 1 + _has_groups(layout)]]
    vectors, method = min(found, key=lambda each: ("importance", "nuts", "laplace").index(each[1]))
    drawn = parameters(model, layout, vectors[None])
    return Reference({key: values[0] for key, values in drawn.items()}, method)


def _drawn(
    model: Model, layout: Layout, records: Any, near: Mapping[str, np.ndarray], centred: bool
) -> tuple[np.ndarray, str]:
    """Return flat positions, found with random intercepts themselves, or in units of their standard deviation."""
    position = model.unconstrain({name: jnp.asarray(values) for name, values in near.items()})
    start = _vector(layout, position) if centred else layout.ravel(position)
    functions = _functions(model, layout, centred)
    vectors, method = _sampled(start, functions, records)
    if not centred:
        return np.float32(vectors), method
    back = jax.vmap(lambda vector: layout.ravel(_position(layout, vector)[0]))
    return np.asarray(back(jnp.float32(vectors))), method


def _sampled(start: Any, functions: tuple[Any, Any, Any, Any], records: Any) -> tuple[np.ndarray, str]:
    value, slope, bend, values = functions
    if not np.isfinite(float(value(start, records))):
        start = jnp.zeros_like(start)  # a fit that led placeholder is no place to start from
    mode, root = _mode(np.asarray(start, float), value, slope, bend, records)
    rng = np.random.default_rng(0)
    normal, freedom = rng.standard_normal((DRAWS, len(mode))), 7.0 if len(mode) <= 10 else 100.0
    wide = normal / np.sqrt(rng.chisquare(freedom, (DRAWS, 1)) / freedom)
    proposed = mode + wide @ root.T
    logs = np.concatenate(
        [np.asarray(values(jnp.float32(part), records)) for part in np.split(proposed, DRAWS // CHUNK)]
    )
    proposal = -0.5 * (freedom + len(mode)) * np.log1p(np.sum(wide**2, axis=1) / freedom)
    logs = np.where(np.isfinite(logs), logs - float(value(jnp.float32(mode), records)) - proposal, -np.inf)
    if np.isfinite(logs).sum() > DRAWS // 2:
        weights, k = psislw(np.where(np.isfinite(logs), logs, logs[np.isfinite(logs)].min() - 50))
        if float(k) < KHAT:
            weights = np.exp(np.asarray(weights))
            return proposed[rng.choice(DRAWS, 2 * DRAWS, p=weights / weights.sum())], "importance"
    size = len(jax.tree.leaves(records)[0]) * len(mode)
    if size > NUTS_UP_TO:
        return mode + normal @ root.T, "laplace"
    return _nuts(value, records, mode, root), "nuts"


def _nuts(value: Any, records: Any, mode: np.ndarray, root: np.ndarray) -> np.ndarray:
    centre, factor = jnp.float32(mode), jnp.float32(root)
    kernel = NUTS(potential_fn=lambda place: -value(centre + factor @ place, records), target_accept_prob=0.9)
    sampler = MCMC(kernel, num_warmup=400, num_samples=500, num_chains=2, chain_method="vectorized", progress_bar=False)
    sampler.run(jax.random.key(0), init_params=jnp.zeros((2, len(mode))))
    return mode + np.asarray(sampler.get_samples(), float) @ root.T


def _mode(vector: np.ndarray, value: Any, slope: Any, bend: Any, records: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the mode and a root of the covariance there, by Newton's steps."""
    best, roots = -np.inf, np.eye(len(vector))
    for _ in range(100):
        gradient = np.asarray(slope(jnp.float32(vector), records), float)
        matrix = -np.asarray(bend(jnp.float32(vector), records), float)
        if not np.isfinite(matrix).all():
            vector = vector / 2
            continue
        sizes, vectors = np.linalg.eigh(matrix)
        sizes = np.maximum(np.abs(sizes), 1e-6 * np.abs(sizes).max())
        roots = vectors / np.sqrt(sizes)
        step, length, reached = vectors @ ((vectors.T @ gradient) / sizes), 1.0, best
        while length > 1e-3:
            reached = float(value(jnp.float32(vector + length * step), records))
            if np.isfinite(reached) and reached >= best - 1e-6 * abs(best):
                break
            length /= 2
        vector, best = vector + length * step, reached
        if np.linalg.norm(np.sqrt(sizes) * (vectors.T @ step)) < 0.02:
            break
    return vector, roots


def _position(layout: Layout, vector: Any) -> tuple[Any, Any]:
    """Return a position and a log-Jacobian: in a vector random intercepts are themselves, not in units of their sd."""
    position = layout.unravel(vector)
    groups = [name for name in position if f"{name}_sigma" in position] if isinstance(position, dict) else []
    jacobian = jnp.zeros(())
    for name in groups:
        spread = position[f"{name}_sigma"]
        jacobian = jacobian - jnp.sum(jnp.broadcast_to(spread, position[name].shape))
        position = {**position, name: position[name] / jnp.exp(spread)}
    return position, jacobian


def _vector(layout: Layout, position: Any) -> jax.Array:
    groups = [name for name in position if f"{name}_sigma" in position] if isinstance(position, dict) else []
    turned = {name: position[name] * jnp.exp(position[f"{name}_sigma"]) for name in groups}
    return layout.ravel({**position, **turned}) if groups else layout.ravel(position)


def _has_groups(layout: Layout) -> bool:
    position = layout.unravel(jnp.zeros(layout.dimension))
    return isinstance(position, dict) and any(f"{name}_sigma" in position for name in position)


@lru_cache(maxsize=64)
def _functions(model: Model, layout: Layout, centred: bool) -> tuple[Any, Any, Any, Any]:
    def log_posterior(vector: jax.Array, records: Any) -> jax.Array:
        position, log_jacobian = _position(layout, vector) if centred else (layout.unravel(vector), 0.0)
        likelihood = jax.vmap(lambda record: model.log_likelihood(position, record))(records)
        return model.log_prior(position) + log_jacobian + jnp.sum(likelihood)

    many = jax.vmap(log_posterior, in_axes=(0, None))
    return jax.jit(log_posterior), jax.jit(jax.grad(log_posterior)), jax.jit(jax.hessian(log_posterior)), jax.jit(many)
