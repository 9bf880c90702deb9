"""The figures and tables of the literature, made again: one folder a paper. See README.md."""
