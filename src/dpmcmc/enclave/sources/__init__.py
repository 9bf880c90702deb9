"""Records from where they lie, chunk by chunk: tables that no memory holds.

A `Source` gives the leaves that `dpmcmc.enclave.tables.read_table` would give, bit for bit, and holds a few chunks of
them at a time. The order of the rows is fixed: that of the files, then that of the rows in each. The files of a folder,
or of a pattern, are ordered by their names, part by part of the path; those of a list stand as they are listed.

Reading twice gives the same rows, or `SourceChanged` is raised. Files are known by their size, the time of their last
change, where they lie on a local disk, and a digest of their beginning and their end; there Parquet and Arrow say what
all row groups hold. This is looked at before a pass, and again before its last chunk is handed out, and the rows are
counted. What is not noticed: that the middle of a file was rewritten and is as long as before, if the time of the last
change is the old one too. On a local disk, while one process reads, that takes setting the clock; on a store that knows
no times, nothing more. So let nobody write to files that a run reads, or make a `Scratch` of them, which nobody else
can reach, or a `Scattered`, where they stand in secret slots. The answer to a DuckDB query is known by digests of all
its rows. A run that is resumed knows every source by a digest of all its rows, as they were prepared, in their order:
it reads them once for that.

Memory does not grow with the number of rows. It holds some chunks, some batches of Parquet (row groups may be of any
size on a local disk; elsewhere one is held at a time), one batch of Arrow, whatever size its writer chose, or some
megabytes of text.
"""

from dpmcmc.enclave.sources.contract import Source
from dpmcmc.enclave.sources.duckdb import DuckDBSource
from dpmcmc.enclave.sources.files import FileSource
from dpmcmc.enclave.sources.memory import MemorySource
from dpmcmc.enclave.sources.scattered import Scattered
from dpmcmc.enclave.sources.scratch import Scratch

__all__ = ["DuckDBSource", "FileSource", "MemorySource", "Scattered", "Scratch", "Source"]
