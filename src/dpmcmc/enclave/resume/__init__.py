"""Runs that may be stopped and resumed."""
