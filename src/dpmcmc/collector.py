"""Python's collector of cycles, out of the way where a program is made.

It looks at every object once there are a quarter more. Imports and traced programs make objects by the hundred thousand
which are there to stay, and JAX has as many: a first fit would spend a tenth of its time on looking at them.
"""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def not_collecting() -> Generator[None]:
    """Collect no cycles meanwhile; afterwards it is as it was."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
