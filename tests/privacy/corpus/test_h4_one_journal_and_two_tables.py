"""H4: one journal is taken up by two vaults at once: the same noise on two tables.

The attack: a run of the private table is taken up, and inside it one of another table with the same journal: the same
file under other bounds, or zeros that the attacker wrote, which have a budget of their own. The journal then knows the
second table's records. The first run's program is executed under noise that follows from these; its result is removed;
the second run's program has the same identity and so the same noise. The difference is an exact sum of the private
table.

What must happen: the noise of a run follows from the records that its own vault reads, and a run whose journal was
taken up with others meanwhile is refused.

False alarms: none; nothing is compared but refusals and bits.
"""

import numpy as np
import pandas as pd
import pytest

from dpmcmc.accounting import Budget, Ledger
from dpmcmc.enclave import Journal, PrivateData, Sum
from dpmcmc.enclave.sources import MemorySource
from dpmcmc.errors import ResumeRefused

SCHEMA = {"columns": {"x": {"kind": "number", "lower": 0, "upper": 1}}}
KINDS = {
    "in memory": lambda values: {"x": values},
    "chunk by chunk": lambda values: MemorySource(pd.DataFrame({"x": values}), SCHEMA),
}
ROWS = np.random.default_rng(1).integers(0, 2, 3000).astype(np.float32)


def ask(oracle):
    return oracle.sum(Sum(1.0, 40.0), lambda record: record["x"]).value


@pytest.fixture
def vaults(request, tmp_path, monkeypatch):
    """The private table and one of zeros, each with a ledger of its own."""
    monkeypatch.setenv("DPMCMC_STATE", str(tmp_path / "private"))
    made = []
    for values in (ROWS, np.zeros_like(ROWS)):
        ledger = Ledger.in_memory()
        ledger.register("people", Budget(10.0, 1e-6), "replace_one")
        made.append(PrivateData(KINDS[request.param](values), ledger=ledger, dataset="people"))
    return made


@pytest.mark.parametrize("vaults", KINDS, indirect=True)
def test_a_run_whose_journal_has_other_records_is_refused(vaults, tmp_path):
    private, zeros = vaults
    price = private.price(ask)
    with Journal.create(tmp_path / "run", {}) as journal, zeros.reserve_resumable(price, journal) as other:
        pass
    with Journal.create(tmp_path / "both", {}) as journal, private.reserve_resumable(price, journal) as own:  # noqa: SIM117
        with pytest.raises(ResumeRefused, match="one table at a time"), zeros.reserve_resumable(price, journal):
            own.run(ask)
    assert other.spent.to_json() == (price * 0).to_json()


@pytest.mark.parametrize("vaults", KINDS, indirect=True)
def test_the_noise_follows_from_the_own_records(vaults, tmp_path):
    """Were a journal to be fooled about its records, a run's own would still be in the identity of its programs."""
    private, zeros = vaults
    with Journal.create(tmp_path / "run", {}) as journal:
        tags = []
        for vault in (private, zeros):
            leaves = vault._in_order()
            tags.append(journal.recognise(leaves, "", ""))
            tags.append(journal.identify(0, "", (), tags[-1]))
        assert tags[0] != tags[2]
        assert tags[1] != tags[3]
        with pytest.raises(ResumeRefused, match="other records"):
            journal.identify(0, "", (), tags[0])
        assert journal.identify(0, "", (), tags[2]) == tags[3]  # the control: its own
