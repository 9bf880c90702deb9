"""Rows that the workers of a Dask cluster hold: each release is one map over them and a tree of exact sums.

READ IF IT IS ON: certificates of such runs name the path "dask". `engine` stands in the process that pays and draws
noise; `worker` is what runs beside the rows, the gate included; `machines` says which workers are let near them.

Who can reach the scheduler can run anything on the workers: scheduler, workers, and everybody who may connect to them
are trusted with the rows. What Dask shows to others, the names of tasks, logs and its dashboard, holds public things
alone: tasks are named at random, arguments have no values in their words, and what fails is handed back as a result
and not raised, for Dask writes what was raised into logs.
"""

from dpmcmc.enclave.engines.dask.engine import DaskEngine
from dpmcmc.enclave.engines.dask.machines import connect

__all__ = ["DaskEngine", "connect"]
