"""The oracle: the private queries that a kernel can make.

An oracle turns a query into a release and adds the public prior exactly, at no cost. It returns nothing but the
release: a noisy value with the variance of its noise, or a bare decision.
It takes no noise key: the enclave draws a fresh one for every release (see `release`).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp

from dpmcmc import validation
from dpmcmc.accounting.partition import Partition
from dpmcmc.enclave.answers import Statistic, called, real_number
from dpmcmc.enclave.core.cells import Cells, facts_of, genuine_cells
from dpmcmc.enclave.core.mechanism import Mechanism, Term, contribution_of, is_certified, plan_of, rebuilt
from dpmcmc.enclave.core.metadata import Facts
from dpmcmc.enclave.core.release import release
from dpmcmc.enclave.lines import current_line
from dpmcmc.enclave.mechanisms.curvature import CurvatureSum, symmetric
from dpmcmc.enclave.refusals import rows_may_move
from dpmcmc.errors import InvalidArgument, NoiseKeyRefused, ReleaseRefused


class Noisy(NamedTuple):
    """A released value with the variance of its own noise, the same for every coordinate."""

    value: Any
    variance: jax.Array


class LogDensity(Protocol):
    """The interface of a model that the oracle needs: public code, never data."""

    @property
    def temperature(self) -> float:
        """The power that the likelihood is raised to: one for the posterior."""
        ...

    def log_prior(self, position: Any, /) -> jax.Array:
        """Return the log-density of the prior at a position."""
        ...

    def log_likelihood(self, position: Any, record: Any, /) -> jax.Array:
        """Return the log-density of one record at a position."""
        ...


@runtime_checkable
class NoisySum(Mechanism, Protocol):
    """A mechanism that releases a sum with noise."""

    @property
    def is_noisy_sum(self) -> bool:
        """True."""
        ...


@runtime_checkable
class Decision(Mechanism, Protocol):
    """A mechanism that releases one bit."""

    @property
    def acceptance(self) -> str:
        """The name of the acceptance rule that the bit obeys."""
        ...


class Oracle:
    """Private queries of one data set under one model; `PrivateData.run` passes it to the program."""

    __slots__ = ("_cells", "_model", "facts")

    def __init__(self, facts: Facts, model: LogDensity | None, cells: Cells | None = None) -> None:
        self.facts = facts
        self._model = model
        self._cells = cells

    @property
    def model(self) -> LogDensity:
        """The model that the run was given."""
        if self._model is None:
            raise InvalidArgument("model=None must be a model for this question; pass model= to PrivateData.run")
        return self._model

    @property
    def size(self) -> int:
        """The number of records that are queried or, if that is private, of slots: a public number."""
        return facts_of(self.facts, self._cells).size

    def partition(self, cuts: Sequence[int]) -> Partition:
        """Return cells of the places that records stand in, cut in front of these places: in order, within the table.

        A place is a slot of this vault, and who stands there is secret; of rows that are read chunk by chunk it is a
        position, if the owner states that rows keep their place.
        """
        if self.facts.places is None:
            raise rows_may_move()
        return Partition((0, *cuts, self.facts.size), self.facts.places)

    def shard(self, partition: Partition, cell: int | Sequence[int]) -> "Oracle":
        """Return an oracle for the records of one cell, or of several: the same queries, with the whole prior.

        Its releases compose in parallel (`Parallel`): neighbours differ in one cell, and over disjoint cells the
        largest cost counts. So each cell can be queried with the whole budget.
        """
        if self._cells is not None:
            raise InvalidArgument("this oracle is that of a shard; cut all places once, and ask for the cells of these")
        listed = list(cell) if isinstance(cell, Sequence) and not isinstance(cell, str) else [cell]
        numbers = tuple(validation.integer("cell", one, at_least=0) for one in listed)
        return Oracle(self.facts, self._model, genuine_cells(self.facts, Cells(partition, numbers)))

    def force(self, mechanism: NoisySum, position: Any, factor: Any = None) -> Noisy:
        """Return the noisy gradient of the log-posterior, shaped like `position` (Räisä et al. 2021, Section 3.1).

        With a factor, which has a row for each coordinate, it is the gradient with respect to z of position + factor z,
        at z = 0, as a vector; clip and noise refer to z.
        """
        if factor is not None:
            return self._force_along(mechanism, position, factor)
        queries, structure = self._flat("position", position)
        term = Term(self._log_likelihood, structure)
        (total,) = self._release(mechanism, NoisySum, term, queries)
        gradient = jax.tree.map(jnp.add, _nest(total, position), jax.grad(self._log_prior)(position))
        return Noisy(gradient, self._variance(mechanism, term, queries))

    def curvature(self, mechanism: CurvatureSum, position: Any, factor: Any) -> Noisy:
        """Return the noisy -Hessian of the log-posterior at `position`, in the coordinates z of position + factor z.

        The variance is that of diagonal entries; for the others it is half as large.
        """
        queries, structure = self._flat("position", position)
        factor = _factor(factor, queries)
        term = Term(self._log_likelihood, structure)
        (entries,) = self._release(mechanism, CurvatureSum, term, [*queries, factor])

        def log_prior(along: jax.Array) -> jax.Array:
            return self._log_prior(jax.tree.map(jnp.add, position, _nest(factor @ along, position)))

        of_prior = jax.hessian(log_prior)(jnp.zeros(factor.shape[1]))
        variance = self._variance(mechanism, term, [*queries, factor])
        return Noisy(symmetric(entries, factor.shape[1]) - of_prior, variance)

    def log_posterior_ratio(self, mechanism: NoisySum, current: Any, proposed: Any) -> Noisy:
        """Return the noisy log-posterior at `proposed` less the one at `current` (Räisä et al. 2021, Section 3)."""
        queries, term = self._pair(current, proposed)
        (total,) = self._release(mechanism, NoisySum, term, queries)
        ratio = total[0] + self._log_prior(proposed) - self._log_prior(current)
        return Noisy(ratio, self._variance(mechanism, term, queries))

    def accept(self, mechanism: Decision, current: Any, proposed: Any, log_correction: Any = 0.0) -> jax.Array:
        """Return the bare decision of a test of `proposed` against `current`; its uniform draw stays in the enclave.

        `log_correction` is the public part of the log acceptance ratio: momenta of HMC, an asymmetric proposal. A
        proposal at which the prior is zero or not a number is rejected.
        """
        queries, term = self._pair(current, proposed)
        public = self._log_prior(proposed) - self._log_prior(current) + log_correction
        (decision,) = self._release(mechanism, Decision, term, [*queries, jnp.asarray(public, queries[0].dtype)])
        return decision

    def sum(self, mechanism: NoisySum, statistic: Callable[..., Any], *arguments: Any) -> Noisy:
        """Return the noisy sum over records of the clipped vectors ``statistic(*arguments, record)``, flat."""
        queries, structure = jax.tree.flatten(arguments)
        queries = [_public(f"arguments[{index}]", query) for index, query in enumerate(queries)]
        term = Term(Statistic(statistic), structure)
        (total,) = self._release(mechanism, NoisySum, term, queries)
        return Noisy(total, self._variance(mechanism, term, queries))

    def _force_along(self, mechanism: NoisySum, position: Any, factor: Any) -> Noisy:
        """Return the noisy gradient by z: a sum of scores, with the clip, the noise and the price of a gradient's."""
        queries, _ = self._flat("position", position)
        vector = jnp.concatenate([jnp.ravel(query) for query in queries])

        def score(centre: jax.Array, factor: jax.Array, record: Any) -> jax.Array:
            return factor.T @ jax.grad(lambda at: self._log_likelihood(_nest(at, position), record))(centre)

        of_records = self.sum(_sum_of_scores(mechanism), score, vector, _factor(factor, queries))
        of_prior = jax.grad(lambda at: self._log_prior(_nest(at, position)))(vector)
        return Noisy(of_records.value + factor.T @ of_prior, of_records.variance)

    def _log_prior(self, position: Any) -> jax.Array:
        return self._answer("log_prior", "a position", position)

    def _log_likelihood(self, position: Any, record: Any) -> jax.Array:
        return self.model.temperature * self._answer("log_likelihood", "a position and a record", position, record)

    def _answer(self, name: str, takes: str, *arguments: Any) -> jax.Array:
        """Return what a method of the model answers: one real number."""
        return real_number(name, called(f"{name} of the model", takes, getattr(self.model, name, None), *arguments))

    def _pair(self, current: Any, proposed: Any) -> tuple[list[jax.Array], Term]:
        first, structure = self._flat("current", current)
        second, other = self._flat("proposed", proposed)
        if structure != other or [query.shape for query in first] != [query.shape for query in second]:
            raise InvalidArgument("proposed must have the structure and the shapes of current")
        return [*first, *second], Term(self._log_likelihood, structure)

    def _flat(self, name: str, position: Any) -> tuple[list[jax.Array], Any]:
        leaves, structure = jax.tree.flatten((position,))
        if not leaves:
            raise InvalidArgument(f"{name} holds no array; expected at least one real number")
        return [_public(name, leaf) for leaf in leaves], structure

    def _variance(self, mechanism: NoisySum, term: Term, queries: Sequence[jax.Array]) -> jax.Array:
        """Return the variance of the noise of a release: public, and free."""
        plan = plan_of(mechanism, facts_of(self.facts, self._cells), contribution_of(mechanism, term), queries)
        if plan.variance is None:
            raise InvalidArgument(f"mechanism is a {type(mechanism).__name__}, which releases no noisy sum")
        with jax.ensure_compile_time_eval():  # known while the program is traced, where it depends on no query
            return plan.variance(queries)

    def _release(
        self, mechanism: Mechanism, kind: type[Any], term: Term, queries: Sequence[jax.Array]
    ) -> list[jax.Array]:
        _refuse_key("mechanism", mechanism)
        if not is_certified(mechanism, self.facts.extra_mechanisms) or not isinstance(mechanism, kind):
            raise ReleaseRefused(
                f"mechanism is a {type(mechanism).__name__} at {current_line()}; "
                f"expected a certified mechanism of the kind {kind.__name__}"
            )
        return release(self.facts, rebuilt(mechanism), term, queries, self._cells)


def _sum_of_scores(mechanism: Any) -> Any:
    """Return the mechanism that sums scores as a given one sums gradients."""
    of_scores = getattr(mechanism, "of_scores", None)
    if of_scores is None:
        kind = type(mechanism).__name__
        raise InvalidArgument(f"gradient is a {kind}; expected a GradientSum where there is a metric")
    return of_scores


def _factor(value: Any, queries: Sequence[jax.Array]) -> jax.Array:
    """Return a factor as an array, with a row for each coordinate of a position."""
    factor = _public("factor", value)
    if factor.ndim != 2 or factor.shape[0] != sum(query.size for query in queries):
        raise InvalidArgument(f"factor has the shape {factor.shape}; expected one row for each coordinate")
    return factor


def _nest(vector: jax.Array, like: Any) -> Any:
    """Return the coordinates of a flat vector in the structure and the shapes of `like`."""
    leaves, structure = jax.tree.flatten(like)
    ends = [0]
    for leaf in leaves:
        ends.append(ends[-1] + jnp.size(leaf))
    parts = [
        vector[start:end].reshape(jnp.shape(leaf)) for leaf, start, end in zip(leaves, ends[:-1], ends[1:], strict=True)
    ]
    return jax.tree.unflatten(structure, parts)


def _public(name: str, value: Any) -> jax.Array:
    """Return a public query as an array of real numbers."""
    _refuse_key(name, value)
    try:
        array = jnp.asarray(value)
    except TypeError as error:
        raise InvalidArgument(f"{name} is a {type(value).__name__}; expected real numbers") from error
    if not jnp.issubdtype(array.dtype, jnp.floating):
        raise InvalidArgument(f"{name} has the type {array.dtype}; expected real numbers")
    return array


def _refuse_key(name: str, value: Any) -> None:
    if jnp.issubdtype(getattr(value, "dtype", jnp.float32), jax.dtypes.prng_key):
        raise NoiseKeyRefused(
            f"{name} is a random key at {current_line()}: a release takes no key, the enclave draws fresh noise for "
            "each one. Use your key for proposals, and leave it out here"
        )
