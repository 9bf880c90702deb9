"""What an engine is: where the rows are, and how a public program is applied to all of them."""

from collections.abc import Sequence
from typing import Any, Protocol

import jax
import numpy as np

from dpmcmc.enclave.core.cells import Cells
from dpmcmc.enclave.engines.partial import PartialProgram


class Engine(Protocol):
    """Adds up what chunks of records contribute. The gate runs where the rows are.

    Every record is in one chunk, at one place of it, in every pass; which one follows from public facts and, under
    replace-one, from its position in the table. What is returned is private: it must reach nobody but the caller.
    """

    @property
    def num_records(self) -> int:
        """The number of rows."""
        ...

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """The stated bounds of each leaf."""
        ...

    @property
    def record(self) -> dict[str, jax.ShapeDtypeStruct]:
        """The shape and type of one record, by leaf."""
        ...

    def rows(self, cells: Cells | None) -> int:
        """Return how many slots a chunk has in a pass over these cells; from public facts alone."""
        ...

    @property
    def identity(self) -> bytes:
        """What tells these records from others, so that a resumed run knows them again. It is private."""
        ...

    def partial_sum(self, program: PartialProgram, public: Sequence[Any], cells: Cells | None) -> list[np.ndarray]:
        """Return the exact sums of a program over all chunks, or over those of some cells, as 64-bit integers.

        Args:
            program: what one chunk adds; public, and it can be sent (`PartialProgram.to_bytes`).
            public: its public arguments.
            cells: the places that count; all, if None.

        Raises:
            SourceChanged: the rows are not those of before. Nothing of the pass is returned.
        """
        ...
