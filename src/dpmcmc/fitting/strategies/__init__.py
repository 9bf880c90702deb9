"""How a fit reaches a posterior: one folder or file for each strategy."""
