"""Objects that no operator, conversion or serialiser opens."""

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from dpmcmc.enclave.lines import current_line
from dpmcmc.errors import RecordsRefused

OPERATIONS = """
    array iter getitem setitem len contains bool float int index complex reduce reduce_ex getstate copy deepcopy
    eq ne lt le gt ge add radd sub rsub mul rmul truediv rtruediv matmul rmatmul pow neg abs
"""
"""The double-underscore methods that would read an object, compute with it or write it out."""

Sealed = TypeVar("Sealed", bound=type)


def sealed(kind: Sealed) -> Sealed:
    """Make every way of looking into the objects of a class raise, with the line that tried."""
    for operation in OPERATIONS.split():
        setattr(kind, f"__{operation}__", _refusal(f"__{operation}__ of {kind.__name__}"))
    # JAX asks an object for this attribute before it takes it for an array, and stops here
    setattr(kind, "__jax_array__", property(_refusal(f"a JAX operation on {kind.__name__}")))  # noqa: B010
    return kind


def _refusal(operation: str) -> Callable[..., NoReturn]:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise RecordsRefused(
            f"{operation} at {current_line()}: records leave the vault through a release alone; "
            "pass a program to PrivateData.run and ask its oracle"
        )

    return refuse
