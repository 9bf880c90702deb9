"""Vaults for the attacks, made in one place: what the class calls its arguments is known here and nowhere else."""

import inspect

from dpmcmc.enclave import PrivateData

STATED = "capacity" if "capacity" in inspect.signature(PrivateData.__init__).parameters else "public_size"
"""The argument that states how many records there may be, where their number is private."""


def free_vault(records, **options):
    """A vault under replace-one that nobody pays for: to see sums, not to protect them."""
    return PrivateData.without_guarantee(records, **options)


def add_or_remove_vault(records, stated, *, budget=None, **options):
    """A vault under add-or-remove-one with a stated number of places; free, unless a budget is given."""
    facts = {"adjacency": "add_or_remove_one", STATED: stated, **options}
    return (
        PrivateData.without_guarantee(records, **facts)
        if budget is None
        else PrivateData(records, budget=budget, **facts)
    )
