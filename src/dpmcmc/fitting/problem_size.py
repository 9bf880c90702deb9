"""What a recipe may know of a problem: it is the catalogue's."""

from dpmcmc.catalogue.problem_size import ProblemSize

__all__ = ["ProblemSize"]
