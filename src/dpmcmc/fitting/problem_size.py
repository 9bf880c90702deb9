"""`ProblemSize`, the facts that a recipe may use; it is defined in the catalogue."""

from dpmcmc.catalogue.problem_size import ProblemSize

__all__ = ["ProblemSize"]
