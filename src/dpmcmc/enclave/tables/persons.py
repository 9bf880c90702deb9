"""Several rows a person: every person becomes one record with a fixed number of places. persons.md has the proof.

A record is a function of the rows of its person, and of nobody else's. Where a person has more rows than places, the
rows that count are those whose SHA-256, over the person's identity and the row itself, comes first. So they are as good
as drawn at random, and yet the same whenever the table is read, in whatever order its rows come: a run can be resumed,
and no order in the file (by date, by cost) makes the choice.
"""

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from dpmcmc.enclave.tables.columns import Leaves
from dpmcmc.schema import PRESENT, SEED

IDENTITY_BYTES, IDENTITY_WORDS = 16, 4
"""How long the identity of a person is."""

Names = Sequence[str | bytes]


def identity(name: str) -> bytes:
    """Return what stands for a name where names are too long: part of its SHA-256, and never zeros alone."""
    return hashlib.sha256(name.encode("utf-8")).digest()[: IDENTITY_BYTES - 1] + b"\1"


def by_person(rows: Leaves, persons: np.ndarray, names: Names, k: int, padding: Mapping[str, float]) -> Leaves:
    """Return one record a person: leaves of shape (persons, k), `PRESENT`, which places hold a row, and `SEED`.

    Args:
        rows: leaves with one value a row.
        persons: for each row the place of its person in `names`; NaN for a row of nobody, which does not count.
        names: the names of the persons, each once; or the identities of all of them.
        k: how many rows of a person count.
        padding: what stands in places without a row, by leaf.
    """
    rank = np.empty(len(names), np.int64)
    rank[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    named = ~np.isnan(persons)
    person = rank[persons[named].astype(np.int64)]
    contents = np.stack([rows[leaf][named].view(np.uint32) for leaf in sorted(rows)], axis=1)
    order = np.lexsort((*contents.T, person))  # by person, then by content: whatever the order in the file was
    person, contents = person[order], contents[order]
    chosen = _chosen(person, contents, sorted(names), k)
    person, place = person[chosen], _count_up(person[chosen])
    places = len(names), k
    records: Leaves = {leaf: np.full(places, padding[leaf], values.dtype) for leaf, values in rows.items()}
    for leaf, values in rows.items():
        records[leaf][person, place] = values[named][order][chosen]
    records[PRESENT] = np.zeros(places, np.float32)
    records[PRESENT][person, place] = 1.0
    seeds = np.zeros(len(names), np.float32)
    seeds[rank] = [_seed(name) for name in names]
    return {**records, SEED: seeds}


def _seed(name: str | bytes) -> int:
    """Return a number of a person's own below `SEEDS`: it follows from who that is, and from no row."""
    own = name if isinstance(name, bytes) else identity(name)
    return int.from_bytes(hashlib.sha256(b"seed:%b" % own).digest()[:3], "big")


def _chosen(person: np.ndarray, contents: np.ndarray, names: Names, k: int) -> np.ndarray:
    """Say which rows count: the k of a person with the lowest digests. Rows come sorted by person and content."""
    digests = np.zeros(len(person), np.uint64)
    equal = np.concatenate([[0], np.cumsum(np.any(np.diff(contents, axis=0) != 0, axis=1) | (np.diff(person) != 0))])
    occurrence = _count_up(equal[: len(person)])  # equal rows of one person are told apart by number
    crowded = np.flatnonzero(np.bincount(person, minlength=len(names))[person] > k)
    written = contents[crowded].astype("<u4").tobytes()
    width = 4 * contents.shape[1]
    own = ((int(each), names[int(each)]) for each in np.unique(person[crowded]))
    prefixes = {each: name if isinstance(name, bytes) else identity(name) for each, name in own}
    numbers = zip(person[crowded].tolist(), occurrence[crowded].tolist(), strict=True)
    digests[crowded] = [
        _digest(b"%b%d:%b" % (prefixes[who], number, written[place * width : (place + 1) * width]))
        for place, (who, number) in enumerate(numbers)
    ]
    order = np.lexsort((digests, person))
    chosen = np.empty(len(person), np.bool_)
    chosen[order] = _count_up(person[order]) < k
    return chosen


def _digest(written: bytes) -> int:
    return int.from_bytes(hashlib.sha256(written).digest()[:8], "big")


def _count_up(groups: np.ndarray) -> np.ndarray:
    """Return 0, 1, 2, ... within every run of equal values."""
    starts = np.concatenate([[True], groups[1:] != groups[:-1]])[: len(groups)]
    positions = np.arange(len(groups))
    return positions - np.maximum.accumulate(np.where(starts, positions, 0))
