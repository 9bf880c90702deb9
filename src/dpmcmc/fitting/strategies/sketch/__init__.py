"""A posterior from one release: a few numbers of every record, from which the whole log-likelihood follows."""
