"""Bounded scores: how a family's score is cut, and the mean, slope and variance of what is left under the model."""
