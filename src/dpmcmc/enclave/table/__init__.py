"""How tables enter the vault: stated columns alone, cell by cell, and without a word about any cell."""

from dpmcmc.enclave.table.frames import DuckDBQuery
from dpmcmc.enclave.table.readers import Table, read_table
from dpmcmc.enclave.table.vault import from_table

__all__ = ["DuckDBQuery", "Table", "from_table", "read_table"]
