"""Errors of other libraries, replaced: they quote cells.

pyarrow, pandas, polars and DuckDB put the value that they could not read into the message. So no exception and no
warning of theirs leaves this package; what leaves is a sentence that was written here, of public words alone.
"""

import os
import warnings
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from dpmcmc.errors import DpmcmcError, InvalidArgument

Result = TypeVar("Result")


def without_values(problem: str, function: Callable[[], Result]) -> Result:
    """Return what a function returns; if it fails, raise `InvalidArgument` with the words of `problem` instead.

    The new error is raised after the old one is gone, so that no chain of exceptions, shown or hidden, leads to it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return in_own_words(problem, function)


def in_own_words(problem: str, function: Callable[[], Result]) -> Result:
    """Do the same for errors alone: in other threads, for what happens to warnings is a matter of the whole process.

    What NumPy would warn of, a cell that signals that it is no number, say, it does not see: that is a thread's own.
    """
    try:
        with np.errstate(all="ignore"):
            return function()
    except DpmcmcError:  # raised here, in words of our own
        raise
    except Exception as error:
        reason = _public_reason(error)
    raise InvalidArgument(f"{problem}{reason}")


def _public_reason(error: Exception) -> str:
    """Return what the operating system says, which knows files and no cells; nothing for any other error."""
    if isinstance(error, MemoryError):
        return ": there is not enough memory"
    if isinstance(error, OSError) and error.errno is not None:
        return f": {os.strerror(error.errno)}"
    return ""
