"""Fits of NumPyro models by centred scores: bounded, with their mean under the model taken off."""
