"""Regressions from estimating equations whose root is the true parameter for every bound on a record."""
