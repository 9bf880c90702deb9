"""Chunks of leaves: counted, cut to another length, and known again."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from dpmcmc.enclave.sources.contract import changed
from dpmcmc.enclave.tables.columns import Leaves

BLOCK = 2**16
"""How many rows have one digest."""


def digest_of(block: Leaves) -> bytes:
    """Return a digest of all leaves of some rows. It is private."""
    digest = hashlib.sha256()
    for leaf in sorted(block):
        digest.update(np.ascontiguousarray(block[leaf]).data)
    return digest.digest()


def identity_of(bounds: Mapping[str, tuple[float, float]], digests: Iterable[bytes]) -> bytes:
    """Return what rows are known by, from the digests of their blocks: the same for every source of the same rows."""
    digest = hashlib.sha256(repr(sorted(bounds.items())).encode())
    for one in digests:
        digest.update(one)
    return digest.digest()


def confirmed(chunks: Iterator[Leaves], rows: int, confirm: Callable[[], None], what: str) -> Iterator[Leaves]:
    """Return chunks, of which the last is held back until all rows were counted and `confirm` has not raised."""
    held: Leaves | None = None
    for chunk in chunks:
        if held is not None:
            yield held
        held = chunk
        rows -= num_rows(chunk)
        if rows < 0:
            break
    confirm()
    if rows != 0:
        raise changed(what)
    if held is not None:
        yield held


def regrouped(chunks: Iterator[Leaves], rows: int, skip: int = 0, lead: int = 0) -> Iterator[Leaves]:
    """Return the rows of chunks, after some that are skipped, in chunks of another length.

    The first one begins with `lead` rows of zeros.
    """
    whole: Leaves = {}
    filled = lead
    for chunk in chunks:
        length, at = num_rows(chunk), min(skip, num_rows(chunk))
        skip -= at
        while at < length:
            if not whole:
                whole = {leaf: np.empty((rows, *values.shape[1:]), values.dtype) for leaf, values in chunk.items()}
                for values in whole.values():
                    values[:filled] = 0
            take = min(length - at, rows - filled)
            for leaf, values in chunk.items():
                whole[leaf][filled : filled + take] = values[at : at + take]
            at, filled = at + take, filled + take
            if filled == rows:
                yield whole
                whole, filled = {}, 0
    if whole:
        yield {leaf: values[:filled] for leaf, values in whole.items()}


def num_rows(chunk: Leaves) -> int:
    """Return how many rows a chunk has."""
    return len(next(iter(chunk.values())))
