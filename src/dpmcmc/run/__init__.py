"""Price a run, and run it."""

from dpmcmc.run.sampling import price, sample

__all__ = ["price", "sample"]
