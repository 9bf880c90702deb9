"""What a budget would buy, before there is any data: one answer, or a page of them."""

from dpmcmc.planner.answer import Answer, plan_fit
from dpmcmc.planner.formula import Expected, plan_formula
from dpmcmc.planner.grid import GRID, Grid
from dpmcmc.planner.page import render_planner, write_planner

__all__ = ["GRID", "Answer", "Expected", "Grid", "plan_fit", "plan_formula", "render_planner", "write_planner"]
