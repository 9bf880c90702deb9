"""The database itself refuses to rewrite the past."""

import pytest
from sqlalchemy.exc import DBAPIError

from dpmcmc.accounting.adjacency import Adjacency
from dpmcmc.accounting.ledger import Ledger
from racers import BUDGET, CHARGE, DATASET

CHANGES = [
    "UPDATE dpmcmc_entries SET epsilon = 100.0",
    "UPDATE dpmcmc_entries SET what = 'nothing' WHERE kind = 'reserve'",
    "UPDATE dpmcmc_entries SET part_of = 'another'",
    "DELETE FROM dpmcmc_entries",
    "DELETE FROM dpmcmc_entries WHERE kind = 'reserve'",
    "UPDATE dpmcmc_versions SET version = 7",
    "DELETE FROM dpmcmc_versions",
]
# ruff: noqa: S608, the statements are put together from constants alone
COLUMNS = "kind, dataset, run, event, epsilon, delta, adjacency, who, made_at, what, library_version"
SAME_RUN = f"SELECT {COLUMNS} FROM dpmcmc_entries WHERE kind = 'reserve'"
SAME_DATASET = f"SELECT {COLUMNS} FROM dpmcmc_entries WHERE kind = 'register'"
DUPLICATES = [f"INSERT INTO dpmcmc_entries ({COLUMNS}) {same}" for same in (SAME_RUN, SAME_DATASET)]
UNBALANCED = [
    f"INSERT INTO dpmcmc_entries ({COLUMNS}) VALUES ({values}, 'replace_one', 'a', 'b', 'c', 'd')"
    for values in (
        "'refund', 'patients', 'r', '{}', NULL, NULL",
        "'register', 'others', NULL, NULL, NULL, 0.1",
        "'reserve', 'patients', NULL, '{}', NULL, NULL",
        "'settle', 'patients', 'r', NULL, NULL, NULL",
    )
]
ONLY_SQLITE = [
    f"INSERT OR REPLACE INTO dpmcmc_entries ({COLUMNS}) {SAME_RUN}",
    f"INSERT OR REPLACE INTO dpmcmc_entries ({COLUMNS}) {SAME_DATASET}",
    "INSERT OR REPLACE INTO dpmcmc_entries SELECT * FROM dpmcmc_entries WHERE kind = 'reserve'",
    "INSERT OR REPLACE INTO dpmcmc_versions VALUES (3, 'never')",
    f"INSERT INTO dpmcmc_entries ({COLUMNS}) {SAME_RUN} AND true ON CONFLICT (run, kind) DO UPDATE SET event = '{{}}'",
]
ONLY_POSTGRES = [
    "TRUNCATE dpmcmc_entries",
    "TRUNCATE dpmcmc_versions",
    f"INSERT INTO dpmcmc_entries ({COLUMNS}) {SAME_RUN} ON CONFLICT (run, kind) DO UPDATE SET event = '{{}}'",
]


@pytest.fixture
def url(new_url: str) -> str:
    ledger = Ledger.create(new_url)
    ledger.register(DATASET, BUDGET, Adjacency.REPLACE_ONE)
    ledger.reserve(DATASET, CHARGE, description="run")
    return new_url


def test_every_change_of_the_past_is_refused(url: str, execute) -> None:
    before = Ledger(url).history()
    only_here = ONLY_SQLITE if url.startswith("sqlite") else ONLY_POSTGRES
    for statement in [*CHANGES, *only_here]:
        with pytest.raises(DBAPIError, match="the ledger is append-only"):
            execute(url, statement)
    for statement in [*DUPLICATES, *UNBALANCED]:
        with pytest.raises(DBAPIError, match=r"append-only|unique|CHECK|check"):
            execute(url, statement)
    assert Ledger(url).history() == before


def test_creating_a_ledger_again_keeps_it(url: str) -> None:
    before = Ledger(url).history()
    assert Ledger.create(url).history() == before
