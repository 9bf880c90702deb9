"""The vault of a table: `from_table`."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from dpmcmc.accounting.adjacency import Adjacency
from dpmcmc.accounting.budget import Budget
from dpmcmc.accounting.ledger import Ledger
from dpmcmc.accounting.payer import Payer
from dpmcmc.enclave.core.vault import CHUNK_SIZE
from dpmcmc.enclave.data import PrivateData
from dpmcmc.enclave.refusals import no_capacity
from dpmcmc.errors import AdjacencyMismatch, InvalidArgument
from dpmcmc.schema import Schema

Contents: TypeAlias = tuple[Any, Mapping[str, tuple[float, float]] | None]
"""The leaves of records, and their bounds; or a source of records, which states them itself."""


def from_table(
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
) -> PrivateData:
    """Put a table into a vault. What pays for it is found, or refused, before a row is read.

    Args:
        source: a path, a table in memory or a DuckDB query, as `read_table` takes them; or files as
            `sources.FileSource` takes them: a pattern such as ``lake/*.parquet``, a URL, a list of these.
        schema: what the owner states of the columns: a `Schema`, what one is made of, or a TOML file.
        ledger: the ledger that is charged, or its URL.
        dataset: the name of the table in the book; for a file, if left out, its name without the ending.
        budget: without a ledger, a budget that lives as long as the vault; with one, the budget that the book grants
            the table, and then the ledger is created if it does not exist.
        adjacency: which data sets are neighbours: of records, that is rows or, where the schema names persons, persons.
        capacity: the stated number of slots for records, required under ``add_or_remove_one``.
        chunk_size: how many records a mechanism holds at once at most, as for `PrivateData`.
        in_memory: whether all rows are held in memory; or read chunk by chunk, in every pass: under add-or-remove-one,
            and of persons, from private scratch. If None, files of Parquet and Arrow that would take more than a part
            of the machine's memory, by what is public of their size, are read chunk by chunk, and everything else is
            held. docs/scale.md says more.
        scratch: a folder, on a disk, in which records are put once, in private, into secret slots, and read from in
            every pass; or rows in their order, if that is stated to be harmless (`rows_keep_place`).
        client: a `dask.distributed.Client`: the workers of its cluster read the files, hold the rows and add up.
        rows_keep_place: the statement that no value of a row decides where rows stand, as for `PrivateData.from_table`.
    """
    from dpmcmc.enclave.sources.opening import Wishes, contents

    stated = Schema.read(schema)
    relation = Adjacency.parse("adjacency", adjacency)
    held = None if client is None else _on_workers(source, stated, relation, client, in_memory, scratch)
    wishes = Wishes(relation, capacity, in_memory, scratch, rows_keep_place)
    return open_vault(
        lambda: contents(source, stated, wishes) if held is None else (held, None),
        source,
        stated,
        ledger=ledger,
        dataset=dataset,
        budget=budget,
        adjacency=adjacency,
        capacity=capacity,
        chunk_size=chunk_size,
        is_there=held is not None,
        rows_keep_place=rows_keep_place,
    )


def _on_workers(source: Any, schema: Schema, adjacency: Adjacency, client: Any, in_memory: Any, scratch: Any) -> Any:
    """Return the engine of a cluster whose workers hold a table; whatever is wrong with it is said before any grant."""
    from dpmcmc.enclave.sources.opening import check_positions, is_files

    if in_memory is not None or scratch is not None or not is_files(source):
        raise InvalidArgument(
            "client= has workers read files and hold their rows; expected a file, a folder, a pattern, a URL or a list "
            "of these, by names that all workers know, without in_memory= and scratch="
        )
    check_positions(schema, adjacency, "client=")
    from dpmcmc.enclave.engines.dask import DaskEngine

    return DaskEngine(source, schema, client)


def open_vault(
    read: Callable[[], Contents],
    source: Any,
    schema: Schema,
    *,
    ledger: Payer | str | None = None,
    dataset: str | None = None,
    budget: Budget | None = None,
    adjacency: Adjacency | str = Adjacency.REPLACE_ONE,
    capacity: int | None = None,
    chunk_size: int = CHUNK_SIZE,
    is_there: bool = False,
    rows_keep_place: bool = False,
) -> PrivateData:
    """Find what pays for a source, then read it, and put what was read into a vault.

    Args:
        read: returns the records that the source becomes, and their bounds.
        source: the table, for its name.
        schema: what is stated of its columns.
        ledger: as for `from_table`, and so are the others.
        dataset: its name in the ledger.
        budget: what is granted.
        adjacency: which data sets are neighbours.
        capacity: the stated number of slots.
        chunk_size: how many records are held at once.
        is_there: whether it was found already, by machines that see other files than this one.
        rows_keep_place: whether no value of a row decides where rows stand.
    """
    relation = Adjacency.parse("adjacency", adjacency)
    if relation is Adjacency.ADD_OR_REMOVE_ONE and capacity is None:
        raise no_capacity()
    if ledger is not None:
        from dpmcmc.enclave.sources.opening import check_there, is_plain

        dataset = _name(source) if dataset is None else dataset
        is_missing = False
        if not is_there:
            check_there(source)
            is_missing = isinstance(source, str | os.PathLike) and is_plain(source) and not Path(source).exists()
        ledger = _book(ledger, dataset, budget, relation, is_missing)
        budget = None
    elif budget is None:
        raise InvalidArgument("state the budget: ledger= with a ledger or its URL, or budget= with a Budget")
    records, bounds = read()
    return PrivateData(
        records,
        bounds=bounds,
        adjacency=relation,
        capacity=capacity,
        ledger=ledger,
        dataset=dataset,
        budget=budget,
        chunk_size=chunk_size,
        schema=schema,
        rows_keep_place=rows_keep_place,
    )


def _name(source: Any) -> str:
    """Return the name of a file without its ending, or of a folder."""
    from dpmcmc.enclave.sources.opening import name_of

    if isinstance(source, str | os.PathLike) and (name := name_of(source)):
        return name
    raise InvalidArgument("dataset=None must be the name of the table in the ledger: it is not a file, which has one")


def _book(ledger: Payer | str, dataset: str, budget: Budget | None, adjacency: Adjacency, is_missing: bool) -> Payer:
    """Return the ledger that is charged, after making sure that it knows the table under this adjacency."""
    if isinstance(ledger, str | os.PathLike):
        ledger = Ledger(ledger) if budget is None else Ledger.create(ledger)
    if not isinstance(ledger, Ledger):
        return ledger
    if budget is not None:
        if is_missing:  # a grant to the name of no file would stay in the ledger
            raise InvalidArgument(f"dataset={dataset!r} is granted no budget: there is no such file or folder")
        ledger.register(dataset, budget, adjacency)
    granted = ledger.account(dataset).adjacency
    if granted is not adjacency:
        raise AdjacencyMismatch(
            f"dataset={dataset!r} is protected under {granted.words} and adjacency={adjacency.value!r} was asked for; "
            f"say adjacency={granted.value!r}"
        )
    return ledger
