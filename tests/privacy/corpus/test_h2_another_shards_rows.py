"""H2: two threads ask two shards of one streamed vault; one is given the rows of the other.

The attack: the rows of the cells that were asked last are kept. Whose they are was read, and then the rows, while a
session in another thread put others in their place: a sum over shard A was one over shard B, charged to A, so that a
record counted in both at the full price of each.

What must happen: whose rows they are and the rows are read at once.

False alarms: none. The other thread is replaced by what it does, at the moment at which it does it.
"""

import numpy as np
import pandas as pd
import pytest

from dpmcmc.accounting import Partition
from dpmcmc.enclave.core.cells import Cells
from dpmcmc.enclave.engines import LocalEngine
from dpmcmc.enclave.sources import MemorySource

SCHEMA = {"columns": {"x": {"kind": "number", "lower": 0, "upper": 1}}}


def total(engine, cells):
    """The sum of x; the other leaf says which cells are missing, and none is."""
    return sum(float(leaf[np.asarray(occupied)].sum()) for leaves, occupied in engine.chunks(cells) for leaf in leaves)


@pytest.mark.parametrize("at", range(4))
def test_a_pass_adds_up_the_rows_of_its_own_cells(at, monkeypatch):
    values = np.repeat([0.0, 1.0], 512)
    engine = LocalEngine(MemorySource(pd.DataFrame({"x": values}), SCHEMA))
    zeros, ones = (Cells(Partition((0, 512, 1024)), (cell,)) for cell in (0, 1))
    assert total(engine, zeros) == 0.0
    assert total(engine, ones) == 512.0
    assert total(engine, zeros) == 0.0  # these are kept
    same, seen = Cells.__eq__, []

    def meanwhile(mine, other):
        """Another thread asks for the ones, just after these cells are compared for the n-th time."""
        answer = same(mine, other)
        seen.append(answer)
        if len(seen) == at + 1:
            monkeypatch.setattr(Cells, "__eq__", same)
            total(engine, ones)
        return answer

    monkeypatch.setattr(Cells, "__eq__", meanwhile)
    for _ in range(3):
        assert total(engine, zeros) == 0.0
