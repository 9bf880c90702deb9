"""How tables enter the vault: stated columns alone, cell by cell, and without a word about any cell."""

from dpmcmc.enclave.tables.frames import DuckDBQuery
from dpmcmc.enclave.tables.readers import Table, read_table
from dpmcmc.enclave.tables.vault import from_table

__all__ = ["DuckDBQuery", "Table", "from_table", "read_table"]
