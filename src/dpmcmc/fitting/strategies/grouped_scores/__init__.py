"""Regressions with many groups, by weighted scores in arrow-shaped matrices."""
