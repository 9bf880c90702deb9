"""Everyday tables on which a fit must be right, or say that it is not."""
