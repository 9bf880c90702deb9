"""Posteriors from a sketch: a noisy sum of a few numbers per record, which determine the whole log-likelihood."""
