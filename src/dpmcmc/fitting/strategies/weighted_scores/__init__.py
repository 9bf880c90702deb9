"""Regressions from estimating equations that have the truth as their root whatever the bound on a record."""
