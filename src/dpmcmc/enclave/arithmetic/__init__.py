"""Integers: lattices, exact sums, and how floating point is turned into integers."""
