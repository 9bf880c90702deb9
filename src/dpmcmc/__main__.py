"""Lets ``python -m dpmcmc`` do what the ``dpmcmc`` command does."""

from dpmcmc.cli.main import run

run()
