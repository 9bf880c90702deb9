"""A fit before it starts: checked, planned and priced from public facts alone; nothing is charged yet."""

import secrets
import tomllib
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import LinAlgWarning

from dpmcmc import validation
from dpmcmc.accounting import Budget, Event, accountants
from dpmcmc.collector import not_collecting
from dpmcmc.diagnostics.quality import Quality, both, judge_chains
from dpmcmc.enclave import PrivateData, Session
from dpmcmc.fitting.budget_split import affordable, refuse_useless
from dpmcmc.fitting.models import as_model
from dpmcmc.fitting.numpy_errors import as_by_default
from dpmcmc.fitting.reading import Reading
from dpmcmc.fitting.recipes import RECIPES, SKETCH
from dpmcmc.fitting.strategies.laplace import PrivateLaplace
from dpmcmc.fitting.strategies.strategy import Drawn, Strategy
from dpmcmc.fitting.strategy_choice import choose_strategy
from dpmcmc.html import card, line
from dpmcmc.model import FormulaModel, Model
from dpmcmc.model.formula.prior_texts import as_texts
from dpmcmc.posterior import Posterior
from dpmcmc.run.interrupt import interruptible
from dpmcmc.run.plan import prior_draws
from dpmcmc.run.progress import Watcher, watch
from dpmcmc.run.sampling import delta_of, price_in_words


@contextmanager
def _quiet_numbers() -> Generator[None]:
    """Suppress what NumPy warns of, overflows or means of nothing: noise causes them, and the verdict reports it."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", LinAlgWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


@dataclass(frozen=True, eq=False, repr=False)
class PreparedFit:
    """A fit that was checked and priced. `describe` explains it; `run` charges the budget and runs it."""

    model: Model
    data: PrivateData
    budget: Budget
    planned: Budget
    """The budget that determines the noise: smaller than `budget` only if epsilon is very large."""
    strategy: Strategy
    seed: int
    insecure_seed: int | None
    arguments: Mapping[str, Any]
    """The arguments of `prepare_fit` as plain values; the model only if it is a formula."""
    progress: bool = True
    """Whether `run` shows a progress bar by default."""

    def __repr__(self) -> str:
        rows = dict(self._rows())
        title = f"PreparedFit: {rows.pop('model')}"
        return "\n".join(map(line, [title, *(f"{name}: {words}" for name, words in rows.items())]))

    def _repr_html_(self) -> str:
        """Show it in a notebook."""
        return card("Prepared fit", self._rows())

    def _rows(self) -> list[tuple[str, str]]:
        model = self.model
        return [
            ("model", f"{model.formula}, {model.family}" if isinstance(model, FormulaModel) else type(model).__name__),
            ("budget", f"{self.budget}"),
            ("sampler", self.sampler),
            ("expected error", f"{self.expected_error:.2g} posterior standard deviations"),
            ("charged", "nothing yet: run() charges the budget, describe() says what it would do"),
        ]

    @cached_property
    def event(self) -> Event:
        """The event of the run, which determines its charge."""
        return self.strategy.event

    @property
    def sampler(self) -> str:
        """The name of the requested or chosen sampler."""
        return self.strategy.name

    @property
    def num_steps(self) -> int:
        """The number of steps of each chain."""
        return self.strategy.num_steps

    @property
    def expected_error(self) -> float:
        """The expected error from the privacy noise, in posterior standard deviations."""
        return self.strategy.expected_error

    def describe(self) -> str:
        """Return a description of the model, the run and its cost."""
        return "\n".join(self._lines())

    @property
    def caution(self) -> str:
        """A warning about the run, if there is one; usually empty."""
        delta, size = self.budget.delta, self.data.facts.size
        if delta * size < 1:
            return ""
        return f"delta = {delta:g} is not below one over the number of {self._units}; take a smaller one"

    @property
    def description(self) -> str:
        """A short description of the run for the ledger."""
        return self.strategy.description

    @as_by_default()
    def run(self, *, progress: bool | None = None) -> Posterior:
        """Reserve the price in the ledger, run, and settle.

        Args:
            progress: whether to show a progress bar (default: as stated to `prepare_fit`).
        """
        progress = self.progress if progress is None else progress
        self.compile()
        with (
            interruptible() as is_interrupted,
            self.watched(progress) as watcher,
            self.data.reserve(self.event, description=self.description, insecure_seed=self.insecure_seed) as paid,
        ):
            return self.draw(paid, watcher, is_interrupted)

    def compile(self) -> None:
        """Compile the programs of private Laplace in parallel, as priced; other strategies compile when they run."""
        if isinstance(self.strategy, PrivateLaplace):
            with not_collecting():
                self.data.compile_for(self.event)

    def watched(self, progress: bool) -> AbstractContextManager[Watcher]:
        """Return the progress display of the run."""
        return watch(self.description, self.num_steps, price_in_words(self.event, self.budget.delta), progress)

    def draw(self, paid: Session, watcher: Watcher, is_interrupted: Callable[[], bool]) -> Posterior:
        """Run until the end or an interrupt, and return the posterior."""
        with _quiet_numbers():
            drawn = self.strategy.draw(paid, watcher, is_interrupted, self.seed)
        return Posterior(
            draws=drawn.draws,
            is_accepted=drawn.is_accepted,
            num_warmup=drawn.num_warmup,
            certificate=self.data.certificate(paid.spent, self.budget.delta, paid.paths),
            settings={
                **drawn.settings,
                "chosen": self.strategy.reason,
                "request": self._request(),
                "quality": self._quality(drawn).to_plain(),
            },
            prior=prior_draws(self.model),
            sample_stats=dict(drawn.sample_stats),
        )

    def _quality(self, drawn: Drawn) -> Quality:
        """Return the verdict: the strategy's, combined with that of the chains unless draws are independent."""
        if drawn.num_warmup == 0:
            return drawn.quality
        return both(
            drawn.quality, judge_chains({name: values[:, drawn.num_warmup :] for name, values in drawn.draws.items()})
        )

    def _request(self) -> dict[str, Any]:
        """Return the request as plain values, from which the model of a formula can be rebuilt."""
        asked: dict[str, Any] = {
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "sampler": self.sampler,
            "expected_error": self.expected_error,
            "description": self.describe(),
        }
        if isinstance(self.model, FormulaModel):
            asked |= {"formula": self.model.formula, "family": self.model.family, "priors": self.model.priors}
        asked |= {name: self.arguments[name] for name in ("purpose", "contact") if name in self.arguments}
        if self.data.schema is not None:
            asked["schema"] = tomllib.loads(self.data.schema.to_toml())
        return asked

    @property
    def _units(self) -> str:
        schema = self.data.schema
        return "records" if schema is None or schema.person is None else "persons"

    def _lines(self) -> Iterator[str]:
        facts = self.data.facts
        if isinstance(self.model, FormulaModel):
            yield self.model.describe()
        protected = "" if self._units == "records" else f" The unit of protection is a {self.data.unit}."
        yield f"Data: {facts.size:,} {self._units}, {facts.adjacency.words} adjacency.{protected}{self.data.held}"
        yield f"Run: {self.strategy.course}."
        epsilon = float(accountants.epsilon(self.event, self.budget.delta))
        yield f"Total cost: epsilon = {epsilon:.4g} at delta = {self.budget.delta:g}."
        if self.planned != self.budget:
            yield (
                f"The noise is that of epsilon = {self.planned.epsilon:.3g}: less is not possible at this delta, since "
                "e^epsilon times the sampler's distance from a Gaussian is part of the cost."
            )
        yield self.strategy.reason
        yield f"Expected error from the privacy noise: about {self.expected_error:.2g} posterior standard deviations."
        if self.caution:
            yield f"Warning: {self.caution}."


@as_by_default()
def prepare_fit(
    model: Model | str | Callable[..., Any],
    data: PrivateData,
    *,
    epsilon: float,
    delta: float | None = None,
    family: str | None = None,
    priors: Mapping[str, Any] | None = None,
    sampler: str = "auto",
    num_chains: int = 2,
    num_steps: int | None = None,
    init: Any = None,
    passes: int | None = None,
    block_seed: int | None = None,
    allow_low_accuracy: bool = False,
    purpose: str = "",
    contact: str = "",
    progress: bool = True,
    insecure_seed: int | None = None,
) -> PreparedFit:
    """Check, plan and price a fit without running it. Reads no record and charges nothing.

    The arguments are those of `fit`, which explains them in more detail.

    Args:
        model: a formula, a NumPyro model, or a `Model`.
        data: the private records, of which only public facts are used.
        epsilon: epsilon of the run.
        delta: delta of the run (default: that of the data's budget).
        family: for formulas, the family of the response.
        priors: for formulas, priors by parameter.
        sampler: ``"auto"`` (recommended), ``"sketch"``, or the name of a sampler.
        num_chains: the number of chains; each is charged.
        num_steps: steps per chain (default: depends on the sampler).
        init: where the pilot starts (default: the centre of the prior).
        passes: for formulas, the largest number of passes over all rows.
        block_seed: fixes the public positions of blocks of rows, if there are any (default: random).
        allow_low_accuracy: whether to allow an expected error above one posterior standard deviation.
        purpose: the purpose of the result; published with the run.
        contact: a contact for readers of the report; published with the run.
        progress: whether the run shows a progress bar.
        insecure_seed: fixes all randomness, for tests; the result then carries no guarantee.
    """
    formula = model if isinstance(model, str) else None
    priors = None if priors is None else as_texts(priors)
    model = as_model(model, data, family, priors)
    name = validation.choice("sampler", sampler, ("auto", *RECIPES, SKETCH))
    if num_steps is not None:
        num_steps = validation.integer("num_steps", num_steps, at_least=1)
    num_chains = validation.integer("num_chains", num_chains, at_least=1)
    budget = Budget(validation.positive("epsilon", epsilon), delta_of(delta, data))
    seed = secrets.randbits(63) if insecure_seed is None else validation.integer("insecure_seed", insecure_seed, 0)
    if block_seed is None:
        block_seed = secrets.randbits(63) if insecure_seed is None else seed
    block_seed = validation.integer("block_seed", block_seed, 0)
    if passes is not None:
        passes = validation.integer("passes", passes, at_least=1)
    reading, about = Reading(passes, block_seed), (("purpose", purpose), ("contact", contact))
    stated = {name: validation.text(name, words) for name, words in about if words != ""}
    strategy, planned = affordable(
        budget, lambda planned: choose_strategy(model, data, name, planned, num_steps, num_chains, init, reading)
    )
    if not allow_low_accuracy:
        error, called, size = strategy.expected_error, strategy.name, strategy.dimension
        refuse_useless(size, data.facts.size, budget, called, error, strategy.remedy if error > 1 else "")
    return PreparedFit(
        model=model,
        data=data,
        budget=budget,
        planned=planned,
        strategy=strategy,
        seed=seed,
        insecure_seed=insecure_seed,
        arguments={
            "model": formula,
            "family": family,
            "priors": None if priors is None else dict(priors),
            "epsilon": budget.epsilon,
            "delta": budget.delta,
            "sampler": name,
            "num_chains": num_chains,
            "num_steps": num_steps,
            "passes": passes,
            "block_seed": block_seed,
            **stated,
        },
        progress=progress,
    )
