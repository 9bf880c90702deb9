"""From a model and a budget to a private posterior, without tuning."""

from dpmcmc.fitting.fit import fit
from dpmcmc.fitting.prepare import PreparedFit, prepare_fit
from dpmcmc.fitting.recipes import RECIPES
from dpmcmc.fitting.resume import resume, run_in_folder
from dpmcmc.fitting.selection import select

__all__ = ["RECIPES", "PreparedFit", "fit", "prepare_fit", "resume", "run_in_folder", "select"]
