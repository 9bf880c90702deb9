"""The libraries that tables come from, imported when the first table does."""

from importlib import import_module
from typing import Any

from dpmcmc.errors import InvalidArgument


def arrow(module: str = "") -> Any:
    """Return pyarrow, or a module of it."""
    return library("pyarrow" + module)


def library(name: str) -> Any:
    """Return a library of the extra ``data``."""
    try:
        return import_module(name)
    except ImportError:
        missing = name.partition(".")[0]
    raise InvalidArgument(f'source needs {missing}, which is not installed; run: pip install "dpmcmc[data]"')
