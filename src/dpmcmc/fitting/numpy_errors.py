"""What NumPy does about overflows and the like, as it is by default, whatever its user has set."""

import numpy as np


def as_by_default() -> np.errstate:
    """Return NumPy's own settings, as a decorator: `np.seterr(all="raise")` is for its user's sums, not for a fit."""
    return np.errstate(divide="warn", over="warn", under="ignore", invalid="warn")
