"""Models from formulas over the columns of a schema."""

from dpmcmc.model.formula.bounds import GradientBound
from dpmcmc.model.formula.build import from_formula
from dpmcmc.model.formula.model import FormulaModel
from dpmcmc.model.formula.simulation import Simulation

__all__ = ["FormulaModel", "GradientBound", "Simulation", "from_formula"]
