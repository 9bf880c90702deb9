"""Models: public code for a prior and the likelihood of one record; they never hold a record."""

from dpmcmc.model.formula import FormulaModel, from_formula
from dpmcmc.model.formula.families import FAMILIES
from dpmcmc.model.model import Model
from dpmcmc.model.numpyro_model import from_numpyro
from dpmcmc.model.persons import per_person
from dpmcmc.model.remainder import normal_terms, remainder, taylor_terms

__all__ = [
    "FAMILIES",
    "FormulaModel",
    "Model",
    "from_formula",
    "from_numpyro",
    "normal_terms",
    "per_person",
    "remainder",
    "taylor_terms",
]
