"""What only makes sums faster: every path here hands its integers to the gate, and ``accelerate=False`` takes none."""

from dpmcmc.enclave.accelerate.linear.rank_one import find_rank_one_squares
from dpmcmc.enclave.accelerate.linear.sums import find_linear_rows
from dpmcmc.enclave.accelerate.sharing import share

PATHS = (find_linear_rows, find_rank_one_squares)
"""The paths, in the order in which they are tried."""

__all__ = ["PATHS", "share"]
