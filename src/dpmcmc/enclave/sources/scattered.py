"""Records in slots, on a disk, at secret places: for tables that no memory holds. scattered.md has the proof.

The rows of a source are read once and thrown into buckets; then each bucket is read into memory, the rows of a person
put together, and its records put into its slots. What decides is a secret seed, and neither the order of the rows nor
what is in them, so that every way of placing the records into the slots is equally likely.
"""

import hashlib
import os
from collections.abc import Iterator

import jax
import numpy as np

from dpmcmc import validation
from dpmcmc.enclave.core.places import draw_places, fill, new_seed
from dpmcmc.enclave.refusals import small_capacity
from dpmcmc.enclave.sources.buckets import Buckets
from dpmcmc.enclave.sources.chunking import BLOCK, digest_of, identity_of, num_rows, regrouped
from dpmcmc.enclave.sources.contract import Source, changed
from dpmcmc.enclave.sources.scratch import Scratch
from dpmcmc.enclave.tables.columns import Leaves
from dpmcmc.enclave.tables.persons import by_person
from dpmcmc.enclave.tables.readers import padding_of
from dpmcmc.errors import InvalidArgument
from dpmcmc.schema import OCCUPIED, PERSON, PRESENT, SEED, Schema

_BYTES, _MOST_BUCKETS = 2**25, 2**14
"""How many bytes a bucket has, about, and a chunk of rows that is thrown into them; how many buckets there are."""


class Scattered:
    """The records of a source in slots, of which a secret random choice is occupied: a `Source` of slots.

    Its chunks have a further leaf, `OCCUPIED`. How many records there are is secret where a capacity is stated.

    Args:
        source: where the rows come from; where the schema names persons, it was opened with `persons=True`.
        schema: what the owner states of the columns.
        folder: a folder on the disk that is to hold the records, and, while they are scattered, the rows.
        capacity: how many slots there are; as many as records, if None.
        seed: the secret from which places are drawn; a new one, if None.
    """

    def __init__(
        self,
        source: Source,
        schema: Schema,
        folder: str | os.PathLike[str] | None = None,
        capacity: int | None = None,
        seed: bytes | None = None,
    ) -> None:
        if (PERSON in source.record) != (schema.person is not None):
            raise InvalidArgument("source must be opened with the schema whose persons are to be put together")
        self.seed, self.capacity, self.unit = new_seed() if seed is None else seed, capacity, schema.unit
        self._source, self._schema, self._folder = source, schema, folder
        if capacity is not None:
            validation.integer("capacity", capacity, at_least=1)
        if schema.person is None and capacity is not None and source.num_records > capacity:
            raise small_capacity(capacity)
        draw = Draw(self.seed, self._num_buckets())
        buckets, self._identity = self._thrown(draw)
        try:
            self._slots = Scratch(_Slots(self, draw, buckets), folder)
        finally:
            buckets.close()

    def __repr__(self) -> str:
        return f"Scattered({', '.join(self.bounds)})"

    @property
    def num_records(self) -> int:
        """The number of slots, which is public."""
        return self._slots.num_records

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """The stated bounds of each leaf."""
        return self._schema.bounds

    @property
    def record(self) -> dict[str, jax.ShapeDtypeStruct]:
        """The shape and type of one record, by leaf."""
        rows = {leaf: kept for leaf, kept in self._source.record.items() if leaf != PERSON}
        if self._schema.person is None:
            return rows
        places = (self._schema.max_rows_per_person,)
        leaves = {leaf: jax.ShapeDtypeStruct(places, kept.dtype) for leaf, kept in rows.items()}
        own = {PRESENT: jax.ShapeDtypeStruct(places, np.float32), SEED: jax.ShapeDtypeStruct((), np.float32)}
        return leaves | own

    @property
    def identity(self) -> bytes:
        """A digest of all rows of the source in their order, wherever they stand here. It is private."""
        return self._identity

    def confirm(self) -> None:
        """Do nothing: nobody else reaches the file."""

    def chunks(self, rows: int, first: int = 0) -> Iterator[Leaves]:
        """Return the slots in chunks of a given size: zeros where nobody is, and `OCCUPIED`."""
        return self._slots.chunks(rows, first)

    def close(self) -> None:
        """Give the space back. It is given back when the process ends, too."""
        self._slots.close()

    def standing(self, seed: bytes) -> "Scattered":
        """Return the same records as they stand by a seed: where a run is resumed they stand where they stood."""
        if seed == self.seed:
            return self
        made = Scattered(self._source, self._schema, self._folder, self.capacity, seed)
        if made.identity != self.identity:
            raise changed("source")
        return made

    def records_of(self, rows: Leaves) -> Leaves:
        """Return the records that rows become, of which no person has others elsewhere."""
        if self._schema.person is None:
            return rows
        persons = rows.pop(PERSON)
        distinct, numbers = _numbered(persons)
        names, padding = [each.tobytes() for each in distinct], padding_of(self._schema)
        return by_person(rows, numbers.astype(np.float64), names, self._schema.max_rows_per_person, padding)

    def _num_buckets(self) -> int:
        """Return how many buckets there are, a power of two, so that each has room in memory."""
        rows = self._source.num_records
        slots = rows if self.capacity is None else max(self.capacity, rows)
        size = max(rows * _width(self._source.record), slots * _width(self.record))
        return min(1 << max(-(-size // _BYTES) - 1, 0).bit_length(), _MOST_BUCKETS)

    def _thrown(self, draw: "Draw") -> tuple[Buckets, bytes]:
        """Throw the rows of the source into buckets; return these, and what the rows are known by."""
        record, count, digests = self._source.record, 0, list[bytes]()
        types = {leaf: np.dtype((kept.dtype, kept.shape)) for leaf, kept in record.items()}
        rows = self._source.num_records
        slots = 0 if PERSON in record else self.capacity or rows  # of persons it is not known yet
        room = rows * _width(record) + slots * (_width(self.record) + 1)
        buckets = Buckets(types, draw.num_buckets, self._folder, room)
        try:
            for chunk in self._source.chunks(max(_BYTES // (_width(record) * BLOCK), 1) * BLOCK):
                digests += [
                    digest_of({leaf: values[start : start + BLOCK] for leaf, values in chunk.items()})
                    for start in range(0, num_rows(chunk), BLOCK)
                ]
                if PERSON in chunk:
                    somebody = chunk[PERSON].any(axis=1)
                    named = {leaf: values[somebody] for leaf, values in chunk.items()}
                    distinct, numbers = _numbered(named[PERSON])
                    buckets.add(named, draw.of_persons(distinct)[numbers])
                else:
                    buckets.add(chunk, draw.of_items(count, num_rows(chunk)))
                count += num_rows(chunk)
        except BaseException:
            buckets.close()
            raise
        if count != rows:
            buckets.close()
            raise changed("source")
        return buckets, identity_of(self.bounds, digests)


class Draw:
    """What the seed decides: in which bucket an item is, and in which slot of the bucket.

    Args:
        seed: the secret.
        num_buckets: how many buckets there are, a power of two.
    """

    def __init__(self, seed: bytes, num_buckets: int) -> None:
        self._seed, self.num_buckets = seed, num_buckets

    def of_items(self, first: int, count: int) -> np.ndarray:
        """Return the buckets of the given number of items from one on, by their numbers."""
        blocks = range(first // BLOCK, -(-(first + count) // BLOCK))
        each = [self._hash(b"items", block.to_bytes(8, "big"), 2 * BLOCK) for block in blocks]
        start = first - blocks.start * BLOCK
        return self._buckets(b"".join(each))[start : start + count]

    def of_persons(self, identities: np.ndarray) -> np.ndarray:
        """Return the buckets of persons, by their identities."""
        return self._buckets(b"".join(self._hash(b"person", each.tobytes(), 2) for each in identities))

    def slots_in(self, bucket: int, num_records: int, num_slots: int) -> np.ndarray:
        """Return the slots of the records of a bucket, counted from its first."""
        return draw_places(self._hash(b"bucket", bucket.to_bytes(8, "big"), 32), num_records, num_slots)

    def _hash(self, what: bytes, which: bytes, length: int) -> bytes:
        return hashlib.shake_256(b"scattered: %b: %b%b" % (what, self._seed, which)).digest(length)

    def _buckets(self, numbers: bytes) -> np.ndarray:
        return np.frombuffer(numbers, np.uint16) & np.uint16(self.num_buckets - 1)


class _Slots:
    """The slots of all buckets, one after the other."""

    def __init__(self, scattered: Scattered, draw: Draw, buckets: Buckets) -> None:
        self._scattered, self._draw, self._buckets = scattered, draw, buckets
        self.bounds, self.record = scattered.bounds, {**scattered.record, OCCUPIED: jax.ShapeDtypeStruct((), np.bool_)}
        self._records = self._counted()
        num_records, capacity = int(self._records.sum()), scattered.capacity
        if capacity is not None and num_records > capacity:
            raise small_capacity(capacity)
        self.num_records = num_records if capacity is None else capacity
        self._sizes = self._records + self._nobodies(num_records)

    def chunks(self, rows: int) -> Iterator[Leaves]:
        """Return the slots in chunks of a given size."""
        return regrouped(map(self._slots_of, range(self._draw.num_buckets)), rows)

    def _counted(self) -> np.ndarray:
        """Return how many records each bucket has."""
        if self._scattered.unit == "record":
            return self._buckets.counts
        each = (len(_numbered(self._buckets.read(number)[PERSON])[0]) for number in range(self._draw.num_buckets))
        return np.fromiter(each, np.int64)

    def _nobodies(self, num_records: int) -> np.ndarray:
        """Return how many slots of each bucket are empty: nobody is an item too, behind all others."""
        counts = np.zeros(self._draw.num_buckets, np.int64)
        for first in range(num_records, self.num_records, BLOCK):
            buckets = self._draw.of_items(first, min(BLOCK, self.num_records - first))
            counts += np.bincount(buckets, minlength=len(counts))
        return counts

    def _slots_of(self, number: int) -> Leaves:
        records, size = self._scattered.records_of(self._buckets.read(number)), int(self._sizes[number])
        places = self._draw.slots_in(number, int(self._records[number]), size)
        filled, occupied = fill([records[leaf] for leaf in self._scattered.record], places, size)
        return {**dict(zip(self._scattered.record, filled, strict=True)), OCCUPIED: occupied}


def _numbered(identities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each person once, and for each row the number of its person among these."""
    words = identities.view(np.uint64)
    order = np.lexsort(words.T)
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = np.any(words[order[1:]] != words[order[:-1]], axis=1)
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(is_first) - 1
    return identities[order[is_first]], numbers


def _width(record: dict[str, jax.ShapeDtypeStruct]) -> int:
    """Return how many bytes a record takes."""
    return sum(kept.dtype.itemsize * int(np.prod(kept.shape)) for kept in record.values())
