"""Price a run, and run it."""

from dpmcmc.run.sample import price, sample

__all__ = ["price", "sample"]
