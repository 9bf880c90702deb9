"""`PrivateData`: the vault, with tables, resumable runs, selection of runs, and descriptions in words."""

import os
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from textwrap import wrap
from threading import Lock
from typing import TYPE_CHECKING, Any

import jax

from dpmcmc.accounting.adjacency import Adjacency
from dpmcmc.accounting.budget import Budget
from dpmcmc.accounting.event import Event, NonPrivate, compose, counts, genuine
from dpmcmc.accounting.parallel import Parallel
from dpmcmc.accounting.partition import Partition
from dpmcmc.accounting.payer import Payer, settle, statements
from dpmcmc.accounting.selection import repeat_and_select
from dpmcmc.enclave.bounds import leaf_names
from dpmcmc.enclave.core.metadata import Facts
from dpmcmc.enclave.core.session import Session
from dpmcmc.enclave.core.vault import CHUNK_SIZE, Vault
from dpmcmc.enclave.oracle import Oracle
from dpmcmc.enclave.resume.journal import Journal, reservation_of
from dpmcmc.enclave.resume.session import ResumableRun
from dpmcmc.enclave.select import Attempt, Best, best_of
from dpmcmc.errors import InvalidArgument
from dpmcmc.html import card
from dpmcmc.missing_cells import is_hidden
from dpmcmc.schema import Schema

if TYPE_CHECKING:
    from dpmcmc.accounting.certificate import Certificate
    from dpmcmc.accounting.ledger import DatasetAccount

_STANDING = Lock()
"""Held while the records of a vault are put elsewhere."""


class PrivateData(Vault):
    """Private records, their public metadata, and the privacy budget that every query is charged to.

    Args:
        records: a pytree of arrays with one row per record, or a DataFrame or table with such columns.
        bounds: the lower and upper bound of each leaf, by name; stated by the owner, never computed from the data.
        adjacency: which data sets count as neighbours; ``replace_one`` makes the number of records public.
        capacity: an upper bound on the number of records, known without the data. It is required under
            ``add_or_remove_one``, where the true number is private. Time and memory grow with it, noise does not.
        ledger: the ledger to charge; needs `dataset`.
        dataset: the name of these records in the ledger.
        budget: instead of a ledger, a budget that lives as long as this object.
        chunk_size: the largest number of records that a mechanism holds in memory at once. It affects speed and
            memory; results change at most by the rounding of one record's contribution.
        noise: how noise is drawn: ``exact``; or ``float``, for tests, without a guarantee and without a charge.
        devices: the devices over which the records are spread (default: one, chosen by JAX); no release depends on it.
        accelerate: whether faster summation paths may be used (certificates name them), or the reference path alone.
        extra_mechanisms: mechanism classes without a proof in this library that the owner accepts; for tests.
        schema: the owner's statements about the columns, if the records come from a table (`from_table`).
        rows_keep_place: for records that are read chunk by chunk, the owner's statement that the position of a row does
            not depend on the values of any row: replacing one row leaves all others in place. Shards of such records
            need it.
    """

    __slots__ = ()

    @classmethod
    def from_table(
        cls,
        source: Any,
        *,
        schema: Any,
        ledger: Payer | str | None = None,
        dataset: str | None = None,
        budget: Budget | None = None,
        adjacency: Adjacency | str = Adjacency.REPLACE_ONE,
        capacity: int | None = None,
        chunk_size: int = CHUNK_SIZE,
        in_memory: bool | None = None,
        scratch: str | os.PathLike[str] | None = None,
        client: Any = None,
        rows_keep_place: bool = False,
    ) -> "PrivateData":
        """Load a table as private data. The budget is checked before a row is read.

        Args:
            source: the path of a CSV, Parquet or Arrow file or of a folder of Parquet, a pattern such as
                ``lake/*.parquet``, a URL, a list of these, a DataFrame of pandas or polars, a Table of pyarrow, or a
                DuckDB connection and a query.
            schema: the owner's statements about the columns: a `Schema`, a dictionary for one, or a TOML file.
            ledger: the ledger to charge, or its URL.
            dataset: the name of the table in the ledger (default: for a file, its name without the extension).
            budget: without a ledger, a budget that lives as long as this object; with one, the budget that the ledger
                grants the table. The ledger is then created if it does not exist.
            adjacency: which data sets are neighbours: of rows or, where the schema names persons, of persons.
            capacity: an upper bound on the number of records, known without the data; required under
                ``add_or_remove_one``.
            chunk_size: the largest number of records that a mechanism holds in memory at once.
            in_memory: whether all rows are held in memory, or read chunk by chunk in every pass. If None, files that
                would take more than a part of the machine's memory are read chunk by chunk; docs/scale.md says more.
            scratch: a folder in which rows that are read chunk by chunk are staged once, in private.
            client: a `dask.distributed.Client`; the workers of its cluster read the files, hold the rows and compute
                sums.
            rows_keep_place: the owner's statement that the position of a row in the source does not depend on the
                values of any row: replacing one row leaves all others in place. This is true if rows are appended as
                they arrive, and false if they are sorted by age or by name. Shards of rows that are read chunk by chunk
                need it; rows in memory are shuffled.
        """
        from dpmcmc.enclave.tables.vault import from_table

        return from_table(
            source,
            schema=schema,
            ledger=ledger,
            dataset=dataset,
            budget=budget,
            adjacency=adjacency,
            capacity=capacity,
            chunk_size=chunk_size,
            in_memory=in_memory,
            scratch=scratch,
            client=client,
            rows_keep_place=rows_keep_place,
        )

    @property
    def schema(self) -> Schema | None:
        """The owner's statements about the columns, if the records came from a table."""
        return self._schema

    def partition(self, cuts: Sequence[int]) -> Partition:
        """Return a public partition of the places of the records into cells; see `Oracle.partition`.

        Args:
            cuts: the places at which a new cell begins, in ascending order.
        """
        return Oracle(self._facts, None).partition(cuts)

    @property
    def held(self) -> str:
        """Where the records are kept, in words, if not in memory."""
        if self.is_in_memory:
            return ""
        where = "" if self._placement.seed is None else "stand in secret slots of a private file and "
        return f" They {where}are read chunk by chunk."

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Assumptions of the guarantee beside those of the proofs, in words: for certificates."""
        facts, stated = self._facts, list[str]()
        if facts.adjacency is Adjacency.ADD_OR_REMOVE_ONE:
            stated.append(f"the table has at most {facts.size} records, whatever happens")
        if not self.is_in_memory and self._placement.seed is None:
            stated.append("no value of a row decides where rows stand: one that is replaced leaves all others in place")
        if facts.extra_mechanisms:
            names = ", ".join(sorted(kind.__name__ for kind in facts.extra_mechanisms))
            stated.append(f"mechanisms without a proof of this library do what they say: {names}")
        return (*stated, *statements(self._payer, self._dataset))

    def certificate(self, spent: Event, delta: float, paths: tuple[str, ...] = ()) -> "Certificate":
        """Return the certificate of a release about these records.

        Args:
            spent: the event of what was released.
            delta: the delta at which the certificate states epsilon.
            paths: how sums were computed, in words.
        """
        from dpmcmc.accounting.certificate import Certificate

        adjacency = self._facts.adjacency
        return Certificate(
            spent, adjacency, delta, self.assumptions, unit=self.unit, paths=paths, device=self._placement.kind
        )

    @property
    def dataset(self) -> str:
        """The name of the records in the ledger."""
        return self._dataset

    @property
    def account(self) -> "DatasetAccount | None":
        """The account of these records in the ledger: budget and spending; None without a ledger."""
        read = getattr(self._payer, "account", None)
        return None if read is None else read(self._dataset)

    @property
    def budget(self) -> Budget | None:
        """The budget of these records in the ledger; None without a ledger."""
        account = self.account
        return None if account is None else account.budget

    def compile_for(self, event: Event) -> None:
        """Compile in parallel the programs that were priced and fit into `event`, before anything is charged.

        They are lowered in this thread, where the caller's settings of JAX hold, and compiled in others.
        """
        paid = counts(event)
        priced = [
            one
            for one in reversed(self._programs.kept.values())  # what is asked later compiles longer
            if all(times <= paid.get(part, 0) for part, times in counts(one.audit.event).items())
        ]
        with ThreadPoolExecutor() as pool:
            compiling: dict[Any, Future[Any]] = {}
            for one in priced:
                if one.compile not in compiling:  # some share an executable
                    one.lower()
                    compiling[one.compile] = pool.submit(one.compile)
            for each in compiling.values():
                each.result()

    @contextmanager
    def reserve_resumable(self, event: Event, journal: Journal, *, description: str = "run") -> Generator[Session]:
        """Start or resume a resumable run: like `reserve`, but a run that raises is not settled.

        Its charge then stays, and resuming it with the same journal costs nothing. journal.md has the proof that
        nothing is released twice. A run that fails before anything was executed costs nothing and cannot be resumed.

        Args:
            event: the event of everything that the run may release.
            journal: the journal of the run.
            description: the run in a few words, for the ledger.
        """
        if type(journal) is not Journal:  # it says what the noise is, and what was spent
            raise InvalidArgument(f"journal is a {type(journal).__name__}; expected a dpmcmc.enclave.Journal, as it is")
        self._check_alone("a run that may be resumed")
        with _STANDING:  # records and their places are read, and change, together
            event, leaves = genuine(event, with_cells=True), self._in_order()
            where = getattr(self._placement, "machines", self._placement.words)
            records = journal.recognise(leaves, _stated(self._facts, self.unit), where)
            seed = None if self._seed is None else journal.places(self._seed)
            if seed != self._seed:
                before = self._facts.places
                self._stand(leaves, seed)
                event = _at_places(event, before, self._facts.places)
        reservation = reservation_of(journal, self._payer, self._dataset, event, description, self._facts.adjacency)
        paid = ResumableRun(event, self._ready, journal, records, reservation=reservation)
        try:
            yield paid
        except Exception:
            if not journal.num_begun and paid.settle():
                journal.forget()
            raise
        if paid.settle():
            journal.forget()

    def select(
        self,
        attempts: Sequence[Attempt],
        *,
        mean: float,
        shape: float = 0.0,
        description: str = "selection",
        insecure_seed: int | None = None,
    ) -> Best:
        """Run attempts a secret random number of times, `mean` on average, and return only the best run.

        The price does not depend on the number of runs, and all of it stays charged: how much of it was used is
        secret. select.md has the proof.

        Args:
            attempts: the candidate runs.
            mean: the average number of runs.
            shape: the shape of the distribution of their number: 0 is logarithmic, 1 geometric.
            description: the selection in a few words, for the ledger.
            insecure_seed: fixes all randomness, for tests; the result then carries no guarantee.
        """
        self._check_alone("a selection")
        attempts = [Attempt(genuine(attempt.event), attempt.run) for attempt in attempts]  # each is asked once
        price = repeat_and_select([attempt.event for attempt in attempts], mean, shape)
        charge = price if insecure_seed is None else price + NonPrivate()
        reservation = self._payer.reserve(
            self._dataset, charge, description=description, adjacency=self._facts.adjacency
        )

        def begin(event: Event, seed: int | None) -> Session:
            return Session(genuine(event), self._ready, seed, reservation=reservation)

        try:
            best = best_of(attempts, price, begin, insecure_seed)
            reservation.check_standing()  # once, however many runs there were: their number is secret
        finally:
            settle(reservation, charge)
        return best

    def _check_alone(self, what: str) -> None:
        if self._placement.num_processes > 1:
            raise InvalidArgument(f"{what} is for one process; leave out devices= of others, or make a plain run")

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={value}" for name, value in self._known())
        leaves = wrap(", ".join(leaf.replace(" ", "\N{NO-BREAK SPACE}") for leaf in self._leaves()), 78)
        shown = leaves if len(leaves) <= 4 else [*leaves[:3], f"and more; {len(self._leaves())} in all"]
        return "\n".join([f"PrivateData({facts}{self._placement.words})", *(f"  {line}" for line in shown)]).replace(
            "\N{NO-BREAK SPACE}", " "
        )

    def _repr_html_(self) -> str:
        """Show what is public of it in a notebook."""
        stated = [("columns", "; ".join(self._leaves()))]
        if self._schema is not None:
            stated = [(name, column.values_in_words) for name, column in self._schema.columns.items()]
        return card("Private data", [*self._known(), *stated])

    def _known(self) -> list[tuple[str, object]]:
        """Return what is public of the records as a whole."""
        facts = self._facts
        return [
            ("size" if facts.adjacency is Adjacency.REPLACE_ONE else "capacity", facts.size),
            ("adjacency", facts.adjacency.value),
            ("dataset", repr(self._dataset)),
            *([] if self.unit == "record" else [("unit", repr(self.unit))]),
            *([] if facts.noise == "exact" else [("noise", repr(facts.noise))]),
        ]

    def _leaves(self) -> list[str]:
        """Return the leaves of a record with their types and bounds."""
        facts = self._facts
        leaves = zip(leaf_names(facts.record), jax.tree.leaves(facts.record), strict=True)
        shown = [(name, leaf, facts.bounds.get(name)) for name, leaf in leaves if not is_hidden(name)]
        return [
            f"{name}: {leaf.dtype}{list(leaf.shape) or ''}" + ("" if pair is None else f" {pair[0]:g} to {pair[1]:g}")
            for name, leaf, pair in shown
        ]


def _stated(facts: Facts, unit: str) -> str:
    """Return what is stated of records, in words, to know them again by."""
    names, nested = leaf_names(facts.record), str(jax.tree.structure(facts.record))
    stated = facts.adjacency.value, unit, facts.size, sorted(facts.bounds.items()), facts.noise
    ways = facts.chunk_size, [path.__qualname__ for path in facts.paths], facts.share is not None, facts.places is None
    return repr((names, nested, *stated, *ways))


def _at_places(event: Event, before: str | None, now: str | None) -> Event:
    """Return what was to be asked of slots that were drawn, of the slots that records stand in now."""
    if now is None or not isinstance(event, Parallel):
        return event
    moved = [replace(one, places=now) if one.places == before else one for one in event.partitions]
    return compose([Parallel.of_cells(moved, enumerate(event.cells))]) if len(moved) == 1 else event
