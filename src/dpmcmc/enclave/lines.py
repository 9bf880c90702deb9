"""The line of user code that a message is about. Privacy does not rest on this file."""

from collections.abc import Sequence
from pathlib import Path
from traceback import extract_tb

import jax
import numpy as np
from jax.extend import source_info_util
from jax.extend.core import JaxprEqn

_INTERNAL = tuple(
    f"{folder}/" for folder in (Path(__file__).parent, Path(np.__file__).parent, Path(jax.__file__).parent)
)
for _package in _INTERNAL:  # the lines that messages name are the caller's
    source_info_util.register_exclusion(_package)


def line_of(equation: JaxprEqn) -> str:
    """Return the line of user code that an equation comes from."""
    return source_info_util.summarize(equation.source_info)


def innermost_line(path: Sequence[JaxprEqn]) -> str:
    """Return the line of an operation; where JAX traced it without one, that of the innermost operation around it."""
    return next(filter(None, (line_of(equation) for equation in reversed(path))), "an unknown line")


def current_line() -> str:
    """Return the line of user code that is being traced."""
    return source_info_util.summarize(source_info_util.current())


def line_of_error(error: BaseException) -> str:
    """Return the innermost line of user code that an error passed through."""
    frames = [frame for frame in extract_tb(error.__traceback__) if not frame.filename.startswith(_INTERNAL)]
    return f"{frames[-1].filename}:{frames[-1].lineno} ({frames[-1].name})" if frames else "an unknown line"
