"""Sums over records whose contribution is a number times a row of the record."""
