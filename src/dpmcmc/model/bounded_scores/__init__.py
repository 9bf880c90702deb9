"""Bounded scores: how a family's score is cut, and what the model says of the mean, slope and variance of what is left."""
